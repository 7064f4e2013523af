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
use kernel::{
    error::from_err_ptr,
    prelude::*, //
};

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

/// The entries of a table, copied, because a client may free them at any moment.
pub(super) struct Entries(KVVec<scatterlist>);

impl Entries {
    /// Makes room for the entries of `table`.
    pub(super) fn with_room_for(table: &sg_table) -> Result<Self> {
        let count = table.orig_nents.max(table.nents);
        Ok(Self(KVVec::with_capacity(count as usize, GFP_KERNEL)?))
    }

    /// Copies the entries, as many as there is room for.
    ///
    /// # Safety
    ///
    /// `table` is as a client of the C header `peer_mem.h` leaves it after `dma_map`, and the
    /// client does not free it meanwhile.
    pub(super) unsafe fn copy(&mut self, table: &sg_table) {
        let mut next = NonNull::new(table.sgl);
        while let Some(entry) = next {
            // SAFETY: By the requirements of this function.
            let copied = unsafe { *entry.as_ptr() };
            if self.0.push_within_capacity(copied).is_err() {
                break;
            }
            // SAFETY: As above.
            next = NonNull::new(unsafe { bindings::sg_next(entry.as_ptr()) });
        }
    }
}

impl Pages {
    /// Finds the bytes of `range`, of which the client gave `entries`.
    ///
    /// `EINVAL` if there are too few, or they describe no memory that can be reached.
    pub(super) fn find(entries: &Entries, range: &Range) -> Result<Self> {
        if !range.page_size.is_power_of_two() || range.len == 0 {
            return Err(EINVAL);
        }
        // The sum of both must not overflow when the pages are counted.
        (range.page_size - 1).checked_add(range.len).ok_or(EINVAL)?;
        let mapped = usize::try_from(range.mapped).map_err(|_| EINVAL)?;
        let with_address = entries.0.get(..mapped).ok_or(EINVAL)?;
        let mut pages = Self {
            stretches: KVVec::new(),
            windows: KVVec::new(),
            io: false,
            count: range.pages(),
        };
        let has_page = |entry: &scatterlist| entry.page_link & !SG_FLAGS != 0;
        match with_address {
            [] => return Err(EINVAL),
            _ if entries.0.iter().all(has_page) => pages.add_memory(&entries.0, range)?,
            _ => pages.add_physical(with_address, range)?,
        }
        Ok(pages)
    }

    /// All entries have pages.
    fn add_memory(&mut self, entries: &[scatterlist], range: &Range) -> Result {
        let mut cut = Cut::new(range);
        for entry in entries {
            let mut io = false;
            // SAFETY: The helper looks at the copy of the entry, and at its page's kind.
            let addr = unsafe { bindings::mrx_sg_memory((&raw const *entry).cast_mut(), &mut io) }
                as usize;
            if addr == 0 {
                return Err(EINVAL);
            }
            self.io |= io;
            let Some(stretch) = cut.piece(addr, entry.length as usize)? else {
                continue;
            };
            self.stretches.push(stretch, GFP_KERNEL_ACCOUNT)?;
            if cut.is_done() {
                return Ok(());
            }
        }
        Err(EINVAL)
    }

    /// All entries have DMA addresses, which are physical addresses.
    fn add_physical(&mut self, entries: &[scatterlist], range: &Range) -> Result {
        let mut cut = Cut::new(range);
        // What lies next to each other is mapped at once.
        let mut run: Option<(usize, usize)> = None;
        for entry in entries {
            let addr = usize::try_from(entry.dma_address)?;
            // SAFETY: It only reads the entry, though C does not say so.
            let len = unsafe { bindings::sg_dma_len(core::ptr::from_ref(entry).cast_mut()) };
            let Some((addr, len)) = cut.piece(addr, len as usize)? else {
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
        let addr = NonNull::new(from_err_ptr(addr)?).ok_or(EINVAL)?;
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
