// SPDX-License-Identifier: GPL-2.0

//! Layouts: one key over ranges of other regions.

mod bind;
mod concurrency;
mod exit;
mod holders;
mod interleaved;
mod keys;
mod refusals;
mod safe;
mod scene;
mod shapes;
mod sight;
mod traffic;
mod uses;

use crate::harness::Test;

/// All tests of layouts.
pub fn all() -> Vec<Test> {
    [
        traffic::TESTS,
        holders::TESTS,
        refusals::TESTS,
        uses::TESTS,
        keys::TESTS,
        interleaved::TESTS,
        shapes::TESTS,
        bind::TESTS,
        concurrency::TESTS,
        sight::TESTS,
        safe::TESTS,
        exit::TESTS,
    ]
    .concat()
}
