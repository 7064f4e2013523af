// SPDX-License-Identifier: GPL-2.0

//! Objects that `ib_core` allocates, hands to the driver, and frees.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h) (`DECLARE_RDMA_OBJ_SIZE`)
//!
//! The core allocates zeroed memory of the size that the driver names, with the core's own
//! structure first. No Rust destructor runs on it. A driver's state therefore lives in an
//! [`Arc`] of which the object holds one reference: zeroed memory is a valid `None`, the create
//! callback sets it and the destroy callback takes it.

use super::gate::{
    Gate,
    Pass, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The core's structure `C`, followed by the driver's state.
#[repr(C)]
pub(super) struct Object<C, T> {
    base: C,
    state: Option<Arc<T>>,
}

impl<C, T> Object<C, T> {
    /// Gives the object its state.
    ///
    /// # Safety
    ///
    /// `base` points to the start of an `Object<C, T>` that nobody else uses at the same time.
    pub(super) unsafe fn install(base: *mut C, state: Arc<T>) {
        // SAFETY: By the requirements of this function.
        unsafe { (*base.cast::<Self>()).state = Some(state) };
    }

    /// Takes the state out of the object.
    ///
    /// # Safety
    ///
    /// As [`Object::install`].
    pub(super) unsafe fn take(base: *mut C) -> Option<Arc<T>> {
        // SAFETY: By the requirements of this function.
        unsafe { (*base.cast::<Self>()).state.take() }
    }

    /// The state of the object; `EINVAL` if it has none.
    ///
    /// # Safety
    ///
    /// `base` points to the start of an `Object<C, T>` that lives for `'a`, and whose state is not
    /// taken during it.
    pub(super) unsafe fn state<'a>(base: *mut C) -> Result<&'a Arc<T>> {
        // SAFETY: By the requirements of this function.
        unsafe { (*base.cast::<Self>()).state.as_ref() }.ok_or(EINVAL)
    }
}

/// The driver's way back to an object of the core, valid until the object is destroyed.
///
/// # Invariants
///
/// `object` points to a live object as long as `gate` is open or somebody is inside it.
#[pin_data]
pub struct Handle<C> {
    object: NonNull<C>,
    #[pin]
    gate: Gate,
}

// SAFETY: The pointer is used only inside the gate, and only for calls that `ib_core` allows from
// any context.
unsafe impl<C> Send for Handle<C> {}
// SAFETY: As above.
unsafe impl<C> Sync for Handle<C> {}

impl<C> Handle<C> {
    /// Makes a handle of a live object.
    ///
    /// # Safety
    ///
    /// `object` stays valid until [`Handle::close`] has returned.
    pub(super) unsafe fn new(object: NonNull<C>) -> impl PinInit<Self> {
        pin_init!(Self {
            object,
            gate <- Gate::new(),
        })
    }

    /// Runs `f` on the object unless it has been destroyed.
    pub(super) fn with<R>(&self, f: impl FnOnce(*mut C) -> R) -> Option<R> {
        let _inside = self.gate.enter()?;
        Some(f(self.object.as_ptr()))
    }

    /// Keeps the object from being destroyed while the result lives, unless it has been.
    pub fn enter(&self) -> Option<Pass<'_>> {
        self.gate.enter()
    }

    /// The object's address, for the core to be told of it.
    pub fn address(&self) -> usize {
        self.object.as_ptr() as usize
    }

    /// Ends the use of the object and waits for uses that run.
    pub fn close(&self) {
        self.gate.close();
    }
}
