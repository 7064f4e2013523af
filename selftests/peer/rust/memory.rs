// SPDX-License-Identifier: GPL-2.0

//! Memory that processes map: a buffer of C, made safe to use.

use crate::{
    bindings::{
        self,
        mrx_peer_alloc,
        peer_buffer, //
    },
    buffer::Buffer, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    mm::virt::{
        VmaNew,
        VmaRef, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Memory of a buffer.
///
/// # Invariants
///
/// `raw` is owned. Its state is the address of the [`Buffer`] that this is the memory of, which is
/// kept by the file that the memory was mapped through.
pub struct Memory {
    raw: NonNull<peer_buffer>,
    alloc: mrx_peer_alloc,
}

// SAFETY: The C structure is only read once it has been allocated, and counted atomically.
unsafe impl Send for Memory {}
// SAFETY: As above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Makes the memory of `buffer`.
    pub fn new(buffer: &Arc<Buffer>, alloc: mrx_peer_alloc) -> Result<Self> {
        let state = Arc::as_ptr(buffer).cast_mut().cast();
        // SAFETY: The function allocates a structure or fails.
        let raw = NonNull::new(unsafe { bindings::peer_memory_new(state) }).ok_or(ENOMEM)?;
        // INVARIANT: The structure is fresh.
        let memory = Self { raw, alloc };
        // SAFETY: By the type invariant.
        to_result(unsafe { bindings::peer_memory_alloc(memory.raw.as_ptr(), &alloc) })?;
        Ok(memory)
    }

    /// Maps it into a process.
    pub fn map(&self, vma: &VmaNew) -> Result {
        // SAFETY: By the type invariant; the area is being made.
        to_result(unsafe { bindings::peer_memory_mmap(self.raw.as_ptr(), vma.as_ptr()) })
    }

    /// The buffer that `vma` maps, and how far into it address `addr` is.
    pub fn of_vma(vma: &VmaRef, addr: usize) -> Option<(Arc<Buffer>, usize)> {
        // SAFETY: The area is locked.
        let state = unsafe { bindings::peer_memory_state(vma.as_ptr()) };
        let state = NonNull::new(state.cast::<Buffer>())?;
        // SAFETY: By the type invariant the state is an `Arc<Buffer>` that the area's file keeps; the
        // reference that `from_raw` assumes stays there.
        let borrowed = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(state.as_ptr()) });
        // SAFETY: The area is locked.
        let first = unsafe { bindings::peer_memory_pgoff(vma.as_ptr()) } * PAGE_SIZE;
        Some(((*borrowed).clone(), first + (addr - vma.start())))
    }

    /// Which clients say that it is theirs.
    pub fn owners(&self) -> u32 {
        self.alloc.owners
    }

    /// Pages.
    pub fn pages(&self) -> usize {
        (self.alloc.size as usize).div_ceil(PAGE_SIZE)
    }

    /// Whether a processor's pages are to be given, or addresses.
    pub fn has_pages(&self) -> bool {
        matches!(
            self.alloc.flavour,
            bindings::mrx_peer_flavour_MRX_PEER_CONTIGUOUS
                | bindings::mrx_peer_flavour_MRX_PEER_SCATTERED
        )
    }

    /// The physical address of a page. `EINVAL` if there is none of that number.
    pub fn phys(&self, page: usize) -> Result<u64> {
        if page >= self.pages() {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant, and there is such a page.
        Ok(unsafe { bindings::peer_memory_phys(self.raw.as_ptr(), page) })
    }

    /// A page. `EINVAL` if there is none of that number, or none at all.
    pub fn page(&self, page: usize) -> Result<NonNull<bindings::page>> {
        if page >= self.pages() || !self.has_pages() {
            return Err(EINVAL);
        }
        // SAFETY: By the type invariant, and there is such a page.
        NonNull::new(unsafe { bindings::peer_memory_page(self.raw.as_ptr(), page) }).ok_or(EINVAL)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::peer_memory_put(self.raw.as_ptr()) };
    }
}
