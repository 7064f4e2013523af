// SPDX-License-Identifier: GPL-2.0

//! A door that short sections of work pass through and that can be shut for good.
//!
//! Regions, queue pairs and completion queues outlive, as memory, the moment at which their owner
//! takes them away: a sender may still hold a reference. What must end at that moment is the
//! *access*. [`Gate`] gives the owner that moment: after [`Gate::close`] returns nobody is inside
//! and nobody gets in again.

use core::{
    cell::UnsafeCell,
    ops::Deref, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Completion, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

const CLOSED: u64 = 1;
/// Nobody gets in for the moment.
const HELD: u64 = 2;
const ONE_INSIDE: u64 = 4;

/// A door with a count of those inside.
///
/// Sections inside a gate must not wait for anything that user space controls: [`Gate::close`]
/// waits for them uninterruptibly.
///
/// # Invariants
///
/// `state` is [`ONE_INSIDE`] times the number of live [`Pass`]es (and of entrants that are about to
/// see that the gate is closed), plus [`CLOSED`] once the gate is closed, plus [`HELD`] while
/// somebody waits in [`Gate::quiesce`]. [`CLOSED`] is never cleared.
#[pin_data]
pub struct Gate {
    state: Atomic<u64>,
    #[pin]
    empty: Completion,
}

/// Proof of being inside a [`Gate`].
pub struct Pass<'a> {
    gate: &'a Gate,
}

impl Gate {
    /// Makes an open gate.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            state: Atomic::new(0u64),
            empty <- Completion::new(),
        })
    }

    /// Goes in, or returns `None` if the gate is closed.
    #[inline]
    pub fn enter(&self) -> Option<Pass<'_>> {
        let before = self.state.fetch_add(ONE_INSIDE, Acquire);
        let pass = Pass { gate: self };
        (before & (CLOSED | HELD) == 0).then_some(pass)
    }

    /// Whether the gate is closed, or somebody waits for it to be.
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.state.load(Acquire) & CLOSED != 0
    }

    /// Waits until everybody who is inside now has left, and lets nobody in until then. One call
    /// at a time: callers hold a lock of their own.
    pub fn quiesce(&self) {
        self.state.fetch_add(HELD, Full);
        while self.state.load(Acquire) >= ONE_INSIDE {
            fsleep(Delta::from_micros(20));
        }
        self.state.fetch_sub(HELD, Release);
    }

    /// Shuts the gate and waits until nobody is inside. Returns whether this call shut it.
    ///
    /// Every caller waits, not only the first.
    pub fn close(&self) -> bool {
        let first = self.shut();
        if self.state.load(Acquire) >= ONE_INSIDE {
            self.empty.wait_for_completion();
        }
        first
    }

    /// Shuts the gate without waiting for those inside. Returns whether this call shut it.
    fn shut(&self) -> bool {
        let mut seen = self.state.load(Acquire);
        while seen & CLOSED == 0 {
            match self.state.cmpxchg(seen, seen | CLOSED, Full) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        let before = self.gate.state.fetch_sub(ONE_INSIDE, Release);
        if before & !HELD == ONE_INSIDE | CLOSED {
            self.gate.empty.complete_all();
        }
    }
}

/// A value that is there until its gate is closed.
///
/// # Invariants
///
/// `value` is accessed through a shared reference only by those inside `gate`; exclusively only by
/// the one who set `taken`, after the gate is closed and empty.
#[pin_data]
pub struct Guarded<T> {
    #[pin]
    gate: Gate,
    taken: Atomic<u32>,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: The value moves between threads with the structure.
unsafe impl<T: Send> Send for Guarded<T> {}
// SAFETY: Shared access gives `&T` to several threads, and the closer may drop `T` on its own.
unsafe impl<T: Send + Sync> Sync for Guarded<T> {}

/// Access to the value of a [`Guarded`], which keeps its gate from closing.
pub struct Inside<'a, T> {
    value: &'a T,
    _pass: Pass<'a>,
}

impl<T> Guarded<T> {
    /// Puts `value` behind an open gate.
    pub fn new(value: T) -> impl PinInit<Self> {
        pin_init!(Self {
            gate <- Gate::new(),
            taken: Atomic::new(0u32),
            value: UnsafeCell::new(Some(value)),
        })
    }

    /// Access to the value, unless it has been taken away.
    #[inline(always)]
    pub fn enter(&self) -> Option<Inside<'_, T>> {
        let pass = self.gate.enter()?;
        // SAFETY: By the type invariant nobody changes the value while somebody is inside.
        let value = unsafe { (*self.value.get()).as_ref() }?;
        Some(Inside { value, _pass: pass })
    }

    /// Waits until everybody who uses the value now has stopped, and lets nobody begin until then.
    /// One call at a time.
    pub fn quiesce(&self) {
        self.gate.quiesce();
    }

    /// Ends access to the value, which stays. Returns after those who use it have left.
    pub fn revoke(&self) {
        self.gate.close();
    }

    /// Takes the value away, after those who use it have left. `None` if that has been done.
    pub fn close(&self) -> Option<T> {
        self.gate.close();
        if self.taken.xchg(1, Full) != 0 {
            return None;
        }
        // SAFETY: The gate is closed and nobody is inside any more, and only one call gets here.
        unsafe { (*self.value.get()).take() }
    }
}

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value
    }
}
