#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the userspace library, the demo, the benchmark and the tests inside
# the build root. Arguments go to cargo, instead of `build`.

. "$(dirname "$0")/lib.sh"

ROOT=$("$MRX_TOP/scripts/buildroot.sh")
mkdir -p "$MRX_CACHE/cargo"
[ $# -gt 0 ] || set -- build --workspace --release

in_root "$ROOT" env CARGO_HOME=/cache/cargo CARGO_TARGET_DIR=/mrx/build/cargo CARGO_TERM_COLOR=never \
	cargo "$1" --locked "${@:2}"

# Programs that are linked with the library look for it by its version.
library=$MRX_BUILD/cargo/release/libmrx.so
[ ! -e "$library" ] || ln -sfn libmrx.so "$library.0"
