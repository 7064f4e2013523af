// SPDX-License-Identifier: GPL-2.0

//! The bytes of a region that has some of its own.

use super::{
    super::{
        dmabuf::Imported,
        odp::paged::OnDemand,
        umem::Umem, //
    },
    access::Access,
    fast::FastPages, //
};
use kernel::prelude::*;

/// Bytes of kernel memory that lie next to each other.
#[derive(Clone, Copy)]
pub struct Stretch {
    /// The kernel address of the first.
    pub addr: *mut u8,
    /// How many.
    pub len: usize,
}

/// Where a stretch begins: in the region, and in the kernel's address space.
#[derive(Clone, Copy)]
struct Extent {
    start: u64,
    addr: usize,
}

/// What a region consists of.
pub enum Memory {
    /// Nothing: the region only carries a layout.
    None,
    /// Pinned user memory.
    Pinned(Pinned),
    /// User memory that is found when it is needed.
    Paged(OnDemand),
    /// A part of another driver's buffer.
    Buffer(Imported),
    /// Pages of the kernel that a work request registers.
    Fast(Pin<KBox<FastPages>>),
    /// All of the kernel's memory, addressed as the kernel addresses it.
    Kernel,
}

impl Memory {
    /// The bytes from `offset` on that lie next to each other, at most `len` of them. `hint` is a
    /// place to remember where they were found, to start from next time.
    ///
    /// `None` outside of the memory, and for memory that is found when it is needed, where a stretch
    /// is valid only under a lock; see [`Stream`](super::stream::Stream).
    #[inline]
    pub fn stretch(&self, offset: u64, len: usize, hint: &mut usize) -> Option<Stretch> {
        match self {
            Self::None | Self::Paged(_) | Self::Buffer(_) => None,
            Self::Pinned(pinned) => pinned.stretch(offset, len, hint),
            Self::Fast(pages) => pages.stretch(offset, len),
            Self::Kernel => Some(Stretch {
                addr: offset as *mut u8,
                len,
            }),
        }
    }

    /// Whether a region of this memory can get `access` after it has been made. `EACCES` if the
    /// memory cannot be written to, `EOPNOTSUPP` if memory of this kind keeps what it has.
    pub fn allows(&self, access: Access) -> Result {
        let on_demand = access.includes(Access::ON_DEMAND);
        match self {
            Self::Paged(_) if on_demand => Ok(()),
            Self::Pinned(_) if on_demand => Err(EOPNOTSUPP),
            Self::None => Ok(()),
            Self::Pinned(pinned) => pinned.umem.allows(access.bits()),
            Self::Paged(_) | Self::Buffer(_) | Self::Fast(_) | Self::Kernel => Err(EOPNOTSUPP),
        }
    }
}

/// User memory that is pinned while the region exists.
///
/// # Invariants
///
/// The extents are in the order of `start`, the first of which is 0; each reaches to the next, the
/// last to `length`. All addresses are within the pages of `umem`.
pub struct Pinned {
    extents: KVVec<Extent>,
    length: u64,
    umem: Umem,
}

impl Pinned {
    /// Notes where the pages of `umem` are. `ENOMEM` if there is no memory for that.
    pub fn new(umem: Umem) -> Result<Self> {
        let mut extents = KVVec::new();
        let mut length = 0u64;
        let mut next_addr = None;
        umem.for_each_stretch(|addr, len| {
            if next_addr != Some(addr) {
                let start = length;
                extents.push(Extent { start, addr }, GFP_KERNEL_ACCOUNT)?;
            }
            next_addr = addr.checked_add(len);
            length += len as u64;
            Ok(())
        })?;
        Ok(Self {
            extents,
            length,
            umem,
        })
    }

    #[inline]
    fn end_of(&self, index: usize) -> u64 {
        self.extents.get(index + 1).map_or(self.length, |e| e.start)
    }

    #[inline]
    fn stretch(&self, offset: u64, len: usize, hint: &mut usize) -> Option<Stretch> {
        if offset >= self.length {
            return None;
        }
        let holds = |e: &Extent, index| e.start <= offset && offset < self.end_of(index);
        let index = match self.extents.get(*hint) {
            Some(extent) if holds(extent, *hint) => *hint,
            _ => {
                // The first extent starts at 0, so at least one starts at or before the offset.
                let index = self
                    .extents
                    .partition_point(|e| e.start <= offset)
                    .checked_sub(1)?;
                *hint = index;
                index
            }
        };
        let extent = self.extents.get(index)?;
        let into = offset - extent.start;
        let left = self.end_of(index) - offset;
        Some(Stretch {
            addr: (extent.addr + into as usize) as *mut u8,
            len: len.min(left as usize),
        })
    }
}
