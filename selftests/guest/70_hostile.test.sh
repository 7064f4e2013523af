#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A hostile user of the device (selftests/hostile), beside two processes that use
# it as they should.
#
#   MRX_HOSTILE_SECONDS  how long each of the runs goes on; default 20
#   MRX_HOSTILE_SEED     what they start from; default: any
#   MRX_HOSTILE_LEAST    calls and changes of rings that there must be; default 1000
#   MRX_HOSTILE_COVER    not empty: all handlers and requests have to succeed, and
#                        to fail
#   MRX_HOSTILE_PLACES   a file for what ran of a module that was built with
#                        KCOV_INSTRUMENT=y (scripts/coverage.sh)
#   MRX_HOSTILE_REPORT   a file that the reports are added to
#   MRX_PATIENCE         factor on time limits; default 1

HOSTILE_SECONDS=${MRX_HOSTILE_SECONDS:-20}
MRX_LIMIT=${MRX_LIMIT:-$((HOSTILE_SECONDS + 180 * ${MRX_PATIENCE:-1}))}
. "$(dirname "$0")/lib.sh"

HOSTILE=$MRX_TOP/build/cargo/release/mrx-hostile

# hostile ARGUMENT...: ill-treats the device of the test, and says what it reached.
hostile() {
	"$HOSTILE" --device rxe_mrx0 --patience "${MRX_PATIENCE:-1}" --seconds "$HOSTILE_SECONDS" \
		${MRX_HOSTILE_SEED:+--seed "$MRX_HOSTILE_SEED"} "$@" >"$WORK/hostile" 2>&1
}

# passes WHAT STATUS: what the program said, if it failed or somebody wants it.
passes() {
	[ -z "${MRX_HOSTILE_REPORT:-}" ] || cat "$WORK/hostile" >>"$MRX_HOSTILE_REPORT"
	[ "$2" -eq 0 ] || {
		cat "$WORK/hostile"
		fail "$1 (status $2)"
	}
}

set_up() {
	load_mrx
	modprobe -q udmabuf || true
	# memory that is not the kernel's, if it is there
	if [ -e "$MRX_TEST_MODULES/peer/mrx_peer_c.ko" ]; then
		insmod "$MRX_TEST_MODULES/peer/mrx_peer_c.ko"
		UNLOAD_AFTER=mrx_peer_c
	fi
	add_device
}

add_device() {
	dummy mrx0 10.9.0.1/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
}

test_a_hostile_user_harms_nobody() {
	local status=0 lines
	set_up
	mark_log
	hostile --at-least "${MRX_HOSTILE_LEAST:-1000}" ${MRX_HOSTILE_COVER:+--cover} \
		${MRX_HOSTILE_PLACES:+--coverage "$MRX_HOSTILE_PLACES"} || status=$?
	passes "the device did not stand it" "$status"
	lines=$(log_since_mark | grep -c 'ib_mrx:') || true
	[ "$lines" -le $((10 * HOSTILE_SECONDS)) ] || fail "$lines lines in the kernel's log"
}

test_a_hostile_user_goes_on_when_its_device_goes() {
	local hostile status=0 round
	set_up
	hostile --no-bystanders &
	hostile=$!
	for round in 1 2; do
		nap $((HOSTILE_SECONDS / 5))
		unlink_dev rxe_mrx0
		vanishes rxe_mrx0
		nap 1
		link mrx rxe_mrx0 mrx0
		nap $((HOSTILE_SECONDS / 5))
		ip link delete mrx0
		vanishes rxe_mrx0
		add_device
	done
	eventually "$MRX_LIMIT" gone "$hostile" || fail "the hostile user does not end"
	wait "$hostile" || status=$?
	passes "the hostile user did not get to its end" "$status"
}

test_the_limits_of_the_device_hold_and_use_is_counted() {
	local status=0
	set_up
	hostile --limits || status=$?
	passes "a test of the limits failed" "$status"
}

run_suite "$@"
