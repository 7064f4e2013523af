#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Shows the module at work, from nothing: prepares what is missing, boots
# Debian's unmodified kernel in a virtual machine, loads the module and lets two
# processes move data through regions that are made of pieces.
#
# The first run downloads and builds (10 to 20 minutes); later ones take about a
# minute. The exit status is 0 if every byte was right and the kernel had
# nothing to complain about.

. "$(dirname "$0")/lib.sh"

LOG=$MRX_BUILD/demo-kernel.log

# What runs in the guest.
guest() {
	cat <<'GUEST'
set -e
modprobe ib_uverbs
insmod build/module/ib_mrx.ko
ip link add demo0 type dummy
ip address add 192.0.2.1/24 dev demo0
ip link set demo0 up
rdma link add rxe_mrx0 type mrx netdev demo0
status=0
timeout 120 build/cargo/release/mrx-demo --device rxe_mrx0 || status=$?
rdma link delete rxe_mrx0
rmmod ib_mrx
exit "$status"
GUEST
}

[ $# -eq 0 ] || die "usage: scripts/demo.sh"
need_root
"$MRX_TOP/scripts/buildroot.sh" >/dev/null
"$MRX_TOP/scripts/kernel.sh" >/dev/null
timed "Build the module" "$MRX_TOP/scripts/module.sh"
timed "Build the demonstration" "$MRX_TOP/scripts/userspace.sh" build --release --package mrx-demo
say "Boot Debian's kernel $(cat "$("$MRX_TOP/scripts/kernel.sh")/release") in a virtual machine ..."
echo
status=0
"$MRX_TOP/scripts/vm.sh" --timeout 300 --log "$LOG" "$(guest)" || status=$?
"$MRX_TOP/scripts/kernel-log.sh" "$LOG"
[ "$status" -eq 0 ] || die "the demonstration failed with status $status (kernel log: $LOG)"
echo "      The kernel log holds no warning."
