#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The part of scripts/check-debug.sh that runs in the guest, with the debug
# kernel. Prints KTAP and fails if a test failed. Usage:
#
#   scripts/debug-guest.sh verbs [ARGUMENT...]   mrx-selftest, arguments are its
#   scripts/debug-guest.sh guest [GLOB]          the suites of selftests/guest
#   scripts/debug-guest.sh suite SUITE [GLOB]    one of them
#   scripts/debug-guest.sh faults WHERE NTH[,NTH...] [ARGUMENT...]
#         mrx-selftest while every NTH allocation fails, once for each NTH: of
#         those made below a function of ib_mrx if WHERE is "module", of those
#         made by mrx-selftest and its tests if it is "tests", of all of them if
#         it is "all". Tests may fail then; the device may not. A small NTH lets
#         nearly every test fail at its beginning, a large one few tests, late.
#   scripts/debug-guest.sh sweep [ARGUMENT...]
#         mrx-selftest while in each call to the device the first allocation
#         fails, then the second, and so on until none fails, and the same with
#         the tests of peer memory and of paging. All tests of mrx-selftest have
#         to pass: a call that failed changes nothing.
#   scripts/debug-guest.sh start
#         the same with the module when it is loaded and with the link when it is
#         added
#   scripts/debug-guest.sh hunt verbs [ARGUMENT...]
#   scripts/debug-guest.sh hunt clients
#         mrx-selftest and what suites of selftests/guest have besides, or the tests
#         of peer memory and of paging, while each allocation site of the module is refused when
#         it is first reached, wherever that is. Each is done again until nothing is
#         refused any more, and then has to pass.
#   scripts/debug-guest.sh soak MINUTES
#         the heavy tests in turns
#
# At the end of each, memory that nothing points to any more is a failure, looked
# for before and after the module is unloaded. Those that let allocations fail
# leave in build/debug/NAME.sites what selftests/sites saw.
#
#   MRX_KO            the module; default /mrx/build/module-debug/ib_mrx.ko
#   MRX_TEST_MODULES  the modules of the tests; default /mrx/build/selftests-debug
#   MRX_SKIPS         what of the suites is skipped; default selftests/guest/debug.skips
#   MRX_PATIENCE      what limits on time are multiplied with; default 10
#   MRX_VERBOSE       what the kernel says when an allocation is made to fail: 0
#                     is nothing, which is the default, and 2 is the stack

set -euo pipefail

export MRX_KO=${MRX_KO:-/mrx/build/module-debug/ib_mrx.ko}
export MRX_TEST_MODULES=${MRX_TEST_MODULES:-/mrx/build/selftests-debug}
PATIENCE=${MRX_PATIENCE:-10}
DEVICE=rxe_mrx0
SELFTEST=/mrx/build/cargo/release/mrx-selftest
DEBUG=/sys/kernel/debug
LOGS=/mrx/build/debug
mkdir -p $LOGS
number=0 failed=0

verdict() { # STATUS NAME
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number $2"
	else
		echo "not ok $number $2"
		failed=1
	fi
}

# mark TEXT: a line in the kernel's log, where scripts/check-debug.sh looks.
mark() { echo "debug-guest: $*" >/dev/kmsg; }

# has_kmemleak: it may be turned off on the kernel's command line.
has_kmemleak() { echo scan=off 2>/dev/null >$DEBUG/kmemleak; }

# leaks WHEN: the kernel's own memory has to be found from somewhere.
leaks() {
	local status=0
	has_kmemleak || {
		number=$((number + 1))
		echo "ok $number no memory is leaked $1 # SKIP kmemleak is off"
		return
	}
	/mrx/scripts/kmemleak.sh >/tmp/leaks || status=$?
	sed 's/^/# /' /tmp/leaks
	verdict "$status" "no memory is leaked $1"
}

begin() {
	modprobe -a ib_uverbs rdma_ucm
	# what the kernel did until now is not ours
	! has_kmemleak || echo clear >$DEBUG/kmemleak
}

load() {
	insmod "$MRX_KO"
	# for who has to make sense of an address after the module is gone
	[ ! -e /sys/module/ib_mrx/sections/.text ] ||
		echo "# ib_mrx is at $(cat /sys/module/ib_mrx/sections/.text)"
}

up() {
	load
	rdma link add $DEVICE type mrx netdev lo
	RESOURCES=$(rdma resource show $DEVICE)
}

resources_are_back() {
	local i
	for ((i = 0; i < 50; i++)); do
		[ "$(rdma resource show $DEVICE)" != "$RESOURCES" ] || return 0
		sleep 0.2
	done
	rdma resource show $DEVICE | sed 's/^/# /'
	return 1
}

unload() {
	local i
	for ((i = 0; i < 50; i++)); do
		rmmod ib_mrx 2>/dev/null && return
		sleep 0.2
	done
	rmmod ib_mrx
}

down() {
	local status=0
	resources_are_back || status=$?
	verdict "$status" "the objects of all tests are gone"
	status=0
	rdma link delete $DEVICE || status=$?
	verdict "$status" "the link is deleted"
	leaks "while the module is loaded"
	status=0
	unload || status=$?
	verdict "$status" "the module is unloaded"
	leaks "by the module when it is gone"
}

verbs() {
	local status=0
	begin
	up
	mark "begin verbs"
	"$SELFTEST" --device $DEVICE --patience "$PATIENCE" "$@" | sed -u 's/^/  /' || status=$?
	mark "end verbs"
	verdict "$status" "mrx-selftest"
	down
}

guest() {
	local status=0 arguments=()
	[ $# -eq 0 ] || arguments=(--filter "$1")
	begin
	MRX_SKIPS=${MRX_SKIPS:-/mrx/selftests/guest/debug.skips} MRX_PATIENCE=$PATIENCE MRX_PEER_ROUNDS=${MRX_PEER_ROUNDS:-200} \
		/mrx/selftests/guest/run "${arguments[@]}" |
		sed -u 's/^/  /' || status=$?
	verdict "$status" "selftests/guest"
	leaks "by the suites"
}

suite() { # SUITE [GLOB]
	local status=0
	begin
	MRX_PATIENCE=$PATIENCE bash "/mrx/selftests/guest/$1.test.sh" --filter "$1 ${2:-*}" |
		sed -u 's/^/  /' || status=$?
	verdict "$status" "selftests/guest/$1"
	leaks "by the suite"
}

. "$(dirname "$0")/debug-faults.sh"

# ---- for a long time

SOAK_GROWTH=16384 # KiB of the kernel's memory, after the first round
declare -A RUNS=() FAILURES=() TOOK=()

# step NAME COMMAND...: counts a piece of work, and shows its output if it fails.
step() {
	local name=$1 status=0 started=$SECONDS
	shift
	"$@" >/tmp/step 2>&1 || status=$?
	RUNS[$name]=$((${RUNS[$name]:-0} + 1))
	TOOK[$name]=$((${TOOK[$name]:-0} + SECONDS - started))
	[ "$status" -eq 0 ] || {
		FAILURES[$name]=$((${FAILURES[$name]:-0} + 1))
		sed 's/^/# /' /tmp/step
	}
	verdict "$status" "round $round: $name"
}

# on_device COMMAND...: with the module loaded and a device, which has to be empty
# again afterwards.
on_device() {
	local status=0
	up
	"$@" || status=$?
	resources_are_back || status=1
	rdma link delete $DEVICE || status=1
	unload || status=1
	return "$status"
}

peer() { # CLIENT
	local status=0
	insmod "$MRX_TEST_MODULES/peer/mrx_peer_$1.ko"
	MRX_PEER_ROUNDS=100 /mrx/build/selftests/peer_test "$1" stress revoke || status=$?
	rmmod "mrx_peer_$1" || status=1
	return "$status"
}

paging() {
	local status=0
	insmod "${MRX_KO%/*}/selftests/odp/exporter/mrx_test_exporter.ko"
	/mrx/build/selftests/odp stress change || status=$?
	rmmod mrx_test_exporter || status=1
	return "$status"
}

teardown() { bash /mrx/selftests/guest/40_teardown.test.sh --filter "40_teardown $1"; }

group() { "$SELFTEST" --device $DEVICE --patience "$PATIENCE" --filter "$1:"; }

hostile() {
	/mrx/build/cargo/release/mrx-hostile --device $DEVICE --seconds "$1" --patience "$PATIENCE" \
		--seed "$((RANDOM * 32768 + RANDOM))"
}

log_is_clean() {
	dmesg | sed "1,/debug-guest: soak $1\$/d" >/tmp/dmesg
	[ ! -s /tmp/dmesg ] || MRX_BUILD=/tmp /mrx/scripts/kernel-log.sh /tmp/dmesg
}

# memory: what the kernel holds for itself, in KiB, less what a scan would free.
memory() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^(SUnreclaim|KernelStack|PageTables|Percpu|VmallocUsed):/ { sum += $2 } END { print sum }' /proc/meminfo
}

free_memory() { awk '/^MemAvailable:/ { print $2 }' /proc/meminfo; }

soak() {
	local end=$((SECONDS + $1 * 60)) started=$SECONDS round=0 name work command steps=() holds first='' first_free last=0 least
	begin
	export MRX_PATIENCE=$PATIENCE
	RANDOM=${MRX_SEED:-$$}
	echo "# seed ${MRX_SEED:-$$}"
	steps=(
		"peer memory of the C client is taken back|on_device peer c"
		"pages go and come under traffic|on_device paging"
		"programs are killed|teardown programs*"
		"interfaces go down and up|teardown *down?and?up*"
		"links come and go|teardown links*"
		"peer memory of the Rust client is taken back|on_device peer rust"
		"the module goes under traffic|teardown *module?unloads*"
	)
	[ ! -x /mrx/build/cargo/release/mrx-hostile ] ||
		steps=("hostile calls|on_device hostile 60" "${steps[@]}")
	while read -r name; do
		steps+=("verbs: $name|on_device group ${name// /?}")
	done < <("$SELFTEST" --list | sed 's/:.*//' | sort -u)
	while [ "$SECONDS" -lt "$end" ]; do
		round=$((round + 1))
		for work in "${steps[@]}"; do
			[ "$SECONDS" -lt "$end" ] || break
			name=${work%%|*}
			mark "soak $round $name"
			read -ra command <<<"${work#*|}"
			step "$name" "${command[@]//\?/ }"
			step "the kernel log" log_is_clean "$round $name"
		done
		! has_kmemleak || step "leaks" /mrx/scripts/kmemleak.sh
		holds=$(memory)
		echo "# round $round ends after $((SECONDS - started)) s: the kernel holds $holds KiB, $(free_memory) KiB are free"
		[ -n "$first" ] || first=$holds first_free=$(free_memory) least=$holds
		last=$holds
		[ "$holds" -ge "$least" ] || least=$holds
	done
	verdict "$((last - first > SOAK_GROWTH))" "the kernel holds no more and more"
	{
		echo "After $((SECONDS - started)) s and $round rounds (the last may be a part):"
		for name in "${!RUNS[@]}"; do
			printf '%-48s %4d times %4d failed %6d s\n' "$name" "${RUNS[$name]}" "${FAILURES[$name]:-0}" "${TOOK[$name]}"
		done | sort
		echo "The kernel held $first KiB after the first round and $last KiB at the end ($((last - first)) more, least $least);"
		echo "$first_free KiB were free then and $(free_memory) KiB at the end."
	} | tee $LOGS/soak.report | sed 's/^/# /'
}

case ${1:-} in
verbs | guest | suite | faults | sweep | start | hunt | soak) "$@" ;;
*)
	sed -n '/^#   scripts/s/^# *//p' "$0" >&2
	exit 2
	;;
esac
echo "1..$number"
exit "$failed"
