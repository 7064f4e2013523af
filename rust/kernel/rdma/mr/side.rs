// SPDX-License-Identifier: GPL-2.0

//! The bytes that a work request names on one side of it.

use super::{
    bytes::Bytes,
    region::Domain,
    window::{
        AccessError,
        LastRegion,
        Wanted,
        Window, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The bytes of one side of the request that is being executed. It remembers the region of the one
/// before, which this one most likely names again.
pub struct Side {
    windows: KVec<Window>,
    last: LastRegion,
}

impl Side {
    /// Makes one for requests of up to `elements` elements.
    pub fn new(elements: usize) -> Result<Self> {
        Ok(Self {
            windows: KVec::with_capacity(elements, GFP_KERNEL_ACCOUNT)?,
            last: LastRegion::none(),
        })
    }

    /// The bytes, in order.
    #[inline]
    pub fn bytes(&self) -> Bytes<'_> {
        Bytes::of(&self.windows)
    }

    /// There are no bytes.
    #[inline]
    pub fn clear(&mut self) {
        self.windows.clear();
    }

    /// The request is done with.
    #[inline(always)]
    pub fn finish(&mut self) {
        if self.windows.len() > 1 {
            self.windows.truncate(1);
        }
        if let Some(window) = self.windows.pop() {
            self.last.keep(window);
        }
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.windows.clear();
        self.last = LastRegion::none();
    }

    /// Adds the bytes that are `wanted` of a region of `domain`.
    #[inline(always)]
    pub fn add(&mut self, domain: &Arc<Domain>, wanted: Wanted) -> Result<(), AccessError> {
        if !self.last.is(domain, &wanted) {
            return self.add_of_another(domain, wanted);
        }
        match self.last.take_part(&wanted) {
            Some(window) => self.push(window),
            None => Err(AccessError::OutOfBounds),
        }
    }

    /// As [`Side::add`], of another region than the last one, or of that in another state.
    #[inline(never)]
    fn add_of_another(&mut self, domain: &Arc<Domain>, wanted: Wanted) -> Result<(), AccessError> {
        let window = domain.window(wanted, &mut self.last)?;
        self.push(window)
    }

    /// Adds the bytes that are `wanted`, of a region of `domain` or through a memory window, by the
    /// other side of queue pair `qp_num`.
    #[inline(always)]
    pub fn add_remote(
        &mut self,
        domain: &Arc<Domain>,
        wanted: Wanted,
        qp_num: u32,
    ) -> Result<(), AccessError> {
        if !wanted.key.names_window() {
            return self.add(domain, wanted);
        }
        let window = domain.through_memory_window(wanted, qp_num, &mut self.last)?;
        self.push(window)
    }

    /// Adds a window; there is room for as many as there can be.
    #[inline(always)]
    fn push(&mut self, window: Window) -> Result<(), AccessError> {
        self.windows
            .push_within_capacity(window)
            .map_err(|_| AccessError::OutOfBounds)
    }
}
