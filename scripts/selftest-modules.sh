#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the kernel modules of the self-tests against Debian's kernel and the
# module that scripts/module.sh has built, and the programs that use them. Other
# arguments go to make.

. "$(dirname "$0")/lib.sh"

ROOT=$("$MRX_TOP/scripts/buildroot.sh")
KERNEL=$("$MRX_TOP/scripts/kernel.sh")

need_root
[ -e "$MRX_BUILD/module/Module.symvers" ] || die "build the module first (scripts/module.sh)"
mkdir -p "$MRX_BUILD/selftests/"{peer,kapi,kverbs,plain} "$MRX_BUILD/module-plain"

build() { # SOURCE OBJECTS ARG...
	in_root "$ROOT" make -C "/cache/${KERNEL##*/}/obj" ARCH=x86_64 CC=x86_64-linux-gnu-gcc-14 \
		M="/mrx$1" MO="/mrx/build/$2" -j"$(nproc)" "${@:3}" >&2
}

for modules in peer kapi kverbs; do
	build "/selftests/$modules" "selftests/$modules" \
		KBUILD_EXTRA_SYMBOLS=/mrx/build/module/Module.symvers "$@"
done
# The other flavour of the registry, and a client that needs it.
build "" module-plain MRX_PEER_EXPORT=plain "$@"
build /selftests/peer/plain selftests/plain \
	KBUILD_EXTRA_SYMBOLS=/mrx/build/module-plain/Module.symvers "$@"

sources=("$MRX_TOP"/selftests/peer/user/*.c)
in_root "$ROOT" gcc-14 -O2 -Wall -Wextra -Wno-override-init \
	-Wno-format-zero-length -Werror -pthread -I/mrx/selftests/peer -I/mrx/include/uapi \
	-o /mrx/build/selftests/peer_test "${sources[@]/#"$MRX_TOP"//mrx}" -libverbs
echo "$MRX_BUILD/selftests"
