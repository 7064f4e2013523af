// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of a range are.
//!
//! C header: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h)
//!
//! A client describes a range by a table, whose entries may have pages or not. If all have, bytes
//! are reached through the kernel's addresses of the pages. If one has none, the memory is that of
//! a device, and is reached by the DMA address, which is the physical address for a device that is
//! no hardware of its own.

use crate::bindings::{
    self,
    scatterlist,
    sg_table, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

/// Device memory, in the kernel's address space.
struct Window(NonNull<c_void>);

// SAFETY: A mapping may be used and removed by any thread.
unsafe impl Send for Window {}
// SAFETY: A shared reference is of no use.
unsafe impl Sync for Window {}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: The address is of a mapping that this owns.
        unsafe { bindings::iounmap(self.0.as_ptr()) };
    }
}

/// The bytes of a range, in the kernel's address space.
pub struct Pages {
    stretches: KVVec<(usize, usize)>,
    windows: KVVec<Window>,
    io: bool,
    /// How many pages of the client's size the range touches.
    pub(super) count: u64,
}

/// What a client said of a range.
pub(super) struct Range {
    pub(super) addr: usize,
    pub(super) len: usize,
    pub(super) page_size: usize,
    /// Entries that have a DMA address.
    pub(super) mapped: c_int,
}

impl Range {
    /// How far into the table the range begins, if the table begins at address `start`.
    ///
    /// The table begins at the page that the range begins in, or at the range.
    fn skip(&self, start: usize) -> Result<usize> {
        let mask = self.page_size - 1;
        match start & mask {
            0 => Ok(self.addr & mask),
            into if into == self.addr & mask => Ok(0),
            _ => Err(EINVAL),
        }
    }

    /// How many pages the range touches.
    fn pages(&self) -> u64 {
        let into = self.addr & (self.page_size - 1);
        let shift = self.page_size.trailing_zeros();
        (((into + (self.len - 1)) >> shift) + 1) as u64
    }
}

/// The first `count` entries of a table.
fn entries(table: &sg_table, count: u32) -> impl Iterator<Item = NonNull<scatterlist>> {
    let first = NonNull::new(table.sgl);
    core::iter::successors(first, |entry| {
        // SAFETY: The client made the table, and `entry` is one of it.
        NonNull::new(unsafe { bindings::sg_next(entry.as_ptr()) })
    })
    .take(count as usize)
}

impl Pages {
    /// Finds the bytes of `range` in `table`.
    ///
    /// `EINVAL` if the table is too short, or describes no memory that can be reached.
    ///
    /// # Safety
    ///
    /// `table` is as a client of the C header `peer_mem.h` leaves it after `dma_map`.
    pub(super) unsafe fn find(table: &sg_table, range: &Range) -> Result<Self> {
        if !range.page_size.is_power_of_two() || range.len == 0 {
            return Err(EINVAL);
        }
        // The sum of both must not overflow when the pages are counted.
        (range.page_size - 1).checked_add(range.len).ok_or(EINVAL)?;
        let mapped = u32::try_from(range.mapped).map_err(|_| EINVAL)?;
        let all = table.orig_nents.max(table.nents);
        if mapped == 0 || mapped > all {
            return Err(EINVAL);
        }
        let mut pages = Self {
            stretches: KVVec::new(),
            windows: KVVec::new(),
            io: false,
            count: range.pages(),
        };
        // SAFETY: By the requirements of this function the entries are sound. An entry without a
        // page is not asked for its memory, which is found out first.
        unsafe {
            if entries(table, all).all(|entry| (*entry.as_ptr()).page_link & !SG_FLAGS != 0) {
                pages.add_memory(entries(table, all), range)?;
            } else {
                pages.add_physical(entries(table, mapped), range)?;
            }
        }
        Ok(pages)
    }

    /// # Safety
    ///
    /// All entries have pages.
    unsafe fn add_memory(
        &mut self,
        entries: impl Iterator<Item = NonNull<scatterlist>>,
        range: &Range,
    ) -> Result {
        let mut cut = Cut::new(range);
        for entry in entries {
            let mut io = false;
            // SAFETY: By the requirements of this function.
            let (addr, len) = unsafe {
                (
                    bindings::mrx_sg_memory(entry.as_ptr(), &mut io) as usize,
                    (*entry.as_ptr()).length as usize,
                )
            };
            if addr == 0 {
                return Err(EINVAL);
            }
            self.io |= io;
            let Some((addr, len)) = cut.piece(addr, len)? else {
                continue;
            };
            self.stretches.push((addr, len), GFP_KERNEL_ACCOUNT)?;
            if cut.is_done() {
                return Ok(());
            }
        }
        Err(EINVAL)
    }

    /// # Safety
    ///
    /// All entries have DMA addresses, which are physical addresses.
    unsafe fn add_physical(
        &mut self,
        entries: impl Iterator<Item = NonNull<scatterlist>>,
        range: &Range,
    ) -> Result {
        let mut cut = Cut::new(range);
        // What lies next to each other is mapped at once.
        let mut run: Option<(usize, usize)> = None;
        for entry in entries {
            // SAFETY: By the requirements of this function.
            let (addr, len) = unsafe {
                (
                    (*entry.as_ptr()).dma_address as usize,
                    (*entry.as_ptr()).dma_length as usize,
                )
            };
            let Some((addr, len)) = cut.piece(addr, len)? else {
                continue;
            };
            run = match run {
                Some((start, before)) if start + before == addr => Some((start, before + len)),
                other => {
                    self.add_run(other)?;
                    Some((addr, len))
                }
            };
            if cut.is_done() {
                return self.add_run(run);
            }
        }
        Err(EINVAL)
    }

    fn add_run(&mut self, run: Option<(usize, usize)>) -> Result {
        let Some((start, len)) = run else {
            return Ok(());
        };
        self.windows.reserve(1, GFP_KERNEL_ACCOUNT)?;
        let mut mapped = false;
        // SAFETY: The client vouches for the addresses; the helper refuses what is neither all
        // memory nor all something else.
        let addr = unsafe { bindings::mrx_map_physical(start as u64, len, &mut mapped) };
        let addr = NonNull::new(addr).ok_or(EINVAL)?;
        if mapped {
            self.io = true;
            self.windows
                .push_within_capacity(Window(addr))
                .map_err(|_| ENOMEM)?;
        }
        self.stretches
            .push((addr.as_ptr() as usize, len), GFP_KERNEL_ACCOUNT)?;
        Ok(())
    }

    /// Whether the bytes, or some, are those of a device, to be copied as such.
    pub fn is_io(&self) -> bool {
        self.io
    }

    /// Calls `f` with the kernel address and length of each stretch of the range, in order.
    pub fn for_each_stretch(&self, mut f: impl FnMut(usize, usize) -> Result) -> Result {
        self.stretches
            .iter()
            .try_for_each(|(addr, len)| f(*addr, *len))
    }
}

/// `SG_CHAIN | SG_END`, which stand in the low bits of a page's address.
const SG_FLAGS: c_ulong = 3;

/// Cuts the range out of the entries of its table.
struct Cut<'a> {
    range: &'a Range,
    /// Bytes in front of the range; known from the first entry on.
    skip: Option<usize>,
    left: usize,
}

impl<'a> Cut<'a> {
    fn new(range: &'a Range) -> Self {
        Self {
            range,
            skip: None,
            left: range.len,
        }
    }

    /// The part of the next entry that is in the range. `EINVAL` if the entry makes no sense.
    fn piece(&mut self, addr: usize, len: usize) -> Result<Option<(usize, usize)>> {
        if len == 0 || addr.checked_add(len).is_none() {
            return Err(EINVAL);
        }
        let skip = match self.skip {
            Some(skip) => skip,
            None => self.range.skip(addr)?,
        };
        let skipped = skip.min(len);
        self.skip = Some(skip - skipped);
        let len = (len - skipped).min(self.left);
        self.left -= len;
        Ok((len > 0).then_some((addr + skipped, len)))
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}
