#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Regions with attributes as kernel modules see them: the modules of selftests/kapi,
# one in C and one in Rust, each on a device of mrx and on one of rdma_rxe, which has
# no operations for such regions. A module does its tests while it is loaded and says
# in the log how they ended.

. "$(dirname "$0")/lib.sh"

own_session "$@"
[ "${1:-}" != --filter ] || [[ "$SUITE " == ${2%%' '*}* ]] || exit "$SKIPPED"

LOADED=60 # seconds that loading a module may take
LOADS=(c:mrx rust:mrx c:rxe rust:rxe)
passed=0 failed=0

# results MODULE: what it said since the mark, without what the kernel puts before it.
results() { log_since_mark | sed -nE "s/^\[[^]]*\] $1: //p"; }

# load LANGUAGE TYPE: loads a module of tests for a device, and shows its results.
# Fails unless the tests ran to their end.
load() {
	local module=mrx_kapi_$1 plain=0 lines planned
	[ "$2" = mrx ] || plain=1
	mark_log
	timeout "$LOADED" insmod "$MRX_TEST_MODULES/kapi/$module.ko" device="rxe_$2" plain=$plain || return 1
	lines=$(results "$module")
	rmmod "$module" || return 1
	sed 's/^/  /' <<<"$lines"
	planned=$(sed -nE 's/^1\.\.([0-9]+)$/\1/p' <<<"$lines")
	[ "${planned:-0}" -gt 0 ] &&
		[ "$(grep -cE '^(not )?ok ' <<<"$lines")" -eq "$planned" ] &&
		passed=$((passed + $(grep -c '^ok ' <<<"$lines"))) &&
		failed=$((failed + $(grep -c '^not ok ' <<<"$lines" || true)))
}

set_up() {
	load_mrx
	load_rxe
	dummy mrx0 10.9.0.1/24
	dummy rxe0 10.9.1.1/24
	link mrx rxe_mrx mrx0
	link rxe rxe_rxe rxe0
	eventually "$PATIENCE" port_is rxe_mrx ACTIVE
	eventually "$PATIENCE" port_is rxe_rxe ACTIVE
}

run_kapi() {
	local number=0 each
	say "KTAP version 1"
	say "1..${#LOADS[@]}"
	set_up
	for each in "${LOADS[@]}"; do
		number=$((number + 1))
		say "  KTAP version 1"
		if load "${each%:*}" "${each#*:}"; then
			say "ok $number the tests in ${each%:*} run to their end on ${each#*:}"
			passed=$((passed + 1))
		else
			say "not ok $number the tests in ${each%:*} run to their end on ${each#*:}"
			failed=$((failed + 1))
		fi
	done
	say "# $SUITE: passed $passed, failed $failed, skipped 0"
	[ "$failed" -eq 0 ]
}

status=0
trap _tear_down EXIT
run_kapi || status=$?
exit "$status"
