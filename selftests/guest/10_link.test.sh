#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Devices and the interfaces that they are on.

. "$(dirname "$0")/lib.sh"

V4=0000:0000:0000:0000:0000:ffff # the first 96 bits of a mapped IPv4 address

has_gid() { [[ $'\n'$(gids "$1")$'\n' == *$'\n'"$2"$'\n'* ]]; }
lacks_gid() { ! has_gid "$@"; }

# comes_up DEVICE INTERFACE: it is a working device that knows its interface.
comes_up() {
	exists "$1" || fail "there is no $1"
	eventually "$PATIENCE" port_is "$1" ACTIVE || fail "the port of $1 is $(port_state "$1")"
	[[ $(rdma link show "$1/1") == *"state ACTIVE physical_state LINK_UP netdev $2"* ]] ||
		fail "$(rdma link show "$1/1")"
	pingpong "$1"
}

test_the_module_names_the_alias_of_its_link_type() {
	modinfo -F alias "$MRX_KO" | grep -qx rdma-link-mrx
}

test_the_kernel_asks_for_the_module_when_a_link_is_added() {
	unload ib_mrx
	modprobe ib_uverbs
	# what depmod would make of the alias if the module were installed
	echo "install $(modinfo -F alias "$MRX_KO") insmod $MRX_KO" >/etc/modprobe.d/mrx-guest.conf
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	rm /etc/modprobe.d/mrx-guest.conf
	comes_up rxe_mrx0 dummy0
}

test_a_device_made_before_ib_uverbs_is_loaded_can_be_opened() {
	# whatever comes of it, the next test starts afresh
	UNLOAD_AFTER=ib_mrx
	unload ib_mrx
	unload rdma_ucm
	unload ib_uverbs
	is_loaded ib_core || modprobe ib_core
	# as modprobe would: first what the module depends on
	modinfo -F depends "$MRX_KO" | tr , '\n' | while read -r module; do modprobe "$module"; done
	insmod "$MRX_KO"
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	modprobe -a ib_uverbs rdma_ucm
	comes_up rxe_mrx0 dummy0
}

test_a_link_works_on_the_loopback_interface() {
	load_mrx
	link mrx rxe_mrx0 lo
	comes_up rxe_mrx0 lo
	has_gid rxe_mrx0 "$V4:7f00:0001"
	has_gid rxe_mrx0 0000:0000:0000:0000:0000:0000:0000:0001
}

test_a_link_works_on_a_dummy_interface() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	comes_up rxe_mrx0 dummy0
}

test_links_work_on_both_ends_of_a_veth_pair() {
	load_mrx
	veth veth0 veth1 192.0.2.1/24 192.0.2.2/24
	link mrx rxe_mrx0 veth0
	link mrx rxe_mrx1 veth1
	comes_up rxe_mrx0 veth0
	comes_up rxe_mrx1 veth1
	talk ibv_rc_pingpong -d rxe_mrx0 -g "$(gid_index rxe_mrx0)" -c -- \
		ibv_rc_pingpong -d rxe_mrx1 -g "$(gid_index rxe_mrx1)" -c
}

test_a_vlan_is_refused() {
	load_mrx
	dummy dummy0
	modprobe 8021q
	ip link add link dummy0 name dummy0.5 type vlan id 5
	refused "Operation not permitted" rdma link add rxe_mrx0 type mrx netdev dummy0.5
	equal "" "$(devices)" devices
}

test_a_second_link_on_an_interface_is_refused() {
	load_mrx
	dummy dummy0
	link mrx rxe_mrx0 dummy0
	refused "File exists" rdma link add rxe_mrx1 type mrx netdev dummy0
	equal rxe_mrx0 "$(devices)" devices
}

test_a_name_that_is_taken_is_refused() {
	load_mrx
	dummy dummy0
	dummy dummy1
	link mrx rxe_mrx0 dummy0
	refused "" rdma link add rxe_mrx0 type mrx netdev dummy1
	# and nothing stays behind that would be in the way
	link mrx rxe_mrx1 dummy1
}

test_an_interface_that_does_not_exist_is_refused() {
	load_mrx
	refused "" rdma link add rxe_mrx0 type mrx netdev nosuch0
	equal "" "$(devices)" devices
}

test_a_user_without_privileges_adds_and_deletes_no_link() {
	local nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all)
	load_mrx
	dummy dummy0
	dummy dummy1
	link mrx rxe_mrx0 dummy0
	refused "Operation not permitted" "${nobody[@]}" rdma link add rxe_mrx1 type mrx netdev dummy1
	refused "Operation not permitted" "${nobody[@]}" rdma link delete rxe_mrx0
	equal rxe_mrx0 "$(devices)" devices
}

test_a_name_without_the_prefix_is_accepted_with_one_line_in_the_log() {
	local count
	load_mrx
	dummy dummy0
	mark_log
	link mrx mrx0 dummy0
	exists mrx0
	count=$(log_since_mark | grep -c 'mrx0:.*libibverbs' || true)
	equal 1 "$count" "lines about the name"
	unlink_dev mrx0
	mark_log
	link mrx rxe_mrx0 dummy0
	count=$(log_since_mark | grep -c libibverbs || true)
	equal 0 "$count" "lines about a good name"
}

test_a_deleted_link_is_gone_and_can_be_added_again() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	unlink_dev rxe_mrx0
	is_gone rxe_mrx0
	refused "" rdma link delete rxe_mrx0
	link mrx rxe_mrx0 dummy0
	comes_up rxe_mrx0 dummy0
}

test_the_port_follows_the_interface() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	ip link set dummy0 down
	eventually "$PATIENCE" port_is rxe_mrx0 DOWN || fail "the port is $(port_state rxe_mrx0) and the interface down"
	ip link set dummy0 up
	comes_up rxe_mrx0 dummy0
}

test_the_port_follows_the_carrier() {
	load_mrx
	veth veth0 veth1 192.0.2.1/24 192.0.2.2/24
	link mrx rxe_mrx0 veth0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	ip link set veth1 down
	eventually "$PATIENCE" port_is rxe_mrx0 DOWN || fail "the port is $(port_state rxe_mrx0) without a carrier"
	ip link set veth1 up
	comes_up rxe_mrx0 veth0
}

test_a_link_on_an_interface_that_is_down_comes_up_with_it() {
	load_mrx
	ip link add dummy0 type dummy
	link mrx rxe_mrx0 dummy0
	equal DOWN "$(port_state rxe_mrx0)" "the port"
	ip address add 192.0.2.1/24 dev dummy0
	ip link set dummy0 up
	eventually "$PATIENCE" has_gid rxe_mrx0 "$V4:c000:0201" || fail "$(gids rxe_mrx0)"
	comes_up rxe_mrx0 dummy0
}

test_a_program_hears_of_the_port_going_and_coming() {
	load_mrx
	dummy dummy0
	link mrx rxe_mrx0 dummy0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	stdbuf -oL ibv_asyncwatch -d rxe_mrx0 >"$WORK/events" 2>&1 &
	eventually "$PATIENCE" grep -q 'async event FD' "$WORK/events" || fail "$(cat "$WORK/events")"
	ip link set dummy0 down
	eventually "$PATIENCE" grep -q PORT_ERR "$WORK/events" || fail "no event when the port went: $(cat "$WORK/events")"
	ip link set dummy0 up
	eventually "$PATIENCE" grep -q PORT_ACTIVE "$WORK/events" || fail "no event when the port came: $(cat "$WORK/events")"
}

test_the_gids_follow_the_addresses() {
	load_mrx
	dummy dummy0
	link mrx rxe_mrx0 dummy0
	ip address add 192.0.2.1/24 dev dummy0
	eventually "$PATIENCE" has_gid rxe_mrx0 "$V4:c000:0201" || fail "not added: $(gids rxe_mrx0)"
	ip address add 2001:db8::7/64 dev dummy0 nodad
	eventually "$PATIENCE" has_gid rxe_mrx0 2001:0db8:0000:0000:0000:0000:0000:0007 || fail "not added: $(gids rxe_mrx0)"
	ibv_devinfo -v -d rxe_mrx0 | grep -q '::ffff:192.0.2.1, RoCE v2'
	pingpong rxe_mrx0
	ip address delete 192.0.2.1/24 dev dummy0
	eventually "$PATIENCE" lacks_gid rxe_mrx0 "$V4:c000:0201" || fail "not deleted: $(gids rxe_mrx0)"
	ip address delete 2001:db8::7/64 dev dummy0
	eventually "$PATIENCE" lacks_gid rxe_mrx0 2001:0db8:0000:0000:0000:0000:0000:0007 || fail "not deleted: $(gids rxe_mrx0)"
}

test_the_active_mtu_follows_the_interface() {
	local interface port
	active_mtu() { ibv_devinfo -d rxe_mrx0 | sed -n 's/.*active_mtu:[[:space:]]*\([0-9]*\).*/\1/p'; }
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	while read -r interface port; do
		ip link set dummy0 mtu "$interface"
		equal "$port" "$(active_mtu)" "the active MTU on an interface with $interface"
		pingpong rxe_mrx0 -s 10000
	done <<-MTUS
		1500 1024
		9000 4096
		4200 4096
		2200 2048
		600 512
		1500 1024
	MTUS
}

test_a_device_stays_when_its_interface_is_renamed() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	ip link set dummy0 name dummy7
	comes_up rxe_mrx0 dummy7
}

test_a_device_can_be_renamed() {
	load_mrx
	dummy dummy0 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	rdma dev set rxe_mrx0 name rxe_other
	HELD[rxe_other]=$(rdma resource show rxe_other)
	comes_up rxe_other dummy0
	unlink_dev rxe_other
}

test_a_device_goes_with_its_interface() {
	load_mrx
	dummy dummy0
	dummy dummy1 192.0.2.1/24
	link mrx rxe_mrx0 dummy0
	link mrx rxe_mrx1 dummy1
	ip link delete dummy0
	vanishes rxe_mrx0
	comes_up rxe_mrx1 dummy1
}

test_devices_go_with_the_module() {
	load_mrx
	dummy dummy0
	link mrx rxe_mrx0 dummy0
	link mrx rxe_mrx1 lo
	rmmod ib_mrx
	equal "" "$(devices)" devices
	ip link delete dummy0
	load_mrx
	equal "" "$(devices)" devices
}

run_suite "$@"
