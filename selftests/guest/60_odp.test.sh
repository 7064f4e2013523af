#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# On-demand paging, ADVISE_MR and dma-buf regions: the tests of selftests/odp,
# which bring a runner of their own, and those that need more than one program.
#
#   MRX_PATIENCE  factor on the time limit of the former; default 1

. "$(dirname "$0")/lib.sh"

own_session "$@"
FILTER='*'
[ "${1:-}" != --filter ] || FILTER=$2
BUILT=$MRX_TOP/build
PROGRAM=$BUILT/selftests/odp

# ---- tests

# part NAME: starts a part of the program, the process $PART, which has said
# something when this returns, and waits for end_part.
part() {
	local line said
	mkfifo "$WORK/said" "$WORK/told"
	"$PROGRAM" "$1" <"$WORK/told" >"$WORK/said" 2>&1 &
	PART=$!
	exec {TOLD}>"$WORK/told" {said}<"$WORK/said"
	rm "$WORK/said" "$WORK/told"
	read -rt "$PATIENCE" -u "$said" line || fail "the part $1 does not begin"
	exec {said}<&-
}

end_part() {
	exec {TOLD}>&-
	ends "$PART" "the part"
}

kill_part() {
	kill -KILL "$PART"
	ends "$PART" "the part" || true
}

# counters ARGUMENT...: those of the regions that `rdma statistic show mr` shows
# with these arguments, a line each.
counters() {
	rdma statistic show mr "$@" | tr '\n' ' ' |
		grep -oE 'page_faults [0-9]+ +page_prefetch [0-9]+ +page_prefetch_failed [0-9]+ +page_invalidations [0-9]+' |
		sed -E 's/[a-z_]+ //g; s/ +/ /g' | sort
}

# What a person can watch while it happens.
test_tracepoints_tell_of_pages_that_come_and_go() {
	local traces=/sys/kernel/tracing watched
	[ -e "$traces/events" ] || mount -t tracefs tracefs "$traces"
	echo >"$traces/trace"
	echo 1 >"$traces/events/mrx/enable"
	part counts
	eventually 5 _both_failures_are_counted || true
	end_part || fail "the part ended with status $?"
	echo 0 >"$traces/events/mrx/enable"
	watched=$(cat "$traces/trace")
	[[ $watched == *": mrx_page_fault: addr=0x"*" pages=2 read result=2"* ]] || fail "no fault of two pages: $watched"
	[[ $watched == *": mrx_page_prefetch: addr=0x"*" pages=7 write result=7"* ]] || fail "no prefetch of seven pages: $watched"
	[[ $watched == *": mrx_page_prefetch: addr=0x"*" pages=1 write result=-14"* ]] || fail "no prefetch that failed: $watched"
	[[ $watched == *": mrx_page_invalidate: start=0x"*" given_up=3"* ]] || fail "no three pages were given up: $watched"
}

# memories: of what the regions consist, a line each.
memories() { rdma -dd resource show mr | grep -oE 'drv_memory [a-z]+' | cut -d' ' -f2 | sort; }

_both_failures_are_counted() { [[ $(counters) == *"7 2 "* ]]; }

test_rdma_statistic_shows_the_counters_of_each_region() {
	local wanted=$'1 1 0 0\n6 7 2 3' number
	part counts
	eventually 5 _both_failures_are_counted || true
	rdma statistic show mr
	equal "$wanted" "$(counters)" "the counters of all regions"
	number=$(rdma statistic show mr | tr '\n' ' ' | sed -nE 's/.*mrn ([0-9]+)  *page_faults 6 .*/\1/p')
	equal "6 7 2 3" "$(counters mrn "$number")" "the counters of one region"
	rdma -j statistic show mr | python3 -c '
import json, sys
names = "page_faults", "page_prefetch", "page_prefetch_failed", "page_invalidations"
regions = [one for one in json.load(sys.stdin) if one["ifname"] == "rxe_mrx0"]
counted = sorted([one[name] for name in names] for one in regions if names[0] in one)
sys.exit(counted != [[1, 1, 0, 0], [6, 7, 2, 3]] or len(regions) != 3)' ||
		fail "as JSON they are others: $(rdma -j statistic show mr)"
	equal $'odp\nodp\npinned' "$(memories)" "the memory of the regions"
	end_part || fail "the part ended with status $?"
	equal "" "$(rdma statistic show mr)" "the counters after the regions"
}

test_the_exporter_stays_while_a_region_of_its_buffer_lives() {
	[ -d /sys/module/mrx_test_exporter ] || skip "no exporter module"
	part held
	equal dmabuf "$(memories)" "the memory of the region"
	refused "in use" rmmod mrx_test_exporter
	end_part || fail "the buffer was not there any more (status $?)"
	eventually "$PATIENCE" rmmod mrx_test_exporter || fail "the exporter does not go"
	insmod "$EXPORTER"
	# the same where nobody deregisters
	part held
	refused "in use" rmmod mrx_test_exporter
	kill_part
	eventually "$PATIENCE" rmmod mrx_test_exporter || fail "the exporter does not go"
	insmod "$EXPORTER"
}

test_a_device_goes_although_a_request_waits_for_a_page_for_ever() {
	part stuck
	nap 0.5
	timeout "$PATIENCE" rdma link delete rxe_mrx0 || fail "the device cannot be deleted"
	kill_part
	vanishes rxe_mrx0
}

test_a_device_goes_although_an_advice_waits_for_a_page_for_ever() {
	part advised
	nap 0.5
	timeout "$PATIENCE" rdma link delete rxe_mrx0 || fail "the device cannot be deleted"
	end_part || fail "the part ended with status $?"
	vanishes rxe_mrx0
}

test_the_module_goes_right_after_advice_was_queued() {
	part queues
	kill_part
	timeout "$PATIENCE" rdma link delete rxe_mrx0 || fail "the device cannot be deleted"
	unload_soon ib_mrx
	! is_loaded ib_mrx || fail "the module stays"
	load_mrx
	link mrx rxe_mrx0 mrx0
	# the same while the process lives
	part queues
	timeout "$PATIENCE" rdma link delete rxe_mrx0 || fail "the device cannot be deleted"
	unload_soon ib_mrx
	kill_part
}

# ---- running

# device: the one of the tests, unless it is there.
device() {
	exists rxe_mrx0 || {
		load_mrx
		link mrx rxe_mrx0 mrx0
	}
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
}

set_up() {
	# beside the module, and for the same kernel
	EXPORTER=${MRX_KO%/*}/selftests/odp/exporter/mrx_test_exporter.ko
	# What is swapped out goes here; without it the tests of it skip.
	modprobe -q zram num_devices=1 || true
	if echo 128M >/sys/block/zram0/disksize; then
		mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
	fi
	modprobe -q udmabuf || true
	modprobe -q system_heap || true
	modprobe -q fuse || true
	[ ! -f "$EXPORTER" ] || insmod "$EXPORTER"
	dummy mrx0 10.9.0.1/24
	device
}

take_down() {
	local status=$?
	set +e
	swapoff /dev/zram0 2>/dev/null
	unload zram
	unload mrx_test_exporter
	# shellcheck disable=SC2034 # read by lib.sh
	UNLOAD_AFTER=ib_mrx
	(exit "$status")
	_tear_down
}

# one NAME: one of the tests above, in a process of its own.
one() {
	local status name=${1//_/ }
	# shellcheck disable=SC2053 # a pattern
	[[ "$SUITE $name" == $FILTER ]] || return 0
	device
	set +e
	(
		trap - EXIT
		set -e
		"test_$1"
	) >"$WORK/log" 2>&1
	status=$?
	set -e
	_verdict "$status" "$name" "$WORK/log"
}

run_odp() {
	local status=0 name
	make -s -C "$MRX_TOP/selftests/odp" O="$BUILT/selftests" >&2 || fail "the tests do not compile"
	set_up
	timeout $((600 * ${MRX_PATIENCE:-1})) "$PROGRAM" --filter "$FILTER" | tee "$WORK/odp" || status=$?
	_number=$(sed -n 's/^1\.\.//p' "$WORK/odp")
	[ -n "$_number" ] || {
		say "not ok 0 the tests run to their end (status $status)"
		return "$FAILED"
	}
	_skips=$(grep -c '^ok .* # SKIP' "$WORK/odp") || true
	_failures=$(grep -c '^not ok' "$WORK/odp") || true
	for name in $(test_names); do
		one "$name"
	done
	[ "$_number" -gt 0 ] || return "$SKIPPED"
	say "# $SUITE: passed $((_number - _failures - _skips)), failed $_failures, skipped $_skips"
	[ "$_failures" -eq 0 ] || status=$FAILED
	return "$status"
}

trap take_down EXIT
status=0
run_odp || status=$?
exit "$status"
