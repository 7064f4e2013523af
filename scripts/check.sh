#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# All tests, cheap ones first, each counted. The last line is the sum.
#
# --host-only  leave out what needs a virtual machine

. "$(dirname "$0")/lib.sh"

host_only=
[ "${1:-}" != --host-only ] || host_only=1

passed=0 failed=0 skipped=0
mkdir -p "$MRX_BUILD"
report=$MRX_BUILD/check.ktap
: >"$report"

count() { # STATUS NAME: one test of this script's own
	if [ "$1" -eq 0 ]; then
		passed=$((passed + 1))
		echo "ok - $2" | tee -a "$report"
	else
		failed=$((failed + 1))
		echo "not ok - $2" | tee -a "$report"
	fi
}

# try NAME COMMAND...: a command that is a test.
try() {
	local name=$1 status=0 log=$MRX_BUILD/check.log
	shift
	"$@" >"$log" 2>&1 </dev/null || status=$?
	[ "$status" -eq 0 ] || tail -n 60 "$log" | sed 's/^/# /'
	count "$status" "$name"
}

# sum_of WORD LOG: how many tests cargo says were that.
sum_of() { sed -n "s/^test result: .* \\([0-9]*\\) $1; .*/\\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'; }

# cargo_tests NAME ARGS...: each test of a crate is a test.
cargo_tests() {
	local name=$1 log=$MRX_BUILD/cargo-test.log status=0 ok bad
	shift
	"$MRX_TOP/scripts/userspace.sh" test "$@" >"$log" 2>&1 </dev/null || status=$?
	ok=$(sum_of passed "$log") bad=$(sum_of failed "$log")
	passed=$((passed + ok)) failed=$((failed + bad))
	if [ "$status" -ne 0 ]; then
		tail -n 60 "$log" | sed 's/^/# /'
		[ "$bad" -gt 0 ] || failed=$((failed + 1))
	fi
	if [ "$ok" -eq 0 ]; then
		count 1 "$name: no test ran"
	else
		echo "# $name: $ok passed, $bad failed" | tee -a "$report"
	fi
}

# guest_tests: everything that needs the kernel, in one boot.
guest_tests() {
	local log=$MRX_BUILD/guest.ktap status=0
	say "Boot Debian's kernel and run the self-tests ..."
	"$MRX_TOP/scripts/vm.sh" --timeout "${MRX_GUEST_TIMEOUT:-2400}" --ivshmem 16 --log "$MRX_BUILD/kernel.log" -- \
		/mrx/selftests/guest/run </dev/null | tee "$log" || status=$?
	cat "$log" >>"$report"
	skipped=$((skipped + $(grep -Eci '^ *ok .*# *skip' "$log" || true)))
	passed=$((passed + $(grep -Ei '^ *ok ' "$log" | grep -Evic '# *skip' || true)))
	failed=$((failed + $(grep -Eci '^ *not ok ' "$log" || true)))
	if [ "$status" -ne 0 ] && ! grep -qi '^ *not ok ' "$log"; then
		count 1 "the guest ends well (status $status)"
	fi
	grep -q '^1\.\.[0-9]' "$log" || count 1 "the self-tests run to their end"
	try "the kernel log is clean" "$MRX_TOP/scripts/kernel-log.sh" "$MRX_BUILD/kernel.log"
}

need_root
"$MRX_TOP/scripts/buildroot.sh" >/dev/null
"$MRX_TOP/scripts/kernel.sh" >/dev/null

say "Host tests"
try "every file has an SPDX line" "$MRX_TOP/scripts/lint.sh" spdx
try "shell scripts pass shellcheck" "$MRX_TOP/scripts/lint.sh" shell
try "Rust files are formatted" "$MRX_TOP/scripts/lint.sh" rustfmt
try "the log scan finds what it is for" "$MRX_TOP/scripts/kernel-log.sh" --self-test
say "Build the module"
try "the module builds without a warning" "$MRX_TOP/scripts/lint.sh" module
try "the modules of the tests build" "$MRX_TOP/scripts/selftest-modules.sh"
say "Build the library and the tests"
try "the library and the programs build without a warning" \
	"$MRX_TOP/scripts/lint.sh" userspace
say "Property tests of the layouts"
cargo_tests "layout arithmetic" -p mrx-layout
try "the layout arithmetic is right under AddressSanitizer" "$MRX_TOP/scripts/sanitize.sh"
cargo_tests "library" -p mrx
cargo_tests "hostile user" --release -p mrx-hostile
[ -n "$host_only" ] || guest_tests

[ "$skipped" -eq 0 ] || grep -Ei '^ *ok .*# *skip' "$report" | sed 's/^ */# skipped: /'
summary="$passed passed, $failed failed"
[ "$skipped" -eq 0 ] || summary="$summary, $skipped skipped"
echo "$summary"
[ "$failed" -eq 0 ]
