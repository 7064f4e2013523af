// SPDX-License-Identifier: GPL-2.0

//! Regions, from their registration to their end.

use super::{
    super::{
        gate::{
            Gate,
            Guarded, //
        },
        id_table::IdTable,
        odp::paged::Paged,
        peer::Importer, //
    },
    access::Access,
    binding::{
        Bound,
        Staged, //
    },
    key::{
        Key,
        INDEX_END,
        WINDOW_INDEX_END, //
    },
    layout::{
        ByteLength,
        Leaf, //
    },
    memory::Memory,
    memory_window::MemoryWindow, //
};
use core::ops::{
    Deref,
    DerefMut, //
};
use kernel::{
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        lock::{
            spinlock::SpinLockBackend,
            Guard, //
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

/// The memory windows of a device, by number.
pub type WindowTable = IdTable<MemoryWindow>;

/// Makes the table of a device.
pub fn new_window_table() -> impl PinInit<WindowTable> {
    IdTable::new(INDEX_END..WINDOW_INDEX_END, INDEX_END)
}

/// The variant of a new key. That of a number that is used again differs from the last one, most
/// likely.
pub(super) fn new_variant() -> u8 {
    static VARIANT: Atomic<u32> = Atomic::new(0);
    VARIANT.fetch_add(1, Relaxed) as u8
}

/// What [`Region::version`] is to be next.
fn new_version() -> u64 {
    static VERSION: Atomic<u64> = Atomic::new(0);
    VERSION.fetch_add(1, Relaxed) + 1
}

/// A protection domain: regions can only be used together with others of the same domain.
#[pin_data]
pub struct Domain {
    regions: Arc<RegionTable>,
    pub(super) windows: Arc<WindowTable>,
    /// Guards which region of the domain uses which: [`Region::users`], and the changes of
    /// [`State::bound`] and [`State::ended`]. Taken before a region's own lock.
    #[pin]
    pub(super) layouts: Mutex<()>,
}

impl Domain {
    /// Makes a domain on the device that the tables belong to.
    pub fn new(regions: Arc<RegionTable>, windows: Arc<WindowTable>) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                regions,
                windows,
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
        let key = Key::new(index, new_variant());
        let region = Arc::pin_init(
            try_pin_init!(Region {
                index,
                domain: self.clone(),
                length: Atomic::new(new.length),
                generation: Atomic::new(0),
                memory <- Guarded::new(new.memory),
                advice <- Gate::new(),
                users: Atomic::new(0),
                version: Atomic::new(new_version()),
                state <- new_spinlock!(State {
                    key,
                    access: new.access,
                    inherits: false,
                    iova: new.iova,
                    bound: None,
                    staged: None,
                    max_descriptors: new.max_descriptors,
                    ended: false,
                }, "Region::state"),
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        // Nobody can reach the memory before it is known whom to tell when it is taken away.
        if let Some(memory) = region.memory.enter() {
            memory.attach(region.clone())?;
        }
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
    /// The region grants what all regions of its layout grant.
    pub(super) inherits: bool,
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
    /// Bytes of its own. Changed under `state`.
    pub(super) length: Atomic<u64>,
    /// How often the memory has been taken away from those who had a window of it. Changed under
    /// `state`.
    pub(super) generation: Atomic<u32>,
    #[pin]
    pub(super) memory: Guarded<Memory>,
    /// Whoever takes an advice about the region, after the one who gave it has gone on, is inside.
    #[pin]
    advice: Gate,
    /// How many layouts and memory windows refer to this region. Changed under [`Domain::layouts`].
    pub(super) users: Atomic<u64>,
    /// A number that no other state of this region, or of any other, has. Changed under `state`.
    version: Atomic<u64>,
    /// Guards key and layout, which must be seen together. A leaf lock.
    #[pin]
    state: SpinLock<State>,
}

/// The state of a region, which does not change meanwhile.
pub(super) struct Looking<'a>(Guard<'a, State, SpinLockBackend>);

impl Deref for Looking<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

/// The state of a region, for whoever changes it. What was seen of it before is out of date then.
pub(super) struct Changing<'a> {
    version: &'a Atomic<u64>,
    state: Guard<'a, State, SpinLockBackend>,
}

impl Deref for Changing<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Changing<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.version.store(new_version(), Release);
    }
}

impl State {
    /// What the region may be used for now.
    pub(super) fn granted(&self) -> Access {
        match &self.bound {
            Some(bound) if self.inherits => bound.rights().with(self.access),
            _ => self.access,
        }
    }

    /// The address of the first byte.
    pub(super) fn base(&self) -> u64 {
        if self.access.includes(Access::ZERO_BASED) {
            0
        } else {
            self.iova
        }
    }
}

impl Region {
    /// The domain.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }

    /// Its number in the table of the device.
    #[inline]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// A number that stands for the state as it is now, and for no other of any region.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The state, to be looked at.
    #[inline]
    pub(super) fn state(&self) -> Looking<'_> {
        Looking(self.state.lock())
    }

    /// The state, to be changed; and `length` and `generation` with it.
    pub(super) fn change(&self) -> Changing<'_> {
        Changing {
            state: self.state.lock(),
            version: &self.version,
        }
    }

    /// The key that names the region now.
    pub fn key(&self) -> Key {
        self.state().key
    }

    /// Bytes of its own, whether or not a layout hides them.
    pub fn own_length(&self) -> u64 {
        self.length.load(Relaxed)
    }

    /// Its memory, if that is paged on demand. Does not keep the region from ending.
    pub fn paged(&self) -> Option<Arc<Paged>> {
        match &*self.memory.enter()? {
            Memory::Paged(memory) => Some(memory.paged().clone()),
            _ => None,
        }
    }

    /// The gate for those who take an advice later. Deregistration waits for them.
    pub fn advice(&self) -> &Gate {
        &self.advice
    }

    /// What it may be used for.
    pub fn access(&self) -> Access {
        self.state().access
    }

    /// The address of its first byte.
    pub fn iova(&self) -> u64 {
        self.state().iova
    }

    /// Makes the region one that takes what it may be used for from its layouts, or `access` if
    /// that is given. Called before anybody knows its key.
    pub(super) fn make_indirect(&self, access: Option<Access>) {
        let mut state = self.change();
        state.inherits = access.is_none();
        state.access = access.unwrap_or(Access::ZERO_BASED);
    }

    /// Ends the region. When this returns, no access to its memory happens any more. Can be called
    /// again.
    ///
    /// `EBUSY`, and nothing has changed, if a layout or a memory window refers to it.
    pub fn deregister(&self) -> Result {
        self.retire(|_| Ok(())).map(drop)
    }

    /// Ends the region and hands out its memory, if `fits`.
    ///
    /// The errors of [`Region::deregister`] and of `fits`; nothing has changed then. `EINVAL` if
    /// the region has ended before.
    pub fn replace(&self, fits: impl FnOnce(&Memory) -> Result) -> Result<Memory> {
        self.retire(fits)?.ok_or(EINVAL)
    }

    fn retire(&self, fits: impl FnOnce(&Memory) -> Result) -> Result<Option<Memory>> {
        let layouts = self.domain.layouts.lock();
        if self.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        if let Some(memory) = self.memory.enter() {
            fits(&memory)?;
        }
        let (bound, staged) = {
            let mut state = self.change();
            if core::mem::replace(&mut state.ended, true) {
                return Ok(None);
            }
            (state.bound.take(), state.staged.take())
        };
        for bound in [bound, staged.map(|staged| staged.bound)].iter().flatten() {
            bound.release_sources(&layouts);
        }
        drop(layouts);

        drop(self.domain.regions.remove(self.index));
        self.advice.close();
        Ok(self.memory.close())
    }
}

impl Importer for Region {
    fn revoke(&self) {
        self.memory.revoke();
    }
}

impl Leaf for Arc<Region> {
    fn length(&self) -> ByteLength {
        ByteLength(self.own_length())
    }

    fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(self, other)
    }
}
