#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# The self-tests in the debug kernel, under all of its detectors, and before
# that the proof that each detector works. Builds what is missing. The last line
# is the sum. Usage:
#
#   scripts/check-debug.sh [offences] [verbs] [guest] [faults]
#                          [uml-offences] [uml-verbs] [uml-guest]    default: all
#   scripts/check-debug.sh [soak] [uml-soak]                         see scripts/soak.sh
#   scripts/check-debug.sh hostile                                   see scripts/hostile.sh
#
# Parts that begin with "uml" run in the kernel that is a program, the others in a
# machine of QEMU. What of the suites is left out in which of the two, and why, is in
# selftests/guest/debug.skips and selftests/guest/uml.skips.
#
#   MRX_SELFTEST  more arguments for mrx-selftest, such as "--filter transfer"
#   MRX_FILTER    a glob for the suites of selftests/guest
#   MRX_FAULTS    ways in which memory fails; default "start sweep hunt-verbs
#                 hunt-clients module tests"
#   MRX_TIMEOUT   seconds that one boot may take; default 3600
#   MRX_PATIENCE  in the kernel that is a program: what limits on time are
#                 multiplied with; default 4
#
# An emulated processor runs this kernel about ten times slower than Debian's; as a
# program it is as fast as the host, but for what enters the kernel.

. "$(dirname "$0")/lib.sh"

LOGS=$MRX_BUILD/debug
TIMEOUT=${MRX_TIMEOUT:-3600}
# two reports of KASAN in one boot are two; leaks go to the log as well
APPEND="kasan_multi_shot kmemleak.verbose=1 ${MRX_APPEND:-}"

passed=0 failed=0 skipped=0
mkdir -p "$LOGS"

count() { # STATUS NAME
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok - $2"
	else
		failed=$((failed + 1))
		echo "not ok - $2"
	fi
}

# guest NAME COMMAND...: one boot; its output goes to $LOGS/NAME.ktap, and the
# kernel's log to $LOGS/NAME.log.
guest() {
	local name=$1 status=0 started=$SECONDS
	shift
	say "Boot the debug kernel: $name ..."
	MRX_APPEND=$APPEND "$MRX_TOP/scripts/vm.sh" --kernel "$KERNEL" --timeout "$TIMEOUT" --ivshmem 16 \
		--log "$LOGS/$name.log" -- "$@" </dev/null >"$LOGS/$name.ktap" || status=$?
	cat "$LOGS/$name.ktap"
	say "$name: status $status after $((SECONDS - started)) s"
	return "$status"
}

# without_vmap_warnings: dma_buf_vmap() warns when the exporter of a buffer has no
# memory for the mapping.
without_vmap_warnings() {
	awk '
		/-\[ cut here \]-/ { report = "" ; held = 1 }
		!held { print; next }
		{ report = report $0 "\n" }
		/-\[ end trace / {
			if (report !~ /WARNING: drivers\/dma-buf\/dma-buf\.c:[0-9]+ at dma_buf_vmap/)
				printf "%s", report
			held = 0
		}
		END { if (held) printf "%s", report }'
}

# What a log goes through before it is looked at.
EXCUSE='cat'

# clean NAME: nothing is in a log that a sound kernel does not say. A page fault
# whose allocation was made to fail is taken again, and says that its error
# "leaked out".
clean() {
	local status=0
	grep -av 'VM_FAULT_OOM leaked out' "$LOGS/$1.log" | "$EXCUSE" >"$LOGS/$1.scan"
	"$MRX_TOP/scripts/kernel-log.sh" "$LOGS/$1.scan" || status=$?
	count "$status" "$1: the kernel log is clean"
}

# ---- does each detector work?

# What each offence of selftests/offence has to be reported as.
expected() {
	sed -e '/^#/d' <<'EXPECTED'
sleep_in_atomic	sleeping function called from invalid context
shift	UBSAN: shift-out-of-bounds in .*offence_main\.c
bounds	UBSAN: array-index-out-of-bounds in .*offence_main\.c
list	list_del corruption
refcount	refcount_t: addition on 0; use-after-free
leak	kmemleak: [0-9]+ new suspected memory leaks
rust_leak	kmemleak: [0-9]+ new suspected memory leaks
rcu	suspicious RCU usage
lock_inversion	possible circular locking dependency detected
cache	Objects remaining
use_after_free	KASAN: slab-use-after-free in offence_use_after_free
out_of_bounds	KASAN: slab-out-of-bounds in offence_out_of_bounds
vmalloc_out_of_bounds	KASAN: vmalloc-out-of-bounds in offence_vmalloc_out_of_bounds
rust_use_after_free	KASAN: slab-use-after-free in offence_rust_use_after_free
rust_overflow	panicked at .*offence_rust\.rs:.*attempt to add with overflow|attempt to add with overflow
EXPECTED
}

# piece BOOT NAME: what its log has between the lines about the offence NAME.
piece() { tr -d '\r' <"$LOGS/$1.log" | sed -n "/offence: begin $2\$/,/offence: end $2\$/p"; }

# offences_in BOOT MODULES [EXCEPT]: the offences, but for those whose names are the
# regular expression EXCEPT.
offences_in() {
	local boot=$1 name regex status log=$LOGS/offence.log
	guest "$boot" /mrx/selftests/offence/run "/mrx/build/$2/offence/offence.ko" || true
	piece "$boot" nothing >"$log"
	status=0
	[ -s "$log" ] && "$MRX_TOP/scripts/kernel-log.sh" "$log" || status=$?
	count "$status" "without an offence there is no report"
	while IFS=$'\t' read -r name regex; do
		[[ ! $name =~ ^(${3:-})$ ]] || continue
		piece "$boot" "$name" >"$log"
		status=0
		if [ ! -s "$log" ]; then
			echo "# it was not committed"
			status=1
		elif "$MRX_TOP/scripts/kernel-log.sh" "$log" >/dev/null 2>&1; then
			echo "# scripts/kernel-log.sh found nothing"
			status=1
		elif ! grep -qE "$regex" "$log"; then
			sed 's/^/# /' "$log"
			status=1
		fi
		count "$status" "$boot: the offence $name is reported"
	done < <(expected)
}

offences() { offences_in offences selftests-debug; }

# ---- the self-tests

# tests NAME COMMAND...: a boot whose KTAP lines are counted.
tests() {
	local name=$1 status=0 ktap=$LOGS/$1.ktap
	guest "$@" || status=$?
	skipped=$((skipped + $(grep -Eci '^ *ok .*# *skip' "$ktap" || true)))
	passed=$((passed + $(grep -Ei '^ *ok ' "$ktap" | grep -Evic '# *skip' || true)))
	failed=$((failed + $(grep -Eci '^ *not ok ' "$ktap" || true)))
	if [ "$status" -ne 0 ] && ! grep -qi '^ *not ok ' "$ktap"; then
		count 1 "$name: the guest ends well (status $status)"
	fi
	grep -q '^1\.\.[0-9]' "$ktap" || count 1 "$name: the tests run to their end"
	clean "$name"
}

# shellcheck disable=SC2086 # several arguments
verbs() { tests verbs /mrx/scripts/debug-guest.sh verbs ${MRX_SELFTEST:-}; }

suites() { # BOOT [NAME=VALUE...]
	local boot=$1
	shift
	tests "$boot" env "$@" /mrx/scripts/debug-guest.sh guest ${MRX_FILTER:+"$MRX_FILTER"}
}

# ---- the same in the kernel that is a program

# What the detectors there do not see: the start of that kernel breaks a rule of
# lockdep, which is off from then on, and kmemleak, which does not find its roots
# there, is turned off.
UNSEEN_IN_UML='leak|rust_leak|rcu|lock_inversion'

# without_start: what that kernel says before its clock runs, the report of lockdep
# among it.
without_start() { sed '/^\[ *0\.000000\]/d'; }

# shellcheck disable=SC2086 # several arguments
in_uml() { # PART
	local KERNEL=$UML_KERNEL APPEND="kasan_multi_shot kmemleak=off ${MRX_APPEND:-}" EXCUSE=without_start
	local settings=(
		MRX_KO=/mrx/build/module-uml/ib_mrx.ko MRX_TEST_MODULES=/mrx/build/selftests-uml
		MRX_SKIPS=/mrx/selftests/guest/uml.skips "MRX_PATIENCE=${MRX_PATIENCE:-4}"
	)
	case $1 in
	uml-offences) offences_in uml-offences selftests-uml "$UNSEEN_IN_UML" ;;
	uml-verbs) tests uml-verbs env "${settings[@]}" /mrx/scripts/debug-guest.sh verbs ${MRX_SELFTEST:-} ;;
	uml-guest) suites uml-guest "${settings[@]}" ;;
	uml-soak) soak uml-soak "${settings[@]}" ;;
	esac
}


# ---- failing allocations

WAYS="start sweep hunt-verbs hunt-clients module tests"

# sections: the sections of the module's code, and where the kernel puts each: "+"
# stands for the code that is gone after loading.
sections() {
	in_root "$ROOT" readelf -SW /mrx/build/module-debug/ib_mrx.ko | sed -E 's/^ *\[ *[0-9]+\] //' |
		while read -r name type _ _ size _ flags _ _ align; do
			[ "$type" = PROGBITS ] && [[ $flags == *X* ]] || continue
			case $name in
			.init.*) echo "$name + 0 $((16#$size))" ;;
			*)
				start=$(((${end:-0} + align - 1) / align * align))
				end=$((start + 16#$size))
				echo "$name - $start $end"
				;;
			esac
		done
}

# names: the lines of source of all places that are in $LOGS/all.sites.
names() {
	local section mark start end place offset
	while read -r section mark start end; do
		awk '{ print $2; print $3 }' "$LOGS/all.sites" | sort -u | while read -r place; do
			case $mark$place in
			++0x*) offset=$((${place#+} - start)) ;;
			-0x*) offset=$((place - start)) ;;
			*) continue ;;
			esac
			# an offset is where a call returns to
			[ "$offset" -le 0 ] || [ "$offset" -gt $((end - start)) ] ||
				printf '%s %#x\n' "$place" $((offset - 1))
		done >"$LOGS/places"
		[ -s "$LOGS/places" ] || continue
		paste <(cut -d' ' -f1 "$LOGS/places") <(cut -d' ' -f2 "$LOGS/places" | lines_of "$section")
	done < <(sections)
}

# lines_of SECTION: reads offsets in it, prints the line of source of each.
lines_of() {
	in_root "$ROOT" xargs -r addr2line -e /mrx/build/module-debug/ib_mrx.ko -j "$1" -f -C |
		paste - - | sed -E 's/\[[0-9a-f]{16}\]//g; s/ib_mrx_main:://g; s|\t.*/mrx/| |; s|\t| |'
}

# named KIND: the sites of a kind, with how often each was reached and failed, and
# the lines of source of its two places.
named() {
	awk -F '\t' -v kind="$1" 'NR == FNR { name[$1] = $2; next }
		{ split($0, site, " ") }
		site[1] == kind {
			print "reached", site[4], "failed", site[5] ": " name[site[2]] " < " name[site[3]]
		}' "$LOGS/names" "$LOGS/all.sites" | sort -k4,4n -k2,2nr
}

# sites: of all sites at which the module was seen to ask for memory, or to copy, how
# many were refused it. Those that were not are named, and are a failure. A site may
# ask for an object and, for want of one, for a page: either may be what fails.
sites() {
	local way
	for way in $WAYS; do
		[ ! -e "$LOGS/$way.sites" ] || cat "$LOGS/$way.sites"
	done | sed 's/ 0x0 / - /' | awk '
	/^#/ { print "# " $0 >"/dev/stderr"; next }
	{
		key = ($1 == "copy" ? "copy " : "allocation ") $2 " " $3
		if ($1 != "page" || !reached[key])
			reached[key] += $4
		failed[key] += $5
	}
	END {
		for (key in reached)
			print key, reached[key], failed[key]
	}' >"$LOGS/all.sites"
	names >"$LOGS/names"
	all_failed allocation "allocation sites"
	all_failed copy "copies from and to user space"
}

# all_failed KIND WHAT: names the sites of a kind that did not fail.
all_failed() {
	local sites=$LOGS/$1.named reached failed
	named "$1" >"$sites"
	reached=$(wc -l <"$sites")
	failed=$(grep -vc ' failed 0:' "$sites" || true)
	grep ' failed 0:' "$sites" | sed 's/^/# /' || true
	echo "# $failed of $reached $2 failed ($sites)"
	# one way alone does not get to all of them
	[ -n "${MRX_FAULTS:-}" ] ||
		count "$((reached == 0 || failed < reached))" "all $2 that were reached have failed"
}

# shellcheck disable=SC2086 # several arguments
faults() {
	local way EXCUSE=without_vmap_warnings
	for way in ${MRX_FAULTS:-$WAYS}; do
		rm -f "$LOGS/$way.sites"
		case $way in
		start) tests start /mrx/scripts/debug-guest.sh start ;;
		sweep) tests sweep /mrx/scripts/debug-guest.sh sweep ${MRX_SELFTEST:-} ;;
		hunt-verbs) tests "$way" /mrx/scripts/debug-guest.sh hunt verbs ${MRX_SELFTEST:-} ;;
		hunt-clients) tests "$way" /mrx/scripts/debug-guest.sh hunt clients ;;
		module) tests module /mrx/scripts/debug-guest.sh faults module 7,31,211 ${MRX_SELFTEST:-} ;;
		tests) tests tests /mrx/scripts/debug-guest.sh faults tests 499,1999 ${MRX_SELFTEST:-} ;;
		*) die "MRX_FAULTS is of $WAYS" ;;
		esac
	done
	sites
}

soak() { # BOOT [NAME=VALUE...]
	local boot=$1
	shift
	tests "$boot" env "$@" ${MRX_SEED:+MRX_SEED="$MRX_SEED"} \
		/mrx/scripts/debug-guest.sh soak "${MRX_SOAK_MINUTES:-60}"
}

# ---- the hostile user

# ill_treated NAME GLOB VARIABLE=VALUE...: a boot with some of the suite 70_hostile,
# and what it reported.
ill_treated() {
	local name=$1 glob=$2
	shift 2
	rm -f "$LOGS/$name.report"
	tests "$name" env "$@" MRX_HOSTILE_REPORT="/mrx/build/debug/$name.report" \
		/mrx/scripts/debug-guest.sh suite 70_hostile "$glob"
	cat "$LOGS/$name.report"
}

hostile() {
	local seed places=()
	timed "Build the module that tells what runs" \
		"$MRX_TOP/scripts/debug-kernel.sh" --module . module-kcov KCOV_INSTRUMENT=y
	for seed in ${MRX_SEEDS:-1 2}; do
		places+=("$LOGS/hostile-$seed.places")
		ill_treated "hostile-$seed" '*harms*' MRX_KO=/mrx/build/module-kcov/ib_mrx.ko \
			MRX_HOSTILE_SECONDS="${MRX_HOSTILE_SECONDS:-600}" MRX_HOSTILE_SEED="$seed" \
			MRX_HOSTILE_LEAST="${MRX_HOSTILE_LEAST:-100000}" MRX_HOSTILE_COVER=yes \
			MRX_HOSTILE_PLACES="/mrx/build/debug/hostile-$seed.places"
	done
	ill_treated hostile-gone '*goes?on*' MRX_HOSTILE_SECONDS=120
	ill_treated hostile-limits '*limits*'
	# without a seed nothing was covered
	[ ${#places[@]} -gt 0 ] || return 0
	"$MRX_TOP/scripts/coverage.sh" module-kcov/ib_mrx.ko "${places[@]}" >"$LOGS/hostile.coverage"
	sed 's/^/# /' "$LOGS/hostile.coverage"
}

need_root
qemu='' uml=''
[ $# -gt 0 ] || set -- offences verbs guest faults uml-offences uml-verbs uml-guest
for what; do
	case $what in
	offences | verbs | guest | faults | soak | hostile) qemu=yes ;;
	uml-offences | uml-verbs | uml-guest | uml-soak) uml=yes ;;
	*) die "there is no part $what of check-debug.sh" ;;
	esac
done

ROOT=$("$MRX_TOP/scripts/buildroot.sh")
if [ -n "$qemu" ]; then
	KERNEL=$("$MRX_TOP/scripts/debug-kernel.sh" | tail -n 1)
	timed "Build the module for the debug kernel" "$MRX_TOP/scripts/debug-kernel.sh" --module
	timed "Build the modules of the tests for the debug kernel" "$MRX_TOP/scripts/selftest-modules.sh" --debug
fi
if [ -n "$uml" ]; then
	UML_KERNEL=$("$MRX_TOP/scripts/debug-kernel.sh" --uml | tail -n 1)
	timed "Build the module for the kernel that is a program" "$MRX_TOP/scripts/debug-kernel.sh" --uml --module
	timed "Build the modules of the tests for it" "$MRX_TOP/scripts/selftest-modules.sh" --uml
fi
timed "Build the self-tests" "$MRX_TOP/scripts/userspace.sh"

for what; do
	case $what in
	guest) suites guest ;;
	soak) soak soak ;;
	uml-*) in_uml "$what" ;;
	*) "$what" ;;
	esac
done

"$MRX_TOP/scripts/where-ran.sh" "$LOGS" >"$LOGS/where"
echo "$(tail -n 1 "$LOGS/where") ($LOGS/where)"
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary="$summary, $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ]
