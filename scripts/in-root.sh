#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# in-root.sh COMMAND...: runs a command in the build root, in /mrx.

. "$(dirname "$0")/lib.sh"

in_root "$("$MRX_TOP/scripts/buildroot.sh")" "$@"
