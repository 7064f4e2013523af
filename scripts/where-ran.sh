#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Which test ran in which debug kernel, from the output of the boots of
# scripts/check-debug.sh: "both", "machine", "program" or "neither", a tab, and the
# name of the test. The last line sums that up. Usage:
#
#   scripts/where-ran.sh DIR    DIR holds verbs.ktap, guest.ktap, uml-verbs.ktap and
#                               uml-guest.ktap, or those of them that there are

set -euo pipefail

[ $# -eq 1 ] || {
	echo "usage: $0 DIR" >&2
	exit 2
}

# tests KIND FILE...: each test of the outputs, by the names of the two levels above
# which it stands: KIND, "ran" or "skipped", and the name.
tests() {
	local kind=$1
	shift
	awk -v kind="$kind" '
		!/^ *(not )?ok [0-9]+ / { next }
		{
			match($0, /^ */)
			level = RLENGTH / 2
			skipped = /# SKIP/
			line = $0
			sub(/^ *(not )?ok [0-9]+ (- )?/, "", line)
			sub(/ *# SKIP.*/, "", line)
			# what was a level deeper belongs to this line
			for (i = 0; i < count[level + 1]; i++)
				if (!above[level + 1, i])
					print kind "\t" (lacks[level + 1, i] ? "skipped" : "ran") "\t" line ": " name[level + 1, i]
			above[level, count[level] + 0] = count[level + 1] > 0
			count[level + 1] = 0
			lacks[level, count[level] + 0] = skipped
			name[level, count[level] + 0] = line
			# suites of which no test ran, and the checks of a boot, are no tests
			if (level < 1)
				count[level] = 0
			else
				count[level]++
		}' "$@" | grep -v $'\tselftests/guest: ' || true
}

{
	for kind in machine program; do
		prefix=''
		[ "$kind" = machine ] || prefix=uml-
		for boot in verbs guest; do
			[ ! -e "$1/$prefix$boot.ktap" ] || tests "$kind" "$1/$prefix$boot.ktap"
		done
	done
} | awk -F '\t' '
	{ all[$3]; if ($2 == "ran") ran[$1, $3] }
	END {
		for (test in all) {
			machine = ("machine", test) in ran
			program = ("program", test) in ran
			where = machine ? (program ? "both" : "machine") : (program ? "program" : "neither")
			sum[where]++
			print where "\t" test | "sort"
		}
		close("sort")
		printf "# %d tests ran in both debug kernels, %d in the machine only, %d in the program only, %d in neither\n",
			sum["both"], sum["machine"], sum["program"], sum["neither"]
	}'
