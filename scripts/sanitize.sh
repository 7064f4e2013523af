#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the fuzzer of the layout arithmetic under AddressSanitizer, for some
# seconds (default 10), with the runtime of the build root's clang.

. "$(dirname "$0")/lib.sh"

ROOT=$("$MRX_TOP/scripts/buildroot.sh")
TARGET=x86_64-unknown-linux-gnu
mkdir -p "$MRX_CACHE/cargo"

# The sanitizers are unstable flags of rustc.
in_root "$ROOT" env RUSTC_BOOTSTRAP=1 CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/mrx/build/sanitized \
	CARGO_TERM_COLOR=never \
	RUSTFLAGS="-Zsanitizer=address -Zexternal-clangrt -Clinker=clang-19 -Clink-arg=-fsanitize=address" \
	cargo run --locked --target "$TARGET" --package mrx-layout --bin mrx-layout-fuzz -- \
	/mrx/selftests/layout/fuzz/corpus "${1:-10}" 1
