// SPDX-License-Identifier: GPL-2.0

//! Pinned user memory.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)

use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    scatterlist::SGTable, //
};

/// User pages that stay where they are until this is dropped, charged to the process that asked.
///
/// # Invariants
///
/// `umem` is valid and owned. Its device maps memory for DMA virtually, so that "DMA addresses" are
/// kernel addresses.
pub struct Umem {
    umem: NonNull<bindings::ib_umem>,
}

// SAFETY: A umem may be released from any thread.
unsafe impl Send for Umem {}
// SAFETY: Nothing of it changes after it has been made.
unsafe impl Sync for Umem {}

impl Umem {
    /// Pins `len` bytes at `addr` of the current process for `access` (`IB_ACCESS_*`).
    ///
    /// The errors of `ib_umem_get`: `EFAULT` if a page is missing or not writable as asked,
    /// `ENOMEM` above `RLIMIT_MEMLOCK`, `EINVAL` if the range wraps around.
    ///
    /// # Safety
    ///
    /// `device` is registered, has no DMA device (so maps virtually), and outlives the result.
    pub(super) unsafe fn pin(
        device: *mut bindings::ib_device,
        addr: usize,
        len: usize,
        access: u32,
    ) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        let umem = unsafe { bindings::mrx_umem_get(device, addr, len, access as c_int) };
        let umem = kernel::error::from_err_ptr(umem)?;
        // INVARIANT: The function succeeded.
        NonNull::new(umem).map(|umem| Self { umem }).ok_or(ENOMEM)
    }

    /// Whether the pages can be used for `access`; `EACCES` if they were pinned for reading only.
    pub fn allows(&self, access: u32) -> Result {
        let flags = bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS as c_int;
        // SAFETY: By the type invariant.
        kernel::error::to_result(unsafe {
            bindings::ib_umem_check_rereg(self.umem.as_ptr(), flags, access as c_int)
        })
    }

    /// Calls `f` with the kernel address and length of each stretch of the memory, in order.
    pub fn for_each_stretch(&self, mut f: impl FnMut(usize, usize) -> Result) -> Result {
        // SAFETY: By the type invariant.
        let umem = unsafe { self.umem.as_ref() };
        let mut skip = umem.address & (kernel::page::PAGE_SIZE - 1);
        let mut left = umem.length;
        // SAFETY: The table lives as long as the umem and was mapped when that was made.
        let table = unsafe { SGTable::from_raw((&raw const umem.sgt_append.sgt).cast_mut()) };
        for entry in table.iter() {
            let len = (entry.dma_len() as usize).saturating_sub(skip).min(left);
            if len == 0 {
                break;
            }
            f(entry.dma_address() as usize + skip, len)?;
            left -= len;
            skip = 0;
        }
        Ok(())
    }
}

impl Drop for Umem {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the umem is owned.
        unsafe { bindings::ib_umem_release(self.umem.as_ptr()) };
    }
}
