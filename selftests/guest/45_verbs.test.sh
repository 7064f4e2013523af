#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The tests of selftests/verbs, which bring a runner of their own.

. "$(dirname "$0")/lib.sh"

own_session "$@"
[ "${1:-}" != --filter ] || [[ "$SUITE " == ${2%%' '*}* ]] || exit "$SKIPPED"

run_verbs() {
	local counts status=0
	load_mrx
	dummy mrx0 10.9.0.1/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	"$MRX_TOP/build/cargo/release/mrx-selftest" --device rxe_mrx0 --patience "$MRX_PATIENCE" |
		tee "$WORK/verbs" || status=$?
	counts=$(sed -nE 's/^# ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped.*/passed \1, failed \2, skipped \3/p' \
		"$WORK/verbs" | tail -n 1)
	[ -n "$counts" ] || {
		say "not ok 0 the tests run to their end (status $status)"
		counts="passed 0, failed 1, skipped 0"
		status=1
	}
	say "# $SUITE: $counts"
	return "$status"
}

status=0
trap _tear_down EXIT
run_verbs || status=$?
exit "$status"
