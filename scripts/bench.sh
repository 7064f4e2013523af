#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Measures mrx beside rdma_rxe and the limits of the machine, in one run of a
# virtual machine. Prints tables, and writes build/bench.json and
# build/bench.svg. Nothing fails for being slow. Arguments go to the program:
#
#   scripts/bench.sh --only layouts --only access    these groups only
#   scripts/bench.sh --time 2000                     longer, for steadier values
#   scripts/bench.sh --help                          all of them

. "$(dirname "$0")/lib.sh"

LOG=$MRX_BUILD/bench-kernel.log
LIMIT=1200 # seconds; a whole run takes three to six minutes under emulation

# What runs in the guest, with the arguments of the program.
guest() {
	cat <<'GUEST'
set -e
modprobe -a ib_uverbs rdma_rxe
insmod build/module/ib_mrx.ko
ip link add bench0 type dummy
ip address add 192.0.2.1/24 dev bench0
ip link set bench0 up
rdma link add rxe_mrx0 type mrx netdev bench0
rdma link add rxe0 type rxe netdev bench0
status=0
build/cargo/release/mrx-bench "$@" || status=$?
rdma link delete rxe_mrx0
rdma link delete rxe0
rmmod ib_mrx
exit "$status"
GUEST
}

need_root
"$MRX_TOP/scripts/buildroot.sh" >/dev/null
"$MRX_TOP/scripts/kernel.sh" >/dev/null
timed "Build the module" "$MRX_TOP/scripts/module.sh"
timed "Build the benchmark" "$MRX_TOP/scripts/userspace.sh" build --release --package mrx-bench
case " $* " in
*" --help "* | *" -h "*) exec "$MRX_TOP/scripts/in-root.sh" build/cargo/release/mrx-bench --help ;;
esac
accel=$("$MRX_TOP/scripts/vm.sh" --accel)
host=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
say "Boot Debian's kernel under $accel ..."
echo
status=0
"$MRX_TOP/scripts/vm.sh" --timeout "$LIMIT" --log "$LOG" -- bash -c "$(guest)" mrx-bench \
	--device rxe_mrx0 --rxe rxe0 --accelerator "$accel on ${host:-an unnamed processor}" \
	--json build/bench.json --svg build/bench.svg "$@" || status=$?
"$MRX_TOP/scripts/kernel-log.sh" "$LOG"
[ "$status" -eq 0 ] || die "the benchmark failed with status $status (kernel log: $LOG)"
echo
say "The kernel log holds no warning; all values are in build/bench.json, a picture in build/bench.svg"
