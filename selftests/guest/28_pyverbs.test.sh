#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The tests of verbs/, which bring a runner of their own.

. "$(dirname "$0")/lib.sh"

own_session "$@"
[ "${1:-}" != --filter ] || [[ "$SUITE " == ${2%%' '*}* ]] || exit "$SKIPPED"

run_pyverbs() {
	local status=0
	load_mrx
	dummy mrx0 10.9.0.1/24
	ip address add fd00:9::1/64 dev mrx0 nodad
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	timeout $((300 * MRX_PATIENCE)) python3 "$(dirname "$SUITE_FILE")/verbs" rxe_mrx0 | tee "$WORK/verbs" || status=$?
	say "# $SUITE: passed $(grep -c '^ok' "$WORK/verbs"), failed $(grep -c '^not ok' "$WORK/verbs"), skipped 0"
	return "$status"
}

status=0
trap _tear_down EXIT
run_pyverbs || status=$?
exit "$status"
