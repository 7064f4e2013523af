#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# kdir.sh DIR: whether the kernel build in DIR can have the module. One line and
# a non-zero status if not.

. "$(dirname "$0")/lib.sh"

dir=${1:?kdir.sh DIR}
release=$(cat "$dir/include/config/kernel.release" 2>/dev/null) || die "$dir is no configured kernel build"
case $release in
7.2 | 7.2[.-]* | 7.2+* | 7.3 | 7.3[.-]* | 7.3+*) ;;
*) die "$dir is kernel $release; mrx is for 7.2 and 7.3" ;;
esac
grep -q '^CONFIG_RUST=y' "$dir/.config" || die "$dir has no Rust (CONFIG_RUST)"
grep -Eq '^CONFIG_INFINIBAND_USER_ACCESS=[ym]' "$dir/.config" || die "$dir has no uverbs (CONFIG_INFINIBAND_USER_ACCESS)"
[ -e "$dir/rust/libkernel.rmeta" ] || die "$dir has no Rust metadata: run 'make rust/' (or 'make prepare') in it first"
mkdir -p "$MRX_BUILD/kdir"
