#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# What goes away while it is in use: devices, interfaces, programs.

LIMIT=180
. "$(dirname "$0")/lib.sh"

# Long enough for nothing to end by itself within a test.
FOREVER=60

one_device() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
}

flows() { grep -q 'remote address' "$WORK/client"; }

# traffic [COMMAND...]: a server SERVER and a client CLIENT that are at work when
# this returns.
traffic() {
	local command=("$@")
	[ $# -gt 0 ] || command=(ib_write_bw -F -d rxe_mrx0 -D "$FOREVER" -s 65536)
	PORT=$((PORT + 1))
	serve "${command[@]}" -p "$PORT"
	stdbuf -oL "${command[@]}" -p "$PORT" localhost >"$WORK/client" 2>&1 &
	CLIENT=$!
	eventually "$PATIENCE" flows || fail "there is no traffic: $(cat "$WORK/client")"
	nap 0.3
	! gone "$CLIENT" || fail "the client ended: $(cat "$WORK/client")"
}

# both_end_with_an_error WHEN
both_end_with_an_error() {
	! ends "$CLIENT" "the client, $1," || fail "the client ended well, $1"
	! ends "$SERVER" "the server, $1," || fail "the server ended well, $1"
}

both_end() {
	ends "$CLIENT" "the client" || true
	ends "$SERVER" "the server" || true
}

works_again() {
	unload_soon ib_mrx
	load_mrx
	ip link show dummy0 >/dev/null 2>&1 || dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	pingpong rxe_mrx0
}

# The device lets go of its programs (disassociate_ucontext), and so do those of
# rdma_rxe: an open file does not hold the module.
test_the_module_unloads_while_a_program_holds_the_device_open() {
	local holder
	one_device
	PORT=$((PORT + 1))
	serve ibv_rc_pingpong -d rxe_mrx0 -g 1 -p "$PORT"
	holder=$SERVER
	timeout "$PATIENCE" rmmod ib_mrx || fail "the module does not unload"
	is_gone rxe_mrx0 || fail "the device stays"
	! gone "$holder" || fail "the program ended"
	load_mrx
	link mrx rxe_mrx0 dummy0
	pingpong rxe_mrx0
	# what it mapped and what it opened are of a module that has gone
	kill "$holder"
	ends "$holder" "a program with a signal" || true
}

test_the_module_unloads_under_traffic() {
	one_device
	traffic
	timeout "$PATIENCE" rmmod ib_mrx || fail "the module does not unload"
	both_end_with_an_error "when the module is unloaded"
	works_again
}

test_a_link_is_deleted_under_traffic() {
	local program
	one_device
	for program in ib_write_bw ib_send_bw ib_read_bw; do
		exists rxe_mrx0 || link mrx rxe_mrx0 dummy0
		traffic "$program" -F -d rxe_mrx0 -D "$FOREVER" -s 65536
		unlink_dev rxe_mrx0
		both_end_with_an_error "when the link of $program is deleted"
		vanishes rxe_mrx0
	done
	works_again
}

test_a_link_is_deleted_under_programs_that_sleep() {
	one_device
	traffic ibv_rc_pingpong -d rxe_mrx0 -g 1 -e -n 100000000
	unlink_dev rxe_mrx0
	both_end_with_an_error "when the link is deleted"
	works_again
}

test_a_link_is_deleted_under_a_program_that_waits_for_its_peer() {
	one_device
	PORT=$((PORT + 1))
	serve ibv_rc_pingpong -d rxe_mrx0 -g 1 -e -p "$PORT"
	unlink_dev rxe_mrx0
	vanishes rxe_mrx0
	# what holds only a file of a device that has gone does not hold the module
	unload_soon ib_mrx
	kill "$SERVER"
	ends "$SERVER" "a program with a signal" || true
}

test_an_interface_is_deleted_under_traffic() {
	one_device
	traffic
	timeout "$PATIENCE" ip link delete dummy0 || fail "the interface cannot be deleted"
	both_end_with_an_error "when the interface is deleted"
	vanishes rxe_mrx0
	works_again
}

test_one_interface_of_two_is_deleted_under_traffic_between_them() {
	local common=(ib_write_bw -F -D "$FOREVER" -s 65536)
	one_device
	dummy dummy1 198.51.100.1/24
	link mrx rxe_mrx1 dummy1
	PORT=$((PORT + 1))
	serve "${common[@]}" -d rxe_mrx0 -p "$PORT"
	stdbuf -oL "${common[@]}" -d rxe_mrx1 -p "$PORT" localhost >"$WORK/client" 2>&1 &
	CLIENT=$!
	eventually "$PATIENCE" flows || fail "there is no traffic: $(cat "$WORK/client")"
	nap 0.3
	ip link delete dummy0
	both_end_with_an_error "when the server's interface is deleted"
	vanishes rxe_mrx0
	pingpong rxe_mrx1
	resources_are_zero rxe_mrx1 || fail "objects are left"
}

test_an_interface_goes_down_and_up_under_traffic() {
	local i
	one_device
	traffic
	for i in {1..10}; do
		ip link set dummy0 down
		nap "0.$((RANDOM % 3))"
		ip link set dummy0 up
		nap 0.05
	done
	kill "$CLIENT" "$SERVER" 2>/dev/null || true
	both_end
	resources_are_zero rxe_mrx0 || fail "objects are left after round $i"
	pingpong rxe_mrx0
}

test_traffic_fails_when_its_interface_stays_down() {
	one_device
	traffic
	ip link set dummy0 down
	both_end_with_an_error "when the interface is down"
	ip link set dummy0 up
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	pingpong rxe_mrx0
}

test_addresses_change_under_traffic() {
	local i
	one_device
	traffic
	for i in {1..10}; do
		ip address add 203.0.113."$i"/32 dev dummy0
	done
	for i in {1..10}; do
		ip address delete 203.0.113."$i"/32 dev dummy0
	done
	! gone "$CLIENT" || fail "other addresses ended the traffic: $(cat "$WORK/client")"
	ip address delete 192.0.2.1/24 dev dummy0
	ip address add 192.0.2.1/24 dev dummy0
	kill "$CLIENT" "$SERVER" 2>/dev/null || true
	both_end
	eventually "$PATIENCE" eval 'gids rxe_mrx0 | grep -q ffff:c000:0201'
	pingpong rxe_mrx0
}

test_programs_are_killed_at_any_moment() {
	local programs=(ib_write_bw ib_read_bw ib_send_bw "ibv_rc_pingpong -e" ibv_rc_pingpong)
	local round command seed=${MRX_SEED:-$$}
	one_device
	say "seed $seed"
	RANDOM=$seed
	for round in {1..20}; do
		read -ra command <<<"${programs[round % ${#programs[@]}]}"
		case ${command[0]} in
		ibv_*) command+=(-d rxe_mrx0 -g 1 -n 100000000 -s 65536) ;;
		*) command+=(-d rxe_mrx0 -F -D "$FOREVER" -s 65536) ;;
		esac
		PORT=$((PORT + 1))
		serve "${command[@]}" -p "$PORT"
		"${command[@]}" -p "$PORT" localhost >"$WORK/client" 2>&1 &
		CLIENT=$!
		nap "0.$((RANDOM % 6))$((RANDOM % 10))"
		case $((RANDOM % 3)) in
		0) kill -KILL "$CLIENT" ;;
		1) kill -KILL "$SERVER" ;;
		2) kill -KILL "$CLIENT" "$SERVER" ;;
		esac
		# a peer that only polls for messages hears nothing of it
		nap 0.1
		case ${command[0]} in
		ibv_* | ib_send_bw) kill -KILL "$CLIENT" "$SERVER" 2>/dev/null || true ;;
		esac
		# nor does a server whose client was killed before it connected
		! grep -qs inet_csk_accept "/proc/$SERVER/stack" || kill -KILL "$SERVER"
		! ends "$CLIENT" "the client in round $round (${command[*]})" || fail "round $round: the client ended well"
		! ends "$SERVER" "the server in round $round (${command[*]})" || fail "round $round: the server ended well"
	done
	resources_are_zero rxe_mrx0 || fail "objects are left"
	pingpong rxe_mrx0
	unlink_dev rxe_mrx0
	unload_soon ib_mrx
}

test_links_are_added_and_deleted_fifty_times() {
	local i
	load_mrx
	dummy dummy0 192.0.2.1/24
	for i in {1..50}; do
		rdma link add rxe_mrx0 type mrx netdev dummy0 || fail "round $i: the link is refused"
		rdma link delete rxe_mrx0 || fail "round $i: the link cannot be deleted"
	done
	link mrx rxe_mrx0 dummy0
	pingpong rxe_mrx0
}

test_interfaces_go_while_links_are_added_to_them() {
	local i adder
	load_mrx
	for i in {1..10}; do
		ip link add dummy0 type dummy
		rdma link add rxe_mrx0 type mrx netdev dummy0 >/dev/null 2>&1 &
		adder=$!
		nap "0.0$((RANDOM % 5))"
		timeout "$PATIENCE" ip link delete dummy0 || fail "round $i: the interface cannot be deleted"
		ends "$adder" "the link's command in round $i" || true
		# added or not, the device cannot outlive its interface
		vanishes rxe_mrx0
	done
}

test_the_module_is_loaded_and_unloaded_with_links_ten_times() {
	local i
	unload ib_mrx
	dummy dummy0 192.0.2.1/24
	for i in {1..10}; do
		load_mrx
		rdma link add rxe_mrx0 type mrx netdev dummy0 || fail "round $i: the link is refused"
		rmmod ib_mrx || fail "round $i: the module does not unload"
		is_gone rxe_mrx0 || fail "round $i: the device stays"
	done
}

# The core's queue is in the device's last operation while its module goes.
test_the_module_unloads_right_after_an_interface_was_deleted() {
	local i
	for i in {1..20}; do
		load_mrx
		dummy dummy0 192.0.2.1/24
		link mrx rxe_mrx0 dummy0
		ip link delete dummy0
		rmmod ib_mrx || fail "round $i: the module does not unload"
		is_gone rxe_mrx0 || fail "round $i: the device stays"
	done
}

test_the_module_unloads_right_after_a_program_was_killed() {
	local i
	for i in {1..5}; do
		load_mrx
		ip link show dummy0 >/dev/null 2>&1 || dummy dummy0 192.0.2.1/24
		link mrx rxe_mrx0 dummy0
		traffic ib_write_bw -F -d rxe_mrx0 -D "$FOREVER" -s 1048576
		kill -KILL "$CLIENT" "$SERVER"
		unload_soon ib_mrx
		both_end
		! is_loaded ib_mrx || fail "round $i: the module stays"
	done
}

# flood SEED: two processes flood each other with right and wrong requests when
# this returns. FLOOD is their parent, which ends after them.
flood() {
	"$MRX_TOP/build/cargo/release/mrx-selftest" --device rxe_mrx0 --flood --seed "$1" >"$WORK/flood" 2>&1 &
	FLOOD=$!
	eventually "$PATIENCE" grep -q '^flood: seed' "$WORK/flood" || fail "there is no flood: $(cat "$WORK/flood")"
}

flooders() { pgrep -P "$FLOOD"; }

one_is_killed() {
	# shellcheck disable=SC2046 # several processes
	set -- $(flooders)
	[ $# -eq 0 ] || kill -KILL "${@:RANDOM % $# + 1:1}"
}

flaps() {
	ip link set dummy0 down
	sleep "0.0$((RANDOM % 10))"
	ip link set dummy0 up
}

address_flaps() {
	ip address delete 192.0.2.1/24 dev dummy0
	sleep "0.0$((RANDOM % 10))"
	ip address add 192.0.2.1/24 dev dummy0
}

test_a_flood_of_errors_outlives_an_interface_that_goes_down_and_up() {
	local i seed=${MRX_SEED:-$$}
	one_device
	say "seed $seed"
	RANDOM=$seed
	flood "$seed"
	for i in {1..20}; do
		flaps
		nap "0.$((RANDOM % 2))$((RANDOM % 10))"
	done
	equal 2 "$(flooders | wc -l)" "processes that flood after $i flaps"
	pkill -KILL -P "$FLOOD"
	ends "$FLOOD" "the parent of the flood" || fail "it failed: $(cat "$WORK/flood")"
	resources_are_zero rxe_mrx0 || fail "objects are left"
	pingpong rxe_mrx0
}

# Each round starts a flood, troubles it, and ends it by a kill or with its link.
test_a_flood_of_errors_meets_kills_and_flaps_and_its_link_being_deleted() {
	local round i seed=${MRX_SEED:-$$}
	one_device
	say "seed $seed"
	RANDOM=$seed
	for round in {1..15}; do
		flood "$((seed + round))"
		for ((i = RANDOM % 4; i > 0; i--)); do
			case $((RANDOM % 3)) in
			0) flaps ;;
			1) address_flaps ;;
			2) one_is_killed ;;
			esac
			sleep "0.0$((RANDOM % 10))"
		done
		if [ $((RANDOM % 2)) -eq 0 ]; then
			pkill -KILL -P "$FLOOD" || true
			ends "$FLOOD" "the flood of round $round, killed," || true
			resources_are_zero rxe_mrx0 || fail "objects are left after round $round"
		else
			unlink_dev rxe_mrx0
			ends "$FLOOD" "the flood of round $round, whose link is deleted," || true
			vanishes rxe_mrx0
			link mrx rxe_mrx0 dummy0
		fi
	done
	pingpong rxe_mrx0
}

run_suite "$@"
