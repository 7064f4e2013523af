#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The device beside rdma_rxe, in every order of loading, linking and removing, on
# one interface, and in network namespaces. Both modules use one provider
# library, one driver id and one prefix of names.

. "$(dirname "$0")/lib.sh"

afresh() {
	unload ib_mrx
	unload rdma_rxe
	dummy dummy0 192.0.2.1/24
	modprobe -a ib_uverbs rdma_ucm
}

load() { "load_$1"; }

# the device and the module of each type
declare -A DEVICE=([mrx]=rxe_mrx0 [rxe]=rxe_rxe0) KO=([mrx]=ib_mrx [rxe]=rdma_rxe)

# unload_linked TYPE: with its link. With lockdep in the kernel, a socket of rdma_rxe
# holds that module for as long as it has one (rxe_net.c, sk_owner_set); only there
# the link goes first.
unload_linked() {
	[ "$1" != rxe ] || [ ! -e /proc/lockdep_stats ] || ! exists rxe_rxe0 || unlink_dev rxe_rxe0
	unload_soon "${KO[$1]}"
}

# only TYPE...: just these are there, and each works.
only() {
	local type want=''
	for type; do
		want+="${DEVICE[$type]}"$'\n'
	done
	equal "$(printf %s "$want" | sort)" "$(devices | sort)" devices
	for type; do
		pingpong "${DEVICE[$type]}" -n 20
	done
}

# in_order STEP... -- REMOVAL...: "load TYPE" or "link TYPE", then both devices
# work. After that "unload TYPE" or "delete TYPE", once each, and the other works.
in_order() {
	local step type last removal present steps=()
	while [ "$1" != -- ]; do
		steps+=("$1")
		shift
	done
	shift
	for removal; do
		afresh
		present=()
		for step in "${steps[@]}"; do
			type=${step#* }
			if [ "${step% *}" = load ]; then
				load "$type"
			else
				link "$type" "${DEVICE[$type]}" dummy0
				present+=("$type")
			fi
			[ "${step% *}" = load ] || only "${present[@]}"
		done
		type=${removal#* }
		case $type in
		mrx) last=rxe ;;
		*) last=mrx ;;
		esac
		case $removal in
		unload*) unload_linked "$type" ;;
		*) unlink_dev "${DEVICE[$type]}" ;;
		esac
		only "$last"
		# and back again
		load "$type"
		link "$type" "${DEVICE[$type]}" dummy0
		pingpong "${DEVICE[$type]}" -n 20
		unload_linked "$last"
		only "$type"
		unload_linked "$type"
		ip link delete dummy0
	done
}

test_mrx_loaded_and_linked_then_rxe_loaded_and_linked() {
	in_order "load mrx" "link mrx" "load rxe" "link rxe" -- "unload rxe" "delete mrx"
}

test_rxe_loaded_and_linked_then_mrx_loaded_and_linked() {
	in_order "load rxe" "link rxe" "load mrx" "link mrx" -- "unload rxe" "unload mrx"
}

test_mrx_loaded_then_rxe_loaded_then_mrx_linked_then_rxe_linked() {
	in_order "load mrx" "load rxe" "link mrx" "link rxe" -- "unload rxe" "unload mrx"
}

test_mrx_loaded_then_rxe_loaded_then_rxe_linked_then_mrx_linked() {
	in_order "load mrx" "load rxe" "link rxe" "link mrx" -- "unload rxe" "delete rxe"
}

test_rxe_loaded_then_mrx_loaded_then_mrx_linked_then_rxe_linked() {
	in_order "load rxe" "load mrx" "link mrx" "link rxe" -- "unload rxe" "delete mrx"
}

test_rxe_loaded_then_mrx_loaded_then_rxe_linked_then_mrx_linked() {
	in_order "load rxe" "load mrx" "link rxe" "link mrx" -- "unload rxe" "unload mrx"
}

test_both_devices_carry_traffic_at_a_time() {
	local type pids=() pid
	afresh
	for type in mrx rxe; do
		load "$type"
		link "$type" "${DEVICE[$type]}" dummy0
	done
	for type in mrx rxe; do
		PORT=$((PORT + 1))
		serve ib_write_bw -F -d "${DEVICE[$type]}" -n 300 -s 65536 -p "$PORT"
		ib_write_bw -F -d "${DEVICE[$type]}" -n 300 -s 65536 -p "$PORT" localhost >"$WORK/client-$type" 2>&1 &
		pids+=("$!" "$SERVER")
	done
	for pid in "${pids[@]}"; do
		ends "$pid" "a program" || fail "a program failed: $(tail -n 5 "$WORK"/client-*)"
	done
}

test_unloading_rdma_rxe_disturbs_no_traffic_of_mrx() {
	local client i long=$((8 * MRX_PATIENCE))
	afresh
	load rxe
	load mrx
	link mrx rxe_mrx0 dummy0
	link rxe rxe_rxe0 dummy0
	PORT=$((PORT + 1))
	serve ib_write_bw -F -d rxe_mrx0 -D "$long" -f 1 -s 4096 -p "$PORT"
	ib_write_bw -F -d rxe_mrx0 -D "$long" -f 1 -s 4096 -p "$PORT" localhost >"$WORK/client" 2>&1 &
	client=$!
	for i in 1 2 3; do
		unload_linked rxe
		load rxe
		link rxe rxe_rxe0 dummy0
	done
	! gone "$client" || fail "the traffic ended early (round $i): $(tail -n 5 "$WORK/client")"
	ends "$client" "the client" || fail "the client failed: $(tail -n 5 "$WORK/client")"
	ends "$SERVER" "the server" || fail "the server failed: $(tail -n 5 "$WORK/server")"
}

# A device bears the driver id of rdma_rxe for the moment in which ib_uverbs
# takes it up; unloading rdma_rxe then must not take it along.
test_links_survive_rdma_rxe_coming_and_going_meanwhile() {
	local reloader i
	afresh
	load mrx
	(while modprobe rdma_rxe && rmmod rdma_rxe; do :; done) >"$WORK/reload" 2>&1 &
	reloader=$!
	for i in {1..25}; do
		rdma link add rxe_mrx0 type mrx netdev dummy0 || fail "round $i: the link is refused"
		nap 0.02
		exists rxe_mrx0 || fail "round $i: the device was taken along"
		rdma link delete rxe_mrx0 || fail "round $i: the link cannot be deleted"
	done
	! gone "$reloader" || fail "rdma_rxe does not load: $(cat "$WORK/reload")"
	kill "$reloader"
	wait "$reloader" || true
	unload_soon rdma_rxe
	link mrx rxe_mrx0 dummy0
	only mrx
}

# ---- network namespaces

# in_other COMMAND...: in the namespace "other"
in_other() { ip netns exec other "$@"; }

# pingpong_in_other DEVICE
pingpong_in_other() {
	local index
	index=$(in_other bash -c "grep -l :0000:ffff: /sys/class/infiniband/$1/ports/1/gids/{0..15}" 2>/dev/null |
		sed 's/.*\///') || true
	talk ip netns exec other ibv_rc_pingpong -d "$1" -g "${index:-0}" -n 20 -c
}

exclusive() {
	rdma system set netns exclusive || fail "the RDMA system does not become exclusive"
	ip netns add other
	in_other ip link set lo up
	# the first one under a name, which is what "rdma dev set" takes
	ip netns attach home $$
}

# moves_and_works TYPE: a device moves to a namespace, works there, and comes
# back, while the other module comes and goes.
moves_and_works() {
	local device=${DEVICE[$1]}
	afresh
	load "$1"
	exclusive
	link "$1" "$device" dummy0
	rdma dev set "$device" netns other || fail "$device does not move"
	! is_here "$device" || fail "$device is still here"
	[[ $(in_other rdma dev show) == *"$device"* ]] || fail "$device is not there"
	! ibv_devices | grep -q "$device" || fail "ibv_devices still shows it here"
	in_other ibv_devices | grep -q "$device" || fail "ibv_devices does not show it there"
	pingpong_in_other "$device"
	if [ "$1" = mrx ]; then
		load rxe
		link rxe rxe_rxe0 dummy0
		pingpong rxe_rxe0
		pingpong_in_other "$device"
		unload_linked rxe
		pingpong_in_other "$device"
	fi
	in_other rdma dev set "$device" netns home || fail "$device does not move back"
	pingpong "$device"
	if [ "$1" = mrx ]; then
		load rxe
		link rxe rxe_rxe0 dummy0
		unload_linked rxe
		pingpong "$device"
	fi
}

is_here() { [[ $(rdma dev show) == *"$1"* ]]; }

# comes_back TYPE: a device returns when its namespace ends.
comes_back() {
	local device=${DEVICE[$1]}
	afresh
	load "$1"
	exclusive
	link "$1" "$device" dummy0
	rdma dev set "$device" netns other || fail "$device does not move"
	ip netns delete other
	eventually "$PATIENCE" is_here "$device" || fail "$device does not come back"
	pingpong "$device"
}

# born_inside TYPE: a link on an interface of a namespace, in the shared mode.
born_inside() {
	local device=${DEVICE[$1]}
	afresh
	load "$1"
	ip netns add other
	in_other ip link set lo up
	in_other ip link add dummy1 type dummy
	in_other ip address add 198.51.100.1/24 dev dummy1
	in_other ip link set dummy1 up
	in_other rdma link add "$device" type "$1" netdev dummy1 || fail "no link on an interface of a namespace"
	nap 0.5
	pingpong_in_other "$device"
	in_other ip link delete dummy1
	vanishes "$device"
}

# goes_with_namespace TYPE: so does the device of an interface that ends with it.
goes_with_namespace() {
	local device=${DEVICE[$1]}
	afresh
	load "$1"
	ip netns add other
	in_other ip link add dummy1 type dummy
	in_other rdma link add "$device" type "$1" netdev dummy1 || fail "no link on an interface of a namespace"
	ip netns delete other
	vanishes "$device"
}

# as_rxe FUNCTION: what rdma_rxe cannot do in this kernel is not asked of mrx.
as_rxe() {
	if ("$1" mrx) >"$WORK/mrx" 2>&1; then
		return
	fi
	_tear_down_links
	if ("$1" rxe) >"$WORK/rxe" 2>&1; then
		cat "$WORK/mrx"
		fail "rdma_rxe can do that"
	fi
	cat "$WORK/mrx"
	skip "rdma_rxe cannot do that either: $(tail -n 1 "$WORK/rxe")"
}

_tear_down_links() {
	local device
	for device in $(in_other ls /sys/class/infiniband 2>/dev/null); do
		in_other rdma link delete "$device" || true
	done
	ip netns delete other 2>/dev/null || true
	ip netns delete home 2>/dev/null || true
	eventually "$PATIENCE" _mode_is_shared || true
	for device in $(devices); do
		rdma link delete "$device" || true
	done
	ip link delete dummy0 2>/dev/null || true
}

test_a_device_moves_to_a_namespace_and_back() {
	as_rxe moves_and_works
}

test_a_device_returns_when_its_namespace_ends() {
	as_rxe comes_back
}

test_a_link_is_added_in_a_namespace() {
	as_rxe born_inside
}

test_a_device_goes_with_the_namespace_of_its_interface() {
	as_rxe goes_with_namespace
}

run_suite "$@"
