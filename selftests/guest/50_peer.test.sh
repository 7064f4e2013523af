#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# shellcheck disable=SC2034 # UNLOAD_AFTER is read by lib.sh
#
# Peer memory, with the reference clients of selftests/peer. Tests of device
# memory need a guest with it (scripts/vm.sh --ivshmem 16).
#
#   MRX_PEER_ROUNDS  how often memory is taken back under load; default 2000

LIMIT=600
. "$(dirname "$0")/lib.sh"

export MRX_PEER_ROUNDS=${MRX_PEER_ROUNDS:-2000}

# set_up CLIENT: a device, and a reference client.
set_up() {
	[ -e "$MRX_TEST_MODULES/peer/mrx_peer_$1.ko" ] || fail "build the modules of the tests first (scripts/selftest-modules.sh)"
	load_mrx
	dummy mrx0 10.9.0.1/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	insmod "$MRX_TEST_MODULES/peer/mrx_peer_$1.ko"
	UNLOAD_AFTER=mrx_peer_$1
}

# groups CLIENT GROUP...: groups of tests of the program.
groups() {
	set_up "$1"
	"$MRX_TOP/build/selftests/peer_test" "$@" || fail "a test of $* failed"
}

test_what_is_no_client_is_refused() {
	groups c refusal
}

test_a_Rust_client_with_a_bad_name_is_refused() {
	groups rust names
}

test_a_context_bears_data_of_its_client() {
	groups c private
}

test_bytes_of_the_C_client_move() {
	groups c data
}

test_the_C_client_is_called_by_the_protocol() {
	groups c protocol
}

test_the_C_client_takes_memory_back() {
	groups c revoke
}

test_the_C_client_takes_memory_back_under_load() {
	groups c stress
}

test_bytes_of_the_Rust_client_move() {
	groups rust data
}

test_the_Rust_client_is_called_by_the_protocol() {
	groups rust protocol
}

test_the_Rust_client_takes_memory_back() {
	groups rust revoke
}

test_the_Rust_client_takes_memory_back_under_load() {
	groups rust stress
}

test_regions_change_between_host_memory_and_that_of_the_C_client() {
	groups c change
}

test_regions_change_between_host_memory_and_that_of_the_Rust_client() {
	groups rust change
}

test_the_C_client_waits_for_its_regions_when_it_is_unloaded() {
	groups c outliving
}

test_the_Rust_client_waits_for_its_regions_when_it_is_unloaded() {
	groups rust outliving
}

test_a_link_goes_with_regions_of_a_client_on_it() {
	groups c removal
	vanishes rxe_mrx0
}

test_a_client_with_structures_of_its_own_finds_the_registry() {
	load_mrx
	insmod "$MRX_TEST_MODULES/peer/mrx_peer_abi.ko"
	UNLOAD_AFTER=mrx_peer_abi
	equal 1.0 "$(cat /sys/kernel/mm/memory_peers/mrx_peer_abi/version)" "its version"
	refused "in use" rmmod ib_mrx
	rmmod mrx_peer_abi
	UNLOAD_AFTER=''
	[ ! -e /sys/kernel/mm/memory_peers/mrx_peer_abi ] || fail "its folder stays"
}

test_a_client_of_another_licence_needs_the_plain_flavour() {
	load_mrx
	refused "Unknown symbol" insmod "$MRX_TEST_MODULES/plain/mrx_peer_plain.ko"
	unload_soon ib_mrx
	insmod "$MRX_TEST_MODULES/module-plain/ib_mrx.ko"
	UNLOAD_AFTER=ib_mrx
	insmod "$MRX_TEST_MODULES/plain/mrx_peer_plain.ko"
	[ -e /sys/kernel/mm/memory_peers/mrx_peer_plain ] || fail "it is not registered"
	rmmod mrx_peer_plain
}

run_suite "$@"
