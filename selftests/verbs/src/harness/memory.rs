// SPDX-License-Identifier: GPL-2.0

//! Memory, and regions over it.

use std::{io, ops::Range, ptr, rc::Rc};

use mrx::sys::{self, ibv_mr};

use super::{
    check::{pointer, status},
    Pd, Sge,
};

/// All rights that a region may grant to a peer, and to the queue pair itself.
pub const ALL: u32 = sys::IBV_ACCESS_LOCAL_WRITE
    | sys::IBV_ACCESS_REMOTE_WRITE
    | sys::IBV_ACCESS_REMOTE_READ
    | sys::IBV_ACCESS_REMOTE_ATOMIC;

/// Anonymous pages. The device writes to them behind the compiler's back, so
/// that they are only ever copied from and to.
pub struct Memory {
    start: *mut u8,
    len: usize,
}

impl Memory {
    pub fn new(len: usize) -> io::Result<Rc<Self>> {
        Self::mapped(len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE)
    }

    /// Pages with other rights, or shared ones.
    pub fn mapped(len: usize, rights: i32, flags: i32) -> io::Result<Rc<Self>> {
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

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn addr(&self) -> u64 {
        self.start.expose_provenance() as u64
    }

    pub fn read(&self, range: Range<usize>) -> Vec<u8> {
        assert!(range.start <= range.end && range.end <= self.len);
        let mut bytes = vec![0; range.len()];
        // SAFETY: the range is inside the mapping, by the assertion.
        unsafe {
            ptr::copy_nonoverlapping(self.start.add(range.start), bytes.as_mut_ptr(), range.len())
        };
        bytes
    }

    pub fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.len && bytes.len() <= self.len - at);
        // SAFETY: the range is inside the mapping, by the assertion.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(at), bytes.len()) };
    }

    pub fn all(&self) -> Vec<u8> {
        self.read(0..self.len)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `mapped`, with this length.
        unsafe { libc::munmap(self.start.cast(), self.len.max(1)) };
    }
}

/// Bytes that differ at every position and between patterns, so that a shifted,
/// swapped or missing piece shows.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x6d72_7821);
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

/// A region, with the memory that it covers.
pub struct Mr {
    pub raw: *mut ibv_mr,
    pub memory: Rc<Memory>,
    _pd: Rc<Pd>,
    /// The address of the first byte, in the region's own addressing.
    base: u64,
}

impl Mr {
    /// A region over new memory.
    pub fn new(pd: &Rc<Pd>, len: usize, access: u32) -> io::Result<Self> {
        let memory = Memory::new(len)?;
        Self::over(pd, &memory, 0..len, access)
    }

    /// A region over new memory that holds a pattern.
    pub fn filled(pd: &Rc<Pd>, bytes: &[u8], access: u32) -> io::Result<Self> {
        let region = Self::new(pd, bytes.len(), access)?;
        region.memory.write(0, bytes);
        Ok(region)
    }

    /// A region over a part of memory that exists.
    pub fn over(
        pd: &Rc<Pd>,
        memory: &Rc<Memory>,
        range: Range<usize>,
        access: u32,
    ) -> io::Result<Self> {
        let start = memory.start.wrapping_add(range.start);
        // SAFETY: the memory stays mapped for as long as the region lives.
        let raw = unsafe { sys::ibv_reg_mr(pd.raw, start.cast(), range.len(), access as i32) };
        Ok(Self::adopt(pd, pointer(raw)?, memory, access))
    }

    /// A region of no memory.
    pub fn empty(pd: &Rc<Pd>, access: u32) -> io::Result<Self> {
        // SAFETY: nothing is registered but the right to a key.
        let raw = unsafe { sys::ibv_reg_mr(pd.raw, ptr::null_mut(), 0, access as i32) };
        Ok(Self::adopt(pd, pointer(raw)?, &Memory::new(0)?, access))
    }

    /// Takes over a region that was made otherwise.
    pub(crate) fn adopt(pd: &Rc<Pd>, raw: *mut ibv_mr, memory: &Rc<Memory>, access: u32) -> Self {
        let base = if access & sys::IBV_ACCESS_ZERO_BASED != 0 {
            0
        } else {
            // SAFETY: the region is live.
            unsafe { (*raw).addr }.expose_provenance() as u64
        };
        Self {
            raw,
            memory: memory.clone(),
            _pd: pd.clone(),
            base,
        }
    }

    /// A region over new memory, with addresses that start at `iova`.
    pub fn with_iova(pd: &Rc<Pd>, bytes: &[u8], iova: u64, access: u32) -> io::Result<Self> {
        let memory = Memory::new(bytes.len())?;
        memory.write(0, bytes);
        // SAFETY: the memory stays mapped for as long as the region lives.
        let raw = unsafe {
            sys::ibv_reg_mr_iova(
                pd.raw,
                memory.start.cast(),
                bytes.len(),
                iova,
                access as i32,
            )
        };
        let mut region = Self::adopt(pd, pointer(raw)?, &memory, access);
        region.base = iova;
        Ok(region)
    }

    pub fn lkey(&self) -> u32 {
        // SAFETY: the region is live.
        unsafe { (*self.raw).lkey }
    }

    pub fn rkey(&self) -> u32 {
        // SAFETY: the region is live.
        unsafe { (*self.raw).rkey }
    }

    /// The address of a byte of the region, in the region's own addressing.
    pub fn at(&self, offset: usize) -> u64 {
        self.base + offset as u64
    }

    /// A part of the region.
    pub fn sge(&self, range: Range<usize>) -> Sge {
        Sge {
            addr: self.at(range.start),
            length: range.len() as u32,
            lkey: self.lkey(),
        }
    }

    /// The whole region.
    pub fn whole(&self) -> Sge {
        self.sge(0..self.memory.len())
    }

    /// Deregisters; the region stays as it is when that fails.
    pub fn deregister(&mut self) -> io::Result<()> {
        // SAFETY: the region is live, and forgotten below if it is not any more.
        status(unsafe { sys::ibv_dereg_mr(self.raw) })?;
        self.raw = ptr::null_mut();
        Ok(())
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            if let Err(error) = self.deregister() {
                println!("a region cannot be deregistered: {error}");
            }
        }
    }
}
