#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Every transport and every stock program that needs nothing but verbs.

LIMIT=300 STEP=40
. "$(dirname "$0")/lib.sh"

ADDRESS=10.9.0.1
ADDRESS6=fd00:9::1
ITERATIONS=50 # of programs that measure

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
	perf "$program" rxe_mrx0 -x "$(gid_index rxe_mrx0)" -n "$ITERATIONS" "$@"
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

# The programs of perftest, each with a transport. What is not here, the program
# itself refuses (see below), or it needs XRC, which rdma_rxe lacks as well.
SENDS=(RC:ib_send_{bw,lat} UC:ib_send_{bw,lat} UD:ib_send_{bw,lat})
WRITES=(RC:ib_write_{bw,lat} UC:ib_write_{bw,lat})
READS=(RC:ib_read_{bw,lat})
ATOMICS=(RC:ib_atomic_{bw,lat})

# each PAIR... -- ARGUMENT...: all of these with the arguments
each() {
	local pairs=() pair
	while [ "$1" != -- ]; do
		pairs+=("$1")
		shift
	done
	shift
	for pair in "${pairs[@]}"; do
		tests "${pair#*:}" -c "${pair%%:*}" "$@"
	done
}

test_all_of_perftest_runs_on_all_its_transports() {
	set_up
	each "${SENDS[@]}" "${WRITES[@]}" "${READS[@]}" "${ATOMICS[@]}" --
	tests ib_atomic_bw -A CMP_AND_SWAP
	tests ib_atomic_lat -A CMP_AND_SWAP
}

test_perftest_sleeps_on_events() {
	set_up
	each "${SENDS[@]}" "${READS[@]}" "${ATOMICS[@]}" -- -e
}

# For each size the program measures its processor for a quarter of a second.
test_perftest_measures_bandwidth_of_all_sizes() {
	set_up
	ITERATIONS=5
	each {RC,UC,UD}:ib_send_bw {RC,UC}:ib_write_bw RC:ib_read_bw -- -a
}

test_perftest_measures_latency_of_all_sizes() {
	set_up
	ITERATIONS=5
	each {RC,UC,UD}:ib_send_lat {RC,UC}:ib_write_lat RC:ib_read_lat -- -a
}

test_perftest_works_both_ways() {
	set_up
	each {RC,UC,UD}:ib_send_bw {RC,UC}:ib_write_bw RC:ib_read_bw RC:ib_atomic_bw -- -b
}

test_perftest_sends_inline() {
	set_up
	each "${SENDS[@]}" "${WRITES[@]}" -- -I 64 -s 64
}

test_perftest_uses_several_queue_pairs() {
	set_up
	each {RC,UC,UD}:ib_send_bw {RC,UC}:ib_write_bw RC:ib_read_bw RC:ib_atomic_bw -- -q 4
	tests ib_write_bw -q 16
}

test_perftest_shares_a_receive_queue() {
	set_up
	each "${SENDS[@]}" -- --use-srq
	each {RC,UC}:ib_send_bw -- --use-srq -q 4
	tests ib_send_bw --use-srq -e
}

# refuses TEXT PROGRAM ARGUMENT...: the program does, whatever the device.
refuses() {
	local text=$1 program=$2
	shift 2
	refused "$text" timeout "$PATIENCE" "$program" -d rxe_mrx0 -F -p $((PORT += 1)) "$@"
}

test_perftest_itself_refuses_the_rest() {
	local program
	set_up
	for program in ib_write_bw ib_write_lat; do
		refuses "Events feature not available" $program -e
	done
	for program in ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat; do
		refuses "Inline feature not available" $program -I 64 -s 64
	done
	for program in ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat; do
		refuses "Using SRQ only" $program --use-srq
	done
	for program in ib_atomic_bw ib_atomic_lat; do
		refuses "Message size cannot be changed" $program -a
	done
	for program in ib_send_bw ib_send_lat ib_write_bw ib_write_lat; do
		refuses "UC is not supported in librdmacm" $program -c UC -R
	done
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

in_far() { ip netns exec far "$@"; }

# two_namespaces: a wire from here to the namespace "far", with the device
# rxe_near on this end and rxe_far on the other.
two_namespaces() {
	load_mrx
	ip netns add far
	in_far ip link set lo up
	ip link add near0 type veth peer name far0 netns far
	ip address add 10.9.2.1/24 dev near0
	in_far ip address add 10.9.2.2/24 dev far0
	ip link set near0 up
	in_far ip link set far0 up
	link mrx rxe_near near0
	in_far rdma link add rxe_far type mrx netdev far0 || fail "no link in the namespace"
	# as those of rdma_rxe, the device belongs to the first namespace at first
	[[ $(rdma system show) == *"netns shared"* ]] || rdma dev set rxe_far netns far || fail "rxe_far does not move"
	eventually "$PATIENCE" far_is_active || fail "rxe_far does not come up"
}

far_is_active() { in_far grep -q ACTIVE /sys/class/infiniband/rxe_far/ports/1/state; }

# far_gid: the index of its IPv4 address
far_gid() { in_far grep -l :0000:ffff: /sys/class/infiniband/rxe_far/ports/1/gids/{0..15} 2>/dev/null | sed 's/.*\///'; }

# near_and_far PROGRAM ARGUMENT...: a server there and a client here, each on
# the device of its own end.
near_and_far() {
	PORT=$((PORT + 1))
	serve ip netns exec far "$@" -d rxe_far -g "$(far_gid)" -p "$PORT"
	timeout "$PATIENCE" "$@" -d rxe_near -g "$(gid_index rxe_near)" -p "$PORT" 10.9.2.2 >"$WORK/client" 2>&1 || {
		cat "$WORK/client" "$WORK/server"
		fail "the client failed: $*"
	}
	ends "$SERVER" "the server" || fail "the server failed: $(cat "$WORK/server")"
}

# pings_itself [PREFIX...]: through the manager, with the address that both ends
# have, in the namespace that the prefix takes one to
pings_itself() {
	timeout "$PATIENCE" "$@" rping -s -a 10.9.3.1 -C 3 >"$WORK/server" 2>&1 &
	SERVER=$!
	eventually "$PATIENCE" eval "rdma resource show cm_id | grep -q LISTEN"
	timeout "$PATIENCE" "$@" rping -c -a 10.9.3.1 -C 3 >"$WORK/client" 2>&1 || fail "rping $*: $(cat "$WORK/client")"
	ends "$SERVER" "the server" || fail "the server of rping $* failed: $(cat "$WORK/server")"
}

# they_talk: over connections, over datagrams, and through the manager
they_talk() {
	near_and_far ibv_rc_pingpong -n 100 -c
	near_and_far ibv_uc_pingpong -n 100
	near_and_far ibv_ud_pingpong -n 100 -s 512
	timeout "$PATIENCE" ip netns exec far rping -s -a 10.9.2.2 -C 3 >"$WORK/server" 2>&1 &
	SERVER=$!
	eventually "$PATIENCE" eval "in_far rdma resource show cm_id | grep -q LISTEN"
	timeout "$PATIENCE" rping -c -a 10.9.2.2 -C 3 >"$WORK/client" 2>&1 || fail "rping: $(cat "$WORK/client")"
	ends "$SERVER" "the server" || fail "the server of rping failed: $(cat "$WORK/server")"
}

test_two_devices_in_two_network_namespaces_reach_each_other_in_the_shared_mode() {
	two_namespaces
	ibv_devices | grep -q rxe_far || fail "the device over there is not seen from here"
	in_far ibv_devices | grep -q rxe_near || fail "the device over here is not seen from there"
	they_talk
	# a program here has both of them
	talk ibv_rc_pingpong -d rxe_far -g "$(far_gid)" -n 100 -- \
		ibv_rc_pingpong -d rxe_near -g "$(gid_index rxe_near)" -n 100
	unlink_dev rxe_near
}

test_an_address_that_two_namespaces_have_belongs_to_each() {
	load_mrx
	dummy mrx0 10.9.3.1/24
	link mrx rxe_near mrx0
	ip netns add far
	in_far ip link set lo up
	in_far ip link add far0 type dummy
	in_far ip address add 10.9.3.1/24 dev far0
	in_far ip link set far0 up
	in_far rdma link add rxe_far type mrx netdev far0 || fail "no link in the namespace"
	eventually "$PATIENCE" far_is_active || fail "rxe_far does not come up"
	pings_itself
	pings_itself ip netns exec far
}

test_in_the_exclusive_mode_a_program_has_only_the_devices_of_its_namespace() {
	rdma system set netns exclusive || fail "the RDMA system does not become exclusive"
	two_namespaces
	! ibv_devices | grep -q rxe_far || fail "the device over there is seen from here"
	! in_far ibv_devices | grep -q rxe_near || fail "the device over here is seen from there"
	refused "rxe_far" ibv_devinfo -d rxe_far
	[[ $(rdma dev show) != *rxe_far* ]] || fail "rdma shows the device over there"
	# what is on one wire still talks; with rdma_rxe only rping does not connect
	they_talk
	! rdma link delete rxe_far 2>/dev/null || fail "the link over there was deleted from here"
	in_far rdma link delete rxe_far || fail "the link over there cannot be deleted there"
}

test_counters_tell_what_was_moved() {
	set_up
	local before
	before=$(counter rxe_mrx0 sent_bytes)
	ITERATIONS=100
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
