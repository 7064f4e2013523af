#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The part of scripts/check-debug.sh that runs in the guest, with the debug
# kernel. Prints KTAP and fails if a test failed. Usage:
#
#   scripts/debug-guest.sh verbs [ARGUMENT...]   mrx-selftest, arguments are its
#   scripts/debug-guest.sh guest [GLOB]          the suites of selftests/guest
#   scripts/debug-guest.sh faults WHERE NTH[,NTH...] [ARGUMENT...]
#         mrx-selftest while every NTH allocation fails, once for each NTH: of
#         those made below a function of ib_mrx if WHERE is "module", of those
#         made by mrx-selftest and its tests if it is "tests", of all of them if
#         it is "all". Tests may fail then; the device may not. A small NTH lets
#         nearly every test fail at its beginning, a large one few tests, late.
#
# At the end of each, memory that nothing points to any more is a failure, looked
# for before and after the module is unloaded.
#
#   MRX_KO        the module; default /mrx/build/module-debug/ib_mrx.ko
#   MRX_PATIENCE  what limits on time are multiplied with; default 10

set -euo pipefail

export MRX_KO=${MRX_KO:-/mrx/build/module-debug/ib_mrx.ko}
PATIENCE=${MRX_PATIENCE:-10}
DEVICE=rxe_mrx0
SELFTEST=/mrx/build/cargo/release/mrx-selftest
DEBUG=/sys/kernel/debug
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

# leaks WHEN: the kernel's own memory has to be found from somewhere. Why it takes
# so much: see selftests/offence/run, which does the same.
leaks() {
	local status=0
	sleep 6
	for _ in 1 2 3; do
		for _ in {1..8}; do sleep 0.5 & done
		wait
		echo scan >$DEBUG/kmemleak
	done
	cat $DEBUG/kmemleak >/tmp/leaks
	[ ! -s /tmp/leaks ] || {
		sed 's/^/# /' /tmp/leaks
		status=1
	}
	verdict "$status" "no memory is leaked $1"
}

begin() {
	modprobe -a ib_uverbs rdma_ucm
	# what the kernel did until now is not ours
	echo clear >$DEBUG/kmemleak
}

load() {
	insmod "$MRX_KO"
	# for who has to make sense of an address after the module is gone
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
	"$SELFTEST" --device $DEVICE --patience "$PATIENCE" "$@" | sed 's/^/  /' || status=$?
	mark "end verbs"
	verdict "$status" "mrx-selftest"
	down
}

guest() {
	local status=0 arguments=()
	[ $# -eq 0 ] || arguments=(--filter "$1")
	begin
	MRX_LIMIT=$((90 * PATIENCE)) MRX_PATIENCE=$PATIENCE /mrx/selftests/guest/run "${arguments[@]}" |
		sed 's/^/  /' || status=$?
	verdict "$status" "selftests/guest"
	leaks "by the suites"
}

# ---- failing allocations

INJECTORS=(failslab fail_page_alloc)
# Copies from and to user space fail only where the module makes them: nothing
# in the guest would run if they failed everywhere.
MODULE_INJECTORS=("${INJECTORS[@]}" fail_usercopy)
BUDGET=1000000000 # what "times" counts down from at each failure

# set_up NAME VALUE: in the folder of an injector, some of which lack some.
set_up() { [ ! -e "$1" ] || echo "$2" >"$1"; }

arm() { # WHERE NTH
	local injector start size
	[ "$1" != module ] || INJECTORS=("${MODULE_INJECTORS[@]}")
	for injector in "${INJECTORS[@]}"; do
		cd "$DEBUG/$injector"
		set_up ignore-gfp-wait N
		set_up ignore-gfp-highmem N
		set_up min-order 0
		set_up cache-filter N
		set_up task-filter N
		set_up space 0
		# with the stack, which names the site, and each of them
		set_up verbose 2
		set_up verbose_ratelimit_interval_ms 0
		case $1 in
		module)
			start=$(cat /sys/module/ib_mrx/sections/.text)
			size=$(readelf -SW "$MRX_KO" | sed -nE 's/^.* \.text +PROGBITS +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) .*/\1/p')
			set_up stacktrace-depth 32
			set_up require-start "$start"
			set_up require-end "$(printf '0x%x' $((start + 0x$size)))"
			;;
		tests) set_up task-filter Y ;;
		esac
		set_up interval "$2"
		set_up times "$BUDGET"
		set_up probability 100
		cd - >/dev/null
	done
}

disarm() {
	local injector
	for injector in "${INJECTORS[@]}"; do
		# opening the file needs memory, too
		until echo 0 >"$DEBUG/$injector/probability"; do :; done 2>/dev/null
	done
	for injector in "${INJECTORS[@]}"; do
		echo "# $injector: $((BUDGET - $(cat "$DEBUG/$injector/times"))) failures"
	done
}

# selftest ARGUMENT...: a program that fails while it is loaded is started again.
# Its processes are those that the failures of "tests" are for.
selftest() {
	local tries
	for ((tries = 0; tries < 20; tries++)); do
		(
			echo 1 >"/proc/$BASHPID/make-it-fail"
			exec "$SELFTEST" --device $DEVICE --patience "$PATIENCE" "$@"
		) >/tmp/selftest 2>&1 || true
		! grep -q '^1\.\.' /tmp/selftest || return 0
	done
}

faults() {
	local where=$1 nth status
	local -a nths
	IFS=, read -ra nths <<<"$2"
	shift 2
	begin
	up
	for nth in "${nths[@]}"; do
		mark "begin faults $nth"
		arm "$where" "$nth"
		selftest "$@"
		disarm
		mark "end faults $nth"
		# "not ok" is no failure here
		sed -e 's/^not ok /failed: /' -e 's/^ok /passed: /' -e 's/^/# /' /tmp/selftest
		status=0
		grep -q '^# [0-9]* passed, ' /tmp/selftest || status=1
		verdict "$status" "mrx-selftest runs to its end while every ${nth}th allocation fails ($where)"
	done
	down
	up
	status=0
	"$SELFTEST" --device $DEVICE --patience "$PATIENCE" --filter transfer: >/tmp/selftest 2>&1 || status=$?
	[ "$status" -eq 0 ] || sed 's/^/# /' /tmp/selftest
	verdict "$status" "a new device works afterwards"
	rdma link delete $DEVICE
	unload
}

case ${1:-} in
verbs | guest | faults) "$@" ;;
*)
	echo "usage: $0 verbs [ARGUMENT...] | guest [GLOB] | faults WHERE NTH[,NTH...] [ARGUMENT...]" >&2
	exit 2
	;;
esac
echo "1..$number"
exit "$failed"
