// SPDX-License-Identifier: GPL-2.0

//! Setting a layout on a region.
//!
//! The rules (documentation of `ibv_mr_set_layout_sg`):
//!
//! - The region and those that the layout names are of one domain, and the layout grants nothing
//!   that one of them does not grant.
//! - A region that a layout names can neither be deregistered nor get another layout: `EBUSY`.
//!   Hence layouts that are in use never change, and no cycle can come about but by a region that
//!   names itself, which is refused: `ELOOP`.
//! - The region keeps its keys if the new layout has the shape of the one before it; else it gets
//!   new ones, and the old ones are void at once.
//! - When anything is refused, nothing has changed.

use super::{
    access::Access,
    key::Key,
    layout::{
        ByteOffset,
        Layout,
        Source, //
    },
    region::{
        Domain,
        Region, //
    },
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        MutexGuard, //
    },
};

/// A layout of regions.
pub type RegionLayout = Layout<Arc<Region>>;

/// What decides whether a region can keep its keys.
#[derive(PartialEq, Eq, Clone)]
pub enum Shape {
    /// A list of as many ranges.
    Sg {
        /// Their number.
        ranges: u32,
    },
}

/// A layout that stands on a region.
pub struct Bound {
    pub(super) layout: Arc<RegionLayout>,
    shape: Shape,
    sources: Sources,
}

impl Bound {
    /// Says that the layout does not use its sources any more.
    pub(super) fn release_sources(&self, _layouts: &MutexGuard<'_, ()>) {
        self.sources.release();
    }

    /// How the layout was described.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The layout.
    pub fn layout(&self) -> &Arc<RegionLayout> {
        &self.layout
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
    rights: Access,
    sources: KVVec<Arc<Region>>,
    last: Option<(Key, Resolved)>,
}

/// What a key stands for.
#[derive(Clone)]
struct Resolved {
    source: Source<Arc<Region>>,
    base: u64,
}

impl Resolver<'_> {
    /// The source and the offset of a range.
    ///
    /// `ENOENT` if no region has the key, `EPERM` if it is of another domain or grants less than
    /// the layout would, `ELOOP` if it is the region that gets the layout, `EFAULT` if the range
    /// starts before the region. Where the range ends is for the layout to check.
    pub fn resolve(&mut self, range: &NamedRange) -> Result<(Source<Arc<Region>>, ByteOffset)> {
        let resolved = match &self.last {
            Some((key, resolved)) if *key == range.key => resolved.clone(),
            _ => {
                let resolved = self.look_up(range.key)?;
                self.last = Some((range.key, resolved.clone()));
                resolved
            }
        };
        let offset = range.addr.checked_sub(resolved.base).ok_or(EFAULT)?;
        let length = resolved.source.length().0;
        if offset > length || range.length > length - offset {
            return Err(EFAULT);
        }
        Ok((resolved.source, ByteOffset(offset)))
    }

    fn look_up(&mut self, key: Key) -> Result<Resolved> {
        let domain = self.holder.domain();
        let region = domain.find(key).ok_or(ENOENT)?;
        if Arc::ptr_eq(&region, self.holder) {
            return Err(ELOOP);
        }
        let resolved = {
            let state = region.state.lock();
            if state.key != key || state.ended {
                return Err(ENOENT);
            }
            if !Arc::ptr_eq(region.domain(), domain) || !state.access.includes(self.rights) {
                return Err(EPERM);
            }
            let zero_based = state.access.includes(Access::ZERO_BASED);
            Resolved {
                source: match &state.bound {
                    Some(bound) => Source::Nested(bound.layout.clone()),
                    None => Source::Leaf(region.clone()),
                },
                base: if zero_based { 0 } else { state.iova },
            }
        };
        self.sources.push(region, GFP_KERNEL_ACCOUNT)?;
        Ok(resolved)
    }
}

impl Region {
    /// Sets a layout of the given shape, which `build` makes; returns the key from now on.
    ///
    /// `EBUSY` if a layout refers to this region, `ENOENT` if it has been deregistered, `ESTALE`
    /// if its key would change and `keep_key` is set, `EOPNOTSUPP` if there are more descriptors
    /// than the region was made for, and whatever `build` returns.
    pub fn set_layout(
        self: &Arc<Self>,
        shape: Shape,
        keep_key: bool,
        build: impl FnOnce(&mut Resolver<'_>) -> Result<RegionLayout>,
    ) -> Result<Key> {
        let domain: &Arc<Domain> = self.domain();
        let layouts = domain.layouts.lock();
        if self.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        let (rights, changes_key) = {
            let state = self.state.lock();
            if state.ended {
                return Err(ENOENT);
            }
            let Shape::Sg { ranges } = shape;
            if ranges > state.max_descriptors {
                return Err(EOPNOTSUPP);
            }
            let same = state.bound.as_ref().is_some_and(|b| b.shape == shape);
            (state.access.rights(), !same)
        };
        if changes_key && keep_key {
            return Err(ESTALE);
        }

        let mut resolver = Resolver {
            holder: self,
            rights,
            sources: KVVec::new(),
            last: None,
        };
        let layout = build(&mut resolver)?.into_arc()?;
        let bound = Arc::new(
            Bound {
                layout,
                shape,
                sources: Sources(resolver.sources),
            },
            GFP_KERNEL_ACCOUNT,
        )?;

        // Nothing can fail from here on.
        bound.sources.retain();
        let (key, old) = {
            let mut state = self.state.lock();
            if changes_key {
                state.key = state.key.renewed();
            }
            (state.key, state.bound.replace(bound))
        };
        if let Some(old) = old {
            old.release_sources(&layouts);
        }
        Ok(key)
    }

    /// The layout that stands on the region.
    pub fn bound(&self) -> Option<Arc<Bound>> {
        self.state.lock().bound.clone()
    }
}
