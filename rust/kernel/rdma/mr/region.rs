// SPDX-License-Identifier: GPL-2.0

//! Regions, from their registration to their end.

use super::{
    super::{
        gate::Guarded,
        id_table::IdTable,
        odp::paged::Paged, //
    },
    access::Access,
    binding::{
        Bound,
        Staged, //
    },
    key::{
        Key,
        INDEX_END, //
    },
    layout::{
        ByteLength,
        Leaf, //
    },
    memory::Memory, //
};
use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    }, //
};

/// The regions of a device, by number.
pub type RegionTable = IdTable<Region>;

/// Makes the table of a device.
pub fn new_table() -> impl PinInit<RegionTable> {
    IdTable::new(1..INDEX_END, 1)
}

/// A protection domain: regions can only be used together with others of the same domain.
#[pin_data]
pub struct Domain {
    regions: Arc<RegionTable>,
    /// Guards which region of the domain uses which: [`Region::users`], and the changes of
    /// [`State::bound`] and [`State::ended`]. Taken before a region's own lock.
    #[pin]
    pub(super) layouts: Mutex<()>,
}

impl Domain {
    /// Makes a domain on the device that `regions` belongs to.
    pub fn new(regions: Arc<RegionTable>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                regions,
                layouts <- new_mutex!((), "Domain::layouts"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Finds the region that `key` names now, of whatever domain.
    #[inline]
    pub fn find(&self, key: Key) -> Option<Arc<Region>> {
        self.regions.get(key.index())
    }

    /// Makes a region of this domain.
    ///
    /// `ENOSPC` if the device has as many as it can have, `ENOMEM` if there is no memory.
    pub fn add_region(self: &Arc<Self>, new: NewRegion) -> Result<Arc<Region>> {
        let reserved = self.regions.reserve()?;
        let index = reserved.id();
        // The variant of a number that is used again differs from the last one, most likely.
        static VARIANT: Atomic<u32> = Atomic::new(0);
        let variant = VARIANT.fetch_add(1, Relaxed) as u8;
        let key = Key::new(index, variant);
        let region = Arc::pin_init(
            try_pin_init!(Region {
                index,
                domain: self.clone(),
                length: new.length,
                memory <- Guarded::new(new.memory),
                users: Atomic::new(0),
                state <- new_spinlock!(State {
                    key,
                    access: new.access,
                    iova: new.iova,
                    bound: None,
                    staged: None,
                    max_descriptors: new.max_descriptors,
                    ended: false,
                }, "Region::state"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        reserved.fill(region.clone());
        Ok(region)
    }
}

/// What a region is to be.
pub struct NewRegion {
    /// What it may be used for.
    pub access: Access,
    /// The address of its first byte.
    pub iova: u64,
    /// Bytes of its own.
    pub length: u64,
    /// Those bytes.
    pub memory: Memory,
    /// The most descriptors of a layout on it.
    pub max_descriptors: u32,
}

/// What can change in the life of a region.
pub(super) struct State {
    pub(super) key: Key,
    pub(super) access: Access,
    pub(super) iova: u64,
    /// The layout that stands on the region, if any.
    pub(super) bound: Option<Arc<Bound>>,
    /// The layout that waits for a bind work request, if any.
    pub(super) staged: Option<Staged>,
    pub(super) max_descriptors: u32,
    /// The region is being deregistered, or has been.
    pub(super) ended: bool,
}

/// A memory region.
#[pin_data]
pub struct Region {
    index: u32,
    domain: Arc<Domain>,
    length: u64,
    #[pin]
    pub(super) memory: Guarded<Memory>,
    /// How many layouts refer to this region. Changed under [`Domain::layouts`].
    pub(super) users: Atomic<u64>,
    /// Guards key and layout, which must be seen together. A leaf lock.
    #[pin]
    pub(super) state: SpinLock<State>,
}

impl Region {
    /// The domain.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// The key that names the region now.
    pub fn key(&self) -> Key {
        self.state.lock().key
    }

    /// Bytes of its own, whether or not a layout hides them.
    pub fn own_length(&self) -> u64 {
        self.length
    }

    /// Its memory, if that is paged on demand. Does not keep the region from ending.
    pub fn paged(&self) -> Option<Arc<Paged>> {
        match &*self.memory.enter()? {
            Memory::Paged(memory) => Some(memory.paged().clone()),
            _ => None,
        }
    }

    /// Sets what the region may be used for, before anybody knows its key.
    pub(super) fn set_access(&self, access: Access) {
        self.state.lock().access = access;
    }

    /// Ends the region. When this returns, no access to its memory happens any more.
    ///
    /// `EBUSY`, and nothing has changed, if a layout refers to it.
    pub fn deregister(&self) -> Result {
        let layouts = self.domain.layouts.lock();
        if self.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        let (bound, staged) = {
            let mut state = self.state.lock();
            state.ended = true;
            (state.bound.take(), state.staged.take())
        };
        for bound in [bound, staged.map(|staged| staged.bound)].iter().flatten() {
            bound.release_sources(&layouts);
        }
        drop(layouts);

        drop(self.domain.regions.remove(self.index));
        drop(self.memory.close());
        Ok(())
    }
}

impl Leaf for Arc<Region> {
    fn length(&self) -> ByteLength {
        ByteLength(self.length)
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}
