// SPDX-License-Identifier: GPL-2.0

//! A process's open device, and what it may map of it.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//! (`struct rdma_user_mmap_entry`)

use super::{
    object::Object,
    shared_ring::SharedRing,
    work::OwnQueue, //
};
use crate::bindings;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// The entry of the core, with what keeps the ring's memory alive.
#[repr(C)]
struct Entry {
    base: bindings::rdma_user_mmap_entry,
    ring: Arc<SharedRing>,
}

/// A process's context, for the duration of a call.
#[derive(Clone, Copy)]
pub struct UserContext(NonNull<bindings::ib_ucontext>);

impl UserContext {
    /// # Safety
    ///
    /// `uobject` belongs to the verbs call that is running.
    pub(super) unsafe fn of_uobject(uobject: *mut bindings::ib_uobject) -> Option<Self> {
        let uobject = NonNull::new(uobject)?;
        // SAFETY: By the requirements of this function.
        NonNull::new(unsafe { uobject.as_ref() }.context).map(Self)
    }

    /// The work queue of the context.
    pub fn work_queue(&self) -> Result<Arc<OwnQueue>> {
        // SAFETY: The context is live during the call, and the core allocated it for this.
        unsafe { Object::<bindings::ib_ucontext, OwnQueue>::state(self.0.as_ptr()) }.cloned()
    }

    /// Lets the process map `ring`.
    pub fn offer(&self, ring: Arc<SharedRing>) -> Result<Mapping> {
        let len = ring.len();
        let entry = KBox::new(
            Entry {
                base: Default::default(),
                ring,
            },
            GFP_KERNEL_ACCOUNT,
        )?;
        let entry = KBox::into_raw(entry);
        // SAFETY: The context is live during the call and the entry is fresh. On success the core
        // owns a reference to it and gives it back through `mmap_free`.
        let ret =
            unsafe { bindings::rdma_user_mmap_entry_insert(self.0.as_ptr(), entry.cast(), len) };
        if let Err(e) = to_result(ret) {
            // SAFETY: The core did not take the entry, so it is still ours.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(e);
        }
        // SAFETY: `KBox::into_raw` is never null.
        Ok(Mapping(unsafe { NonNull::new_unchecked(entry) }))
    }
}

/// A ring that its process may map, until this is dropped. Mappings that exist then stay.
///
/// # Invariants
///
/// The entry is in its context's table.
pub struct Mapping(NonNull<Entry>);

// SAFETY: The core's table has a lock of its own; the entry is not tied to a thread.
unsafe impl Send for Mapping {}
// SAFETY: Only immutable values are read through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// What the provider library needs to map the ring.
    pub fn info(&self) -> bindings::mminfo {
        // SAFETY: By the type invariant the entry is alive; these fields do not change any more.
        let entry = unsafe { self.0.as_ref() };
        bindings::mminfo {
            offset: (entry.base.start_pgoff as u64) << bindings::PAGE_SHIFT,
            size: entry.ring.len() as u32,
            pad: 0,
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the entry is in the table.
        unsafe { bindings::rdma_user_mmap_entry_remove(self.0.as_ptr().cast()) };
    }
}

/// `mmap` of the device file.
///
/// # Safety
///
/// To be called by the core as the `mmap` operation of the device.
pub(super) unsafe extern "C" fn mmap(
    context: *mut bindings::ib_ucontext,
    vma: *mut bindings::vm_area_struct,
) -> c_int {
    // SAFETY: The core passes a live context and the area that is being made.
    let entry = unsafe { bindings::rdma_user_mmap_entry_get(context, vma) };
    if entry.is_null() {
        return EINVAL.to_errno();
    }
    // SAFETY: Every entry of this driver is an `Entry`, and the reference just taken keeps it.
    let ring = unsafe { &(*entry.cast::<Entry>()).ring };
    // SAFETY: The ring is memory of `mrx_vmalloc_user` of this length; the function checks the size
    // of the area.
    let ret = unsafe { bindings::mrx_map_vmalloc(vma, ring.base().cast(), ring.len()) };
    // SAFETY: Pairs with the reference taken above. The mapped pages have references of their own.
    unsafe { bindings::rdma_user_mmap_entry_put(entry) };
    ret
}

/// Frees an entry that nobody refers to any more.
///
/// # Safety
///
/// To be called by the core as the `mmap_free` operation of the device.
pub(super) unsafe extern "C" fn mmap_free(entry: *mut bindings::rdma_user_mmap_entry) {
    // SAFETY: Every entry of this driver came from `KBox::into_raw`, and this is the last use.
    drop(unsafe { KBox::from_raw(entry.cast::<Entry>()) });
}
