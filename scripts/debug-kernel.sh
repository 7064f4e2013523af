#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Kernel 2: a debug kernel, built from the source of scripts/kernel.sh with the
# small configuration of scripts/debug-kernel.config. With --uml before all else it
# is the same kernel as a program (User-Mode Linux), with what
# scripts/debug-kernel-uml.config changes. An interrupted build goes on where it
# was. Usage:
#
#   scripts/debug-kernel.sh [--uml]           build it, and print its folder
#   scripts/debug-kernel.sh [--uml] --have    print its folder, and fail if it is not
#                                             built
#   scripts/debug-kernel.sh [--uml] --module  build ib_mrx.ko for it into
#                                             build/module-debug (build/module-uml),
#                                             and print its path
#   scripts/debug-kernel.sh [--uml] --module DIR OUT [ARGUMENT...]
#                                             build the modules in the folder DIR of
#                                             the checkout into build/OUT, and print
#                                             their paths; more arguments go to make
#
#   MRX_JOBS  compilers at a time; default one for each processor
#
# The folder is one that scripts/vm.sh --kernel takes:
#   image    the kernel, an ELF file     modules  lib/modules/RELEASE
#   release  the release string          obj      KDIR for modules
#   uml      only there for a kernel that is a program

. "$(dirname "$0")/lib.sh"

CONFIGS=("$MRX_TOP/scripts/debug-kernel.config")
ROOT=$("$MRX_TOP/scripts/buildroot.sh")
KERNEL=$("$MRX_TOP/scripts/kernel.sh")
# Rust with KASAN needs clang, of the LLVM that rustc has.
MAKE_ARGS=(LLVM=1 KBUILD_BUILD_USER=mrx KBUILD_BUILD_HOST=mrx)
name=debug-kernel what="the debug kernel" module=module-debug rust_flags=-Cdebuginfo=2

if [ "${1:-}" = --uml ]; then
	shift
	CONFIGS+=("$MRX_TOP/scripts/debug-kernel-uml.config")
	# A frame pointer in stub_signal_restorer() of arch/um/kernel/skas/stub.c is one
	# word too many on the stack that rt_sigreturn() takes the registers from.
	MAKE_ARGS+=(ARCH=um SUBARCH=x86 "CFLAGS_stub.o=-fno-PIC -fno-stack-protector -fomit-frame-pointer")
	name=uml-kernel what="the debug kernel as a program" module=module-uml
	# its loader of modules knows no table of addresses
	rust_flags="$rust_flags -Crelocation-model=static -Ccode-model=large"
else
	MAKE_ARGS+=(ARCH=x86_64)
fi

dir=$MRX_CACHE/$name-$(key "$(cat "${CONFIGS[@]}")" "$ROOT" "$KERNEL")

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
	last=$(ls -dt "$MRX_CACHE/$name"-*/obj 2>/dev/null | head -n 1)
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

# options: the last word that the configurations have on each option.
options() {
	awk '
		/^CONFIG_[A-Z0-9_]+=/ { split($0, part, "="); name = part[1] }
		/^# CONFIG_[A-Z0-9_]+ is not set$/ { name = $2 }
		name { line[name] = $0; name = "" }
		END { for (name in line) print line[name] }' "${CONFIGS[@]}"
}

# Kconfig drops in silence what lacks a dependency; here that is an error.
configure() {
	local line missing=0
	options >"$dir/obj/mrx.config"
	kernel_make KCONFIG_ALLCONFIG="/cache/${dir##*/}/obj/mrx.config" allnoconfig
	while read -r line; do
		grep -qxF "$line" "$dir/obj/.config" && continue
		echo "not in the configuration: $line" >&2
		missing=1
	done < <(grep '^CONFIG_' "$dir/obj/mrx.config")
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
	[ "$name" != uml-kernel ] || touch "$dir/uml"
}

make_debug_kernel() {
	! is_built || return 0
	need_root
	need_space "$MRX_CACHE" 4000 "$what"
	timed "Begin the build folder of $what" start_obj
	timed "Configure $what" configure
	timed "Compile $what (10 minutes on two processors of its own)" compile
	timed "Install the modules of $what" install
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
		KCFLAGS=-g "KRUSTFLAGS=$rust_flags" -j"${MRX_JOBS:-$(nproc)}" "$@" >&2
	ls "$MRX_BUILD/$out"/*.ko
}

case ${1:-} in
'' | --module)
	is_built || with_lock "$name" make_debug_kernel >&2
	if [ -z "${1:-}" ]; then
		echo "$dir"
	else
		shift
		need_root
		[ $# -ne 1 ] || die "--module DIR needs OUT"
		[ $# -gt 0 ] || set -- . "$module"
		make_modules "$@"
	fi
	;;
--have)
	is_built || exit 1
	echo "$dir"
	;;
*) die "debug-kernel.sh [--uml] [--have | --module [DIR OUT [ARGUMENT...]]]" ;;
esac
