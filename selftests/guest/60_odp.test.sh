#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# On-demand paging, ADVISE_MR and dma-buf regions. Prints KTAP.
# Needs rxe_mrx0, and makes it if there is none.

set -u
program=/mrx/build/selftests/odp
made=

clean_up() {
	rmmod mrx_test_exporter 2>/dev/null
	[ ! -b /dev/zram0 ] || swapoff /dev/zram0 2>/dev/null
	[ -z "$made" ] || {
		rdma link delete rxe_mrx0
		ip link delete odpdummy
		rmmod ib_mrx
	} 2>/dev/null
}
trap clean_up EXIT

make -s -C /mrx/selftests/odp O=/mrx/build/selftests >&2 || {
	echo "Bail out! the tests do not compile"
	exit 1
}
# What the tests swap out goes here; without it they skip.
if modprobe zram num_devices=1 2>/dev/null && echo 64M >/sys/block/zram0/disksize; then
	mkswap /dev/zram0 >/dev/null && swapon /dev/zram0
fi
modprobe -q udmabuf
modprobe -q system_heap
exporter=/mrx/build/module/selftests/odp/exporter/mrx_test_exporter.ko
[ ! -f "$exporter" ] || insmod "$exporter"
if ! rdma link show rxe_mrx0/1 >/dev/null 2>&1; then
	modprobe -a ib_uverbs rdma_ucm
	[ -d /sys/module/ib_mrx ] || insmod /mrx/build/module/ib_mrx.ko || exit 1
	made=1
	ip link add odpdummy type dummy
	ip addr add 10.9.0.60/24 dev odpdummy
	ip link set odpdummy up
	rdma link add rxe_mrx0 type mrx netdev odpdummy || exit 1
fi
"$program" "$@"
status=$?

# A device goes away although a request on it waits for a page for ever.
if [ -n "$made" ]; then
	waits=$(mktemp)
	"$program" stuck >"$waits" &
	for _ in {1..300}; do
		! grep -q waits "$waits" || break
		sleep 0.1
	done
	sleep 0.5
	if grep -q waits "$waits" && kill -0 $! && timeout 20 rdma link delete rxe_mrx0; then
		echo "# the device could be deleted while a request waited"
	else
		echo "not ok - a device can be deleted while a request waits for a page"
		status=1
	fi
	kill -KILL $! 2>/dev/null
	wait $! 2>/dev/null
	rm -f "$waits"
fi
exit $status
