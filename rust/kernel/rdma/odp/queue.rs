// SPDX-License-Identifier: GPL-2.0

//! Work of the paging service that is done later.
//!
//! There are several queues, as there can only be so many who are at work in a queue at a time:
//! whoever makes pages wait for a program of his, or gives advice that takes long, does not keep
//! others from getting their pages.

use super::{
    super::work::{
        QueueOwner,
        QueueSlot, //
    },
    patience, //
};
use kernel::{
    c_str,
    prelude::*,
    sync::Arc,
    workqueue::{
        HasWork,
        WorkItem, //
    }, //
};

/// A queue of the service.
pub struct PagingQueue(QueueSlot);

/// For what takes no longer than the kernel needs for it.
pub static PROMPT: PagingQueue = PagingQueue(QueueSlot::new());
/// For what may wait for as long as user space likes.
pub static PATIENT: PagingQueue = PagingQueue(QueueSlot::new());
/// For advice, which is worth no more than a few processors.
pub static ADVICE: PagingQueue = PagingQueue(QueueSlot::new());

/// Advices that are followed at a time.
const ADVICES: c_int = 4;

impl PagingQueue {
    /// Does `work` soon. `ENOMEM` if there is no memory.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> Result {
        let queue = self.0.get().ok_or(ENODEV)?;
        queue.try_spawn(GFP_KERNEL, work)?;
        Ok(())
    }

    /// Has the work of `item`, which waits in no queue yet, done soon. Without a queue nothing is
    /// done but to drop it.
    pub fn enqueue<T>(&self, item: Arc<T>)
    where
        T: HasWork<T> + WorkItem<Pointer = Arc<T>> + Send + Sync + 'static,
    {
        if let Some(queue) = self.0.get() {
            let _ = queue.enqueue(item);
        }
    }
}

/// The queues of the module, in the order in which they end. Dropping this waits for all work, and must be the last thing that
/// happens to the service.
pub struct PagingQueues {
    _advice: QueueOwner,
    _patient: QueueOwner,
    _prompt: QueueOwner,
}

impl PagingQueues {
    /// Makes the queues. `ENOMEM` if there is no memory.
    ///
    /// # Safety
    ///
    /// Called once. What spawns work is gone before the result is dropped.
    pub unsafe fn new() -> Result<Self> {
        // SAFETY: By the requirements of this function.
        unsafe {
            patience::init();
            Ok(Self {
                _advice: QueueOwner::with_limit(&ADVICE.0, c_str!("mrx_odp_advice"), ADVICES)?,
                _patient: QueueOwner::new(&PATIENT.0, c_str!("mrx_odp_wait"))?,
                _prompt: QueueOwner::new(&PROMPT.0, c_str!("mrx_odp"))?,
            })
        }
    }
}
