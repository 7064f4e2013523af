#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Kernel 1: Debian's own kernel from trixie-backports, unmodified, and a build
# tree that modules in Rust can be compiled against. Debian's headers package
# lacks the Rust metadata, so that part is compiled again from the same source
# with the same compiler and compared with what Debian's kernel exports.
#
# Prints the kernel's folder on the last line:
#   image    the kernel        modules  its modules (lib/modules/RELEASE)
#   obj      KDIR for modules  source   the kernel source
#   release  the release string

. "$(dirname "$0")/lib.sh"

SERIES=7.3
ROOT=$("$MRX_TOP/scripts/buildroot.sh")
MAKE_ARGS=(ARCH=x86_64 CC=x86_64-linux-gnu-gcc-14 HOSTCC=gcc-14)

# The newest version this cache already holds is used until `make distclean`:
# a build must not change under a developer because an archive moved.
have() { ls -d "$MRX_CACHE"/kernel-*/.done 2>/dev/null | sort -V | tail -n 1 | xargs -r dirname; }

# find_version: prints ABI (7.3.4+deb13) and package version.
find_version() {
	local image version
	in_root "$ROOT" apt-get -qq update || die "apt-get update failed in the build root: is there a network?"
	version=$(in_root "$ROOT" apt-cache madison linux-image-amd64 | awk -F'|' '/backports/ { gsub(/ /, "", $2); print $2; exit }')
	image=$(in_root "$ROOT" apt-cache show "linux-image-amd64=$version" |
		sed -n 's/^Depends:.*linux-image-\([^ ,]*\)-amd64.*/\1/p' | head -n 1)
	[ -n "$image" ] || die "trixie-backports has no linux-image-amd64"
	case $image in
	$SERIES.*) ;;
	*) die "trixie-backports has moved to kernel $image; this version of mrx is for $SERIES (use make KDIR=... with a 7.2 or 7.3 build)" ;;
	esac
	printf '%s %s\n' "$image" "$version"
}

fetch() { # DIR ABI VERSION
	local names=(
		"linux-binary-unsigned-$2-amd64" "linux-modules-$2-amd64" "linux-base-$2-amd64"
		"linux-headers-$2-amd64" "linux-headers-$2-common" "linux-kbuild-$2" "linux-source-$SERIES"
	)
	mkdir -p "$1/deb"
	IN_ROOT_DIR=/cache/${1##*/}/deb in_root "$ROOT" \
		apt-get -o APT::Sandbox::User=root download "${names[@]/%/=$3}"
}

unpack() { # DIR
	local deb
	rm -rf "$1/root" "$1/source"
	for deb in "$1"/deb/*.deb; do
		in_root "$ROOT" dpkg -x "/cache/${1##*/}/deb/${deb##*/}" "/cache/${1##*/}/root"
	done
	mkdir "$1/source"
	IN_ROOT_DIR=/cache/${1##*/} in_root "$ROOT" \
		tar -C source --strip-components=1 -xf "root/usr/src/linux-source-$SERIES.tar.xz"
	rm -f "$1/root/usr/src/linux-source-$SERIES.tar.xz"
}

metadata() { # DIR ABI
	local headers=$1/root/usr/src/linux-headers-$2-amd64
	mkdir -p "$1/obj"
	cp "$headers/.config" "$1/obj/.config"
	IN_ROOT_DIR=/cache/${1##*/}/source in_root "$ROOT" \
		make "O=/cache/${1##*/}/obj" "${MAKE_ARGS[@]}" "LOCALVERSION=+${2#*+}-amd64" -j"$(nproc)" \
		olddefconfig prepare modules_prepare
	cp "$headers/Module.symvers" "$1/obj/Module.symvers"
}

# Three things show that the metadata is that of Debian's own build.
verify() { # DIR ABI
	local headers=$1/root/usr/src/linux-headers-$2-amd64 symbol
	diff <(sed '1,/^# Linux/d' "$headers/.config" | grep -v '^#$') <(sed '1,/^# Linux/d' "$1/obj/.config" | grep -v '^#$') ||
		die "the kernel configuration differs from Debian's"
	[ "$(cat "$1/obj/include/config/kernel.release")" = "$2-amd64" ] || die "the kernel release differs from Debian's"
	in_root "$ROOT" nm --defined-only "/cache/${1##*/}/obj/rust/kernel.o" |
		awk '$2 == "T" && $3 ~ /^_R/ { print $3 }' >"$1/symbols"
	[ -s "$1/symbols" ] || die "rust/kernel.o defines no function"
	while read -r symbol; do
		grep -q "	$symbol	" "$headers/Module.symvers" || die "Debian's kernel does not export $symbol"
	done <"$1/symbols"
	echo "$(wc -l <"$1/symbols") Rust functions of rust/kernel.o are all in Debian's Module.symvers"
}

make_kernel() {
	local abi version dir
	need_root
	[ -z "$(have)" ] || return 0
	need_space "$MRX_CACHE" 6000 "the kernel"
	say "Look up Debian's $SERIES kernel ..."
	read -r abi version < <(find_version) || true
	[ -n "${abi:-}" ] || die "Debian's kernel could not be found"
	dir=$MRX_CACHE/kernel-$abi
	timed "Download kernel $abi (version $version, about 300 MB)" fetch "$dir" "$abi" "$version"
	timed "Unpack kernel $abi and its source (about 2 GB)" unpack "$dir"
	timed "Compile the Rust metadata of kernel $abi (2 to 4 minutes)" metadata "$dir" "$abi"
	timed "Compare the Rust metadata with Debian's kernel" verify "$dir" "$abi"
	echo "$abi-amd64" >"$dir/release"
	ln -sf modules/vmlinuz.unsigned "$dir/image"
	ln -sf "root/usr/lib/modules/$abi-amd64" "$dir/modules"
	rm -rf "$dir/deb" "$dir/symbols"
	touch "$dir/.done"
}

[ -n "$(have)" ] || with_lock kernel make_kernel >&2
have
