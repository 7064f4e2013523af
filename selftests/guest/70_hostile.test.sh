#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# A hostile user of the device (selftests/hostile), beside two processes that use
# it as they should.
#
#   MRX_HOSTILE_SECONDS  how long each of the runs goes on; default 25
#   MRX_HOSTILE_SEED     what they start from; default: any
#   MRX_PATIENCE         factor on time limits; default 1

HOSTILE_SECONDS=${MRX_HOSTILE_SECONDS:-25}
MRX_LIMIT=${MRX_LIMIT:-$((HOSTILE_SECONDS + 180 * ${MRX_PATIENCE:-1}))}
. "$(dirname "$0")/lib.sh"

HOSTILE=$MRX_TOP/build/cargo/release/mrx-hostile

# hostile ARGUMENT...: ill-treats the device of the test, and says what it reached.
hostile() {
	"$HOSTILE" --device rxe_mrx0 --patience "${MRX_PATIENCE:-1}" ${MRX_HOSTILE_SEED:+--seed "$MRX_HOSTILE_SEED"} \
		--seconds "$HOSTILE_SECONDS" "$@"
}

set_up() {
	load_mrx
	dummy mrx0 10.9.0.1/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	modprobe -q udmabuf || true
}

test_a_hostile_user_harms_nobody() {
	set_up
	hostile --at-least 2000 >"$WORK/hostile" 2>&1 || {
		cat "$WORK/hostile"
		fail "the device did not stand it"
	}
}

run_suite "$@"
