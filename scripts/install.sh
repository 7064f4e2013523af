#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Installs what programs need to use libmrx: the library that scripts/userspace.sh
# has built, its headers, its manual pages and its pkg-config file.
#
#   PREFIX   default /usr/local
#   LIBDIR   default PREFIX/lib
#   DESTDIR  put before all paths, for packagers

. "$(dirname "$0")/lib.sh"

PREFIX=${PREFIX:-/usr/local}
LIBDIR=${LIBDIR:-$PREFIX/lib}
DESTDIR=${DESTDIR:-}
VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$MRX_TOP/Cargo.toml" | head -n 1)

# put MODE FILE PATH
put() {
	install -D -m "$1" "$2" "$DESTDIR$3"
	echo "$DESTDIR$3"
}

library=$MRX_BUILD/cargo/release/libmrx.so
[ -e "$library" ] || die "there is no $library yet: scripts/userspace.sh builds it"

put 755 "$library" "$LIBDIR/libmrx.so.0"
ln -sfn libmrx.so.0 "$DESTDIR$LIBDIR/libmrx.so"
put 644 "$MRX_TOP/include/infiniband/mrx.h" "$PREFIX/include/infiniband/mrx.h"
put 644 "$MRX_TOP/include/uapi/rdma/mrx_user_ioctl.h" "$PREFIX/include/rdma/mrx_user_ioctl.h"
for page in "$MRX_TOP"/libmrx/man/*.[1-9]; do
	put 644 "$page" "$PREFIX/share/man/man${page##*.}/${page##*/}"
done
put 644 /dev/stdin "$LIBDIR/pkgconfig/libmrx.pc" <<PC
prefix=$PREFIX
libdir=$LIBDIR
includedir=\${prefix}/include

Name: libmrx
Description: Memory regions with layouts, for RDMA devices of mrx
Version: $VERSION
Requires: libibverbs
Libs: -L\${libdir} -lmrx
Cflags: -I\${includedir}
PC

# The list of the linker is of this machine, not of a package's folder.
[ -n "$DESTDIR" ] || ldconfig
