// SPDX-License-Identifier: GPL-2.0

//! Work of the paging service that is done later.
//!
//! There are two queues, as there can only be so many who wait in a queue at a time: whoever makes
//! pages wait for a program of his does not keep others from getting theirs.

use super::super::work::{
    QueueOwner,
    QueueSlot, //
};
use kernel::{
    c_str,
    prelude::*, //
};

/// A queue of the service.
pub struct PagingQueue(QueueSlot);

/// For what takes no longer than the kernel needs for it.
pub static PROMPT: PagingQueue = PagingQueue(QueueSlot::new());
/// For what may wait for as long as user space likes.
pub static PATIENT: PagingQueue = PagingQueue(QueueSlot::new());

impl PagingQueue {
    /// Does `work` soon. `ENOMEM` if there is no memory.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> Result {
        let queue = self.0.get().ok_or(ENODEV)?;
        queue.try_spawn(GFP_KERNEL, work)?;
        Ok(())
    }
}

/// The queues of the module. Dropping this waits for all work, and must be the last thing that
/// happens to the service.
pub struct PagingQueues {
    _prompt: QueueOwner,
    _patient: QueueOwner,
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
            Ok(Self {
                _prompt: QueueOwner::new(&PROMPT.0, c_str!("mrx_odp"))?,
                _patient: QueueOwner::new(&PATIENT.0, c_str!("mrx_odp_wait"))?,
            })
        }
    }
}
