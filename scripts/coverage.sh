#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Which functions of the module ran, from the places that mrx-hostile --coverage
# saw. Usage:
#
#   scripts/coverage.sh MODULE PLACES...
#
# MODULE is a path below build/ of a module that was built with KCOV_INSTRUMENT=y.
# Prints a line for each file of source, with the functions that never ran, and in
# the end the sums. What is inlined counts as a function of its own; what is not in
# the module because nobody calls it does not count.

. "$(dirname "$0")/lib.sh"

[ $# -ge 2 ] || die "coverage.sh MODULE PLACES..."
module=$MRX_BUILD/$1
shift
ROOT=$("$MRX_TOP/scripts/buildroot.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Where the calls return that tell of a place: four bytes behind what is relocated.
readelf -rW "$module" | awk '
	/^Relocation section/ { text = /\.rela\.text\x27/ }
	text && /__sanitizer_cov_trace_pc/ { print $1 }' |
	while read -r offset; do printf '%#x\n' $((16#$offset + 4)); done | sort -u >"$work/places"
[ -s "$work/places" ] || die "$module was not built with KCOV_INSTRUMENT=y"
sort -u "$@" >"$work/seen"

# The function and the line of each, down to what was inlined there.
in_root "$ROOT" xargs addr2line -e "/mrx/build/${module#"$MRX_BUILD/"}" -j .text -f -C <"$work/places" |
	paste - - | sed -E 's/\[[0-9a-f]+\]//g' >"$work/lines"
[ "$(wc -l <"$work/lines")" -eq "$(wc -l <"$work/places")" ] || die "addr2line does not know all places"

paste "$work/places" "$work/lines" |
	awk -F '\t' -v sum="$work/sum" '
	FILENAME == ARGV[1] { seen[$1] = 1; next }
	{
		file = $3
		sub(/:[0-9?]+( .*)?$/, "", file)
		# what is of the kernel crate, of core, or made by macros of C, is not ours
		if (file !~ /(^|\/)mrx\/rust\/.*\.(rs|c)$/)
			next
		sub(/.*mrx\/rust\//, "rust/", file)
		name = $2
		gsub(/\{closure#[0-9]+\}/, "closure", name)
		key = file SUBSEP name
		places[file]++
		if (!(key in functions)) {
			functions[key] = 1
			count[file]++
		}
		if ($1 in seen) {
			reached[file]++
			if (!(key in ran)) {
				ran[key] = 1
				entered[file]++
			}
		}
	}
	END {
		for (key in functions) {
			split(key, part, SUBSEP)
			if (!(key in ran))
				never[part[1]] = never[part[1]] "\001    never: " part[2]
		}
		for (file in count) {
			printf "%s: %d of %d functions, %d of %d places%s\n", file, entered[file], count[file],
				reached[file], places[file], never[file]
			all += count[file]; in_all += entered[file]
			all_places += places[file]; all_reached += reached[file]
		}
		printf "%d of %d functions ran, %d of %d places\n", in_all, all, all_reached, all_places >sum
	}' "$work/seen" - | sort | tr '\001' '\n'
cat "$work/sum"
