// SPDX-License-Identifier: GPL-2.0

//! Memory, regions over it, and regions with layouts.

use std::{io, ops::Range, ptr, rc::Rc};

use anyhow::Context as _;
use mrx::{
    ffi,
    sys::{self, ibv_mr, ibv_mr_layout_interleaved, ibv_mr_layout_interleaved_dimensions, ibv_sge},
};

use super::{pointer, status, Device};

/// All rights but those for atomic operations.
pub const ALL: u32 =
    sys::IBV_ACCESS_LOCAL_WRITE | sys::IBV_ACCESS_REMOTE_WRITE | sys::IBV_ACCESS_REMOTE_READ;

/// Anonymous pages. A device writes to them behind the compiler's back, so that
/// they are only ever copied from and to.
pub struct Memory {
    start: *mut u8,
    len: usize,
}

impl Memory {
    /// So many zeroes, whose pages are there from the start.
    pub fn new(len: usize) -> io::Result<Rc<Self>> {
        Self::map(len, libc::MAP_PRIVATE | libc::MAP_POPULATE)
    }

    /// So many zeroes, whose pages come when they are touched.
    pub fn untouched(len: usize) -> io::Result<Rc<Self>> {
        Self::map(len, libc::MAP_PRIVATE)
    }

    /// Zeroes that this process and those it forks see in common.
    pub fn shared(len: usize) -> io::Result<Rc<Self>> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_POPULATE)
    }

    fn map(len: usize, flags: i32) -> io::Result<Rc<Self>> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_ANONYMOUS | flags;
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe { libc::mmap(ptr::null_mut(), len.max(1), rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Rc::new(Self {
            start: start.cast(),
            len,
        }))
    }

    /// Bytes in all.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Where it starts.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Where it starts, as a number.
    pub fn address(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    /// An advice of `madvise` that loses no byte.
    pub fn advise(&self, advice: i32) -> io::Result<()> {
        assert_ne!(advice, libc::MADV_DONTNEED);
        // SAFETY: the mapping has this length, and its bytes stay as they are.
        match unsafe { libc::madvise(self.start.cast(), self.len, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A copy of all bytes.
    pub fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        // SAFETY: the mapping has this length.
        unsafe { ptr::copy_nonoverlapping(self.start, bytes.as_mut_ptr(), self.len) };
        bytes
    }

    /// Overwrites the first bytes.
    pub fn write(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        // SAFETY: the mapping is as long, by the assertion.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start, bytes.len()) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, with this length.
        unsafe { libc::munmap(self.start.cast(), self.len.max(1)) };
    }
}

/// An entry of an interleaved layout.
#[derive(Clone)]
pub struct Pattern {
    /// The first datum.
    pub first: ibv_sge,
    /// Bytes from a datum to the next, and how many there are; the innermost
    /// dimension first.
    pub dimensions: Vec<(u64, u64)>,
}

/// Entries as the C interface wants them.
pub struct PatternList {
    list: Vec<ibv_mr_layout_interleaved>,
    /// What the list points to.
    _dimensions: Vec<Vec<ibv_mr_layout_interleaved_dimensions>>,
}

impl PatternList {
    /// A list of `entries`.
    pub fn new(entries: &[Pattern]) -> Self {
        let mut dimensions: Vec<Vec<_>> = entries
            .iter()
            .map(|entry| {
                let of = |&(offset_stride, datum_count): &(u64, u64)| {
                    ibv_mr_layout_interleaved_dimensions {
                        offset_stride,
                        datum_count,
                    }
                };
                entry.dimensions.iter().map(of).collect()
            })
            .collect();
        let list = entries
            .iter()
            .zip(&mut dimensions)
            .map(|(entry, own)| ibv_mr_layout_interleaved {
                first_datum: entry.first,
                num_repeated: 1,
                num_dimensions: own.len() as i32,
                dims: own.as_mut_ptr(),
            })
            .collect();
        Self {
            list,
            _dimensions: dimensions,
        }
    }
}

/// A memory region.
pub struct Region {
    raw: *mut ibv_mr,
    memory: Option<Rc<Memory>>,
    device: Rc<Device>,
}

impl Region {
    /// Registers memory.
    pub fn over(device: &Rc<Device>, memory: &Rc<Memory>) -> io::Result<Self> {
        Self::over_part(device, memory, 0..memory.size())
    }

    /// Registers memory that is paged on demand.
    pub fn paged_over(device: &Rc<Device>, memory: &Rc<Memory>) -> io::Result<Self> {
        let access = ALL | sys::IBV_ACCESS_ON_DEMAND;
        Self::register(device, memory, 0..memory.size(), access)
    }

    /// Registers a part of memory.
    pub fn over_part(
        device: &Rc<Device>,
        memory: &Rc<Memory>,
        part: Range<usize>,
    ) -> io::Result<Self> {
        Self::register(device, memory, part, ALL)
    }

    fn register(
        device: &Rc<Device>,
        memory: &Rc<Memory>,
        part: Range<usize>,
        access: u32,
    ) -> io::Result<Self> {
        assert!(part.start <= part.end && part.end <= memory.size());
        let start = memory.start.wrapping_add(part.start).cast();
        // SAFETY: the memory stays mapped for as long as the region lives.
        let raw = unsafe { sys::ibv_reg_mr(device.pd, start, part.len(), access as i32) };
        Ok(Self {
            raw: pointer(raw)?,
            memory: Some(memory.clone()),
            device: device.clone(),
        })
    }

    /// A region of no memory and addressed from zero, which waits for a layout.
    pub fn empty(device: &Rc<Device>) -> io::Result<Self> {
        let access = (ALL | sys::IBV_ACCESS_ZERO_BASED) as i32;
        // SAFETY: nothing is registered but the right to a key.
        let raw = unsafe { sys::ibv_reg_mr(device.pd, ptr::null_mut(), 0, access) };
        Ok(Self {
            raw: pointer(raw)?,
            memory: None,
            device: device.clone(),
        })
    }

    /// Finds all pages of the region, to be written to, if it is paged on demand.
    pub fn prefetch(&self) -> io::Result<()> {
        // A range cannot be as long as a region.
        const LONGEST: usize = 1 << 30;
        let size = self.memory.as_ref().map_or(0, |memory| memory.size());
        let range = |at| self.range(at, LONGEST.min(size - at));
        let mut list: Vec<_> = (0..size).step_by(LONGEST).map(range).collect();
        // SAFETY: the domain is live, and the call only reads the list.
        status(unsafe {
            ffi::mrx_advise_mr(
                self.device.pd,
                sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                sys::IB_UVERBS_ADVISE_MR_FLAG_FLUSH,
                list.as_mut_ptr(),
                list.len() as u32,
            )
        })
    }

    /// Makes this region the concatenation of the listed ranges.
    pub fn set_layout(&self, ranges: &[ibv_sge]) -> anyhow::Result<()> {
        let count = i32::try_from(ranges.len())?;
        // SAFETY: the region is live and used by one thread, and the call only
        // reads the list.
        match unsafe { ffi::ibv_mr_set_layout_sg(self.raw, 0, count, ranges.as_ptr().cast_mut()) } {
            0 => Ok(()),
            code => Err(io::Error::last_os_error())
                .with_context(|| format!("set a layout of {count} ranges (code {code})")),
        }
    }

    /// Makes this region a pattern that takes one datum of each entry in turn.
    pub fn set_pattern(&self, entries: &[Pattern]) -> anyhow::Result<()> {
        self.set_patterns(&mut PatternList::new(entries))
    }

    /// As [`Self::set_pattern`], with a list that is ready.
    pub fn set_patterns(&self, patterns: &mut PatternList) -> anyhow::Result<()> {
        let list = &mut patterns.list;
        let count = i32::try_from(list.len())?;
        // SAFETY: the region is live and used by one thread; the list and what
        // it points to outlive the call.
        let code =
            unsafe { ffi::ibv_mr_set_layout_interleaved(self.raw, 0, count, list.as_mut_ptr()) };
        match code {
            0 => Ok(()),
            code => Err(io::Error::last_os_error())
                .with_context(|| format!("set a pattern of {count} entries (code {code})")),
        }
    }

    /// The key for work of this process.
    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is live.
        unsafe { (*self.raw).lkey }
    }

    /// The key for work of a peer.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is live.
        unsafe { (*self.raw).rkey }
    }

    /// The address of the first byte, in the region's own addressing.
    pub fn start(&self) -> u64 {
        match self.memory {
            // SAFETY: the region is live.
            Some(_) => unsafe { (*self.raw).addr }.expose_provenance() as u64,
            None => 0,
        }
    }

    /// A range of the region.
    pub fn range(&self, at: usize, len: usize) -> ibv_sge {
        ibv_sge {
            addr: self.start() + at as u64,
            length: len as u32,
            lkey: self.lkey(),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is live.
        if let Err(error) = status(unsafe { sys::ibv_dereg_mr(self.raw) }) {
            eprintln!("a region cannot be deregistered: {error}");
        }
    }
}
