// SPDX-License-Identifier: GPL-2.0

//! The tests, one file per area.

mod atomics;
mod completions;
mod datagrams;
mod events;
mod exit;
mod extended_cq;
pub mod flood;
mod layout;
mod local_faults;
mod regions;
mod remote_faults;
mod retries;
mod rings;
mod states;
mod transfer;
mod two_processes;
mod visits;
mod windows;

use crate::harness::Test;

/// All tests, in the order in which they run.
pub fn all() -> Vec<Test> {
    [
        transfer::TESTS,
        atomics::TESTS,
        completions::TESTS,
        datagrams::TESTS,
        events::TESTS,
        &extended_cq::all(),
        two_processes::TESTS,
        local_faults::TESTS,
        remote_faults::TESTS,
        retries::TESTS,
        states::TESTS,
        regions::TESTS,
        windows::TESTS,
        visits::TESTS,
        &layout::all(),
        exit::TESTS,
        flood::TESTS,
        // Last, as it is the most likely to break something.
        &rings::all(),
    ]
    .concat()
}
