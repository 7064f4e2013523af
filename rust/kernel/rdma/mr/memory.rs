// SPDX-License-Identifier: GPL-2.0

//! The bytes of a region that has some of its own.

use super::{
    super::{
        dmabuf::Imported,
        driver::DeviceRef,
        odp::paged::OnDemand,
        peer::{
            Importer,
            Mapping,
            Pages, //
        },
        umem::Umem, //
    },
    access::Access,
    fast::FastPages, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Bytes in the kernel's address space that lie next to each other.
#[derive(Clone, Copy)]
pub struct Stretch {
    /// The kernel address of the first.
    pub addr: *mut u8,
    /// How many.
    pub len: usize,
    /// They are those of a device, to be copied as such.
    pub io: bool,
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
    /// Memory of another device.
    Peer(Peer),
}

impl Memory {
    /// The memory of `len` bytes at `addr` of the current process, for `access`: its own, or what
    /// another device's driver has let it map.
    ///
    /// The errors of [`DeviceRef::pin_user_memory`] and [`DeviceRef::map_peer_memory`].
    pub fn of_process(
        device: DeviceRef<'_>,
        addr: usize,
        len: usize,
        access: Access,
    ) -> Result<Self> {
        match device.pin_user_memory(addr, len, access.bits()) {
            Ok(umem) => Ok(Self::Pinned(Pinned::new(umem)?)),
            // No such range, or no patience: nobody can own it.
            Err(e) if e == EINVAL || e == EINTR => Err(e),
            // Also above the limits on pinned memory, which are not for memory of others.
            Err(e) => {
                let (mapping, pages) = device
                    .map_peer_memory(addr, len, access.is_writable())?
                    .ok_or(e)?;
                Ok(Self::Peer(Peer::new(mapping, pages)?))
            }
        }
    }

    /// The bytes from `offset` on that lie next to each other, at most `len` of them. `hint` is a
    /// place to remember where they were found, to start from next time.
    ///
    /// `None` outside of the memory, and for memory that is found when it is needed, where a stretch
    /// is valid only under a lock; see [`Stream`](super::stream::Stream).
    pub fn stretch(&self, offset: u64, len: usize, hint: &mut usize) -> Option<Stretch> {
        match self {
            Self::None | Self::Paged(_) | Self::Buffer(_) => None,
            Self::Pinned(pinned) => pinned.extents.stretch(offset, len, hint),
            Self::Peer(peer) => peer.extents.stretch(offset, len, hint),
            Self::Fast(pages) => pages.stretch(offset, len),
            Self::Kernel => Some(Stretch {
                addr: offset as *mut u8,
                len,
                io: false,
            }),
        }
    }

    /// The kernel address of the `len` bytes from `offset` on, if they lie next to each other and are
    /// to be copied as memory is. As [`Memory::stretch`], for memory that does not have to be searched
    /// most of the time.
    #[inline(always)]
    pub(super) fn straight(&self, offset: u64, len: usize) -> Option<*mut u8> {
        if let Self::Pinned(pinned) = self {
            if let Some(addr) = pinned.extents.in_first(offset, len) {
                return Some(addr);
            }
        }
        let stretch = self.stretch(offset, len, &mut 0)?;
        (stretch.len == len && !stretch.io).then_some(stretch.addr)
    }

    /// Whether a region of this memory can get `access` after it has been made. `EACCES` if the
    /// memory cannot be written to, `EOPNOTSUPP` if memory of this kind keeps what it has.
    pub fn allows(&self, access: Access) -> Result {
        let on_demand = access.includes(Access::ON_DEMAND);
        match self {
            Self::Paged(_) if on_demand => Ok(()),
            Self::Pinned(_) | Self::Buffer(_) if on_demand => Err(EOPNOTSUPP),
            Self::None | Self::Buffer(_) => Ok(()),
            Self::Pinned(pinned) => pinned.umem.allows(access.bits()),
            Self::Paged(_) | Self::Peer(_) | Self::Fast(_) | Self::Kernel => Err(EOPNOTSUPP),
        }
    }

    /// Tells whoever may take the memory away that `importer` uses it. `EFAULT` if it has been
    /// taken away already.
    pub fn attach(&self, importer: Arc<dyn Importer>) -> Result {
        match self {
            Self::None
            | Self::Pinned(_)
            | Self::Paged(_)
            | Self::Buffer(_)
            | Self::Fast(_)
            | Self::Kernel => Ok(()),
            Self::Peer(peer) => peer.mapping.attach(importer),
        }
    }
}

/// User memory that is pinned while the region exists.
///
/// # Invariants
///
/// All extents are within the pages of `umem`.
pub struct Pinned {
    extents: Extents,
    umem: Umem,
}

impl Pinned {
    /// Notes where the pages of `umem` are. `ENOMEM` if there is no memory for that.
    pub fn new(umem: Umem) -> Result<Self> {
        let mut extents = Extents::new(false);
        umem.for_each_stretch(|addr, len| extents.push(addr, len))?;
        Ok(Self { extents, umem })
    }
}

/// Memory of another device, which its driver may take back.
///
/// # Invariants
///
/// All extents are within `pages`, which may be accessed until the importer of `mapping` is told
/// not to.
pub struct Peer {
    extents: Extents,
    // The kernel's way to the bytes goes before the bytes do.
    _pages: Pages,
    mapping: Mapping,
}

impl Peer {
    /// Notes where `pages` are. `ENOMEM` if there is no memory for that.
    pub fn new(mapping: Mapping, pages: Pages) -> Result<Self> {
        let mut extents = Extents::new(pages.is_io());
        pages.for_each_stretch(|addr, len| extents.push(addr, len))?;
        Ok(Self {
            extents,
            _pages: pages,
            mapping,
        })
    }
}

/// Bytes, by where in the kernel's address space they are.
///
/// # Invariants
///
/// The extents are in the order of `start`, the first of which is 0; each reaches to the next, the
/// last to `length`.
struct Extents {
    extents: KVVec<Extent>,
    length: u64,
    /// The address after the last byte.
    next_addr: Option<usize>,
    io: bool,
}

impl Extents {
    fn new(io: bool) -> Self {
        Self {
            extents: KVVec::new(),
            length: 0,
            next_addr: None,
            io,
        }
    }

    fn push(&mut self, addr: usize, len: usize) -> Result {
        if self.next_addr != Some(addr) {
            let start = self.length;
            self.extents
                .push(Extent { start, addr }, GFP_KERNEL_ACCOUNT)?;
        }
        self.next_addr = addr.checked_add(len);
        self.length += len as u64;
        Ok(())
    }

    #[inline]
    fn end_of(&self, index: usize) -> u64 {
        self.extents.get(index + 1).map_or(self.length, |e| e.start)
    }

    /// The extent of number `index`, and where it ends, if `offset` is in it.
    #[inline(always)]
    fn extent_at(&self, index: usize, offset: u64) -> Option<(&Extent, u64)> {
        let extent = self.extents.get(index)?;
        let end = self.end_of(index);
        (extent.start <= offset && offset < end).then_some((extent, end))
    }

    /// The number of the extent that `offset`, which is in one of them, but not in that of number
    /// `hint`, is in: most often the one behind it.
    #[inline(never)]
    fn search(&self, offset: u64, hint: usize) -> Option<usize> {
        let behind = hint.wrapping_add(1);
        if self.extent_at(behind, offset).is_some() {
            return Some(behind);
        }
        // The first extent starts at 0, so at least one starts at or before the offset.
        let after = self.extents.partition_point(|e| e.start <= offset);
        after.checked_sub(1)
    }

    /// The address of the `len` bytes from `offset` on, if they are in the first extent and to be
    /// copied as memory is.
    #[inline(always)]
    fn in_first(&self, offset: u64, len: usize) -> Option<*mut u8> {
        let first = self.extents.first()?;
        let left = self.end_of(0).checked_sub(offset)?;
        (len as u64 <= left && !self.io).then_some((first.addr + offset as usize) as *mut u8)
    }

    #[inline]
    fn stretch(&self, offset: u64, len: usize, hint: &mut usize) -> Option<Stretch> {
        if offset >= self.length {
            return None;
        }
        let (extent, end) = match self.extent_at(*hint, offset) {
            Some(found) => found,
            None => {
                *hint = self.search(offset, *hint)?;
                self.extent_at(*hint, offset)?
            }
        };
        let into = offset - extent.start;
        let left = end - offset;
        Some(Stretch {
            addr: (extent.addr + into as usize) as *mut u8,
            len: len.min(left as usize),
            io: self.io,
        })
    }
}
