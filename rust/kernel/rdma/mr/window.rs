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
/// for it then.
///
/// Holds neither memory nor layout, but what is left of a region that has ended in the meantime. So a
/// queue forgets it when it ends.
pub struct LastRegion(Option<Arc<Region>>);

impl LastRegion {
    /// There is none.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Takes the region of the first of `windows`, which nobody needs any more.
    #[inline]
    pub fn keep_first_of(&mut self, windows: &mut KVec<Window>) {
        windows.truncate(1);
        if let Some(window) = windows.pop() {
            self.0 = Some(window.region);
        }
    }

    /// Takes it out if `key` may name it.
    #[inline]
    fn take_if(&mut self, domain: &Arc<Domain>, key: Key) -> Option<Arc<Region>> {
        self.0
            .take_if(|region| region.index() == key.index() && Arc::ptr_eq(region.domain(), domain))
    }
}

impl Domain {
    /// The address of the first byte of the region that `key` names, if it is of this domain.
    pub fn start_of(self: &Arc<Self>, key: Key) -> Option<u64> {
        let region = self.find(key)?;
        let state = region.state.lock();
        if state.key != key || !Arc::ptr_eq(region.domain(), self) {
            return None;
        }
        Some(state.base())
    }

    /// The window of `length` bytes at `addr` of the region that `key` names, for a use that needs
    /// `access`. `last` is looked at first, and taken if it is the region.
    #[inline]
    pub fn window(
        self: &Arc<Self>,
        key: Key,
        addr: u64,
        length: u64,
        access: Access,
        last: &mut LastRegion,
    ) -> Result<Window, AccessError> {
        if let Some(region) = last.take_if(self, key) {
            match self.look_at(&region, key, access) {
                Ok(whole) => return whole.window(region, addr, length),
                // It has ended, and its number may be another's.
                Err(AccessError::NoSuchKey) => {}
                Err(error) => return Err(error),
            }
        }
        let region = self.find(key).ok_or(AccessError::NoSuchKey)?;
        let whole = self.look_at(&region, key, access)?;
        whole.window(region, addr, length)
    }

    /// All of the region that `key` names, for a use that needs `access`, and the address of its
    /// first byte.
    pub fn whole(self: &Arc<Self>, key: Key, access: Access) -> Result<(Window, u64), AccessError> {
        let region = self.find(key).ok_or(AccessError::NoSuchKey)?;
        let whole = self.look_at(&region, key, access)?;
        let (base, length) = (whole.base, whole.length);
        Ok((whole.window(region, base, length)?, base))
    }

    /// Checks that `region` is what `key` names, that it is of this domain and that it grants
    /// `access`; and says what it is now.
    #[inline(always)]
    fn look_at(
        self: &Arc<Self>,
        region: &Arc<Region>,
        key: Key,
        access: Access,
    ) -> Result<Whole, AccessError> {
        let state = region.state.lock();
        if state.key != key || state.ended {
            return Err(AccessError::NoSuchKey);
        }
        if !Arc::ptr_eq(region.domain(), self) {
            return Err(AccessError::OtherDomain);
        }
        if !state.granted().includes(access) {
            return Err(AccessError::NotAllowed);
        }
        Ok(Whole {
            base: state.base(),
            length: match &state.bound {
                Some(bound) => bound.layout().length().0,
                None => region.own_length(),
            },
            bound: state.bound.clone(),
            generation: region.generation.load(Relaxed),
        })
    }
}

/// What a region was when it was looked at.
struct Whole {
    /// The address of its first byte.
    base: u64,
    /// Its bytes.
    length: u64,
    bound: Option<Arc<Bound>>,
    generation: u32,
}

impl Whole {
    /// The window of `length` bytes at `addr` of `region`, which this is about.
    #[inline(always)]
    fn window(self, region: Arc<Region>, addr: u64, length: u64) -> Result<Window, AccessError> {
        let offset = addr
            .checked_sub(self.base)
            .filter(|&offset| offset <= self.length && length <= self.length - offset)
            .ok_or(AccessError::OutOfBounds)?;
        Ok(Window {
            region,
            bound: self.bound,
            offset,
            length,
            generation: self.generation,
        })
    }
}
