// SPDX-License-Identifier: GPL-2.0

//! Work of the paging service that is done later.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    c_str,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Release, //
    },
    workqueue::Queue, //
};

/// The queue, while there is one.
static QUEUE: Atomic<*mut bindings::workqueue_struct> = Atomic::new(core::ptr::null_mut());

/// The queue of the module. Dropping it waits for all work, and must be the last thing that
/// happens to the service.
///
/// # Invariants
///
/// The queue is alive, and is what `QUEUE` points to.
pub struct PagingQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: The queue may be destroyed by any thread.
unsafe impl Send for PagingQueue {}
// SAFETY: Nothing can be done with a shared reference.
unsafe impl Sync for PagingQueue {}

impl PagingQueue {
    /// Makes the queue. `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// Called once. What [`spawn`]s work is gone before the result is dropped.
    pub unsafe fn new() -> Result<Self> {
        // SAFETY: The name is a string.
        let queue =
            unsafe { bindings::mrx_alloc_unbound_workqueue(c_str!("mrx_odp").as_char_ptr()) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        QUEUE.store(queue.as_ptr(), Release);
        Ok(Self(queue))
    }
}

impl Drop for PagingQueue {
    fn drop(&mut self) {
        QUEUE.store(core::ptr::null_mut(), Release);
        // SAFETY: By the type invariant the queue is alive, and nobody adds work any more.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Does `work` soon. `ENOMEM` if there is no memory.
pub fn spawn(work: impl FnOnce() + Send + 'static) -> Result {
    let queue = QUEUE.load(Acquire);
    if queue.is_null() {
        return Err(ENODEV);
    }
    // SAFETY: The queue is destroyed after those who call this are gone.
    let queue = unsafe { Queue::from_raw(queue) };
    queue.try_spawn(GFP_KERNEL, work)?;
    Ok(())
}
