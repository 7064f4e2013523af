// SPDX-License-Identifier: GPL-2.0

//! What happened to the pages of a region.

use kernel::{
    c_str,
    prelude::*,
    str::CStr,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// A counter.
pub struct Counter(Atomic<u64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Counts `n` more.
    pub fn add(&self, n: usize) {
        self.0.add(n as u64, Relaxed);
    }
}

/// The counters of a region.
pub struct Stats {
    /// Pages that a transfer had to wait for.
    pub faults: Counter,
    /// Pages that were found because of an advice.
    pub prefetched: Counter,
    /// Ranges of advices that could not be found, or not all of them.
    pub prefetch_failures: Counter,
    /// Pages that were taken away.
    pub invalidations: Counter,
}

impl Stats {
    /// All zero.
    pub const fn new() -> Self {
        Self {
            faults: Counter::new(),
            prefetched: Counter::new(),
            prefetch_failures: Counter::new(),
            invalidations: Counter::new(),
        }
    }

    /// Calls `f` with name and value of each counter, until it fails. The names are those that
    /// other drivers use, where they have the counter.
    pub fn for_each(&self, f: &mut dyn FnMut(&CStr, u64) -> Result) -> Result {
        f(c_str!("page_faults"), self.faults.0.load(Relaxed))?;
        f(c_str!("page_prefetch"), self.prefetched.0.load(Relaxed))?;
        f(
            c_str!("page_prefetch_failed"),
            self.prefetch_failures.0.load(Relaxed),
        )?;
        f(
            c_str!("page_invalidations"),
            self.invalidations.0.load(Relaxed),
        )
    }
}
