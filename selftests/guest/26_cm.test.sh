#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The communication manager and what connects through it.

LIMIT=180 STEP=40
. "$(dirname "$0")/lib.sh"

ADDRESS=10.9.0.1
ADDRESS6=fd00:9::1

set_up() {
	load_mrx
	dummy mrx0
	# without waiting for others that might have the address
	ip address add $ADDRESS/24 dev mrx0
	ip address add $ADDRESS6/64 dev mrx0 nodad
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
}

listens_by_cm() { gone "$1" || rdma resource show cm_id 2>/dev/null | grep "pid $1 " | grep -q "state LISTEN"; }
joins_by_cm() { gone "$1" || rdma resource show qp 2>/dev/null | grep -q "pid $1 "; }

# meet READY SERVER_COMMAND -- CLIENT_COMMAND: both end well.
meet() {
	local ready=$1 server=() status=0 pid
	shift
	while [ "$1" != -- ]; do
		server+=("$1")
		shift
	done
	shift
	timeout $((PATIENCE * 2)) "${server[@]}" >"$WORK/server" 2>&1 &
	# timeout's own child is the one that has objects
	pid=$!
	eventually "$PATIENCE" child_of $pid || fail "the server does not start"
	eventually "$PATIENCE" "$ready" "$(child_of $pid)" || fail "the server does not listen: ${server[*]}"
	timeout "$PATIENCE" "$@" >"$WORK/client" 2>&1 || {
		status=$?
		cat "$WORK/client"
		say "--- the server said"
		cat "$WORK/server"
		fail "the client ended with status $status: $*"
	}
	ends $pid "the server" || {
		cat "$WORK/server"
		fail "the server failed: ${server[*]}"
	}
}

child_of() { pgrep -P "$1"; }

test_rping_over_IPv4_and_IPv6() {
	set_up
	meet listens_by_cm rping -s -a $ADDRESS -C 5 -- rping -c -a $ADDRESS -C 5
	meet listens_by_cm rping -s -a $ADDRESS6 -C 5 -- rping -c -a $ADDRESS6 -C 5
}

test_ucmatose() {
	set_up
	meet listens_by_cm ucmatose -C 5 -S 4096 -- ucmatose -s $ADDRESS -C 5 -S 4096
}

test_udaddy() {
	set_up
	meet listens_by_cm udaddy -C 5 -- udaddy -s $ADDRESS -C 5
}

test_mckey() {
	set_up
	meet joins_by_cm mckey -b $ADDRESS -m 239.1.1.1 -- mckey -b $ADDRESS -m 239.1.1.1 -s
}

test_rdma_client_and_server() {
	set_up
	meet listens_by_cm rdma_server -- rdma_client -s $ADDRESS
}

test_rdma_xclient_and_xserver() {
	set_up
	meet listens_by_cm rdma_xserver -c r -- rdma_xclient -s $ADDRESS -c r
}

test_rstream_and_riostream() {
	set_up
	meet listens_by_cm rstream -S 1000 -C 100 -- rstream -s $ADDRESS -S 1000 -C 100
	meet listens_by_cm riostream -S 1000 -C 100 -- riostream -s $ADDRESS -S 1000 -C 100
}

test_perftest_connects_through_the_manager() {
	local program
	set_up
	for program in ib_send_bw ib_write_bw ib_read_bw ib_atomic_bw \
		ib_send_lat ib_write_lat ib_read_lat ib_atomic_lat; do
		meet listens_by_cm $program -d rxe_mrx0 -F -R -n 100 -- $program -d rxe_mrx0 -F -R -n 100 $ADDRESS
	done
	meet listens_by_cm ib_send_bw -d rxe_mrx0 -F -R -n 100 -c UD -- ib_send_bw -d rxe_mrx0 -F -R -n 100 -c UD $ADDRESS
}

test_nobody_listens() {
	set_up
	refused "rejected" ucmatose_says -s $ADDRESS
}

# what it says when it is refused, in lower case
ucmatose_says() {
	local output status=0
	output=$(timeout "$PATIENCE" ucmatose "$@" 2>&1) || status=$?
	say "${output,,}"
	return "$status"
}

run_suite "$@"
