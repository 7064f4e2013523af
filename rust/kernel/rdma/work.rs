// SPDX-License-Identifier: GPL-2.0

//! Delayed work that can be turned off for good.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use kernel::{
    sync::Arc,
    workqueue::{
        HasDelayedWork,
        HasWork,
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
