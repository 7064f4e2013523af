#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the kernel modules of the self-tests, and the programs that use them.
# Usage:
#
#   scripts/selftest-modules.sh [ARGUMENT...]    for Debian's kernel and the module
#                                                of scripts/module.sh; arguments go
#                                                to make
#   scripts/selftest-modules.sh --debug [ARGUMENT...]
#                                                for the debug kernel and the module
#                                                of scripts/debug-kernel.sh --module
#
#   scripts/selftest-modules.sh --uml [ARGUMENT...]
#                                                the same for the debug kernel that is
#                                                a program
#
# Prints the folder of the modules, which is MRX_TEST_MODULES of selftests/guest:
# build/selftests, build/selftests-debug or build/selftests-uml.

. "$(dirname "$0")/lib.sh"

ROOT=$("$MRX_TOP/scripts/buildroot.sh")

# build DIR OUT ARGUMENT...: the modules in the folder DIR of the checkout go to
# build/OUT.
case ${1:-} in
--debug)
	shift
	module=module-debug out=selftests-debug
	build() { "$MRX_TOP/scripts/debug-kernel.sh" --module "$@" >&2; }
	;;
--uml)
	shift
	module=module-uml out=selftests-uml
	build() { "$MRX_TOP/scripts/debug-kernel.sh" --uml --module "$@" >&2; }
	;;
*)
	KERNEL=$("$MRX_TOP/scripts/kernel.sh")
	module=module out=selftests
	build() {
		local source=/mrx objects=/mrx/build/$2
		[ "$1" = . ] || source=/mrx/$1
		mkdir -p "$MRX_BUILD/$2"
		in_root "$ROOT" make -C "/cache/${KERNEL##*/}/obj" ARCH=x86_64 CC=x86_64-linux-gnu-gcc-14 \
			M="$source" MO="$objects" -j"$(nproc)" "${@:3}" >&2
	}
	;;
esac

need_root
[ -e "$MRX_BUILD/$module/Module.symvers" ] || die "build the module first (build/$module)"

for modules in peer kapi kverbs; do
	build "selftests/$modules" "$out/$modules" \
		KBUILD_EXTRA_SYMBOLS="/mrx/build/$module/Module.symvers" "$@"
done
# The other flavour of the registry, and a client that needs it.
build . "$out/module-plain" MRX_PEER_EXPORT=plain "$@"
build selftests/peer/plain "$out/plain" \
	KBUILD_EXTRA_SYMBOLS="/mrx/build/$out/module-plain/Module.symvers" "$@"

# Of use with the detectors only, and with fault injection and kprobes.
[ "$module" = module ] || build selftests/offence "$out/offence" "$@"
[ "$module" != module-debug ] || build selftests/sites "$out/sites" "$@"

mkdir -p "$MRX_BUILD/selftests"
sources=("$MRX_TOP"/selftests/peer/user/*.c)
in_root "$ROOT" gcc-14 -O2 -Wall -Wextra -Wno-override-init \
	-Wno-format-zero-length -Werror -pthread -I/mrx/selftests/peer -I/mrx/include/uapi \
	-o /mrx/build/selftests/peer_test "${sources[@]/#"$MRX_TOP"//mrx}" -libverbs
# it links with the library
"$MRX_TOP/scripts/userspace.sh" build --release --package mrx >&2
in_root "$ROOT" make -s -C /mrx/selftests/odp O=/mrx/build/selftests
in_root "$ROOT" gcc-14 -O2 -Wall -Wextra -Werror -shared -fPIC -o /mrx/build/selftests/sweep.so \
	/mrx/selftests/sites/sweep.c
echo "$MRX_BUILD/$out"
