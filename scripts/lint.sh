#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# lint.sh WHAT: one of the checks that need no running kernel. Prints what is
# wrong and fails.

. "$(dirname "$0")/lib.sh"

cd "$MRX_TOP" || exit

files() { git ls-files -co --exclude-standard -- "$@" | while read -r f; do [ ! -f "$f" ] || echo "$f"; done; }

spdx() {
	local missing
	missing=$(files '*.rs' '*.c' '*.h' '*.sh' '*.md' '*.toml' '*.3' '*.7' Kbuild Makefile 'selftests/guest/*' scripts .ci |
		grep -v '^Cargo.lock$' | xargs -r grep -L 'SPDX-License-Identifier') || true
	[ -z "$missing" ] || die "no SPDX line in: $missing"
}

shell() {
	files '*.sh' scripts/guest-init .ci/run 'selftests/guest/*' | xargs -r grep -lE '^#!.*bash|shellcheck shell=bash' |
		sed 's|^|/mrx/|' | xargs -r "$MRX_TOP/scripts/in-root.sh" shellcheck -x -S warning
}

rustfmt_() {
	"$MRX_TOP/scripts/in-root.sh" rustfmt --check --edition 2021 rust/ib_mrx_main.rs \
		selftests/peer/rust/main.rs selftests/kapi/rust/main.rs
	"$MRX_TOP/scripts/in-root.sh" cargo fmt --all --check
}

module() {
	local log=$MRX_BUILD/module.log
	"$MRX_TOP/scripts/module.sh" CLIPPY=1 "$@" >"$log" 2>&1 || { cat "$log"; return 1; }
	! grep -E '^(warning|error)' -A 8 "$log"
	"$MRX_TOP/scripts/module.sh" >"$log" 2>&1 || { cat "$log"; return 1; }
}

userspace() {
	"$MRX_TOP/scripts/userspace.sh" clippy --workspace --all-targets --release -- -D warnings
	"$MRX_TOP/scripts/userspace.sh" build --workspace --release
}

case ${1:-} in
spdx | shell | module | userspace) "$@" ;;
rustfmt) rustfmt_ ;;
*) die "lint.sh spdx|shell|rustfmt|module|userspace" ;;
esac
