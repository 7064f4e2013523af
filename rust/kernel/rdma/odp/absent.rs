// SPDX-License-Identifier: GPL-2.0

//! Waiting for pages that a transfer needs.

use super::{
    super::task,
    fault::Effort,
    paged::Paged,
    patience::wait_elsewhere,
    queue::PROMPT, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
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
            PROMPT.call(find, go_on)
        };
        if found != Err(EBUSY) {
            return Ok(found.map(drop)?);
        }
        let mm = paged.mm().clone();
        let find = move || paged.find_now(addr, len, write, Effort::Fault);
        Ok(wait_elsewhere(&mm, find, go_on).map(drop)?)
    }
}
