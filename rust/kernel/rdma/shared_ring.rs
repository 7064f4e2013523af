// SPDX-License-Identifier: GPL-2.0

//! Rings of work requests and completions in memory that a process maps.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)
//! (`struct rxe_queue_buf`)
//!
//! Everything in a ring may change at any moment, by the hand of a hostile process. The kernel
//! keeps its own index and sizes in memory of its own, masks the index of the other side, and
//! copies an entry out once before it looks at it.

use crate::bindings;
use core::{
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
    transmute::{
        AsBytes,
        FromBytes, //
    }, //
};

const WORD: usize = size_of::<u64>();
const HEADER: usize = core::mem::offset_of!(bindings::rxe_queue_buf, data);

/// A ring of entries of one size, of which one slot always stays free.
///
/// # Invariants
///
/// `base` is the start of `len` bytes from `mrx_vmalloc_user`, which begin with a
/// `struct rxe_queue_buf`; `HEADER + ((mask + 1) << entry_shift) <= len`. An entry is a number of
/// whole words.
pub struct SharedRing {
    base: NonNull<u8>,
    len: usize,
    entry_shift: u32,
    mask: u32,
}

// SAFETY: The memory is owned by the ring and is not tied to a thread.
unsafe impl Send for SharedRing {}
// SAFETY: Indices are accessed atomically; the contents of slots are bytes that are copied as
// such, since user space may write to them at any time whatever the kernel does.
unsafe impl Sync for SharedRing {}

impl SharedRing {
    /// Makes a ring with room for at least `entries` entries of `entry_size` bytes.
    ///
    /// `EINVAL` if that overflows, `ENOMEM` if there is no memory.
    pub fn new(entries: u32, entry_size: usize) -> Result<Arc<Self>> {
        let slots = entries
            .checked_add(1)
            .and_then(u32::checked_next_power_of_two)
            .ok_or(EINVAL)?;
        let entry_shift = entry_size
            .checked_next_power_of_two()
            .ok_or(EINVAL)?
            .trailing_zeros();
        let len = (slots as usize)
            .checked_mul(1 << entry_shift)
            .and_then(|bytes| bytes.checked_add(HEADER + PAGE_SIZE - 1))
            .ok_or(EINVAL)?
            & !(PAGE_SIZE - 1);
        // SAFETY: Plain allocation of zeroed memory.
        let base = unsafe { bindings::mrx_vmalloc_user(len) };
        let base = NonNull::new(base.cast::<u8>()).ok_or(ENOMEM)?;
        // INVARIANT: As computed above.
        let ring = Self {
            base,
            len,
            entry_shift,
            mask: slots - 1,
        };
        let header = base.cast::<bindings::rxe_queue_buf>().as_ptr();
        // SAFETY: The header is within the fresh allocation, which nobody else knows of yet.
        unsafe {
            (*header).log2_elem_size = entry_shift;
            (*header).index_mask = ring.mask;
        }
        Ok(Arc::new(ring, GFP_KERNEL_ACCOUNT)?)
    }

    /// Entries that fit at a time.
    pub fn capacity(&self) -> u32 {
        self.mask
    }

    /// Bytes of an entry.
    pub fn entry_size(&self) -> usize {
        1 << self.entry_shift
    }

    /// Bytes of the whole ring, a multiple of the page size.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn index(&self, offset: usize) -> &Atomic<u32> {
        // SAFETY: The header is aligned and lives as long as the ring. The other accesses in the
        // kernel are through this function; those of user space do not concern the memory model.
        unsafe { Atomic::from_ptr(self.base.as_ptr().add(offset).cast()) }
    }

    fn producer_index(&self) -> &Atomic<u32> {
        self.index(core::mem::offset_of!(
            bindings::rxe_queue_buf,
            producer_index
        ))
    }

    fn consumer_index(&self) -> &Atomic<u32> {
        self.index(core::mem::offset_of!(
            bindings::rxe_queue_buf,
            consumer_index
        ))
    }

    /// Where the other side will write next.
    #[inline]
    pub fn producer(&self) -> u32 {
        self.producer_index().load(Acquire) & self.mask
    }

    /// What the other side will read next.
    #[inline]
    pub fn consumer(&self) -> u32 {
        self.consumer_index().load(Acquire) & self.mask
    }

    /// Tells the other side how far has been written.
    #[inline]
    pub fn set_producer(&self, index: u32) {
        self.producer_index().store(index & self.mask, Release);
    }

    /// Tells the other side how far has been read.
    #[inline]
    pub fn set_consumer(&self, index: u32) {
        self.consumer_index().store(index & self.mask, Release);
    }

    /// The index after `index`.
    #[inline]
    pub fn next(&self, index: u32) -> u32 {
        index.wrapping_add(1) & self.mask
    }

    /// How far `to` is ahead of `from`, in entries.
    pub fn distance(&self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from) & self.mask
    }

    /// The address of a slot, for copying.
    #[inline]
    pub fn slot(&self, index: u32) -> *mut u8 {
        let offset = HEADER + (((index & self.mask) as usize) << self.entry_shift);
        // SAFETY: By the type invariant the slot is within the allocation.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Copies the first bytes of a slot into `out`, as many as fit there and are in the slot.
    #[inline]
    pub fn read_into<T: FromBytes + AsBytes>(&self, index: u32, out: &mut T) {
        self.read_part(index, out, 0..size_of::<T>());
    }

    /// Copies the bytes `part` of a slot into the same place of `out`, as far as they are in both.
    /// The bounds of `part` are multiples of a word.
    ///
    /// An entry has few words: a loop over them beats the string instruction of `memcpy`.
    #[inline]
    pub fn read_part<T: FromBytes + AsBytes>(&self, index: u32, out: &mut T, part: Range<usize>) {
        const { assert!(align_of::<T>() == WORD && size_of::<T>() % WORD == 0) };
        let from = self.slot(index).cast::<u64>();
        let to = (&raw mut *out).cast::<u64>();
        let end = part.end.min(size_of::<T>());
        // SAFETY: The words are within the slot and within `out`, and aligned in both. Any bytes
        // make a `T`. User space may write meanwhile; whatever arrives is checked on the copy.
        let copy = |word: usize| unsafe { to.add(word).write(from.add(word).read_volatile()) };
        // Most often all of it is there, and is a number of words that the compiler knows.
        if end <= self.entry_size() {
            (part.start / WORD..end / WORD).for_each(copy);
        } else {
            (part.start / WORD..self.entry_size() / WORD).for_each(copy);
        }
    }

    /// Fills the first bytes of a slot with `data`, as far as it fits.
    #[inline]
    pub fn write_from<T: AsBytes>(&self, index: u32, data: &T) {
        const { assert!(align_of::<T>() == WORD && size_of::<T>() % WORD == 0) };
        let from = (&raw const *data).cast::<u64>();
        let to = self.slot(index).cast::<u64>();
        // SAFETY: As in `read_part`, the other way; `T` has no bytes that are not initialised.
        let copy = |word: usize| unsafe { to.add(word).write_volatile(from.add(word).read()) };
        let words = self.entry_size() / WORD;
        // Most often all of it fits, and is a number of words that the compiler knows.
        if size_of::<T>() / WORD <= words {
            (0..size_of::<T>() / WORD).for_each(copy);
        } else {
            (0..words).for_each(copy);
        }
    }

    /// Fills the first bytes of a slot.
    #[inline]
    pub fn write(&self, index: u32, data: &[u8]) {
        self.write_at(index, 0, data);
    }

    /// Fills the bytes of a slot that begin at `offset`, as far as they are in the slot.
    #[inline]
    pub fn write_at(&self, index: u32, offset: usize, data: &[u8]) {
        let Some(room) = self.entry_size().checked_sub(offset) else {
            return;
        };
        let len = data.len().min(room);
        // SAFETY: Both ranges are valid for `len` bytes, since `offset + len` is within the slot.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), self.slot(index).add(offset), len) };
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: `base` came from `mrx_vmalloc_user`. Pages that a process still maps hold references
        // of their own.
        unsafe { bindings::mrx_vfree(self.base.as_ptr().cast()) };
    }
}
