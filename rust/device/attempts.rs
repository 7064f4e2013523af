// SPDX-License-Identifier: GPL-2.0

//! How often a request that did not succeed is tried again.

use super::attrs::Attrs;
use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        Instant,
        Monotonic, //
    },
};

/// The RNR retry count that stands for no limit.
pub const FOR_EVER: u8 = 7;

/// One who waits for ever asks again at least this often, in microseconds, while there are few.
const POLL_MICROS: u64 = 100_000;
/// Asking is done at nobody's expense: all together ask no more often than this, in microseconds.
const MICROS_FOR_EACH: u64 = 500;

/// How many requests are being tried again, on all devices.
static WAITING: Atomic<u32> = Atomic::new(0);

/// Attempts that are left before a request fails. It is counted for as long as this lives.
pub struct Attempts {
    since: Instant<Monotonic>,
    /// While the other side does not answer.
    pub unanswered: u8,
    /// While the other side has no receive posted.
    pub not_ready: u8,
}

impl Attempts {
    /// All of them, after the first has failed.
    pub fn all(attrs: &Attrs) -> Self {
        WAITING.fetch_add(1, Relaxed);
        Self {
            since: Instant::now(),
            unanswered: attrs.retry_cnt,
            not_ready: attrs.rnr_retry,
        }
    }

    /// Microseconds after which one who waits for ever asks again at the latest.
    pub fn slowest(&self) -> u64 {
        let waiting = u64::from(WAITING.load(Relaxed));
        POLL_MICROS.max(waiting.saturating_mul(MICROS_FOR_EACH))
    }

    /// Microseconds after which one who waits for ever asks again: an eighth of how long it has
    /// waited. A process can have many queue pairs that wait.
    pub fn less_often(&self) -> u64 {
        let waited = self.since.elapsed().as_micros_ceil();
        (u64::try_from(waited).unwrap_or(0) / 8).min(self.slowest())
    }
}

impl Drop for Attempts {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}
