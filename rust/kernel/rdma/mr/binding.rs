// SPDX-License-Identifier: GPL-2.0

//! Setting a layout on a region.
//!
//! The rules (documentation of `ibv_mr_set_layout_sg`):
//!
//! - The region and those that the layout names are of one domain, and the layout grants nothing
//!   that one of them does not grant.
//! - A region that a layout names can neither be deregistered nor get another layout: `EBUSY`.
//!   Hence layouts that are in use never change, and no cycle can come about but by a region that
//!   names itself, which is refused: `ELOOP`. Nor can a layout name a region on which another one
//!   waits to stand.
//! - The region keeps its keys if the new layout has the shape of the one before it; else it gets
//!   new ones, and the old ones are void at once.
//! - When anything is refused, nothing has changed.
//! - A layout can be staged instead: it uses its sources from then on, and stands when a bind work
//!   request executes. The new key, if any, is known at once and valid from then on.

use super::{
    access::Access,
    key::Key,
    layout::{
        ByteLength,
        ByteOffset,
        Dimension,
        InterleavedEntry,
        Layout,
        RepeatCount,
        SgRange,
        Source, //
    },
    region::{
        Domain,
        Region, //
    },
};
use crate::bindings::ib_mr;
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        MutexGuard, //
    },
};

/// A layout of regions.
pub type RegionLayout = Layout<Arc<Region>>;

/// A layout as a caller describes it.
pub enum Description {
    /// The concatenation of ranges.
    Sg(KVVec<NamedRange>),
    /// Data of several patterns, taken in turn.
    Interleaved {
        /// The patterns.
        entries: KVVec<NamedPattern>,
        /// Their dimensions, those of the first entry first.
        dimensions: KVVec<Dimension>,
    },
}

/// An entry of an interleaved layout, as a caller describes it.
#[derive(Clone, Copy)]
pub struct NamedPattern {
    /// The first datum.
    pub first: NamedRange,
    /// Data that a turn takes.
    pub repeat: u32,
    /// How many of the list of dimensions are this entry's.
    pub dimensions: u32,
}

impl Description {
    fn descriptors(&self) -> usize {
        match self {
            Self::Sg(ranges) => ranges.len(),
            Self::Interleaved { entries, .. } => entries.len(),
        }
    }

    /// Whether a region can go from one to the other and keep its keys: what takes room is the
    /// same.
    fn has_shape_of(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sg(a), Self::Sg(b)) => a.len() == b.len(),
            (Self::Interleaved { entries: a, .. }, Self::Interleaved { entries: b, .. }) => {
                let shape = |e: &NamedPattern| (e.repeat, e.dimensions);
                a.iter().map(shape).eq(b.iter().map(shape))
            }
            _ => false,
        }
    }

    /// Makes the layout; what it has in common with `like`, it shares.
    fn build(
        &self,
        resolver: &mut Resolver<'_>,
        like: Option<&RegionLayout>,
    ) -> Result<RegionLayout> {
        match self {
            Self::Sg(ranges) => {
                let mut found = KVVec::with_capacity(ranges.len(), GFP_KERNEL_ACCOUNT)?;
                for range in ranges {
                    found.push(resolver.resolve(range)?, GFP_KERNEL_ACCOUNT)?;
                }
                let mut items = KVVec::with_capacity(ranges.len(), GFP_KERNEL_ACCOUNT)?;
                for (&(met, offset), range) in found.iter().zip(ranges) {
                    let item = SgRange {
                        source: resolver.source(met)?,
                        offset,
                        length: ByteLength(range.length),
                    };
                    items.push(item, GFP_KERNEL_ACCOUNT)?;
                }
                Ok(Layout::sg_of(items.iter().copied())?)
            }
            Self::Interleaved {
                entries,
                dimensions,
            } => {
                let mut patterns = KVVec::with_capacity(entries.len(), GFP_KERNEL_ACCOUNT)?;
                let mut left: &[Dimension] = dimensions;
                for entry in entries {
                    let count = entry.dimensions as usize;
                    let (own, rest) = left.split_at_checked(count).ok_or(EINVAL)?;
                    left = rest;
                    let (met, offset) = resolver.resolve(&entry.first)?;
                    let pattern = InterleavedEntry {
                        source: resolver.source(met)?.clone(),
                        offset,
                        length: ByteLength(entry.first.length),
                        repeat: RepeatCount(entry.repeat),
                        dimensions: own,
                    };
                    patterns.push(pattern, GFP_KERNEL_ACCOUNT)?;
                }
                if !left.is_empty() {
                    return Err(EINVAL);
                }
                Ok(Layout::interleaved_like(&patterns, like)?)
            }
        }
    }
}

/// A layout that stands on a region, or is about to.
pub struct Bound {
    layout: Arc<RegionLayout>,
    description: Description,
    sources: Sources,
    rights: Access,
    /// The sources may change again, though transfers go on that began before.
    released: AtomicFlag,
}

impl Bound {
    /// Says that the layout does not use its sources any more.
    pub(super) fn release_sources(&self, _layouts: &MutexGuard<'_, ()>) {
        self.released.store(true, Relaxed);
        self.sources.release();
    }

    /// Whether the layout does not use its sources any more. Whoever has entered the gate of a
    /// source, and whose memory is being or has been taken away, sees that.
    pub(super) fn is_released(&self) -> bool {
        self.released.load(Relaxed)
    }

    /// What all regions of the layout grant.
    pub(super) fn rights(&self) -> Access {
        self.rights
    }

    /// As it was described.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<RegionLayout> {
        &self.layout
    }
}

/// A layout that waits for a bind work request.
pub(super) struct Staged {
    pub(super) bound: Arc<Bound>,
    /// What the region will be named by.
    key: Key,
    sight: Sight,
}

/// The core's object for a region, by which it tells a person of the region's length.
///
/// # Invariants
///
/// The object is there until the region has been retired.
#[derive(Clone, Copy)]
pub struct Sight(NonNull<ib_mr>);

// SAFETY: Any thread may write to the object by the rules of `show`.
unsafe impl Send for Sight {}

impl Sight {
    /// # Safety
    ///
    /// The object stays until the region that it is for has been retired.
    pub(super) unsafe fn new(object: NonNull<ib_mr>) -> Self {
        // INVARIANT: By the requirements of this function.
        Self(object)
    }

    /// Shows the length of a layout that stands from now on.
    ///
    /// # Safety
    ///
    /// [`Domain::layouts`] is held, and the region has not been retired.
    unsafe fn show(self, layout: &RegionLayout) {
        // SAFETY: By the type invariant and the requirements of this function; one thread at a
        // time gets here. Whoever reads the number does so at any time.
        unsafe { (&raw mut (*self.0.as_ptr()).length).write_volatile(layout.length().0) };
    }
}

/// The regions that a layout names. One may occur several times, and is then used as often.
struct Sources(KVVec<Arc<Region>>);

impl Sources {
    fn retain(&self) {
        for source in &self.0 {
            source.users.add(1, Relaxed);
        }
    }

    fn release(&self) {
        for source in &self.0 {
            source.users.fetch_sub(1, Relaxed);
        }
    }
}

/// A range of a region, as a caller names it.
#[derive(Clone, Copy)]
pub struct NamedRange {
    /// The region.
    pub key: Key,
    /// The first byte, in the region's own addressing.
    pub addr: u64,
    /// How many bytes.
    pub length: u64,
}

/// Turns keys into sources and notes which regions were met.
///
/// Lives while [`Domain::layouts`] is held, so that what it finds stays as it is.
pub struct Resolver<'a> {
    holder: &'a Arc<Region>,
    /// What the layout has to grant.
    needed: Access,
    /// What the regions that were met grant.
    granted: Access,
    /// The regions that were met, as often as they were looked up.
    regions: KVVec<Arc<Region>>,
    /// What each of them stands for.
    met: KVVec<Resolved>,
}

/// What a key stands for.
struct Resolved {
    key: Key,
    source: Source<Arc<Region>>,
    base: u64,
    length: u64,
}

/// Which of the sources that a [`Resolver`] has met.
#[derive(Clone, Copy)]
struct Met(usize);

impl Resolver<'_> {
    /// The source and the offset of a range.
    ///
    /// `ENOENT` if no region has the key, `EPERM` if it is of another domain or grants less than
    /// the layout would, `ELOOP` if it is the region that gets the layout, `EBUSY` if a layout waits
    /// on it for its bind work request, `EFAULT` if the range is not inside of the region.
    fn resolve(&mut self, range: &NamedRange) -> Result<(Met, ByteOffset)> {
        // Most often, one region follows itself.
        if self.met.last().is_none_or(|last| last.key != range.key) {
            let resolved = self.look_up(range.key)?;
            self.met.push(resolved, GFP_KERNEL_ACCOUNT)?;
        }
        let last = self.met.last().ok_or(ENOENT)?;
        let offset = range.addr.checked_sub(last.base).ok_or(EFAULT)?;
        if offset > last.length || range.length > last.length - offset {
            return Err(EFAULT);
        }
        Ok((Met(self.met.len() - 1), ByteOffset(offset)))
    }

    fn source(&self, met: Met) -> Result<&Source<Arc<Region>>> {
        self.met.get(met.0).map(|met| &met.source).ok_or(ENOENT)
    }

    fn look_up(&mut self, key: Key) -> Result<Resolved> {
        let domain = self.holder.domain();
        let region = domain.find(key).ok_or(ENOENT)?;
        if Arc::ptr_eq(&region, self.holder) {
            return Err(ELOOP);
        }
        let resolved = {
            let state = region.state();
            if state.key != key || state.ended {
                return Err(ENOENT);
            }
            // Nothing can be bound to a source. Nor could depth be told of one that waits: a chain of
            // them would have no end.
            if state.staged.is_some() {
                return Err(EBUSY);
            }
            let granted = state.granted();
            if !Arc::ptr_eq(region.domain(), domain) || !granted.includes(self.needed) {
                return Err(EPERM);
            }
            self.granted = self.granted.common(granted);
            let source = match &state.bound {
                Some(bound) => Source::Nested(bound.layout.clone()),
                None => Source::Leaf(region.clone()),
            };
            Resolved {
                key,
                length: source.length().0,
                source,
                base: state.base(),
            }
        };
        self.regions.push(region, GFP_KERNEL_ACCOUNT)?;
        Ok(resolved)
    }
}

/// When a layout that is being set begins to stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// When a bind work request executes; see [`Domain::bind`].
    WithWorkRequest,
}

impl Region {
    /// Sets a layout; returns the key that names the region as soon as the layout stands.
    ///
    /// A layout that waits for its bind work request is given up by this.
    ///
    /// `sight` is that of this region.
    ///
    /// `EBUSY` if a layout refers to this region, `ENOENT` if it has been deregistered, `ESTALE`
    /// if its key would change and `keep_key` is set, `EOPNOTSUPP` if there are more descriptors
    /// than the region was made for; the errors of [`Resolver::resolve`] and of the layout.
    pub fn set_layout(
        self: &Arc<Self>,
        description: Description,
        keep_key: bool,
        start: Start,
        sight: Sight,
    ) -> Result<Key> {
        let domain: &Arc<Domain> = self.domain();
        let layouts = domain.layouts.lock();
        if self.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        let (needed, key, old) = {
            let state = self.state();
            if state.ended {
                return Err(ENOENT);
            }
            if description.descriptors() > state.max_descriptors as usize {
                return Err(EOPNOTSUPP);
            }
            let same = state
                .bound
                .as_ref()
                .is_some_and(|b| b.description.has_shape_of(&description));
            let key = if same { state.key } else { state.key.renewed() };
            if keep_key && key != state.key {
                return Err(ESTALE);
            }
            let needed = if state.inherits {
                Access::LOCAL_READ
            } else {
                state.access.rights()
            };
            (needed, key, state.bound.clone())
        };

        let mut resolver = Resolver {
            holder: self,
            needed,
            granted: Access::ALL_RIGHTS,
            regions: KVVec::new(),
            met: KVVec::new(),
        };
        let like = old.as_ref().map(|old| &**old.layout());
        let layout = description.build(&mut resolver, like)?.into_arc()?;
        let bound = Arc::new(
            Bound {
                layout,
                description,
                sources: Sources(resolver.regions),
                rights: resolver.granted,
                released: AtomicFlag::new(false),
            },
            GFP_KERNEL_ACCOUNT,
        )?;

        // Nothing can fail from here on.
        bound.sources.retain();
        if start == Start::Now {
            // SAFETY: The lock is held, and the region had not been retired under it.
            unsafe { sight.show(&bound.layout) };
        }
        let (staged, replaced) = {
            let mut state = self.change();
            match start {
                Start::Now => {
                    state.key = key;
                    (state.staged.take(), state.bound.replace(bound))
                }
                Start::WithWorkRequest => {
                    let staged = Staged { bound, key, sight };
                    (state.staged.replace(staged), None)
                }
            }
        };
        if let Some(staged) = staged {
            staged.bound.release_sources(&layouts);
        }
        if let Some(replaced) = replaced {
            replaced.release_sources(&layouts);
        }
        Ok(key)
    }

    /// The layout that stands on the region.
    pub fn bound(&self) -> Option<Arc<Bound>> {
        self.state().bound.clone()
    }
}

impl Domain {
    /// Executes a bind work request: the layout that waits on the region of `key` stands from now
    /// on. Either the key that the region has or the one that it will have names it.
    ///
    /// `ENOENT` if there is no such region or nothing waits on it, `EBUSY` if a layout refers to
    /// the region.
    pub fn bind(self: &Arc<Self>, key: Key) -> Result {
        let region = self.find(key).ok_or(ENOENT)?;
        if !Arc::ptr_eq(region.domain(), self) {
            return Err(ENOENT);
        }
        let layouts = self.layouts.lock();
        if region.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        let old = {
            let mut state = region.change();
            let staged = match state.staged.take() {
                Some(staged) if key == staged.key || key == state.key => staged,
                other => {
                    state.staged = other;
                    return Err(ENOENT);
                }
            };
            state.key = staged.key;
            // SAFETY: The lock is held. A region that has been retired has nothing staged.
            unsafe { staged.sight.show(&staged.bound.layout) };
            state.bound.replace(staged.bound)
        };
        if let Some(old) = old {
            old.release_sources(&layouts);
        }
        Ok(())
    }
}
