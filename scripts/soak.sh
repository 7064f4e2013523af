#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The heavy tests in turns for a long time, in one boot of the debug kernel. What
# was run, how often and what it left is in build/debug/soak.report.
#
#   MRX_SOAK_MINUTES  how long; default 60. What runs then is finished.
#   MRX_SEED          what is chosen at random follows from it

exec env MRX_TIMEOUT=$((${MRX_SOAK_MINUTES:-60} * 60 + 3600)) "$(dirname "$0")/check-debug.sh" soak
