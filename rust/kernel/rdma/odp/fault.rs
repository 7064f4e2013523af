// SPDX-License-Identifier: GPL-2.0

//! Finding the pages of a process.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h) (`get_user_pages_remote`)

use crate::bindings;
use kernel::{
    error::to_result,
    mm::MmWithUser,
    page::PAGE_SIZE,
    prelude::*, //
};

/// How hard to look for pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As if the process itself accessed them.
    Fault,
    /// The same, but `EBUSY` if a program decides when one of the pages comes.
    NoProgram,
    /// Only what the process has mapped already.
    MappedOnly,
}

/// What to look for.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// The address of the first page.
    pub addr: usize,
    /// How many pages, at most.
    pub count: usize,
    /// Whether they are to be written to.
    pub write: bool,
    /// How hard to look.
    pub effort: Effort,
}

/// Pages that were found, with a reference to each.
///
/// # Invariants
///
/// A reference to each page of `pages` is owned.
pub struct Pages {
    pages: KVec<*mut bindings::page>,
}

impl Pages {
    /// No pages, and room for `most`.
    pub fn new(most: usize) -> Result<Self> {
        Ok(Self {
            pages: KVec::with_capacity(most, GFP_KERNEL)?,
        })
    }

    /// Looks for pages of `mm`, at most as many as there is room for, in place of those that were
    /// found before. Returns how many there are, at least one.
    ///
    /// `EFAULT` if the first is not mapped, or not so that it may be accessed as asked; `EINTR` if
    /// the caller is being killed; `ENOMEM`, `EHWPOISON` and what else a page fault can bring.
    ///
    /// With [`Effort::Fault`] it may wait for as long as user space likes. No lock may be held.
    pub fn find(&mut self, mm: &MmWithUser, wanted: Wanted) -> Result<usize> {
        self.put();
        let count = wanted.count.min(self.pages.capacity());
        let mut flags = 0;
        if wanted.write {
            flags |= bindings::FOLL_WRITE;
        }
        if wanted.effort == Effort::MappedOnly {
            flags |= bindings::FOLL_NOFAULT;
        }
        let end = wanted.addr.saturating_add(count.saturating_mul(PAGE_SIZE));
        let mut locked = 1;
        // What is mapped must not change while only some mappings are good enough.
        let may_unlock = match wanted.effort {
            Effort::Fault => &raw mut locked,
            Effort::NoProgram | Effort::MappedOnly => core::ptr::null_mut(),
        };
        // SAFETY: `mm` is alive.
        to_result(unsafe { bindings::mrx_mmap_read_lock_killable(mm.as_raw()) })?;
        // SAFETY: The lock is held, and `mm` has users. There is room for `count` pointers. The
        // function says in `locked` whether the lock is still held.
        let found = unsafe {
            if wanted.effort == Effort::NoProgram
                && bindings::mrx_pages_come_from_a_program(mm.as_raw(), wanted.addr, end)
            {
                bindings::mmap_read_unlock(mm.as_raw());
                return Err(EBUSY);
            }
            let found = bindings::get_user_pages_remote(
                mm.as_raw(),
                wanted.addr,
                count,
                flags,
                self.pages.as_mut_ptr(),
                may_unlock,
            );
            if locked != 0 {
                bindings::mmap_read_unlock(mm.as_raw());
            }
            found
        };
        match usize::try_from(found) {
            Ok(0) => Err(EFAULT),
            Ok(found) => {
                // INVARIANT: The function has taken a reference to each page.
                // SAFETY: It wrote so many pointers, which are no more than there is room for.
                unsafe { self.pages.inc_len(found.min(count)) };
                Ok(found)
            }
            Err(_) => match Error::from_errno(found as c_int) {
                ERESTARTSYS | EAGAIN => Err(EINTR),
                e => Err(e),
            },
        }
    }

    /// The first address from `addr` on where something is mapped, or `usize::MAX`. May be outdated
    /// at once.
    pub fn next_mapping(mm: &MmWithUser, addr: usize) -> Result<usize> {
        // SAFETY: `mm` is alive.
        unsafe {
            to_result(bindings::mrx_mmap_read_lock_killable(mm.as_raw()))?;
            let next = bindings::mrx_next_mapping(mm.as_raw(), addr);
            bindings::mmap_read_unlock(mm.as_raw());
            Ok(next)
        }
    }

    /// The kernel addresses of the pages.
    pub fn addresses(&self) -> impl Iterator<Item = usize> + '_ {
        self.pages.iter().map(|page| {
            // SAFETY: By the type invariant the page is there. `get_user_pages` gives none that the
            // kernel has no address of.
            unsafe { bindings::mrx_page_address(*page) as usize }
        })
    }

    fn put(&mut self) {
        while let Some(page) = self.pages.pop() {
            // SAFETY: By the type invariant the reference is ours to give up.
            unsafe { bindings::mrx_put_page(page) };
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.put();
    }
}
