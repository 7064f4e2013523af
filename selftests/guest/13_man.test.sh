#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The manual pages of the library: mandoc has nothing to say against them, there
# is one for each function, and the programs in them compile without a warning
# and print what the pages say. A page marks both in its source:
#
#   .\" begin program   ...   .\" end program
#   .\" begin output    ...   .\" end output

. "$(dirname "$0")/lib.sh"

MAN=$MRX_TOP/libmrx/man

# part WHAT PAGE: a marked part of a page, without the escapes of roff.
part() {
	sed -n "/^\.\\\\\" begin $1\$/,/^\.\\\\\" end $1\$/{/^\.\\\\\"/d;p}" "$MAN/$2" |
		sed "s/\\\\&//g; s/\\\\-/-/g; s/\\\\(aq/'/g; s/\\\\(ha/^/g; s/\\\\(ti/~/g; s/\\\\(ga/\`/g; s/\\\\e/\\\\/g"
}

lint() { # PAGE
	local said
	said=$(mandoc -T lint -W warning "$MAN/$1" 2>&1) || true
	equal "" "$said" "what mandoc says of $1"
}

# shown PAGE: a reader sees the program as it was compiled.
shown() {
	mandoc -T ascii "$MAN/$1" | sed 's/^     //' >"$WORK/shown"
	grep -vxFf "$WORK/shown" "$WORK/program.c" >"$WORK/missing" || return 0
	fail "not shown by $1: $(head -n 1 "$WORK/missing")"
}

device() {
	load_mrx
	dummy mrx0 10.9.0.1/24
	link mrx rxe_mrx0 mrx0
	eventually "$PATIENCE" port_is rxe_mrx0 ACTIVE
	export LD_LIBRARY_PATH=$MRX_TOP/build/cargo/release
}

# page NAME: all that a page promises.
page() {
	local status=0
	lint "$1"
	part program "$1" >"$WORK/program.c"
	part output "$1" >"$WORK/output"
	[ -s "$WORK/program.c" ] && [ -s "$WORK/output" ] || fail "$1 has no program or no output"
	shown "$1"
	gcc -Wall -Wextra -Werror -I"$MRX_TOP/include" -I"$MRX_TOP/include/uapi" -o "$WORK/program" \
		"$WORK/program.c" -L"$MRX_TOP/build/cargo/release" -lmrx -libverbs || fail "the program of $1 does not compile"
	device
	timeout "$PATIENCE" "$WORK/program" >"$WORK/printed" 2>&1 || status=$?
	equal "$(cat "$WORK/output")" "$(cat "$WORK/printed")" "the output of the program of $1"
	equal 0 "$status" "the status of the program of $1"
}

test_every_function_of_the_header_has_a_page() {
	local name
	for name in "$MAN"/*.[37]; do
		sed -n 's/^\.Nm \([a-z0-9_]*\).*/\1/p' "$name"
	done | sort -u >"$WORK/described"
	sed -nE 's/^(static inline )?[a-z].*[ *]((ibv|mrx)_[a-z_]+)\(.*/\2/p' "$MRX_TOP/include/infiniband/mrx.h" |
		sort -u >"$WORK/declared"
	[ -s "$WORK/declared" ] || fail "no function was found in the header"
	equal "" "$(grep -vxFf "$WORK/described" "$WORK/declared")" "functions without a page"
}

test_every_page_has_a_test() {
	local name
	for name in "$MAN"/*.[37]; do
		grep -q "^	page $(basename "$name")\$" "$SUITE_FILE" || fail "$(basename "$name") has none"
	done
}

test_the_page_of_ibv_mr_set_layout_sg_is_sound_and_its_program_prints_what_it_says() {
	page ibv_mr_set_layout_sg.3
}

test_the_page_of_ibv_mr_set_layout_interleaved_is_sound_and_its_program_prints_what_it_says() {
	page ibv_mr_set_layout_interleaved.3
}

test_the_page_of_ibv_query_mr_layout_caps_is_sound_and_its_program_prints_what_it_says() {
	page ibv_query_mr_layout_caps.3
}

test_the_page_of_mrx_create_mr_is_sound_and_its_program_prints_what_it_says() {
	page mrx_create_mr.3
}

test_the_page_of_mrx_query_layout_is_sound_and_its_program_prints_what_it_says() {
	page mrx_query_layout.3
}

test_the_page_of_mrx_prepare_bind_mr_is_sound_and_its_program_prints_what_it_says() {
	page mrx_prepare_bind_mr.3
}

test_the_page_of_mrx_advise_mr_is_sound_and_its_program_prints_what_it_says() {
	page mrx_advise_mr.3
}

test_the_page_of_extended_completion_queues_is_sound_and_its_program_prints_what_it_says() {
	page mrx_extended_cq.7
}

test_the_overview_is_sound_and_its_program_prints_what_it_says() {
	page mrx.7
}

run_suite "$@"
