#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the module inside the build root, against Debian's kernel. Other
# arguments go to make, such as CLIPPY=1.
# Prints the module's path on the last line.

. "$(dirname "$0")/lib.sh"

ROOT=$("$MRX_TOP/scripts/buildroot.sh")
KERNEL=$("$MRX_TOP/scripts/kernel.sh")

build() {
	in_root "$ROOT" make -C "/cache/${KERNEL##*/}/obj" ARCH=x86_64 CC=x86_64-linux-gnu-gcc-14 \
		M=/mrx MO=/mrx/build/module -j"$(nproc)" "$@" >&2
}

need_root
mkdir -p "$MRX_BUILD/module"
build "$@"
echo "$MRX_BUILD/module/ib_mrx.ko"
