// SPDX-License-Identifier: GPL-2.0

//! Queues of the module, and delayed work that can be hastened, and turned off for good.
//!
//! The system's queues are not for this work: there can only be so many who wait in a queue at a
//! time, and the work of a queue pair may wait for pages for as long as user space likes.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    c_str,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
    time::Jiffies,
    workqueue::{
        HasDelayedWork,
        HasWork,
        Queue,
        Work,
        WorkItem, //
    }, //
};

/// Where a queue is found, while there is one.
///
/// # Invariants
///
/// Null, or a queue that is alive as long as there is work for it.
pub struct QueueSlot(Atomic<*mut bindings::workqueue_struct>);

/// The queue of the queue pairs of users in the kernel.
pub static KERNEL_QUEUE_PAIRS: QueueSlot = QueueSlot::new();

impl QueueSlot {
    /// Without a queue.
    pub const fn new() -> Self {
        Self(Atomic::new(core::ptr::null_mut()))
    }

    /// The queue, if there is one.
    pub fn get(&self) -> Option<&Queue> {
        let queue = self.0.load(Acquire);
        // SAFETY: By the type invariant.
        (!queue.is_null()).then(|| unsafe { Queue::from_raw(queue) })
    }
}

/// A queue of somebody's own. Dropping it waits for all work, so no work of the queue does that.
///
/// # Invariants
///
/// The queue is alive.
pub struct OwnQueue(NonNull<bindings::workqueue_struct>);

// SAFETY: The queue may be destroyed by any thread.
unsafe impl Send for OwnQueue {}
// SAFETY: Work may be added by any thread.
unsafe impl Sync for OwnQueue {}

impl OwnQueue {
    /// Makes a queue in which `limit` items are worked on at a time. `ENOMEM` if there is no memory.
    pub fn new(name: &'static CStr, limit: c_int) -> Result<Self> {
        // SAFETY: The name is a string.
        let queue = unsafe { bindings::mrx_alloc_unbound_workqueue(name.as_char_ptr(), limit) };
        // INVARIANT: It has just been made.
        NonNull::new(queue).map(Self).ok_or(ENOMEM)
    }

    /// The queue of the queue pairs of a process's context. What a process makes wait is in nobody
    /// else's way.
    pub fn of_context() -> Result<Self> {
        Self::new(c_str!("mrx_qp"), 256)
    }

    /// To add work.
    pub fn get(&self) -> &Queue {
        // SAFETY: By the type invariant.
        unsafe { Queue::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for OwnQueue {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the queue is alive, and nobody adds work any more.
        unsafe { bindings::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// The owner of the queue in a slot. Dropping it waits for all work.
///
/// # Invariants
///
/// The queue is what the slot points to.
pub struct QueueOwner {
    slot: &'static QueueSlot,
    _queue: OwnQueue,
}

impl QueueOwner {
    /// Makes a queue and puts it into the slot. `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// The slot is empty. Whoever adds work is gone before the result is dropped.
    pub unsafe fn new(slot: &'static QueueSlot, name: &'static CStr) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        unsafe {
            Self::with_limit(
                slot,
                name,
                bindings::wq_consts_WQ_UNBOUND_MAX_ACTIVE as c_int,
            )
        }
    }

    /// As [`QueueOwner::new`]; only so many items are worked on at a time.
    ///
    /// # Safety
    ///
    /// As for [`QueueOwner::new`].
    pub unsafe fn with_limit(
        slot: &'static QueueSlot,
        name: &'static CStr,
        limit: c_int,
    ) -> Result<Self> {
        let queue = OwnQueue::new(name, limit)?;
        slot.0.store(queue.0.as_ptr(), Release);
        Ok(Self {
            slot,
            _queue: queue,
        })
    }

    /// Makes the queue of the queue pairs of users in the kernel. `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// Called once. All queue pairs are gone before the result is dropped.
    pub unsafe fn of_queue_pairs() -> Result<Self> {
        // SAFETY: By the requirements of this function.
        unsafe { Self::new(&KERNEL_QUEUE_PAIRS, c_str!("mrx_kernel_qp")) }
    }
}

impl Drop for QueueOwner {
    fn drop(&mut self) {
        self.slot.0.store(core::ptr::null_mut(), Release);
    }
}

/// Cancels the delayed work of `item`, waits for it if it runs, and keeps it from ever being
/// queued again.
pub fn turn_off<T>(item: &Arc<T>)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>>,
{
    let object = Arc::as_ptr(item).cast_mut();
    // SAFETY: `object` is alive, and has the work item inside it.
    let work = unsafe { Work::raw_get(T::raw_get_work(object)) };
    // SAFETY: `HasDelayedWork` says that the work item is the one in a `struct delayed_work`, of
    // which it is the first member.
    let was_pending =
        unsafe { bindings::disable_delayed_work_sync(work.cast::<bindings::delayed_work>()) };
    if was_pending {
        // The queue owned a reference that its function would have taken over.
        // SAFETY: `enqueue` made it with `Arc::into_raw` and the work will not run any more.
        drop(unsafe { Arc::from_raw(object.cast_const()) });
    }
}

/// Has the delayed work of `item` run in `queue` after `delay`, unless it is queued already.
pub fn queue_after<T>(queue: &Queue, item: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>> + Send + Sync + 'static,
{
    // If it is queued, it will see what is to be done.
    let _ = queue.enqueue_delayed(item.clone(), delay);
}

/// Has the delayed work of `item` run now in `queue`, whether it waits for later or is not queued at
/// all.
pub fn hasten<T>(queue: &Queue, item: &Arc<T>)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>>,
{
    // A `Queue` is nothing but the structure of C.
    let queue: *mut bindings::workqueue_struct = core::ptr::from_ref(queue).cast_mut().cast();
    // The queue owns a reference while the work waits: this one, unless it has one already.
    let object = Arc::into_raw(item.clone()).cast_mut();
    // SAFETY: As in `turn_off`. The queue is alive; queueing is allowed in any context.
    let was_pending = unsafe {
        let work = Work::raw_get(T::raw_get_work(object));
        bindings::mrx_mod_delayed_work(queue, work.cast::<bindings::delayed_work>())
    };
    if was_pending {
        // SAFETY: Made by `Arc::into_raw` above, and not taken by the queue.
        drop(unsafe { Arc::from_raw(object.cast_const()) });
    }
}
