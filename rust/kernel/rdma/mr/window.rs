// SPDX-License-Identifier: GPL-2.0

//! The part of a region that a work request names.

use super::{
    access::Access,
    binding::Bound,
    key::Key,
    layout::{
        ByteLength,
        Position, //
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
        Arc, //
    },
};

/// Why a work request cannot reach what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessError {
    /// No region has the key.
    NoSuchKey,
    /// The region belongs to another protection domain.
    OtherDomain,
    /// The region does not allow it.
    NotAllowed,
    /// Some byte is outside of the region.
    OutOfBounds,
    /// The memory has been taken away meanwhile.
    Revoked,
    /// The process has nothing mapped there that may be accessed so.
    NotMapped,
}

impl From<AccessError> for Error {
    fn from(e: AccessError) -> Self {
        match e {
            AccessError::NoSuchKey => ENOENT,
            AccessError::OtherDomain | AccessError::NotAllowed => EPERM,
            AccessError::OutOfBounds | AccessError::Revoked | AccessError::NotMapped => EFAULT,
        }
    }
}

/// Bytes that a work request names.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Names the region.
    pub key: Key,
    /// The address of the first byte, as the region counts.
    pub addr: u64,
    /// How many.
    pub length: u64,
    /// What they are to be used for.
    pub access: Access,
}

/// Bytes of a region that have been checked, but not looked for yet.
///
/// The layout, if any, is the one that stood when the window was made: a transfer sees the old or
/// the new one, never both.
pub struct Window {
    pub(super) region: Arc<Region>,
    pub(super) bound: Option<Arc<Bound>>,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// The generation of the region's memory that this is a window of.
    pub(super) generation: u32,
}

/// What looks at region, offset and length of one range after the other, and says whether to go on.
pub type RangeVisitor<'a> = dyn FnMut(&Arc<Region>, u64, u64) -> Result<bool> + 'a;

impl Window {
    /// The part of this window that begins `skip` bytes into it, `length` bytes of it.
    #[inline]
    pub fn part(self, skip: u64, length: u64) -> Result<Self, AccessError> {
        if skip > self.length || length > self.length - skip {
            return Err(AccessError::OutOfBounds);
        }
        Ok(Self {
            offset: self.offset + skip,
            length,
            ..self
        })
    }

    /// What is left of this window without its first `skip` bytes.
    pub fn rest(&self, skip: u64) -> Result<Self, AccessError> {
        let whole = Self {
            region: self.region.clone(),
            bound: self.bound.clone(),
            ..*self
        };
        let left = self.length.checked_sub(skip);
        whole.part(skip, left.ok_or(AccessError::OutOfBounds)?)
    }

    /// How many bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The region that was named.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Calls `f` with region, offset and length of each range that the window consists of, in
    /// order, until it fails or says that it has seen enough (`false`).
    pub fn for_each_range(&self, f: &mut RangeVisitor<'_>) -> Result {
        let Some(bound) = &self.bound else {
            return f(&self.region, self.offset, self.length).map(drop);
        };
        let walker = bound
            .layout()
            .walk(Position(self.offset), ByteLength(self.length))?;
        for run in walker {
            for offset in run.offsets() {
                if !f(run.leaf, offset.0, run.length.0)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The region that a queue used last: the next request most likely names it again, and need not look
/// for it then; nor at its state, if that is the same.
///
/// Holds neither memory nor layout, but what is left of a region that has ended in the meantime. So a
/// queue forgets it when it ends.
pub(super) struct LastRegion {
    region: Option<Arc<Region>>,
    known: Known,
}

/// What the state of a region without a layout was when it was looked at.
struct Known {
    /// Stands for region and state; 0: for none.
    version: u64,
    key: Key,
    granted: Access,
    base: u64,
    length: u64,
    generation: u32,
}

impl LastRegion {
    /// There is none.
    pub(super) const fn none() -> Self {
        Self {
            region: None,
            known: Known {
                version: 0,
                key: Key::from_raw(0),
                granted: Access::from_bits(0),
                base: 0,
                length: 0,
                generation: 0,
            },
        }
    }

    /// Whether this is the region that is `wanted` of `domain`, in the state that was seen, and may be
    /// used so.
    #[inline(always)]
    pub(super) fn is(&self, domain: &Arc<Domain>, wanted: &Wanted) -> bool {
        let known = &self.known;
        self.region.as_ref().is_some_and(|region| {
            known.key == wanted.key
                && known.version == region.version()
                && known.granted.includes(wanted.access)
                && Arc::ptr_eq(region.domain(), domain)
        })
    }

    /// The part of this region that is `wanted`, if there are so many bytes: it is that region.
    #[inline(always)]
    pub(super) fn take_part(&mut self, wanted: &Wanted) -> Option<Window> {
        let known = &self.known;
        let offset = wanted.addr.checked_sub(known.base)?;
        if wanted.length > known.length.checked_sub(offset)? {
            return None;
        }
        Some(Window {
            region: self.region.take()?,
            bound: None,
            offset,
            length: wanted.length,
            generation: known.generation,
        })
    }

    /// Takes the region of `window`, which nobody needs any more.
    #[inline(always)]
    pub(super) fn keep(&mut self, window: Window) {
        self.region = Some(window.region);
    }
}

impl Domain {
    /// The address of the first byte of the region that `key` names, if it is of this domain.
    pub fn start_of(self: &Arc<Self>, key: Key) -> Option<u64> {
        let region = self.find(key)?;
        let state = region.state();
        if state.key != key || !Arc::ptr_eq(region.domain(), self) {
            return None;
        }
        Some(state.base())
    }

    /// The window of what is `wanted`. `last` is looked at first, and taken if it is the region.
    pub(super) fn window(
        self: &Arc<Self>,
        wanted: Wanted,
        last: &mut LastRegion,
    ) -> Result<Window, AccessError> {
        let (whole, base) = self.look_up(wanted.key, wanted.access, last)?;
        let skip = wanted.addr.checked_sub(base);
        whole.part(skip.ok_or(AccessError::OutOfBounds)?, wanted.length)
    }

    /// All of the region that `key` names, for a use that needs `access`, and the address of its
    /// first byte.
    pub fn whole(self: &Arc<Self>, key: Key, access: Access) -> Result<(Window, u64), AccessError> {
        self.look_up(key, access, &mut LastRegion::none())
    }

    /// As [`Domain::whole`]; `last` is looked at first, and taken if it is the region. What was seen
    /// is left there.
    fn look_up(
        self: &Arc<Self>,
        key: Key,
        access: Access,
        last: &mut LastRegion,
    ) -> Result<(Window, u64), AccessError> {
        let may_be = |region: &mut Arc<Region>| region.index() == key.index();
        if let Some(region) = last.region.take_if(may_be) {
            match self.look_at(region, key, access, &mut last.known) {
                // It has ended, or is of another device, and its number may be another's.
                Err(AccessError::NoSuchKey | AccessError::OtherDomain) => {}
                found => return found,
            }
        }
        let region = self.find(key).ok_or(AccessError::NoSuchKey)?;
        self.look_at(region, key, access, &mut last.known)
    }

    /// As [`Domain::whole`], if `region` is what `key` names. What was seen is left in `known`.
    fn look_at(
        self: &Arc<Self>,
        region: Arc<Region>,
        key: Key,
        access: Access,
        known: &mut Known,
    ) -> Result<(Window, u64), AccessError> {
        let (seen, bound) = {
            let state = region.state();
            if state.key != key || state.ended {
                return Err(AccessError::NoSuchKey);
            }
            if !Arc::ptr_eq(region.domain(), self) {
                return Err(AccessError::OtherDomain);
            }
            let granted = state.granted();
            if !granted.includes(access) {
                return Err(AccessError::NotAllowed);
            }
            let seen = Known {
                version: region.version(),
                key,
                granted,
                base: state.base(),
                length: match &state.bound {
                    Some(bound) => bound.layout().length().0,
                    None => region.own_length(),
                },
                generation: region.generation.load(Relaxed),
            };
            (seen, state.bound.clone())
        };
        let (base, whole) = (seen.base, seen.window(region));
        match bound {
            Some(_) => Ok((Window { bound, ..whole }, base)),
            None => {
                *known = seen;
                Ok((whole, base))
            }
        }
    }
}

impl Known {
    /// All of `region`, which this is about.
    #[inline]
    fn window(&self, region: Arc<Region>) -> Window {
        Window {
            region,
            bound: None,
            offset: 0,
            length: self.length,
            generation: self.generation,
        }
    }
}
