// SPDX-License-Identifier: GPL-2.0

//! Delayed work whose delay can be cut short, and that can be turned off for good.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::bindings;
use kernel::{
    prelude::*,
    sync::Arc,
    time::Jiffies,
    workqueue::{
        HasDelayedWork,
        HasWork,
        Work,
        WorkItem, //
    }, //
};

/// The C work item of `object`.
///
/// # Safety
///
/// `object` points to a live `T`.
unsafe fn delayed_work<T>(object: *mut T) -> *mut bindings::delayed_work
where
    T: HasDelayedWork<T> + HasWork<T>,
{
    // SAFETY: The object is alive, and has the work item inside it. `HasDelayedWork` says that it
    // is the one in a `struct delayed_work`, of which it is the first member.
    unsafe { Work::raw_get(T::raw_get_work(object)).cast() }
}

/// Runs the delayed work of `item` after `delay`, whether it was queued already or not.
///
/// Must not be called after [`turn_off`], nor at the same time.
pub fn run_in<T>(item: Arc<T>, delay: Jiffies)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>>,
{
    let object = Arc::into_raw(item).cast_mut();
    // SAFETY: `object` is alive, since the queue gets the reference that was given up above. The
    // queue exists as long as the kernel.
    let was_queued = unsafe {
        bindings::mod_delayed_work_on(
            bindings::wq_misc_consts_WORK_CPU_UNBOUND as c_int,
            bindings::system_dfl_wq,
            delayed_work(object),
            delay,
        )
    };
    if was_queued {
        // The queue had a reference already.
        // SAFETY: Gives back the one that was given up above.
        drop(unsafe { Arc::from_raw(object.cast_const()) });
    }
}

/// Cancels the delayed work of `item`, waits for it if it runs, and keeps it from ever being
/// queued again.
pub fn turn_off<T>(item: &Arc<T>)
where
    T: HasDelayedWork<T> + HasWork<T> + WorkItem<Pointer = Arc<T>>,
{
    let object = Arc::as_ptr(item).cast_mut();
    // SAFETY: `object` is alive.
    let was_queued = unsafe { bindings::disable_delayed_work_sync(delayed_work(object)) };
    if was_queued {
        // The queue owned a reference that its function would have taken over.
        // SAFETY: It was made with `Arc::into_raw`, and the work will not run any more.
        drop(unsafe { Arc::from_raw(object.cast_const()) });
    }
}
