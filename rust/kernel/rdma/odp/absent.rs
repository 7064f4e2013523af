// SPDX-License-Identifier: GPL-2.0

//! Waiting for pages that a transfer needs.

use super::{
    super::task,
    fault::Effort,
    paged::Paged,
    patience::wait_elsewhere,
    queue::{
        PagingQueue,
        PROMPT, //
    }, //
};
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
    }, //
};

/// Why memory cannot be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultError {
    /// The caller gave up, or is being killed.
    Stopped,
    /// There is none, or none that may be accessed so.
    NotMapped,
}

impl From<Error> for FaultError {
    fn from(e: Error) -> Self {
        match e {
            EINTR | ERESTARTSYS => Self::Stopped,
            _ => Self::NotMapped,
        }
    }
}

/// Bytes that must be looked for before they can be accessed.
pub struct Absent {
    paged: Arc<Paged>,
    offset: u64,
    len: usize,
    write: bool,
}

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

impl Absent {
    /// The `len` bytes at `offset`.
    pub(super) fn new(paged: &Arc<Paged>, offset: u64, len: usize, write: bool) -> Self {
        Self {
            paged: paged.clone(),
            offset,
            len,
            write,
        }
    }

    /// Looks for the bytes, or the first of them. They may be gone again on return.
    ///
    /// May wait for as long as user space likes: until `go_on` says no, or the caller is killed.
    /// Nothing may be held.
    ///
    /// A process takes its faults itself. If a program decides how long they last (userfaultfd,
    /// FUSE), or if the caller cannot be killed because it is a work queue, somebody else takes the
    /// fault, so that the caller stays free to give up: its queue pair may have to go away first,
    /// for that program to end.
    pub fn find(self, go_on: &mut dyn FnMut() -> bool) -> Result<(), FaultError> {
        let addr = self.paged.addr(self.offset).ok_or(EFAULT)?;
        let (paged, len, write) = (self.paged, self.len, self.write);
        let found = if !task::is_kernel_thread() {
            paged.find_now(addr, len, write, Effort::NoProgram)
        } else {
            let paged = paged.clone();
            let find = move || paged.find_now(addr, len, write, Effort::NoProgram);
            do_elsewhere(&PROMPT, find, go_on)
        };
        if found != Err(EBUSY) {
            return Ok(found.map(drop)?);
        }
        let mm = paged.mm().clone();
        let find = move || paged.find_now(addr, len, write, Effort::Fault);
        Ok(wait_elsewhere(&mm, find, go_on).map(drop)?)
    }
}

/// Lets a work queue do `work`, and returns what that returns. `EINTR` if `go_on` says no before,
/// while the work goes on; `ENOMEM` if there is no memory.
pub(super) fn do_elsewhere<T: Send + Unpin + 'static>(
    queue: &PagingQueue,
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
    queue.spawn(move || {
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
