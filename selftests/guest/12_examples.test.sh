#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The programs of Documentation/examples compile without a warning and do what
# their comments say.

. "$(dirname "$0")/lib.sh"

build() { # NAME
	gcc -Wall -Wextra -Wno-missing-field-initializers -Werror \
		-I"$MRX_TOP/include" -I"$MRX_TOP/include/uapi" -o "$WORK/$1" \
		"$MRX_TOP/Documentation/examples/$1.c" -L"$MRX_TOP/build/cargo/release" -lmrx -libverbs
}

device() {
	load_mrx
	dummy mrx0 10.9.0.1/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	export LD_LIBRARY_PATH=$MRX_TOP/build/cargo/release
}

test_a_program_is_built_and_runs_with_the_library_as_installed() {
	local installed=$WORK/installed flags
	DESTDIR=$installed PREFIX=/usr "$MRX_TOP/scripts/install.sh" >/dev/null
	export PKG_CONFIG_SYSROOT_DIR=$installed PKG_CONFIG_PATH=$installed/usr/lib/pkgconfig
	# only what is installed, without the folders of this checkout
	export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
	read -ra flags < <(pkg-config --cflags --libs libmrx)
	gcc -o "$WORK/noncontiguous" "$MRX_TOP/Documentation/examples/noncontiguous.c" "${flags[@]}"
	device
	export LD_LIBRARY_PATH=$installed/usr/lib
	equal "0 1 0 2 0 3 0 4" "$("$WORK/noncontiguous" "$(gid_index rxe_mrx0)")" "its output"
	[ -e "$installed/usr/share/man/man7/mrx.7" ] || fail "no manual page"
}

test_the_smallest_program_writes_every_other_word() {
	build noncontiguous
	device
	equal "0 1 0 2 0 3 0 4" "$("$WORK/noncontiguous" "$(gid_index rxe_mrx0)")" "its output"
}

run_suite "$@"
