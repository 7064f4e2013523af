// SPDX-License-Identifier: GPL-2.0

//! Two connected queue pairs and two buffers: the scene of C, made safe to use.

use crate::{
    bindings::{
        self,
        ib_device,
        ib_wc_status_IB_WC_SUCCESS as SUCCESS,
        scene_step, //
    },
    consumer::{
        Direct,
        Domain,
        Indirect,
        Range,
        Source, //
    }, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*,
};

/// Bytes of each of the buffers.
pub const BUFFER: usize = 4 * PAGE_SIZE;

/// Which of the buffers.
#[derive(Clone, Copy)]
pub enum Side {
    /// Has bytes that differ.
    Source,
    /// Is clear at first.
    Target,
}

impl Side {
    const fn raw(self) -> bindings::scene_side {
        match self {
            Self::Source => bindings::scene_side_SCENE_SOURCE,
            Self::Target => bindings::scene_side_SCENE_TARGET,
        }
    }
}

/// How a work request ended: an `enum ib_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub bindings::ib_wc_status);

impl Status {
    pub const SUCCESS: Self = Self(SUCCESS);
    pub const PROTECTION: Self = Self(bindings::ib_wc_status_IB_WC_LOC_PROT_ERR);
    pub const REMOTE_ACCESS: Self = Self(bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR);
    pub const BIND: Self = Self(bindings::ib_wc_status_IB_WC_MW_BIND_ERR);
}

/// A work request.
#[derive(Clone, Copy)]
pub struct Step(scene_step);

impl Step {
    fn new(op: bindings::scene_op, local: Range<'_>) -> scene_step {
        scene_step {
            op,
            local: local.element(),
            ..Default::default()
        }
    }

    /// Writes `local` to `addr` of what `rkey` names.
    pub fn write(local: Range<'_>, addr: u64, rkey: u32) -> Self {
        Self(scene_step {
            remote_addr: addr,
            rkey,
            ..Self::new(bindings::scene_op_SCENE_WRITE, local)
        })
    }

    /// Reads into `local`.
    pub fn read(local: Range<'_>, addr: u64, rkey: u32) -> Self {
        Self(scene_step {
            remote_addr: addr,
            rkey,
            ..Self::new(bindings::scene_op_SCENE_READ, local)
        })
    }

    /// Sends `local` to `landing`.
    pub fn send(local: Range<'_>, landing: Range<'_>) -> Self {
        Self(scene_step {
            landing: landing.element(),
            ..Self::new(bindings::scene_op_SCENE_SEND, local)
        })
    }

    /// Has the layout that waits on `region` stand.
    pub fn bind(region: &Indirect<'_>) -> Self {
        Self(Self::new(bindings::scene_op_SCENE_BIND, region.range(0, 0)))
    }
}

/// A scene.
///
/// # Invariants
///
/// The scene of C is alive, and this is the only one to use it.
pub struct Scene(NonNull<bindings::scene>);

impl Scene {
    /// Makes a scene on a device.
    ///
    /// # Safety
    ///
    /// The device outlives it.
    pub unsafe fn new(device: NonNull<ib_device>) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        let scene = from_err_ptr(unsafe { bindings::scene_open(device.as_ptr()) })?;
        // INVARIANT: It is new.
        NonNull::new(scene).map(Self).ok_or(ENOMEM)
    }

    /// Its domain.
    pub fn domain(&self) -> Result<Domain<'_>> {
        // SAFETY: By the type invariant.
        let pd = unsafe { bindings::scene_domain(self.0.as_ptr()) };
        // SAFETY: The domain is there as long as the scene is.
        Ok(unsafe { Domain::from_raw(NonNull::new(pd).ok_or(EINVAL)?) })
    }

    /// The device that all this is on.
    pub fn device(&self) -> Result<NonNull<ib_device>> {
        // SAFETY: By the type invariant; a domain has a device.
        let device = unsafe { (*bindings::scene_domain(self.0.as_ptr())).device };
        NonNull::new(device).ok_or(EINVAL)
    }

    /// How many objects use the domain.
    pub fn users(&self) -> i32 {
        // SAFETY: By the type invariant.
        unsafe { bindings::scene_users(self.0.as_ptr()) }
    }

    /// The address of a byte of a buffer, for the device.
    pub fn at(&self, side: Side, offset: u64) -> u64 {
        // SAFETY: By the type invariant.
        unsafe { bindings::scene_address(self.0.as_ptr(), side.raw()) + offset }
    }

    /// A part of a buffer, as a range of `source`.
    pub fn part<'s>(&self, source: &'s impl Source, side: Side, at: u64, len: u32) -> Range<'s> {
        source.range(self.at(side, at), len)
    }

    /// Gives `region` all of a buffer, with all rights.
    pub fn register(&self, region: &Direct<'_>, side: Side) -> Result {
        const RIGHTS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
            | bindings::ib_access_flags_IB_ACCESS_REMOTE_READ;
        let mr = region.as_raw().as_ptr();
        // SAFETY: By the type invariant; the region is alive. What uses the buffer goes before the
        // scene does, since regions borrow its domain.
        to_result(unsafe { bindings::scene_map(self.0.as_ptr(), mr, side.raw()) })?;
        let status = self.perform(Step(scene_step {
            op: bindings::scene_op_SCENE_REGISTER,
            mr,
            access: RIGHTS as c_int,
            ..Default::default()
        }))?;
        if status == Status::SUCCESS {
            Ok(())
        } else {
            Err(EIO)
        }
    }

    /// Posts a request and waits for it.
    pub fn perform(&self, step: Step) -> Result<Status> {
        let [status] = self.perform_all([step])?;
        Ok(status)
    }

    /// Posts requests in one go and waits for them.
    pub fn perform_all<const N: usize>(&self, steps: [Step; N]) -> Result<[Status; N]> {
        let steps = steps.map(|step| step.0);
        let mut status = [SUCCESS; N];
        // SAFETY: By the type invariant; the arrays are as long as is said.
        to_result(unsafe {
            let (steps, status) = (steps.as_ptr(), status.as_mut_ptr());
            bindings::scene_do(self.0.as_ptr(), steps, N as u32, status)
        })?;
        Ok(status.map(Status))
    }

    /// Connects the queue pairs anew, after a request has failed.
    pub fn connect(&self) -> Result {
        // SAFETY: By the type invariant.
        to_result(unsafe { bindings::scene_connect(self.0.as_ptr()) })
    }

    /// Fills the source and clears the target.
    pub fn fill(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::scene_fill(self.0.as_ptr()) };
    }

    /// Copies a buffer out.
    fn copy_of(&self, side: Side) -> Result<KVec<u8>> {
        let mut copy = KVec::with_capacity(BUFFER, GFP_KERNEL)?;
        // SAFETY: By the type invariant; a buffer has so many bytes. No request executes now, so
        // nobody writes to it.
        let bytes = unsafe {
            let start = bindings::scene_bytes(self.0.as_ptr(), side.raw());
            core::slice::from_raw_parts(start, BUFFER)
        };
        copy.extend_from_slice(bytes, GFP_KERNEL)?;
        Ok(copy)
    }

    /// Whether the target has those bytes of the source that `moves` names, as (place in the
    /// source, place in the target, how many), and is clear everywhere else.
    pub fn has_moved(
        &self,
        moves: impl IntoIterator<Item = (usize, usize, usize)>,
    ) -> Result<bool> {
        let source = self.copy_of(Side::Source)?;
        let mut due = KVec::from_elem(0u8, BUFFER, GFP_KERNEL)?;
        for (from, to, len) in moves {
            let from = source.get(from..from + len).ok_or(EINVAL)?;
            due.get_mut(to..to + len)
                .ok_or(EINVAL)?
                .copy_from_slice(from);
        }
        Ok(*due == *self.copy_of(Side::Target)?)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // SAFETY: By the type invariant. Regions and requests borrow the scene, so there are none.
        unsafe { bindings::scene_close(self.0.as_ptr()) };
    }
}
