// SPDX-License-Identifier: GPL-2.0

//! Who keeps a client from going.
//!
//! As [`Gate`](super::super::gate::Gate), but those inside stay for as long as a process likes,
//! and whoever waits for them does so without being taken for stuck.

use super::client::Client;
use crate::bindings;
use core::ops::Deref;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};

const CLOSED: u64 = 1;
const ONE_USER: u64 = 2;

/// A count of users that can be closed to new ones.
///
/// # Invariants
///
/// `state` is twice the number of users (and of those who are about to see that they come too
/// late), plus [`CLOSED`] once it is closed, which is never taken back.
#[pin_data]
pub(super) struct Users {
    state: Atomic<u64>,
    #[pin]
    none_left: Opaque<bindings::completion>,
}

// SAFETY: A completion may be used from any thread.
unsafe impl Send for Users {}
// SAFETY: As above, also at the same time.
unsafe impl Sync for Users {}

impl Users {
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(0u64),
            // SAFETY: The slot is valid for writes and pinned.
            none_left <- Opaque::ffi_init(|slot| unsafe { bindings::init_completion(slot) }),
        })
    }

    /// Lets nobody in any more. Returns whether this call closed it.
    pub(super) fn close(&self) -> bool {
        let mut seen = self.state.load(Acquire);
        while seen & CLOSED == 0 {
            match self.state.cmpxchg(seen, seen | CLOSED, Full) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Waits until nobody is left, after [`Users::close`].
    pub(super) fn wait(&self) {
        if self.state.load(Acquire) >= ONE_USER {
            // SAFETY: `new` initialised the completion. Nothing interrupts an idle wait.
            unsafe {
                bindings::wait_for_completion_state(self.none_left.get(), bindings::TASK_IDLE)
            };
        }
    }

    fn leave(&self) {
        if self.state.fetch_sub(ONE_USER, Release) == ONE_USER | CLOSED {
            // SAFETY: `new` initialised the completion.
            unsafe { bindings::complete_all(self.none_left.get()) };
        }
    }
}

/// A use of a client, which is not gone before this is dropped.
pub(super) struct Use(Arc<Client>);

impl Use {
    /// Uses `client`, unless it is going.
    pub(super) fn of(client: &Arc<Client>) -> Option<Self> {
        let before = client.users.state.fetch_add(ONE_USER, Acquire);
        let this = Self(client.clone());
        (before & CLOSED == 0).then_some(this)
    }
}

impl Deref for Use {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.0
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        self.0.users.leave();
    }
}
