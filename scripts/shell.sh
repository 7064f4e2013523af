#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A shell in the guest, with the module loaded and the link rxe_mrx0 on an
# interface of its own.

. "$(dirname "$0")/lib.sh"

"$MRX_TOP/scripts/module.sh" >/dev/null
exec "$MRX_TOP/scripts/vm.sh" --shell -- bash --rcfile /mrx/selftests/guest/shellrc -i
