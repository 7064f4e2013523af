// SPDX-License-Identifier: GPL-2.0

//! How a client names a range that it takes back.
//!
//! A ticket is a number that is given out once. One that comes too late, or was never given out,
//! names nothing.

use super::{
    mapping::Shared,
    registry, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    xarray::{
        AllocKind,
        XArray, //
    }, //
};

/// The ticket of a range that is never taken back.
pub(super) const NONE: u64 = 0;

/// A new ticket.
pub(super) fn next() -> u64 {
    static LAST: Atomic<u64> = Atomic::new(NONE);
    LAST.fetch_add(1, Relaxed) + 1
}

/// The ranges of a client that it can take back.
#[pin_data]
pub(super) struct Tickets {
    #[pin]
    ranges: XArray<Arc<Shared>>,
}

impl Tickets {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ranges <- XArray::new(AllocKind::Alloc),
        })
    }

    /// Lets the client name `range` by `ticket`.
    pub(super) fn insert(&self, ticket: u64, range: Arc<Shared>) -> Result {
        let stored = self.ranges.lock().store(ticket as usize, range, GFP_KERNEL);
        let old = stored.map_err(|e| e.error)?;
        drop(old);
        Ok(())
    }

    /// From now on `ticket` names nothing.
    pub(super) fn remove(&self, ticket: u64) {
        let range = self.ranges.lock().remove(ticket as usize);
        drop(range);
    }

    fn get(&self, ticket: u64) -> Option<Arc<Shared>> {
        self.ranges.lock().get(ticket as usize).map(Arc::from)
    }
}

/// # Safety
///
/// See the C header. Nothing is required of the arguments.
pub(super) unsafe extern "C" fn ib_invalidate_peer_memory(
    handle: *mut c_void,
    ticket: u64,
) -> c_int {
    let range = registry::find(handle as u64).and_then(|client| client.tickets.get(ticket));
    if let Some(range) = range {
        range.take_back();
    }
    0
}
