#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Kernel 2: a debug kernel, built from the source of scripts/kernel.sh with the
# small configuration of scripts/debug-kernel.config. An interrupted build goes
# on where it was. Usage:
#
#   scripts/debug-kernel.sh            build it, and print its folder
#   scripts/debug-kernel.sh --have     print its folder, and fail if it is not built
#   scripts/debug-kernel.sh --module   build ib_mrx.ko for it into
#                                      build/module-debug, and print its path
#   scripts/debug-kernel.sh --module DIR OUT [ARGUMENT...]
#                                      build the modules in the folder DIR of the
#                                      checkout into build/OUT, and print their
#                                      paths; more arguments go to make
#
#   MRX_JOBS  compilers at a time; default one for each processor
#
# The folder is one that scripts/vm.sh --kernel takes:
#   image    the kernel, an ELF file     modules  lib/modules/RELEASE
#   release  the release string          obj      KDIR for modules

. "$(dirname "$0")/lib.sh"

CONFIG=$MRX_TOP/scripts/debug-kernel.config
ROOT=$("$MRX_TOP/scripts/buildroot.sh")
KERNEL=$("$MRX_TOP/scripts/kernel.sh")
# Rust with KASAN needs clang, of the LLVM that rustc has.
MAKE_ARGS=(ARCH=x86_64 LLVM=1 KBUILD_BUILD_USER=mrx KBUILD_BUILD_HOST=mrx)

dir=$MRX_CACHE/debug-kernel-$(key "$(cat "$CONFIG")" "$ROOT" "$KERNEL")

# is_built: a build folder cannot be renamed when it is whole, since make writes
# its name into it; so there is a stamp.
is_built() { [ -e "$dir/.done" ]; }

# kernel_make ARGUMENT...
kernel_make() {
	IN_ROOT_DIR=/cache/${KERNEL##*/}/source in_root "$ROOT" \
		make "O=/cache/${dir##*/}/obj" "${MAKE_ARGS[@]}" -j"${MRX_JOBS:-$(nproc)}" "$@"
}

# start_obj: make finds out itself what another configuration leaves valid, so
# the build folder starts as a copy of the latest one.
start_obj() {
	local last
	mkdir -p "$dir"
	[ ! -d "$dir/obj" ] || return 0
	last=$(ls -dt "$MRX_CACHE"/debug-kernel-*/obj 2>/dev/null | head -n 1)
	rm -rf "$dir/obj.tmp"
	if [ -n "$last" ]; then
		cp -a "$last" "$dir/obj.tmp"
		# the name of the folder that it was made in
		rm -f "$dir/obj.tmp/Makefile" "$dir/obj.tmp/source"
	else
		mkdir "$dir/obj.tmp"
	fi
	mv "$dir/obj.tmp" "$dir/obj"
}

# Kconfig drops in silence what lacks a dependency; here that is an error.
configure() {
	local line missing=0
	cp "$CONFIG" "$dir/obj/mrx.config"
	kernel_make KCONFIG_ALLCONFIG="/cache/${dir##*/}/obj/mrx.config" allnoconfig
	while read -r line; do
		grep -qxF "$line" "$dir/obj/.config" && continue
		echo "not in the configuration: $line" >&2
		missing=1
	done < <(grep '^CONFIG_' "$CONFIG")
	[ "$missing" -eq 0 ]
}

compile() { kernel_make vmlinux modules; }

install() {
	local modules
	rm -rf "$dir/root" "$dir/modules"
	kernel_make INSTALL_MOD_PATH="/cache/${dir##*/}/root" modules_install
	modules=("$dir"/root/lib/modules/*)
	mv "${modules[0]}" "$dir/modules"
	rm -rf "$dir/root" "$dir/modules/build" "$dir/modules/source"
	in_root "$ROOT" llvm-strip -o "/cache/${dir##*/}/image" "/cache/${dir##*/}/obj/vmlinux"
	cp "$dir/obj/include/config/kernel.release" "$dir/release"
}

make_debug_kernel() {
	! is_built || return 0
	need_root
	need_space "$MRX_CACHE" 4000 "the debug kernel"
	timed "Begin the debug kernel's build folder" start_obj
	timed "Configure the debug kernel" configure
	timed "Compile the debug kernel (10 minutes on two processors of its own)" compile
	timed "Install the debug kernel's modules" install
	touch "$dir/.done"
}

# make_modules DIR OUT ARGUMENT...: with debug information, so that a report can be
# read down to the line.
make_modules() {
	local source=/mrx out=$2
	[ "$1" = . ] || source=/mrx/$1
	shift 2
	mkdir -p "$MRX_BUILD/$out"
	in_root "$ROOT" make -C "/cache/${dir##*/}/obj" "${MAKE_ARGS[@]}" \
		M="$source" MO="/mrx/build/$out" \
		KCFLAGS=-g KRUSTFLAGS=-Cdebuginfo=2 -j"${MRX_JOBS:-$(nproc)}" "$@" >&2
	ls "$MRX_BUILD/$out"/*.ko
}

case ${1:-} in
'' | --module)
	is_built || with_lock debug-kernel make_debug_kernel >&2
	if [ -z "${1:-}" ]; then
		echo "$dir"
	else
		shift
		need_root
		[ $# -ne 1 ] || die "--module DIR needs OUT"
		[ $# -gt 0 ] || set -- . module-debug
		make_modules "$@"
	fi
	;;
--have)
	is_built || exit 1
	echo "$dir"
	;;
*) die "debug-kernel.sh [--have | --module [DIR OUT [ARGUMENT...]]]" ;;
esac
