#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Every transport and every stock program that needs nothing but verbs.

LIMIT=180 STEP=40
. "$(dirname "$0")/lib.sh"

ADDRESS=10.9.0.1
ADDRESS6=fd00:9::1

set_up() {
	load_mrx
	dummy mrx0 $ADDRESS/24 $ADDRESS6/64
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
}

# counter DEVICE NAME
counter() { rdma statistic show link "$1/1" | sed -nE "s/^ *$2 ([0-9]+) *$/\1/p"; }

pings() {
	local program=$1
	shift
	talk "$program" -d rxe_mrx0 -g "$(gid_index rxe_mrx0)" -n 100 "$@"
}

# tests PROGRAM [ARGUMENT...]: a program of perftest.
tests() {
	local program=$1
	shift
	perf "$program" rxe_mrx0 -x "$(gid_index rxe_mrx0)" -n 100 "$@"
}

test_ibv_rc_pingpong_polls_and_waits() {
	set_up
	pings ibv_rc_pingpong -c
	pings ibv_rc_pingpong -e
}

test_ibv_uc_pingpong_polls_and_waits() {
	set_up
	pings ibv_uc_pingpong -c
	pings ibv_uc_pingpong -e
}

test_ibv_ud_pingpong_polls_and_waits() {
	set_up
	pings ibv_ud_pingpong -c
	pings ibv_ud_pingpong -e
}

test_ibv_srq_pingpong_polls_and_waits() {
	set_up
	pings ibv_srq_pingpong -c
	pings ibv_srq_pingpong -e
}

test_perftest_over_reliable_connections() {
	set_up
	local program
	for program in ib_send_bw ib_write_bw ib_read_bw ib_atomic_bw \
		ib_send_lat ib_write_lat ib_read_lat ib_atomic_lat; do
		tests $program
	done
	tests ib_atomic_bw -A CMP_AND_SWAP
}

test_perftest_over_unreliable_connections() {
	set_up
	local program
	for program in ib_send_bw ib_write_bw ib_send_lat ib_write_lat; do
		tests $program -c UC
	done
}

test_perftest_over_datagrams() {
	set_up
	tests ib_send_bw -c UD
	tests ib_send_lat -c UD
	tests ib_send_lat -c UD -e
}

test_perftest_with_several_queue_pairs_and_a_shared_receive_queue() {
	set_up
	tests ib_send_bw -q 4
	tests ib_send_bw -q 4 --use-srq
	tests ib_write_bw -q 16
}

test_perftest_with_events_both_directions_inline_and_all_sizes() {
	set_up
	tests ib_send_bw -e
	tests ib_write_bw -b
	tests ib_send_lat -I 64 -s 64
	tests ib_write_bw -a
}

test_two_devices_reach_each_other() {
	set_up
	dummy mrx1 10.9.1.1/24
	link mrx rxe_mrx1 mrx1
	eventually "$PATIENCE" port_is rxe_mrx1 ACTIVE
	talk ibv_rc_pingpong -d rxe_mrx0 -g "$(gid_index rxe_mrx0)" -n 100 -c -- \
		ibv_rc_pingpong -d rxe_mrx1 -g "$(gid_index rxe_mrx1)" -n 100 -c
	talk ibv_ud_pingpong -d rxe_mrx0 -g "$(gid_index rxe_mrx0)" -n 100 -- \
		ibv_ud_pingpong -d rxe_mrx1 -g "$(gid_index rxe_mrx1)" -n 100
}

test_counters_tell_what_was_moved() {
	set_up
	local before
	before=$(counter rxe_mrx0 sent_bytes)
	tests ib_write_bw -s 4096
	[ $(($(counter rxe_mrx0 sent_bytes) - before)) -ge $((100 * 4096)) ] || fail "bytes are missing"
	# in words of four bytes
	[ "$(cat /sys/class/infiniband/rxe_mrx0/ports/1/counters/port_xmit_data)" -ge $((100 * 1024)) ] ||
		fail "words are missing in sysfs"
}

test_ibv_asyncwatch_sees_the_port_go_down_and_come_up() {
	set_up
	timeout "$PATIENCE" ibv_asyncwatch -d rxe_mrx0 >"$WORK/events" 2>&1 &
	eventually "$PATIENCE" grep -q "async event FD" "$WORK/events" || fail "it does not start"
	ip link set mrx0 down
	eventually "$PATIENCE" grep -q PORT_ERR "$WORK/events" || fail "no event that the port went down"
	ip link set mrx0 up
	eventually "$PATIENCE" grep -q PORT_ACTIVE "$WORK/events" || fail "no event that it came up"
}

# ucx TRANSPORT TEST: ucx_perftest takes itself for a part of an MPI job if its
# input is no terminal.
ucx() {
	local arguments="-d rxe_mrx0:1 -x $1 -t $2 -n 200 -w 10"
	PORT=$((PORT + 1))
	serve script -qec "ucx_perftest -p $PORT $arguments" /dev/null
	timeout "$PATIENCE" script -qec "ucx_perftest $ADDRESS -p $PORT $arguments" /dev/null >"$WORK/client" 2>&1 || {
		cat "$WORK/client"
		fail "ucx_perftest $1 $2"
	}
	grep -q '^Final:' "$WORK/client" || fail "no result"
	ends "$SERVER" "the server"
}

test_ucx_over_reliable_connections() {
	set_up
	ucx rc_verbs am_lat
	ucx rc_verbs put_bw
}

test_ucx_over_datagrams() {
	set_up
	# With an IPv4 address this UCX takes nothing for its own, on rdma_rxe neither.
	UCX_IB_GID_INDEX=$(gids rxe_mrx0 | grep -n "^fd00" | cut -d: -f1)
	UCX_IB_GID_INDEX=$((UCX_IB_GID_INDEX - 1))
	export UCX_IB_GID_INDEX
	ucx ud_verbs am_lat
}

fabric() {
	timeout "$PATIENCE" fi_pingpong "$@" -I 10 >"$WORK/server" 2>&1 &
	local server=$!
	PORT=47592
	eventually "$PATIENCE" listens_or_gone "$server" || fail "the server does not listen"
	timeout "$PATIENCE" fi_pingpong "$@" -I 10 $ADDRESS >"$WORK/client" 2>&1 || {
		cat "$WORK/client"
		fail "fi_pingpong $*"
	}
	ends "$server" "the server"
}

test_libfabric_over_connections_messages_and_datagrams() {
	set_up
	fabric -p verbs -e msg
	fabric -p "verbs;ofi_rxm" -e rdm
	fabric -p verbs -e dgram
}

run_suite "$@"
