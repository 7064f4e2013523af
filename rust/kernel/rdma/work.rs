// SPDX-License-Identifier: GPL-2.0

//! Delayed work that can be hastened, and turned off for good.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use kernel::{
    sync::Arc,
    time::Jiffies,
    workqueue::{
        HasDelayedWork,
        HasWork,
        Queue,
        Work,
        WorkItem, //
    }, //
};

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

/// Has the delayed work of `item` run after `delay`, unless it is queued already.
pub fn queue_after<T>(item: &Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>> + Send + Sync + 'static,
{
    // SAFETY: The system's queue lives for ever.
    let queue = unsafe { Queue::from_raw(bindings::system_dfl_wq) };
    // If it is queued, it will see what is to be done.
    let _ = queue.enqueue_delayed(item.clone(), delay);
}

/// Has the delayed work of `item` run now, whether it waits for later or is not queued at all.
pub fn hasten<T>(item: &Arc<T>)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>>,
{
    // The queue owns a reference while the work waits: this one, unless it has one already.
    let object = Arc::into_raw(item.clone()).cast_mut();
    // SAFETY: As in `turn_off`. The system's queue lives for ever; queueing is allowed in any
    // context.
    let was_pending = unsafe {
        let work = Work::raw_get(T::raw_get_work(object));
        bindings::mrx_mod_delayed_work(work.cast::<bindings::delayed_work>())
    };
    if was_pending {
        // SAFETY: Made by `Arc::into_raw` above, and not taken by the queue.
        drop(unsafe { Arc::from_raw(object.cast_const()) });
    }
}
