// SPDX-License-Identifier: GPL-2.0

//! Work that lasts for as long as user space likes.
//!
//! Whoever needs such work done gives up when it is to go away, but the work goes on: a fault waits
//! for its program. So that nobody can pile it up, a process has only so much of it at a time; who
//! comes then waits until some of it has ended.

use super::queue::PATIENT;
use kernel::{
    mm::Mm,
    prelude::*,
    sync::{
        aref::ARef,
        global_lock, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How much work a process can have. A queue does about two thousand at a time.
const MOST: u32 = 64;

/// Between two attempts to have more.
const PAUSE_MICROS: i64 = 10_000;

/// How much work there is for a process.
struct Waiting {
    /// Its memory, by address.
    mm: usize,
    count: u32,
}

global_lock! {
    // SAFETY: Initialised by `PagingQueues::new`, before there is any work.
    unsafe(uninit) static WAITING: Mutex<KVec<Waiting>> = KVec::new();
}

/// Permission to have work done for a process, for as long as this lives.
///
/// # Invariants
///
/// It is counted in [`WAITING`], with the address of `mm`.
struct Patience {
    mm: ARef<Mm>,
}

impl Patience {
    /// `None` while the process has as much work as it can have.
    fn with(mm: &ARef<Mm>) -> Result<Option<Self>> {
        let id = mm.as_raw() as usize;
        let mut waiting = WAITING.lock();
        match waiting.iter_mut().find(|it| it.mm == id) {
            Some(it) if it.count >= MOST => return Ok(None),
            Some(it) => it.count += 1,
            None => waiting.push(Waiting { mm: id, count: 1 }, GFP_KERNEL)?,
        }
        // INVARIANT: It has just been counted.
        Ok(Some(Self { mm: mm.clone() }))
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        let id = self.mm.as_raw() as usize;
        let mut waiting = WAITING.lock();
        if let Some(it) = waiting.iter_mut().find(|it| it.mm == id) {
            it.count -= 1;
        }
        waiting.retain(|it| it.count > 0);
        if waiting.is_empty() {
            // Nobody drops a static.
            *waiting = KVec::new();
        }
    }
}

/// Begins to count.
///
/// # Safety
///
/// Called once, before any other function.
pub(super) unsafe fn init() {
    // SAFETY: By the requirements of this function.
    unsafe { WAITING.init() };
}

/// Lets a work queue do `work` for the process of `mm`, and returns what that returns; `EINTR` if
/// `go_on` says no before, while the work may go on; `ENOMEM` if there is no memory.
pub fn wait_elsewhere<T: Send + Unpin + 'static>(
    mm: &ARef<Mm>,
    work: impl FnOnce() -> Result<T> + Send + 'static,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<T> {
    let patience = loop {
        if let Some(patience) = Patience::with(mm)? {
            break patience;
        }
        if !go_on() {
            return Err(EINTR);
        }
        fsleep(Delta::from_micros(PAUSE_MICROS));
    };
    let work = move || {
        let _patience = patience;
        work()
    };
    PATIENT.call(work, go_on)
}
