# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What every script of the project shares: where things are, how a step is
# announced, and how a command runs inside the build root.
#
# Paths inside the build root (and inside the guest, whose root it also is) are
# fixed, so that nothing built there remembers where a checkout or a cache is:
#   /mrx    the checkout
#   /cache  the cache folder

set -euo pipefail

MRX_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
MRX_CACHE=${MRX_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mrx}
MRX_BUILD=${MRX_BUILD:-$MRX_TOP/build}
readonly MRX_TOP MRX_CACHE MRX_BUILD

say() { printf '%s  %s\n' "$(date +%H:%M:%S)" "$*"; }

die() {
	printf 'mrx: %s\n' "$*" >&2
	exit 1
}

# need_root: everything below needs chroot, mount and /dev/kvm.
need_root() {
	[ "$(id -u)" -eq 0 ] || die "this step needs root (chroot and mounts); run it with sudo"
}

# need_space DIR MIB WHAT
need_space() {
	local free
	mkdir -p "$1"
	free=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$2" ] || die "$3 needs $2 MiB in $1, and only $free MiB are free"
}

# key WORD...: a short name for what a cached thing was made from.
key() { printf '%s\n' "$@" | sha256sum | cut -c1-12; }

# timed TEXT COMMAND...: run a step, say what it is and how long it took. Its
# output goes to a log of its own and is shown only when the step fails.
timed() {
	local text=$1 log started status
	shift
	mkdir -p "$MRX_CACHE/logs"
	log=$MRX_CACHE/logs/$(printf '%s' "$text" | tr -cs 'A-Za-z0-9.' '-' | cut -c1-60).log
	say "$text ..."
	started=$SECONDS
	status=0
	"$@" >"$log" 2>&1 </dev/null || status=$?
	if [ "$status" -ne 0 ]; then
		tail -n 40 "$log" >&2
		die "$text: failed with status $status after $((SECONDS - started)) s (whole log: $log)"
	fi
	say "$text: done in $((SECONDS - started)) s"
}

# with_lock NAME COMMAND...: one process at a time makes a cached thing.
with_lock() {
	local name=$1
	shift
	mkdir -p "$MRX_CACHE"
	(
		flock -n 9 || { say "waiting for another process that makes: $name"; flock 9; }
		"$@"
	) 9>"$MRX_CACHE/.lock-$name"
}

# in_root DIR COMMAND...: run a command in the build root DIR. The mounts live
# in a mount namespace of their own and end with the command.
in_root() {
	local root=$1
	shift
	mkdir -p "$root/mrx" "$root/cache" "$MRX_BUILD"
	# shellcheck disable=SC2016 # expanded by the inner shell
	unshare --mount --propagation private -- bash -c '
		root=$1 top=$2 cache=$3 workdir=$4
		shift 4
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t sysfs sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
		mount --bind "$top" "$root/mrx"
		mount --bind "$cache" "$root/cache"
		mount -t tmpfs tmpfs "$root/tmp"
		mount -t tmpfs tmpfs "$root/run"
		[ ! -e /etc/resolv.conf ] || {
			[ -e "$root/etc/resolv.conf" ] || : >"$root/etc/resolv.conf"
			mount --bind "$(readlink -f /etc/resolv.conf)" "$root/etc/resolv.conf"
		}
		[ ! -e /etc/ssl/certs/ca-certificates.crt ] || [ ! -e "$root/etc/ssl/certs/ca-certificates.crt" ] ||
			mount --bind "$(readlink -f /etc/ssl/certs/ca-certificates.crt)" "$root/etc/ssl/certs/ca-certificates.crt"
		exec chroot "$root" /usr/bin/env -C "$workdir" \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			HOME=/root LC_ALL=C.UTF-8 "$@"
	' bash "$root" "$MRX_TOP" "$MRX_CACHE" "${IN_ROOT_DIR:-/mrx}" "$@"
}
