#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command in a guest whose root file system is the build root. The guest is
# a machine of QEMU, or with a kernel that is a program (User-Mode Linux) a process.
#
#   scripts/vm.sh [OPTION...] [--] COMMAND      one argument: a line for bash
#   scripts/vm.sh [OPTION...] [--] COMMAND ARG...
#   scripts/vm.sh [OPTION...] --shell           a shell on this terminal; Ctrl-A x
#                                               ends a guest that hangs
#   scripts/vm.sh --accel                       print kvm, tcg or uml
#
#   --kernel DIR      a folder such as scripts/kernel.sh prints (its default)
#   --timeout SECONDS end the guest then; default 600, none with --shell
#   --log FILE        the kernel log; default build/kernel.log
#   --memory MIB      default 3072
#   --ivshmem MIB     add a PCI device with so much memory in a BAR; QEMU only
#
#   MRX_ACCEL   kvm or tcg: do not probe
#   MRX_CPUS    processors of a guest that is a process; default 2
#   MRX_APPEND  more of the kernel's command line
#
# The guest may write everywhere, but only /mrx/build, which is the checkout's
# build folder, keeps it. The checkout is /mrx and the cache is /cache there.
# Output and errors of the command come out together on standard output; its
# status is the status of this script, or else
#   124  the time is over
#   125  the guest crashed, or ended without a status
#   126  QEMU, or the kernel that is a program, did not run

. "$(dirname "$0")/lib.sh"

TIMED_OUT=124 CRASHED=125 NO_QEMU=126

usage() {
	sed -n '/^#   scripts/,/^#   --ivshmem/s/^# \{0,3\}//p' "$0" >&2
	exit 2
}

kernel='' timeout='' log=$MRX_BUILD/kernel.log memory=3072 ivshmem='' mode=command
while [ $# -gt 0 ]; do
	case $1 in
	--kernel | --timeout | --log | --memory | --ivshmem)
		[ $# -ge 2 ] || usage
		printf -v "${1#--}" '%s' "$2"
		shift 2
		;;
	--shell) mode=shell && shift ;;
	--accel) mode=accel && shift ;;
	--) shift && break ;;
	-*) usage ;;
	*) break ;;
	esac
done
case $mode:$# in
command:0 | shell:[1-9]* | accel:[1-9]*) usage ;;
esac

need_root
ROOT=$("$MRX_TOP/scripts/buildroot.sh")
kernel=${kernel:-$("$MRX_TOP/scripts/kernel.sh")}
start=$("$MRX_TOP/scripts/initramfs.sh" "$kernel")

# A folder for this run, which the guest finds in /cache.
run=$(mktemp -d "$MRX_CACHE/vm.XXXXXX")
qemu=''
trap '[ -z "$qemu" ] || kill "$qemu" 2>/dev/null; rm -rf "$run"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
: >"$run/status"
: >"$run/output"

# Of the kernel's command line, what it is in any machine.
options=(
	"MRX_RUN=${run##*/}" "MRX_MODULES=$(cat "$start/modules")"
	loglevel=8 ignore_loglevel printk.time=1 oops=panic panic=-1
)

# qemu ACCEL SECONDS LOG ARGUMENT...: one run of a guest, QEMU's messages on
# standard error. QEMU ends with the shell that runs this.
qemu() {
	local accel=$1 seconds=$2 console=$3 cpu append shared=()
	shift 3
	case $accel in
	kvm) cpu=(-accel kvm -cpu host) ;;
	# a fifth level of page tables would only be one more to walk
	*) cpu=(-accel "tcg,thread=multi" -cpu "max,la57=off") ;;
	esac
	[ -z "$ivshmem" ] || shared=(
		-object "memory-backend-ram,id=ivshmem,size=${ivshmem}M,share=on"
		-device "ivshmem-plain,memdev=ivshmem"
	)
	append=(
		"${options[@]}" console=ttyS0
		# a crash ends the guest at once
		reboot=t
		# An emulated processor may rest for long, so only what is
		# beyond doubt counts as stuck.
		rcupdate.rcu_cpu_stall_timeout=300 watchdog_thresh=60 nmi_watchdog=0
		workqueue.watchdog_thresh=300 tsc=reliable no_timer_check
		# what costs time and guards nothing here
		nokaslr mitigations=off cryptomgr.notests audit=0 apparmor=0
		"${MRX_APPEND:-}"
	)
	# An emulated processor counts as the host's does. What a guest measures of
	# it while the host is busy can be several times off, and so would be its
	# clock.
	[ "$accel" != tcg ] || append+=("$(sed -n 's/^cpu MHz[^0-9]*\([0-9]*\)\.\?\([0-9]*\)$/tsc_early_khz=\1\2/p' /proc/cpuinfo | head -n 1)")
	in_root "$ROOT" setpriv --pdeathsig TERM \
		timeout --foreground --kill-after=5 "$seconds" \
		qemu-system-x86_64 -name mrx -M q35,usb=off,smbus=off,sata=off,hpet=off -nodefaults -no-user-config \
		-display none -no-reboot \
		"${cpu[@]}" -smp 2,sockets=1,cores=2 -m "$memory" \
		-kernel "/cache/${start##*/}/kernel" -initrd "/cache/${start##*/}/initramfs" \
		-append "${append[*]}" \
		-serial "file:$console" \
		-device virtio-serial-pci \
		-chardev "file,id=status,path=/cache/${run##*/}/status" \
		-device virtserialport,chardev=status,name=mrx.status,nr=1 \
		-fsdev "local,id=root,path=/cache/${ROOT##*/},security_model=none,readonly=on,multidevs=remap" \
		-device virtio-9p-pci,fsdev=root,mount_tag=root \
		-fsdev "local,id=mrx,path=/mrx,security_model=none,readonly=on,multidevs=remap" \
		-device virtio-9p-pci,fsdev=mrx,mount_tag=mrx \
		-fsdev "local,id=build,path=/mrx/build,security_model=none,multidevs=remap" \
		-device virtio-9p-pci,fsdev=build,mount_tag=build \
		-fsdev "local,id=cache,path=/cache,security_model=none,readonly=on,multidevs=remap" \
		-device virtio-9p-pci,fsdev=cache,mount_tag=cache \
		"${shared[@]}" "$@"
}

# uml SECONDS: one run of a guest that is a process. The kernel's log goes to file
# descriptor 8; the processes that it keeps for those of the guest end with it. Its
# memory is a file in the build root's /tmp.
uml() {
	# shellcheck disable=SC2086 # several options
	in_root "$ROOT" setpriv --pdeathsig TERM \
		timeout --foreground --kill-after=5 "$1" env TMPDIR=/tmp \
		"/cache/${start##*/}/kernel" "mem=${memory}M" "ncpus=${MRX_CPUS:-2}" seccomp=on noreboot \
		"initrd=/cache/${start##*/}/initramfs" \
		con=null con0=null,fd:8 ssl=null ssl0=null,fd:6 ssl1=null,fd:7 \
		MRX_PORTS=ttyS "${options[@]}" ${MRX_APPEND:-} \
		6>>"$run/output" 7>>"$run/status" >&2
}

# The file that the command's output arrives in; a file and not our standard
# output, because QEMU does not wait for a slow reader when the guest ends.
output=(
	-chardev "file,id=output,path=/cache/${run##*/}/output"
	-device "virtserialport,chardev=output,name=mrx.output,nr=2"
)

# /dev/kvm may be there, open, and make machines that never run: only a guest
# that has run shows that it works.
probe() {
	echo true >"$run/command"
	qemu kvm 20 "/cache/${run##*/}/console" "${output[@]}" >/dev/null 2>&1 </dev/null || true
	if [ "$(cat "$run/status")" = 0 ]; then echo kvm; else echo tcg; fi
	: >"$run/status"
}

# The answer holds for a processor, a host kernel and a QEMU.
accel() {
	local answer
	[ ! -e "$kernel/uml" ] || { echo uml; return; }
	if [ -n "${MRX_ACCEL:-}" ]; then
		case $MRX_ACCEL in
		kvm | tcg) echo "$MRX_ACCEL" ;;
		*) die "MRX_ACCEL is $MRX_ACCEL; it can be kvm or tcg" ;;
		esac
		return
	fi
	[ -w /dev/kvm ] || { echo tcg; return; }
	answer=$MRX_CACHE/accel-$(key "$(grep -E -m 4 '^(vendor_id|cpu family|model|model name)' /proc/cpuinfo)" \
		"$(uname -r)" "${ROOT##*/}")
	if [ ! -s "$answer" ]; then
		say "Find out whether KVM runs a guest (once, at most 25 s) ..." >&2
		probe >"$answer.tmp"
		mv "$answer.tmp" "$answer"
		say "Guests run under $(cat "$answer")" >&2
	fi
	cat "$answer"
}

accel=$(accel)
if [ "$mode" = accel ]; then
	echo "$accel"
	exit
fi

mkdir -p "$MRX_TOP/build" "$(dirname "$log")"
: >"$log"
# QEMU opens the log through the file descriptor, so it may be anywhere.
exec 8>>"$log"

status=0
started=$SECONDS
if [ "$mode" = shell ]; then
	[ -t 0 ] || die "--shell needs a terminal"
	[ "$accel" != uml ] || die "--shell needs a kernel for QEMU"
	rm -f "$run/command"
	printf '%s %s\n' "$(stty size)" "${TERM:-linux}" >"$run/shell"
	qemu "$accel" "${timeout:-0}" /proc/self/fd/8 -chardev stdio,id=shell,signal=off,mux=on \
		-device virtconsole,chardev=shell || status=$?
else
	if [ $# -eq 1 ]; then printf '%s\n' "$1"; else printf '%q ' "$@"; fi >"$run/command"
	case $accel in
	uml) uml "${timeout:-600}" ;;
	*) qemu "$accel" "${timeout:-600}" /proc/self/fd/8 "${output[@]}" ;;
	esac </dev/null 2>"$run/errors" &
	qemu=$!
	# In the background too, since only "wait" lets a signal through at once.
	tail --quiet --bytes=+1 --follow --sleep-interval=0.1 --pid="$qemu" "$run/output" &
	wait "$qemu" || status=$?
	qemu=''
	wait "$!" || true
	# a kernel that is a program says at length how it starts
	[ ! -s "$run/errors" ] || { [ "$accel" = uml ] && [ -s "$run/status" ]; } || cat "$run/errors" >&2
fi

if [ -s "$run/status" ]; then
	exit "$(cat "$run/status")"
elif [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
	printf 'mrx: the guest was ended after %s s (kernel log: %s)\n' "$((SECONDS - started))" "$log" >&2
	exit "$TIMED_OUT"
elif [ "$status" -ne 0 ] && { [ "$accel" != uml ] || [ ! -s "$log" ]; }; then
	printf 'mrx: QEMU failed with status %s\n' "$status" >&2
	exit "$NO_QEMU"
fi
if reason=$(grep -aE -m 3 'Kernel panic|BUG:|Oops' "$log"); then
	printf 'mrx: the guest crashed (kernel log: %s)\n%s\n' "$log" "${reason//$'\r'/}" >&2
else
	printf 'mrx: the guest ended without a status (kernel log: %s)\n' "$log" >&2
fi
exit "$CRASHED"
