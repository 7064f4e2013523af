// SPDX-License-Identifier: GPL-2.0

//! On-demand paging: memory of a process that is found when it is needed, and given up when the
//! process's mappings change.
//!
//! - [`paged`]: the memory of an explicit or implicit region.
//! - [`span`]: the pages of a part of it, and the notifier that takes them away.
//! - [`fault`], [`absent`]: finding pages, and waiting for those that a transfer needs.
//! - [`advise`]: advice about what will be needed (`ADVISE_MR`).
//! - [`stats`]: what happened to a region's pages; [`trace`]: what a person can watch.
//! - [`queue`]: work that is done later; [`patience`]: work that may last for ever.
//!
//! # Why no page is used after it has been taken away
//!
//! The memory is divided into spans, each with an interval notifier, a table of pages and a lock of
//! readers and a writer. A copy looks pages up and uses them as a reader of their span. Whatever
//! changes a process's mappings (munmap, mprotect, mremap, madvise, fork, write-back, swap,
//! migration, collapse and split of huge pages, exit) calls the notifier before and does not go on
//! until the notifier returns. The notifier becomes the writer, so copies that run have ended; and
//! it empties the table, so that later ones find nothing.
//!
//! A page gets into the table in three steps, as the interval notifier's protocol has it: note the
//! sequence number; find the page with `get_user_pages_remote`, without any lock of ours;
//! as a reader, compare the sequence number and enter the page. A change after the first step also
//! changes the number, and the page is looked for again.
//!
//! The core's `ib_umem_odp` is not used because it lets `hmm_range_fault` write into the shared
//! table before the number has been compared: with two faults at a time one may use what the other
//! is about to throw away. It also takes pages that the kernel has no mapping of (`memfd_secret`),
//! which `get_user_pages` refuses.
//!
//! # Reading, writing, copying on write
//!
//! A page is entered for writing only if it was looked for with `FOLL_WRITE`: the process may write
//! to it, it is shared with nobody who must not see the change, and it is marked dirty. All of that
//! stays true until the notifier is called: fork, write-back and same-page merging take write
//! permission away, for which they call it. A page that was only read (the zero page, or one shared
//! after fork) is found again with `FOLL_WRITE` when it is to be written to.
//!
//! # Waiting
//!
//! A fault may last for ever: user space can decide so (userfaultfd, FUSE). Nothing is held meanwhile:
//! neither a lock of this service nor a pass of a region. Whoever waits gives up when it is killed or
//! when its queue pair is to go away; see [`absent`]. Copies hold locks as readers only, and never
//! wait for one while they hold another: they try, and start over if they would have to wait. So
//! the order in which they take the locks of two regions does not matter. A notifier waits for
//! copies of at most a mebibyte.
//!
//! Deregistration waits for queued advice, see [`advise`], which therefore must not wait for user
//! space: it looks at the mappings, and for the pages, under one hold of `mmap_lock`, and leaves out
//! what a program decides about.

pub mod absent;
pub mod advise;
pub mod fault;
pub mod paged;
pub mod patience;
pub mod queue;
pub mod span;
pub mod stats;
mod trace;

use super::work::QueueOwner;
use kernel::{
    c_str,
    prelude::*, //
};
use queue::{
    ADVICE,
    PATIENT,
    PROMPT, //
};

/// Advices that are followed at a time.
const ADVICES: c_int = 4;

/// The queues of the service, in the order in which they end. Dropping this waits for all work, and
/// must be the last thing that happens to the service.
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
