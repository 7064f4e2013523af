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
#   scripts/debug-guest.sh soak MINUTES
#         the heavy tests in turns
#
# At the end of each, memory that nothing points to any more is a failure, looked
# for before and after the module is unloaded. Those that let allocations fail
# leave in build/debug/NAME.sites what selftests/sites saw.
#
#   MRX_KO            the module; default /mrx/build/module-debug/ib_mrx.ko
#   MRX_TEST_MODULES  the modules of the tests; default /mrx/build/selftests-debug
#   MRX_PATIENCE      what limits on time are multiplied with; default 10
#   MRX_VERBOSE       what the kernel says when an allocation is made to fail: 0
#                     is nothing, which is the default, and 2 is the stack

set -euo pipefail

export MRX_KO=${MRX_KO:-/mrx/build/module-debug/ib_mrx.ko}
export MRX_TEST_MODULES=${MRX_TEST_MODULES:-/mrx/build/selftests-debug}
PATIENCE=${MRX_PATIENCE:-10}
VERBOSE=${MRX_VERBOSE:-0}
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

# leaks WHEN: the kernel's own memory has to be found from somewhere.
leaks() {
	local status=0
	/mrx/scripts/kmemleak.sh >/tmp/leaks || status=$?
	sed 's/^/# /' /tmp/leaks
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
	MRX_SKIPS=/mrx/selftests/guest/debug.skips MRX_PATIENCE=$PATIENCE MRX_PEER_ROUNDS=${MRX_PEER_ROUNDS:-200} \
		/mrx/selftests/guest/run "${arguments[@]}" |
		sed 's/^/  /' || status=$?
	verdict "$status" "selftests/guest"
	leaks "by the suites"
}

suite() { # SUITE [GLOB]
	local status=0
	begin
	MRX_PATIENCE=$PATIENCE bash "/mrx/selftests/guest/$1.test.sh" --filter "$1 ${2:-*}" |
		sed 's/^/  /' || status=$?
	verdict "$status" "selftests/guest/$1"
	leaks "by the suite"
}

# ---- failing allocations

INJECTORS=(failslab fail_page_alloc)
# Copies from and to user space fail only where the module makes them: nothing
# in the guest would run if they failed everywhere.
MODULE_INJECTORS=("${INJECTORS[@]}" fail_usercopy)
BUDGET=1000000000 # what "times" counts down from at each failure
WATCH=/mrx/build/selftests-debug/sites/mrx_sites.ko
SWEEP=/mrx/build/selftests/sweep.so

# code: where the code of the loaded module begins, and its size
code() {
	echo "$(cat /sys/module/ib_mrx/sections/.text)" \
		"0x$(readelf -SW "$MRX_KO" | sed -nE 's/^.* \.text +PROGBITS +[0-9a-f]+ [0-9a-f]+ ([0-9a-f]+) .*/\1/p')"
}

# watch: from now on the allocation sites of the module are counted.
watch() {
	local start size
	read -r start size < <(code)
	[ -d /sys/module/mrx_sites ] || insmod "$WATCH"
	printf '0x%x' $((start + size)) >/sys/module/mrx_sites/parameters/end
	echo "$start" >/sys/module/mrx_sites/parameters/start
}

# seen NAME: keeps what was counted.
seen() {
	cat $DEBUG/mrx_sites >"$LOGS/$1.sites"
	echo "# $(awk '$1 ~ /slab|page/' "$LOGS/$1.sites" | wc -l) allocation sites were reached," \
		"$(awk '$1 ~ /slab|page/ && $5 > 0' "$LOGS/$1.sites" | wc -l) of them failed"
}

# set_up NAME VALUE: in the folder of an injector, some of which lack some.
set_up() { [ ! -e "$1" ] || echo "$2" >"$1"; }

# aim WHERE: whose allocations fail once something lets them fail. WHERE is
# "module", "tests", "all", or "FIRST-LAST", two addresses between which the stack
# has to have one.
aim() {
	local injector start size depth=0 end=0xffffffffffffffff tasks=N
	start=0
	case $1 in
	module)
		read -r start size < <(code)
		end=$(printf '0x%x' $((start + size)))
		depth=32
		;;
	0x*-0x*)
		start=${1%-*} end=${1#*-}
		depth=32
		;;
	tests) tasks=Y ;;
	esac
	[ "$depth" -eq 0 ] || INJECTORS=("${MODULE_INJECTORS[@]}")
	for injector in "${INJECTORS[@]}"; do
		cd "$DEBUG/$injector"
		set_up ignore-gfp-wait N
		set_up ignore-gfp-highmem N
		set_up min-order 0
		set_up cache-filter N
		set_up task-filter "$tasks"
		set_up space 0
		set_up verbose "$VERBOSE"
		set_up verbose_ratelimit_interval_ms 0
		set_up stacktrace-depth "$depth"
		set_up require-start "$start"
		set_up require-end "$end"
		set_up times "$BUDGET"
		cd - >/dev/null
	done
}

# arm WHERE NTH: every NTH of them fails.
arm() {
	local injector
	aim "$1"
	for injector in "${INJECTORS[@]}"; do
		echo "$2" >"$DEBUG/$injector/interval"
		echo 100 >"$DEBUG/$injector/probability"
	done
}

disarm() {
	local injector
	for injector in "${INJECTORS[@]}"; do
		# opening the file needs memory, too
		until echo 0 >"$DEBUG/$injector/probability"; do :; done 2>/dev/null
	done
}

# failures: how many there were since the last aim.
failures() {
	local injector sum=0
	for injector in "${INJECTORS[@]}"; do
		sum=$((sum + BUDGET - $(cat "$DEBUG/$injector/times")))
	done
	echo "$sum"
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

# quoted: a program's KTAP, of which no line is a verdict of ours.
quoted() { sed -e 's/^not ok /failed: /' -e 's/^ok /passed: /' -e 's/^/# /' "$1"; }

# works_afterwards: a new device is none the worse for what happened to the last.
works_afterwards() {
	local status=0
	up
	"$SELFTEST" --device $DEVICE --patience "$PATIENCE" --filter transfer: >/tmp/selftest 2>&1 || status=$?
	[ "$status" -eq 0 ] || quoted /tmp/selftest
	verdict "$status" "a new device works afterwards"
	rdma link delete $DEVICE
	unload
}

faults() {
	local where=$1 nth status
	local -a nths
	IFS=, read -ra nths <<<"$2"
	shift 2
	begin
	up
	watch
	for nth in "${nths[@]}"; do
		mark "begin faults $nth"
		arm "$where" "$nth"
		selftest "$@"
		disarm
		mark "end faults $nth"
		quoted /tmp/selftest
		echo "# $(failures) failures"
		status=0
		grep -q '^# [0-9]* passed, ' /tmp/selftest || status=1
		verdict "$status" "mrx-selftest runs to its end while every ${nth}th allocation fails ($where)"
	done
	seen "$where"
	down
	works_afterwards
}

# swept NAME COMMAND...: runs a program whose calls are swept.
swept() {
	local name=$1 status=0 counts
	shift
	rm -f /tmp/sweep
	env MRX_SWEEP=/tmp/sweep LD_PRELOAD=$SWEEP "$@" 2>&1 | tee "$LOGS/swept-${name// /-}" >/tmp/swept || status=$?
	mapfile -t counts < <(od -An -v -w4 -tu4 -N 1036 /tmp/sweep | tr -d ' ')
	echo "# $name: ${counts[0]} calls, in which ${counts[1]} allocations failed, and ${counts[2]} calls succeeded without"
	local error
	for error in {1..255}; do
		[ "${counts[3 + error]}" -eq 0 ] || echo "# ${counts[3 + error]} times error $error"
	done
	return "$status"
}

# ended NAME: the program came to its end, whatever it found.
ended() {
	local status=0
	quoted /tmp/swept
	grep -q '^1\.\.' /tmp/swept || status=1
	verdict "$status" "$1 runs to its end"
}

sweep() {
	local status=0 client
	begin
	up
	watch
	aim module
	mark "begin sweep"
	swept mrx-selftest "$SELFTEST" --device $DEVICE --patience "$PATIENCE" "$@" || status=$?
	sed 's/^/  /' /tmp/swept
	verdict "$status" "mrx-selftest notices nothing of allocations that fail"
	# Their counts of calls and of faults differ when calls are repeated.
	if [ $# -eq 0 ]; then
		for client in c rust; do
			insmod "$MRX_TEST_MODULES/peer/mrx_peer_$client.ko"
			swept "peer_test $client" /mrx/build/selftests/peer_test "$client" data protocol revoke || true
			ended "peer_test with the client $client"
			rmmod "mrx_peer_$client"
		done
		modprobe -q udmabuf || true
		insmod "${MRX_KO%/*}/selftests/odp/exporter/mrx_test_exporter.ko"
		swept odp timeout $((120 * PATIENCE)) /mrx/build/selftests/odp paging advise layout dmabuf || true
		ended odp
		rmmod mrx_test_exporter
	fi
	mark "end sweep"
	seen sweep
	down
	works_afterwards
}

# after NTH: the failure to try next. Most of the many are of the core's own.
after() { echo $(($1 < 40 ? $1 + 1 : $1 + $1 / 10)); }

# start: in these, the task that fails is the one that calls.
start() {
	local nth failed status text first last
	begin
	# what is called from here runs the module's own beginning
	text=$(awk '$3 == "do_init_module" { print $1; getline; print $1 }' <(sort /proc/kallsyms) | tr '\n' ' ')
	read -r first last <<<"$text"
	aim "0x$first-0x$last"
	mark "begin start"
	for ((nth = 1, status = 1; nth < 1000; nth = $(after $nth))); do
		failed=$(failures)
		if (
			echo "$nth" >"/proc/$BASHPID/fail-nth"
			exec insmod "$MRX_KO"
		) >/tmp/insmod 2>&1; then
			# the allocation that failed may be one that can be done without
			[ "$(failures)" -ne "$failed" ] || {
				status=0
				break
			}
			unload
		fi
	done
	verdict "$status" "the module is loaded once none of its first $nth allocations fails"
	watch
	aim module
	for ((nth = 1, status = 1; nth < 1000; nth = $(after $nth))); do
		failed=$(failures)
		if (
			echo "$nth" >"/proc/$BASHPID/fail-nth"
			exec rdma link add $DEVICE type mrx netdev lo
		) >/tmp/link 2>&1; then
			[ "$(failures)" -ne "$failed" ] || {
				status=0
				break
			}
			rdma link delete $DEVICE
		elif rdma link show $DEVICE/1 >/dev/null 2>&1; then
			echo "# try $nth: $(cat /tmp/link), and the link is there"
			break
		fi
	done
	verdict "$status" "the link is added once none of its first $nth allocations fails"
	RESOURCES=$(rdma resource show $DEVICE)
	mark "end start"
	seen start
	down
	works_afterwards
}

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
		step "leaks" /mrx/scripts/kmemleak.sh
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
verbs | guest | suite | faults | sweep | start | soak) "$@" ;;
*)
	sed -n '/^#   scripts/s/^# *//p' "$0" >&2
	exit 2
	;;
esac
echo "1..$number"
exit "$failed"
