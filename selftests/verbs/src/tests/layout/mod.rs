// SPDX-License-Identifier: GPL-2.0

//! Layouts: one key over ranges of other regions.

mod bind;
mod holders;
mod interleaved;
mod keys;
mod refusals;
mod safe;
mod scene;
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
        bind::TESTS,
        safe::TESTS,
    ]
    .concat()
}
