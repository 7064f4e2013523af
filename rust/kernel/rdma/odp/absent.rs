// SPDX-License-Identifier: GPL-2.0

//! Waiting for pages that a transfer needs.

use super::{
    super::task,
    fault::Effort,
    paged::Paged,
    queue::{
        PagingQueue,
        PATIENT,
        PROMPT, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
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
            EINTR => Self::Stopped,
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

/// What somebody else finds: [`NOT_OVER`], how many pages there were, or an errno.
struct Elsewhere(Atomic<isize>);

const NOT_OVER: isize = isize::MAX;

/// How long is waited between two looks at a fault that a program takes its time for.
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
        if !task::is_kernel_thread() {
            if !paged.is_up_to_a_program(addr, len)? {
                return Ok(paged.find_now(addr, len, write, Effort::Fault).map(drop)?);
            }
        } else {
            let paged = paged.clone();
            let find = move || paged.find_now(addr, len, write, Effort::NoProgram);
            match find_elsewhere(&PROMPT, find, go_on) {
                Err(EBUSY) => {}
                found => return Ok(found.map(drop)?),
            }
        }
        let find = move || paged.find_now(addr, len, write, Effort::Fault);
        Ok(find_elsewhere(&PATIENT, find, go_on).map(drop)?)
    }
}

/// Lets a work queue `find` pages, and says how many there were. `EINTR` if `go_on` says no, while
/// `find` may be waiting for as long as user space likes; the errors of `find`.
pub(super) fn find_elsewhere(
    queue: &PagingQueue,
    find: impl FnOnce() -> Result<usize> + Send + 'static,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<usize> {
    let fault = Arc::new(Elsewhere(Atomic::new(NOT_OVER)), GFP_KERNEL)?;
    let theirs = fault.clone();
    queue.spawn(move || {
        let end = match find() {
            Ok(found) => found as isize,
            Err(e) => e.to_errno() as isize,
        };
        theirs.0.store(end, Release);
    })?;
    let mut pause = FIRST_PAUSE_MICROS;
    loop {
        match fault.0.load(Acquire) {
            NOT_OVER => {}
            found @ 0.. => return Ok(found as usize),
            errno => return Err(Error::from_errno(errno as c_int)),
        }
        if !go_on() {
            return Err(EINTR);
        }
        fsleep(Delta::from_micros(pause));
        pause = (pause * 2).min(LAST_PAUSE_MICROS);
    }
}
