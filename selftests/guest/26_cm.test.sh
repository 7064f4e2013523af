#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The communication manager and what connects through it.

LIMIT=180 STEP=40
. "$(dirname "$0")/lib.sh"

ADDRESS=10.9.0.1
ADDRESS6=fd00:9::1
ITERATIONS=50 # of programs that measure

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

test_ucmatose_and_udaddy_over_IPv6() {
	set_up
	meet listens_by_cm ucmatose -b $ADDRESS6 -C 5 -- ucmatose -s $ADDRESS6 -C 5
	meet listens_by_cm udaddy -b $ADDRESS6 -C 5 -- udaddy -s $ADDRESS6 -C 5
}

# In its second part it connects without queue pairs, under numbers that it
# makes up. Where both sides are on one machine these have to differ, else the
# manager takes one side's connection for a stale one of the other's.
test_cmtime() {
	set_up
	meet listens_by_cm cmtime -b $ADDRESS -c 50 -q 5000 -- cmtime -s $ADDRESS -c 50 -q 90000
	meet listens_by_cm cmtime -b $ADDRESS -c 20 -n 4 -q 5000 -- cmtime -s $ADDRESS -c 20 -n 4 -q 90000
}

test_mckey() {
	set_up
	meet joins_by_cm mckey -b $ADDRESS -m 239.1.1.1 -- mckey -b $ADDRESS -m 239.1.1.1 -s
}

# The kernel joins no group of IPv6 on Ethernet, for rdma_rxe neither.
test_mckey_over_IPv6_is_refused() {
	set_up
	refused "return status -1" timeout "$PATIENCE" mckey -b $ADDRESS6 -m ff0e::1
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

# through_the_manager PROGRAM ARGUMENT...: a program of perftest
through_the_manager() {
	local program=$1
	shift
	meet listens_by_cm "$program" -d rxe_mrx0 -F -R -n "$ITERATIONS" "$@" -- \
		"$program" -d rxe_mrx0 -F -R -n "$ITERATIONS" "$@" $ADDRESS
}

# Its server serves for ever.
test_rcopy() {
	set_up
	dd if=/dev/urandom of="$WORK/from" bs=1000 count=500 status=none
	rcopy >"$WORK/server" 2>&1 &
	SERVER=$!
	eventually "$PATIENCE" listens_by_cm "$SERVER" || fail "the server does not listen"
	timeout "$PATIENCE" rcopy "$WORK/from" "$ADDRESS:$WORK/to" >"$WORK/client" 2>&1 ||
		fail "rcopy: $(cat "$WORK/client" "$WORK/server")"
	cmp "$WORK/from" "$WORK/to" || fail "the copy differs"
	kill "$SERVER"
	ends "$SERVER" "the server" || true
}

test_perftest_connects_through_the_manager() {
	local program
	set_up
	for program in ib_{send,write,read,atomic}_{bw,lat}; do
		through_the_manager $program
	done
	through_the_manager ib_send_bw -c UD
	through_the_manager ib_send_lat -c UD
}

test_perftest_connects_through_the_manager_and_sleeps_on_events() {
	local program
	set_up
	for program in ib_{send,read,atomic}_{bw,lat}; do
		through_the_manager $program -e
	done
	through_the_manager ib_send_lat -c UD -e
}

test_perftest_connects_several_queue_pairs_through_the_manager() {
	local program
	set_up
	for program in ib_{send,write,read,atomic}_bw; do
		through_the_manager $program -q 4
	done
	through_the_manager ib_send_bw -q 4 --use-srq
	through_the_manager ib_send_bw -c UD -q 2
}

test_perftest_works_both_ways_through_the_manager() {
	local program
	set_up
	for program in ib_{send,write,read,atomic}_bw; do
		through_the_manager $program -b
	done
	through_the_manager ib_write_lat -I 64 -s 64
	ITERATIONS=5
	through_the_manager ib_write_bw -a
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
