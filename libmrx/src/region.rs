// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Regions.

use std::{ffi::c_void, io, marker::PhantomData, ops, ptr, ptr::NonNull};

use crate::{
    ffi,
    layout::flatten,
    method::{self, Keys, Target},
    object::non_null,
    sys::{self, ibv_mr, mrx_dimension, mrx_interleaved, mrx_mr_init_attr},
    Dimension, Entry, Layout, LayoutInfo, Pd, Range, RawEntry, RawRange, SetLayout, SetLayoutError,
};

bitflags::bitflags! {
    /// What a region may be used for. To be read by the owner's own work
    /// requests needs no right.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u32 {
        /// The owner's work requests may write to it.
        const LOCAL_WRITE = sys::IBV_ACCESS_LOCAL_WRITE;
        /// A peer may write to it. Needs `LOCAL_WRITE`, too.
        const REMOTE_WRITE = sys::IBV_ACCESS_REMOTE_WRITE;
        /// A peer may read from it.
        const REMOTE_READ = sys::IBV_ACCESS_REMOTE_READ;
        /// A peer may do atomic operations on it. Needs `LOCAL_WRITE`, too.
        const REMOTE_ATOMIC = sys::IBV_ACCESS_REMOTE_ATOMIC;
        /// Addresses in it count from zero.
        const ZERO_BASED = sys::IBV_ACCESS_ZERO_BASED;
        /// Its pages are not pinned but fetched on demand.
        const ON_DEMAND = sys::IBV_ACCESS_ON_DEMAND;
    }
}

/// Pages that belong to a region.
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: non_null(start.cast())?,
            len,
        })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, with this length.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A memory region.
///
/// `'a` is the life of all that it stands on: its protection domain, and the
/// regions that its layout names.
pub struct Region<'a> {
    raw: NonNull<ibv_mr>,
    pages: Option<Pages>,
    /// The address of the first byte, in the region's own addressing.
    base: u64,
    below: PhantomData<&'a Pd<'a>>,
}

// SAFETY: libibverbs may be called from every thread. The region is not `Sync`,
// as two threads must not copy from and to its pages at once.
unsafe impl Send for Region<'_> {}

impl<'a> Region<'a> {
    fn new(raw: NonNull<ibv_mr>, pages: Option<Pages>, base: u64) -> Self {
        Self {
            raw,
            pages,
            base,
            below: PhantomData,
        }
    }

    /// A region over `len` zeroed bytes of its own, which [`read`](Self::read)
    /// and [`write`](Self::write) reach.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a length of zero, and what `ibv_reg_mr` reports.
    pub fn with_memory(pd: &'a Pd<'_>, len: usize, access: Access) -> io::Result<Self> {
        let pages = Pages::new(len)?;
        // SAFETY: the pages live until the region has ended, and nobody has a
        // reference into them.
        let mut region = unsafe { Self::register(pd, pages.start.as_ptr().cast(), len, access)? };
        region.pages = Some(pages);
        Ok(region)
    }

    /// A region over memory of somebody else.
    ///
    /// # Safety
    ///
    /// The device reads and writes the memory as `access` allows, when a peer
    /// or a work request wants it to, until the region has ended, and even if
    /// it is forgotten. Nothing in Rust may be surprised by that.
    pub unsafe fn register(
        pd: &'a Pd<'_>,
        start: *mut c_void,
        len: usize,
        access: Access,
    ) -> io::Result<Self> {
        // SAFETY: the domain is live; the memory is as the caller says.
        let raw =
            unsafe { sys::ibv_reg_mr(pd.as_raw().as_ptr(), start, len, access.bits() as i32) };
        let zero_based = access.contains(Access::ZERO_BASED);
        let base = if zero_based {
            0
        } else {
            start.expose_provenance() as u64
        };
        Ok(Self::new(non_null(raw)?, None, base))
    }

    /// A region of no memory, addressed from zero, for a layout to fill.
    pub fn empty(pd: &'a Pd<'_>, access: Access) -> io::Result<Self> {
        // SAFETY: there is no memory.
        unsafe { Self::register(pd, ptr::null_mut(), 0, access | Access::ZERO_BASED) }
    }

    /// A region made for layouts of at most so many descriptors, addressed from
    /// zero.
    pub fn indirect(pd: &'a Pd<'_>, max_descriptors: u32, access: Access) -> io::Result<Self> {
        let attr = mrx_mr_init_attr {
            type_: sys::MRX_MR_TYPE_INDIRECT,
            max_descriptors,
            access: access.bits(),
            flags: 0,
        };
        // SAFETY: the domain is live.
        let raw = unsafe { ffi::mrx_create_mr(pd.as_raw().as_ptr(), &attr) };
        Ok(Self::new(non_null(raw)?, None, 0))
    }

    /// The structure of libibverbs.
    pub fn as_raw(&self) -> NonNull<ibv_mr> {
        self.raw
    }

    /// The key that work requests of this side name the region by.
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is live.
        unsafe { self.raw.as_ref() }.lkey
    }

    /// The key that a peer names the region by.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is live.
        unsafe { self.raw.as_ref() }.rkey
    }

    /// The address of the first byte, for work requests. With a layout, too.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// A part of the region, counted from its first byte, to put into a layout.
    ///
    /// Whether the region has those bytes is checked when the layout is set. A
    /// part longer than `u32` can say is cut to that, and a reversed one empty.
    pub fn range(&self, bytes: ops::Range<u64>) -> Range<'_> {
        let length = bytes
            .end
            .saturating_sub(bytes.start)
            .try_into()
            .unwrap_or(u32::MAX);
        Range::new(self.base.wrapping_add(bytes.start), length, self.lkey())
    }

    fn target(&self) -> Target {
        // SAFETY: the region and its context are live.
        unsafe {
            let mr = self.raw.as_ref();
            Target {
                command_fd: (*mr.context).cmd_fd,
                handle: mr.handle,
            }
        }
    }

    fn take(&mut self, keys: io::Result<Keys>) -> Result<(), SetLayoutError> {
        let keys = keys?;
        // SAFETY: the region is live, and ours alone.
        let mr = unsafe { self.raw.as_mut() };
        (mr.lkey, mr.rkey) = (keys.lkey, keys.rkey);
        Ok(())
    }

    /// Makes the region the concatenation of ranges of other regions.
    ///
    /// The keys are new afterwards if the number of ranges is not the one that
    /// the layout before had.
    pub fn set_layout_sg(
        &mut self,
        flags: SetLayout,
        ranges: &[Range<'a>],
    ) -> Result<(), SetLayoutError> {
        let list: Vec<_> = ranges.iter().map(|range| range.sge).collect();
        let keys = method::set_layout_sg(self.target(), flags.bits(), &list);
        self.take(keys)
    }

    /// Makes the region a pattern: in rounds over the entries, each gives its
    /// next data, until all are used up.
    ///
    /// The column of a matrix of 20 rows of 30 numbers of four bytes:
    ///
    /// ```no_run
    /// # use mrx::{Access, Dimension, Entry, Pd, Region, SetLayout};
    /// # fn example(pd: &Pd<'_>) -> Result<(), Box<dyn std::error::Error>> {
    /// let matrix = Region::with_memory(pd, 20 * 30 * 4, Access::LOCAL_WRITE)?;
    /// let mut column = Region::empty(pd, Access::LOCAL_WRITE)?;
    /// let entry = Entry {
    ///     first: matrix.range(7 * 4..8 * 4),
    ///     repeated: 1,
    ///     dimensions: vec![Dimension { stride: 30 * 4, count: 20 }],
    /// };
    /// column.set_layout_interleaved(SetLayout::NOW, &[entry])?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_layout_interleaved(
        &mut self,
        flags: SetLayout,
        entries: &[Entry<'a>],
    ) -> Result<(), SetLayoutError> {
        let (list, dimensions) = flatten(entries);
        let keys = method::set_layout_interleaved(self.target(), flags.bits(), &list, &dimensions);
        self.take(keys)
    }

    /// The size of the layout, if there is one.
    pub fn layout_info(&self) -> io::Result<Option<LayoutInfo>> {
        let info = method::query_layout(self.target())?;
        let found = LayoutInfo {
            length: info.length,
            descriptors: info.num_descriptors,
            nesting: info.nesting_level,
        };
        Ok((info.kind != sys::MRX_LAYOUT_NONE).then_some(found))
    }

    /// The layout, if there is one.
    pub fn layout(&self) -> io::Result<Option<Layout>> {
        let info = method::query_layout(self.target())?;
        let count = info.num_descriptors as usize;
        match info.kind {
            sys::MRX_LAYOUT_SG => {
                let mut list = vec![Default::default(); count];
                let found = method::query_sg(self.target(), &mut list)?;
                list.truncate(found.num_descriptors as usize);
                let range = |range: &sys::ib_uverbs_sge| RawRange {
                    addr: range.addr,
                    length: range.length,
                    lkey: range.lkey,
                };
                Ok(Some(Layout::Sg(list.iter().map(range).collect())))
            }
            sys::MRX_LAYOUT_INTERLEAVED => {
                let mut list = vec![mrx_interleaved::default(); count];
                let mut dimensions = vec![mrx_dimension::default(); info.num_dimensions as usize];
                let found = method::query_interleaved(self.target(), &mut list, &mut dimensions)?;
                list.truncate(found.num_descriptors as usize);
                dimensions.truncate(found.num_dimensions as usize);
                Ok(Some(Layout::Interleaved(unflatten(&list, &dimensions))))
            }
            _ => Ok(None),
        }
    }

    /// Copies from the region's own memory, which a layout hides from its keys
    /// but not from here.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it has fewer bytes.
    pub fn read(&self, at: usize, bytes: &mut [u8]) -> io::Result<()> {
        let start = self.own(at, bytes.len())?;
        // SAFETY: the pages have those bytes. The device may write to them
        // meanwhile, which at worst mixes old and new bytes.
        unsafe { ptr::copy_nonoverlapping(start, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies to the region's own memory.
    ///
    /// # Errors
    ///
    /// As for [`read`](Self::read).
    pub fn write(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        let start = self.own(at, bytes.len())?;
        // SAFETY: as for `read`; nobody has a reference into the pages.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start, bytes.len()) };
        Ok(())
    }

    /// Where a part of the region's own memory starts.
    fn own(&self, at: usize, len: usize) -> io::Result<*mut u8> {
        let end = at.checked_add(len);
        match &self.pages {
            Some(pages) if end.is_some_and(|end| end <= pages.len) => {
                // SAFETY: the offset is inside the mapping, by the condition.
                Ok(unsafe { pages.start.as_ptr().add(at) })
            }
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }
}

fn unflatten(list: &[mrx_interleaved], mut dimensions: &[mrx_dimension]) -> Vec<RawEntry> {
    let entry = |entry: &mrx_interleaved| {
        let count = (entry.num_dimensions as usize).min(dimensions.len());
        let (own, rest) = dimensions.split_at(count);
        dimensions = rest;
        RawEntry {
            first: RawRange {
                addr: entry.addr,
                length: entry.length,
                lkey: entry.lkey,
            },
            repeated: entry.num_repeated,
            dimensions: own
                .iter()
                .map(|one| Dimension {
                    stride: one.offset_stride,
                    count: one.datum_count,
                })
                .collect(),
        }
    };
    list.iter().map(entry).collect()
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        // SAFETY: the region is live. What was made over it borrowed it.
        let status = unsafe { sys::ibv_dereg_mr(self.raw.as_ptr()) };
        if status != 0 {
            // A layout over it was forgotten and goes on, and the device with it:
            // the pages must not be used for anything else.
            std::mem::forget(self.pages.take());
        }
    }
}
