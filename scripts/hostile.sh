#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The hostile user (selftests/hostile) in the debug kernel: a boot of 10 minutes for
# each seed, one in which its device goes, and one for the limits. Fails if there
# were too few calls and changes of rings, or if a handler of the module or a request
# never succeeded, or never failed. What it did is in build/debug/hostile-*.report,
# and which functions of the module ran in build/debug/hostile.coverage.
#
#   MRX_SEEDS             what the runs start from; default "1 2"
#   MRX_HOSTILE_SECONDS   how long each is; default 600
#   MRX_HOSTILE_LEAST     calls and changes of rings that there must be; default 100000

exec "$(dirname "$0")/check-debug.sh" hostile
