// SPDX-License-Identifier: GPL-2.0

//! Regions with attributes, for modules that are written in Rust.
//!
//! C header: [`include/rdma/ib_mr_ext.h`](srctree/include/rdma/ib_mr_ext.h)
//!
//! This file is part of the module that uses such regions, not of the one that exports them: it
//! needs the kernel's crate, and `crate::bindings` with what bindgen makes of the C header.
//!
//! A layout borrows what it consists of, so that the compiler refuses what `ib_destroy_mr` and
//! `ib_mr_set_layout_sg` would refuse with `EBUSY`:
//!
//! ```ignore
//! let body = Direct::new(&domain, 16)?;
//! let mut message = Indirect::new(&domain, 2)?;
//! message.set_ranges(
//!     &[domain.range(header, 64), body.range(start, 4096)],
//!     Start::Now,
//!     Keys::MayChange,
//! )?;
//! drop(body); // error: cannot move out of `body` because it is borrowed
//! ```

use crate::bindings::{
    self,
    ib_device,
    ib_mr,
    ib_mr_dimension,
    ib_mr_ext_ops,
    ib_mr_init_attr,
    ib_mr_interleaved,
    ib_pd,
    ib_sge, //
};
use core::{
    cell::Cell,
    marker::PhantomData,
    ptr::NonNull,
    slice, //
};
use kernel::{
    error::{
        from_err_ptr,
        from_result,
        to_result, //
    },
    prelude::*,
};

/// What pieces of a layout can be taken from.
pub trait Source {
    /// The key of the region.
    fn lkey(&self) -> u32;

    /// `length` bytes from `addr` on, in the region's own addressing. Whether the region has them
    /// is for the layout to check.
    fn range(&self, addr: u64, length: u32) -> Range<'_> {
        let lkey = self.lkey();
        Range(ib_sge { addr, length, lkey }, PhantomData)
    }
}

/// A range of a region that there is for `'s`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Range<'s>(ib_sge, PhantomData<&'s ()>);

impl Range<'_> {
    /// As an element of a work request.
    pub fn element(&self) -> ib_sge {
        self.0
    }
}

/// A protection domain, which somebody else keeps for `'d`. As a source: all memory of the kernel,
/// by addresses for the device.
///
/// # Invariants
///
/// The domain is alive during `'d`.
pub struct Domain<'d> {
    pd: NonNull<ib_pd>,
    _alive: PhantomData<&'d ()>,
}

impl Domain<'_> {
    /// # Safety
    ///
    /// The domain outlives `'d`.
    pub unsafe fn from_raw(pd: NonNull<ib_pd>) -> Self {
        // INVARIANT: By the requirements of this function.
        Self {
            pd,
            _alive: PhantomData,
        }
    }
}

impl Source for Domain<'_> {
    fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant. The key of a domain does not change.
        unsafe { (*self.pd.as_ptr()).local_dma_lkey }
    }
}

/// A region of `ib_create_mr`.
///
/// # Invariants
///
/// The region is alive, and nobody else destroys it.
struct Region(NonNull<ib_mr>);

// SAFETY: The functions for regions can be called from any thread.
unsafe impl Send for Region {}
// SAFETY: A shared reference gives the keys only, which change through an exclusive one.
unsafe impl Sync for Region {}

impl Region {
    fn new(domain: &Domain<'_>, attr: &ib_mr_init_attr) -> Result<Self> {
        // SAFETY: By the type invariant of the domain.
        let mr = from_err_ptr(unsafe { bindings::ib_create_mr(domain.pd.as_ptr(), attr) })?;
        // INVARIANT: The region is new.
        NonNull::new(mr).map(Self).ok_or(ENOMEM)
    }

    fn lkey(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).lkey }
    }

    fn rkey(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).rkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        let ended = to_result(unsafe { bindings::ib_destroy_mr(self.0.as_ptr()) });
        if let Err(e) = ended {
            // Only if a layout over it was forgotten, or a memory window is bound to it.
            pr_err!("a region is leaked: {:?}\n", e);
        }
    }
}

fn attributes(reg_type: bindings::ib_mr_reg_type, descriptors: u32) -> Result<ib_mr_init_attr> {
    Ok(ib_mr_init_attr {
        reg_type,
        max_reg_descriptors: c_int::try_from(descriptors)?,
        flags: 0,
    })
}

/// A region of memory, to be filled by `ib_map_mr_sg` and a work request.
pub struct Direct<'d> {
    region: Region,
    _domain: PhantomData<&'d ()>,
}

impl<'d> Direct<'d> {
    /// A region of up to `pages` pages. The errors of `ib_create_mr`.
    pub fn new(domain: &'d Domain<'_>, pages: u32) -> Result<Self> {
        let attr = attributes(bindings::ib_mr_reg_type_IB_MR_REG_DIRECT, pages)?;
        Ok(Self {
            region: Region::new(domain, &attr)?,
            _domain: PhantomData,
        })
    }

    /// The region, to be mapped and registered. Whoever does so knows what memory is for.
    pub fn as_raw(&self) -> NonNull<ib_mr> {
        self.region.0
    }

    /// The key for the other side.
    pub fn rkey(&self) -> u32 {
        self.region.rkey()
    }
}

impl Source for Direct<'_> {
    fn lkey(&self) -> u32 {
        self.region.lkey()
    }
}

/// When a layout begins to stand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At once.
    Now,
    /// When a bind work request executes.
    WithWorkRequest,
}

/// What may happen to the keys of a region that gets a layout.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// They change if the shape of the layout does.
    MayChange,
    /// Rather than change them, fail with `ESTALE`.
    MustStay,
}

fn flags(start: Start, keys: Keys) -> u32 {
    let start = match start {
        Start::Now => 0,
        Start::WithWorkRequest => bindings::ib_mr_layout_flags_IB_MR_LAYOUT_WITH_POST_WR,
    };
    let keys = match keys {
        Keys::MayChange => 0,
        Keys::MustStay => bindings::ib_mr_layout_flags_IB_MR_LAYOUT_AVOID_INVALIDATION,
    };
    start | keys
}

/// A dimension of a [`Pattern`].
pub use crate::bindings::ib_mr_dimension as Dimension;

/// An entry of an interleaved layout.
#[derive(Clone, Copy)]
pub struct Pattern<'a, 's> {
    /// The first datum.
    pub first: Range<'s>,
    /// Data that each turn takes.
    pub repeat: u32,
    /// Innermost first.
    pub dimensions: &'a [ib_mr_dimension],
}

/// A region of pieces of other regions, which there are for `'s`.
pub struct Indirect<'s> {
    region: Region,
    /// What has been borrowed stays so: a layout that waits, or that has been replaced while
    /// another waits, uses its pieces as well.
    _pieces: PhantomData<Cell<&'s ()>>,
}

// SAFETY: The marker stands for shared references, which nothing is done with.
unsafe impl Sync for Indirect<'_> {}

impl<'s> Indirect<'s> {
    /// A region of up to `pieces` pieces or patterns. The errors of `ib_create_mr`.
    pub fn new(domain: &'s Domain<'_>, pieces: u32) -> Result<Self> {
        let attr = attributes(bindings::ib_mr_reg_type_IB_MR_REG_INDIRECT, pieces)?;
        Ok(Self {
            region: Region::new(domain, &attr)?,
            _pieces: PhantomData,
        })
    }

    /// Makes the region the concatenation of `ranges`. The errors of `ib_mr_set_layout_sg`, after
    /// which nothing has changed.
    pub fn set_ranges(&mut self, ranges: &[Range<'s>], start: Start, keys: Keys) -> Result {
        let list = ranges.as_ptr().cast::<ib_sge>();
        let count = u32::try_from(ranges.len())?;
        // SAFETY: By the type invariant of the region, which the caller has for itself; a range is
        // laid out as an `ib_sge`.
        to_result(unsafe {
            bindings::ib_mr_set_layout_sg(self.region.0.as_ptr(), flags(start, keys), count, list)
        })
    }

    /// Makes the region data of `patterns`, taken in turn. The errors of
    /// `ib_mr_set_layout_interleaved`, after which nothing has changed.
    pub fn set_patterns(
        &mut self,
        patterns: &[Pattern<'_, 's>],
        start: Start,
        keys: Keys,
    ) -> Result {
        let mut list = KVVec::with_capacity(patterns.len(), GFP_KERNEL)?;
        for pattern in patterns {
            let first = pattern.first.0;
            let entry = ib_mr_interleaved {
                addr: first.addr,
                length: first.length,
                lkey: first.lkey,
                num_repeated: pattern.repeat,
                num_dimensions: u32::try_from(pattern.dimensions.len())?,
                dims: pattern.dimensions.as_ptr(),
            };
            list.push(entry, GFP_KERNEL)?;
        }
        let count = u32::try_from(list.len())?;
        // SAFETY: As in `set_ranges`; each entry has as many dimensions as it says.
        to_result(unsafe {
            let mr = self.region.0.as_ptr();
            bindings::ib_mr_set_layout_interleaved(mr, flags(start, keys), count, list.as_ptr())
        })
    }

    /// The key for the other side.
    pub fn rkey(&self) -> u32 {
        self.region.rkey()
    }
}

impl Source for Indirect<'_> {
    fn lkey(&self) -> u32 {
        self.region.lkey()
    }
}

/// What a driver does to take part.
pub trait Operations: 'static {
    /// Makes a region that `ib_dereg_mr` can end, counted on its domain as `ib_alloc_mr` does it.
    /// Type, flags and sign of the attributes have been checked.
    fn create(pd: NonNull<ib_pd>, attr: &ib_mr_init_attr) -> Result<NonNull<ib_mr>>;

    /// See `ib_mr_set_layout_sg`. Updates the keys of the region.
    fn set_ranges(mr: NonNull<ib_mr>, flags: u32, list: &[ib_sge]) -> Result {
        let _ = (mr, flags, list);
        Err(EOPNOTSUPP)
    }

    /// See `ib_mr_set_layout_interleaved`. Updates the keys of the region.
    fn set_patterns(mr: NonNull<ib_mr>, flags: u32, list: &[ib_mr_interleaved]) -> Result {
        let _ = (mr, flags, list);
        Err(EOPNOTSUPP)
    }
}

/// Operations that are registered for a device, until this is dropped.
///
/// # Invariants
///
/// They are registered for the device, by this.
pub struct Registration<T: Operations> {
    device: NonNull<ib_device>,
    _operations: PhantomData<fn() -> T>,
}

impl<T: Operations> Registration<T> {
    const OPS: &'static ib_mr_ext_ops = &ib_mr_ext_ops {
        create_mr: Some(Self::create),
        set_layout_sg: Some(Self::set_ranges),
        set_layout_interleaved: Some(Self::set_patterns),
    };

    /// Registers operations. `EEXIST` if the device has some, `ENOMEM`.
    ///
    /// # Safety
    ///
    /// The device outlives the registration.
    pub unsafe fn new(device: NonNull<ib_device>) -> Result<Self> {
        // SAFETY: The table is static. The functions are of this module, which the registration
        // does not outlive.
        to_result(unsafe { bindings::ib_register_mr_ext(device.as_ptr(), Self::OPS) })?;
        // INVARIANT: As of now.
        Ok(Self {
            device,
            _operations: PhantomData,
        })
    }

    /// # Safety
    ///
    /// To be called as the C header says, as all that follow.
    unsafe extern "C" fn create(pd: *mut ib_pd, attr: *const ib_mr_init_attr) -> *mut ib_mr {
        // SAFETY: By the requirements of this function.
        let attr = unsafe { &*attr };
        let made = NonNull::new(pd).ok_or(EINVAL).map(|pd| T::create(pd, attr));
        match made {
            Ok(Ok(mr)) => mr.as_ptr(),
            Ok(Err(e)) | Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// See [`Registration::create`].
    unsafe extern "C" fn set_ranges(
        mr: *mut ib_mr,
        flags: u32,
        count: u32,
        list: *const ib_sge,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The list is not empty, and has so many entries.
            let list = unsafe { slice::from_raw_parts(list, count as usize) };
            T::set_ranges(NonNull::new(mr).ok_or(EINVAL)?, flags, list)?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// See [`Registration::create`].
    unsafe extern "C" fn set_patterns(
        mr: *mut ib_mr,
        flags: u32,
        count: u32,
        list: *const ib_mr_interleaved,
    ) -> c_int {
        from_result(|| {
            // SAFETY: As in `set_ranges`.
            let list = unsafe { slice::from_raw_parts(list, count as usize) };
            T::set_patterns(NonNull::new(mr).ok_or(EINVAL)?, flags, list)?;
            Ok(0)
        })
    }
}

impl<T: Operations> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_unregister_mr_ext(self.device.as_ptr()) };
    }
}
