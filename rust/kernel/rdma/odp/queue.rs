// SPDX-License-Identifier: GPL-2.0

//! Work of the paging service that is done later.
//!
//! There are several queues, as there can only be so many who are at work in a queue at a time:
//! whoever makes pages wait for a program of his, or gives advice that takes long, does not keep
//! others from getting their pages.

use super::super::work::QueueSlot;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    workqueue::{
        HasWork,
        WorkItem, //
    }, //
};

/// A queue of the service.
pub struct PagingQueue(pub(super) QueueSlot);

/// For what takes no longer than the kernel needs for it.
pub static PROMPT: PagingQueue = PagingQueue(QueueSlot::new());
/// For what may wait for as long as user space likes.
pub static PATIENT: PagingQueue = PagingQueue(QueueSlot::new());
/// For advice, which is worth no more than a few processors.
pub static ADVICE: PagingQueue = PagingQueue(QueueSlot::new());

/// What somebody else does.
#[pin_data]
struct Elsewhere<T> {
    /// What came of it, when it is over.
    #[pin]
    end: Mutex<Option<Result<T>>>,
}

/// How long is waited between two looks at what somebody else does.
const FIRST_PAUSE_MICROS: i64 = 50;
const LAST_PAUSE_MICROS: i64 = 10_000;

impl PagingQueue {
    /// Does `work` soon. `ENOMEM` if there is no memory.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) -> Result {
        let queue = self.0.get().ok_or(ENODEV)?;
        queue.try_spawn(GFP_KERNEL, work)?;
        Ok(())
    }

    /// Has `work` done, and returns what that returns. `EINTR` if `go_on` says no before, while the
    /// work goes on; `ENOMEM` if there is no memory.
    pub(super) fn call<T: Send + Unpin + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<T> {
        let ours = Arc::pin_init(
            pin_init!(Elsewhere {
                end <- new_mutex!(None, "Elsewhere::end"),
            }),
            GFP_KERNEL,
        )?;
        let theirs = ours.clone();
        self.spawn(move || {
            let end = work();
            *theirs.end.lock() = Some(end);
        })?;
        let mut pause = FIRST_PAUSE_MICROS;
        loop {
            if let Some(end) = ours.end.lock().take() {
                return end;
            }
            if !go_on() {
                return Err(EINTR);
            }
            fsleep(Delta::from_micros(pause));
            pause = (pause * 2).min(LAST_PAUSE_MICROS);
        }
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
