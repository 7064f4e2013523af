#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The distribution's own programs, unmodified, on the device.

. "$(dirname "$0")/lib.sh"

BW=(ib_send_bw ib_write_bw ib_read_bw)
LAT=(ib_send_lat ib_write_lat ib_read_lat)

one_device() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
}

# all_of PROGRAM... -- ARGUMENT...: each of the programs with the arguments
all_of() {
	local programs=() program
	while [ "$1" != -- ]; do
		programs+=("$1")
		shift
	done
	shift
	for program in "${programs[@]}"; do
		perf "$program" rxe_mrx0 "$@"
	done
}

test_ibv_devices_lists_the_device() {
	one_device
	ibv_devices | grep -qE "^[[:space:]]+rxe_mrx0[[:space:]]+$(tr -d : <"/sys/class/infiniband/rxe_mrx0/node_guid")\$" ||
		fail "$(ibv_devices)"
}

test_ibv_devinfo_shows_the_device_and_its_port() {
	local line
	one_device
	ibv_devinfo -v -d rxe_mrx0 >"$WORK/info" || fail "it failed: $(cat "$WORK/info")"
	while read -r line; do
		grep -qE "^[[:space:]]*$line" "$WORK/info" || {
			cat "$WORK/info"
			fail "there is no line: $line"
		}
	done <<-'LINES'
		hca_id:[[:space:]]+rxe_mrx0$
		transport:[[:space:]]+InfiniBand \(0\)
		phys_port_cnt:[[:space:]]+1$
		max_qp:[[:space:]]+[1-9]
		max_cqe:[[:space:]]+[1-9]
		max_mr:[[:space:]]+[1-9]
		max_mr_size:[[:space:]]+0xffffffffffffffff
		state:[[:space:]]+PORT_ACTIVE
		link_layer:[[:space:]]+Ethernet
		active_mtu:[[:space:]]+1024
		GID\[  0\]:.*fe80:.*RoCE v2
		GID\[  1\]:.*::ffff:192.0.2.1, RoCE v2
	LINES
}

test_rdma_shows_the_objects_of_a_running_program() {
	local type
	one_device
	serve ibv_rc_pingpong -d rxe_mrx0 -g 1 -p "$PORT"
	for type in pd cq qp mr ctx; do
		rdma resource show "$type" | grep -q "rxe_mrx0.*comm ibv_rc_pingpong" || fail "no $type of the program"
	done
	kill "$SERVER"
	ends "$SERVER" "a program with a signal" || true
	resources_are_zero rxe_mrx0 || fail "its objects stay"
}

test_ibv_rc_pingpong_sends_messages_of_every_size() {
	local size
	one_device
	for size in 1 64 4096 65536 1048576; do
		pingpong rxe_mrx0 -s "$size" -n 50
	done
}

test_ibv_rc_pingpong_sleeps_on_events() {
	local size
	one_device
	for size in 1 4096 1048576; do
		pingpong rxe_mrx0 -e -s "$size"
	done
}

test_ibv_rc_pingpong_uses_the_newer_posting_calls() {
	one_device
	pingpong rxe_mrx0 -N
	pingpong rxe_mrx0 -N -e
}

test_ibv_rc_pingpong_goes_many_rounds() {
	one_device
	pingpong rxe_mrx0 -n 5000
	pingpong rxe_mrx0 -n 1000 -r 1
}

test_ibv_rc_pingpong_works_with_an_ipv6_address() {
	one_device
	talk ibv_rc_pingpong -d rxe_mrx0 -g 0 -c
}

test_programs_that_measure_bandwidth_run_with_several_sizes() {
	local size
	one_device
	for size in 1 4096 65536 1000001; do
		all_of "${BW[@]}" -- -n 100 -s "$size"
	done
}

test_several_queue_pairs_send_both_ways() {
	one_device
	perf ib_write_bw rxe_mrx0 -n 500 -s 65536 -b -q 2
}

test_programs_that_measure_bandwidth_post_lists() {
	one_device
	all_of "${BW[@]}" -- -n 512 -s 1024 -l 16
}

test_programs_that_measure_latency_run_with_several_sizes() {
	local size
	one_device
	for size in 2 4096 1000001; do
		all_of "${LAT[@]}" -- -n 100 -s "$size"
	done
}

test_a_program_talks_between_two_devices() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	dummy dummy1 198.51.100.1/24
	link mrx rxe_mrx0 dummy0
	link mrx rxe_mrx1 dummy1
	talk ib_write_bw -F -d rxe_mrx0 -n 200 -s 65536 -- ib_write_bw -F -d rxe_mrx1 -n 200 -s 65536
	talk ib_read_bw -F -d rxe_mrx0 -n 200 -s 65536 -- ib_read_bw -F -d rxe_mrx1 -n 200 -s 65536
	talk ib_send_bw -F -d rxe_mrx1 -n 200 -s 65536 -e -- ib_send_bw -F -d rxe_mrx0 -n 200 -s 65536 -e
}

test_several_programs_run_at_a_time() {
	local i clients=()
	one_device
	for i in 1 2 3 4; do
		PORT=$((PORT + 1))
		serve ib_write_bw -F -d rxe_mrx0 -n 500 -s 8192 -p "$PORT"
		ib_write_bw -F -d rxe_mrx0 -n 500 -s 8192 -p "$PORT" localhost >"$WORK/client$i" 2>&1 &
		clients+=("$!" "$SERVER")
	done
	for i in "${clients[@]}"; do
		ends "$i" "a program" || fail "a program failed: $(tail -n 3 "$WORK"/client*)"
	done
}

test_pyverbs_makes_and_uses_objects() {
	one_device
	timeout "$PATIENCE" python3 "$(dirname "$SUITE_FILE")/pyverbs_objects.py" rxe_mrx0 "$(gid_index rxe_mrx0)"
}

run_suite "$@"
