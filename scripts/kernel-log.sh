#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Looks through a kernel log for what a sound kernel never says, and fails with
# the lines and what stands around them. Usage:
#
#   scripts/kernel-log.sh FILE
#   scripts/kernel-log.sh --self-test
#
# Whatever only a slow machine causes is prevented where the guest is started
# (scripts/vm.sh) and has no exception here. That an out-of-tree module taints
# the kernel is no report, and neither is a failure that fault injection forced,
# nor a program that dies.

. "$(dirname "$0")/lib.sh"

# One report a line: an extended regular expression, a tab, and a line of a log
# that it finds. The self-test holds each to its own sample.
reports() {
	sed -e '/^#/d' -e '/^$/d' <<'REPORTS'
# bugs, warnings and crashes
BUG[: ]	[    4.1] BUG: kernel NULL pointer dereference, address: 0000000000000010
kernel BUG at	[    4.1] kernel BUG at mm/slub.c:634!
Oops:	[    4.1] Oops: 0002 [#1] SMP PTI
WARN(ING|_ON)?:	[    4.1] WARNING: drivers/infiniband/core/verbs.c:370 at ib_dealloc_pd_user+0x70/0x80, CPU#1: t/7
\[ cut here \]	[    4.1] ------------[ cut here ]------------
WARN_ON(_ONCE)?\(	[    4.1] DEBUG_LOCKS_WARN_ON(lock->magic != lock)
[Gg]eneral protection fault	[    4.1] general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP
[Uu]nable to handle	[    4.1] Unable to handle kernel paging request at virtual address 0000beef
(invalid opcode|divide error|stack segment|double fault): 0	[    4.1] invalid opcode: 0000 [#1] SMP
Kernel panic	[    4.1] Kernel panic - not syncing: Attempted to kill init!
panicked at	[    4.1] rust_kernel: panicked at rust/mrx.rs:7:9: index out of bounds
Fixing recursive fault	[    4.1] Fixing recursive fault but reboot is needed!
nobody cared	[    4.1] irq 11: nobody cared (try booting with the "irqpoll" option)
# memory
K[AC]SAN: 	[    4.1] BUG: KASAN: slab-use-after-free in mrx_reg+0x1/0x2 [mrx]
KFENCE: 	[    4.1] BUG: KFENCE: out-of-bounds read in mrx_reg+0x1/0x2 [mrx]
KMSAN: 	[    4.1] BUG: KMSAN: uninit-value in mrx_reg+0x1/0x2 [mrx]
UBSAN: 	[    4.1] UBSAN: array-index-out-of-bounds in drivers/a.c:1:2
kmemleak: [0-9]+ new suspected	[    4.1] kmemleak: 1 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
unreferenced object 0x	[    4.1] unreferenced object 0xffff888003a1b2c0 (size 64):
refcount_t: 	[    4.1] refcount_t: underflow; use-after-free.
list_(add|del).*(corruption|double add)	[    4.1] list_del corruption. prev->next should be ffff8880, but was 0
list corruption	[    4.1] slab: list corruption detected
Bad page (state|map)	[    4.1] Bad page state in process mrx  pfn:12345
Bad rss-counter	[    4.1] Bad rss-counter state mm:00000000 type:MM_ANONPAGES val:1
page dumped because	[    4.1] page dumped because: nonzero _refcount
[Oo]bjects remaining	[    4.1] Objects remaining on __kmem_cache_shutdown()
still has objects	[    4.1] kmem_cache_destroy mrx: Slab cache still has objects
(Redzone|Poison|Right Redzone|Left Redzone) overwritten	[    4.1] [Right Redzone overwritten] 0xffff8880-0xffff8888
Object already free	[    4.1] Object already free
ODEBUG: 	[    4.1] ODEBUG: free active (active state 0) object: timer_list
DMA-API: .*(error|device driver)	[    4.1] DMA-API: mrx 0000:00:01.0: device driver frees DMA memory with wrong function
usercopy: Kernel memory	[    4.1] usercopy: Kernel memory exposure attempt detected from SLUB object
# locks, atomic context and RCU
possible circular locking	[    4.1] WARNING: possible circular locking dependency detected
possible irq lock inversion	[    4.1] WARNING: possible irq lock inversion dependency detected
possible recursive locking	[    4.1] INFO: possible recursive locking detected
inconsistent lock state	[    4.1] WARNING: inconsistent lock state
IRQ-safe .*lock order detected	[    4.1] WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected
bad (unlock balance|contention)	[    4.1] WARNING: bad unlock balance detected!
held lock freed	[    4.1] WARNING: held lock freed!
lock held when returning to user space	[    4.1] WARNING: lock held when returning to user space!
[Ii]nvalid wait context	[    4.1] [ BUG: Invalid wait context ]
trying to register non-static key	[    4.1] INFO: trying to register non-static key.
lockdep is turned off	[    4.1] INFO: lockdep is turned off.
turning off the locking correctness validator	[    4.1] turning off the locking correctness validator.
suspicious RCU usage	[    4.1] WARNING: suspicious RCU usage
context switch within RCU	[    4.1] Voluntary context switch within RCU read-side critical section!
scheduling while atomic	[    4.1] BUG: scheduling while atomic: mrx/77/0x00000002
sleeping function called from invalid	[    4.1] BUG: sleeping function called from invalid context at mm/slab.h:1
# what does not go on
blocked (in I/O wait )?for more than	[    4.1] INFO: task mrx:77 blocked for more than 120 seconds.
hung.task	[    4.1] Kernel panic - not syncing: hung_task: blocked tasks
soft lockup	[    4.1] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [mrx:77]
[Hh]ard LOCKUP	[    4.1] watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 0
workqueue lockup	[    4.1] BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!
(self-detected|detected( expedited)?) stalls?	[    4.1] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
kthread (starved|timer wakeup)	[    4.1] rcu: rcu_preempt kthread starved for 2600 jiffies!
waiting for .* to become free	[    4.1] unregister_netdevice: waiting for dummy0 to become free. Usage count = 2
[Mm]arking clocksource .* unstable	[    4.1] clocksource: timekeeping watchdog on CPU0: Marking clocksource 'tsc' as unstable
# what is left behind
[Ll]eaked	[    4.1] ref_tracker: eth%d@0 has 1/1 users, leaked at
RESTRACK detected leak	[    4.1] restrack: BUG: RESTRACK detected leak of resources on mrx0
restrack: .* is not freed	[    4.1] restrack: Kernel PD object allocated by mrx is not freed
sysfs: cannot create duplicate	[    4.1] sysfs: cannot create duplicate filename '/class/infiniband/mrx0'
kobject.*(tried to init|does not have a release)	[    4.1] kobject: (0000): tried to init an initialized object, something is seriously wrong.
REPORTS
}

# What a sound guest does say, and looks like a report.
sound() {
	cat <<'SOUND'
[    0.0] Linux version 7.3.4 (gcc-14) #1 SMP PREEMPT_DYNAMIC
[    0.0] Unknown kernel command line parameters "nokaslr MRX_RUN=vm.1", will be passed to user space.
[    0.1] 	RCU CPU stall warnings timeout set to 300 (rcu_cpu_stall_timeout).
[    0.1] rcu: 	RCU debug extended QS entry/exit.
[    0.1] Running RCU synchronous self tests
[    0.1] kasan: KernelAddressSanitizer initialized (generic)
[    0.1] kfence: initialized - using 2097152 bytes for 255 objects at 0x(____ptrval____)
[    0.1] kmemleak: Kernel memory leak detector initialized (mem pool available: 15690)
[    0.1] kmemleak: Automatic memory scanning thread started
[    0.1] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
[    0.1] PCI: Using host bridge windows from ACPI; if necessary, use "pci=nocrs" and report a bug
[    0.1] RAS: Correctable Errors collector initialized.
[    0.2] clocksource: hpet: mask: 0xffffffff max_cycles: 0xffffffff, max_idle_ns: 19112604467 ns
[    0.2] SLUB: HWalign=64, Order=0-3, MinObjects=0, CPUs=2, Nodes=1
[    3.0] mrx: loading out-of-tree module taints kernel.
[    3.0] mrx: module verification failed: signature and/or required key missing - tainting kernel
[    3.0] rdma_rxe: loaded
[    3.1] infiniband rxe0: set active
[    3.2] FAULT_INJECTION: forcing a failure.
[    3.2] Call Trace:
[    3.3] mrx-test[77]: segfault at 10 ip 000055d1 sp 00007ffd error 4 in mrx-test[55d1+1000]
[    3.4] sysrq: Emergency Sync
[    3.5] reboot: machine restart
SOUND
}

MOST=200 # lines shown: the first reports say what is wrong

# scan <LOG: fails when there is a report
scan() {
	local found
	found=$(grep -anE -B 2 -A 15 -f <(reports | cut -f 1) | tr -d '\r') || return 0
	head -n "$MOST" <<<"$found"
	return 1
}

self_test() {
	local regex line failed=0 count=0
	while IFS=$'\t' read -r regex line; do
		count=$((count + 1))
		grep -qE -e "$regex" <<<"$line" && ! scan <<<"$line" >/dev/null && continue
		echo "not found by $regex: $line" >&2
		failed=1
	done < <(reports)
	scan < <(sound) || {
		echo "the lines above are no report" >&2
		failed=1
	}
	[ "$failed" -eq 0 ] || die "the scan of kernel logs does not work"
	echo "$count reports are found, and a sound log passes"
}

case $#:${1:-} in
1:--self-test) self_test ;;
1:-* | 0:* | [2-9]:*)
	echo "usage: scripts/kernel-log.sh FILE | --self-test" >&2
	exit 2
	;;
*)
	[ -s "$1" ] || die "$1: no kernel log"
	scan <"$1" || die "$1 holds kernel reports"
	;;
esac
