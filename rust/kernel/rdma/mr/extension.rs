// SPDX-License-Identifier: GPL-2.0

//! Devices that take part in `ib_create_mr`: tables of operations, by device.
//!
//! C header: [`include/rdma/ib_mr_ext.h`](srctree/include/rdma/ib_mr_ext.h)

use super::{
    super::driver::{
        DeviceHandle,
        Driver, //
    },
    create::REGION_OPS,
    region::{
        Domain,
        Region, //
    },
};
use crate::bindings::{
    ib_device,
    ib_mr_ext_ops, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::global_lock, //
};

/// A device and its table.
struct Extension {
    device: NonNull<ib_device>,
    ops: &'static ib_mr_ext_ops,
}

// SAFETY: The device is only compared, never followed, and the table is immutable.
unsafe impl Send for Extension {}

global_lock! {
    // SAFETY: Initialised by `Globals::new`, before anything else of the module runs.
    unsafe(uninit) static EXTENSIONS: Mutex<KVec<Extension>> = KVec::new();
}

/// What all devices share. Empties the list when the module goes.
pub struct Globals(());

impl Globals {
    /// Prepares the list.
    ///
    /// # Safety
    ///
    /// Called once, before any other function of this file.
    pub unsafe fn new() -> Self {
        // SAFETY: By the requirements of this function.
        unsafe { EXTENSIONS.init() };
        Self(())
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        *EXTENSIONS.lock() = KVec::new();
    }
}

/// Adds a device. `EEXIST` if it has a table, `EINVAL` if `ops` makes no regions.
pub fn register(device: NonNull<ib_device>, ops: &'static ib_mr_ext_ops) -> Result {
    if ops.create_mr.is_none() {
        return Err(EINVAL);
    }
    let mut extensions = EXTENSIONS.lock();
    if extensions.iter().any(|e| e.device == device) {
        return Err(EEXIST);
    }
    extensions.push(Extension { device, ops }, GFP_KERNEL)?;
    Ok(())
}

/// Removes a device.
pub fn unregister(device: NonNull<ib_device>) {
    EXTENSIONS.lock().retain(|e| e.device != device);
}

/// Lets consumers in the kernel make regions with attributes on a device of driver `D`.
pub fn offer<D: Driver<Pd = Domain, Region = Region>>(handle: &DeviceHandle) -> Result {
    handle
        .with(|device| register(NonNull::new(device).ok_or(EINVAL)?, &REGION_OPS))
        .unwrap_or(Err(ENODEV))
}

/// Undoes [`offer`].
pub fn withdraw(handle: &DeviceHandle) {
    handle.with(|device| NonNull::new(device).map(unregister));
}

/// The table of a device.
pub fn of(device: *mut ib_device) -> Option<&'static ib_mr_ext_ops> {
    let device = NonNull::new(device)?;
    EXTENSIONS
        .lock()
        .iter()
        .find(|e| e.device == device)
        .map(|e| e.ops)
}

/// # Safety
///
/// See the C header: `device` is alive, and `ops` outlives the registration.
#[no_mangle]
unsafe extern "C" fn ib_register_mr_ext(
    device: *mut ib_device,
    ops: *const ib_mr_ext_ops,
) -> c_int {
    let registered = || {
        let device = NonNull::new(device).ok_or(EINVAL)?;
        // SAFETY: By the requirements of this function.
        let ops = unsafe { ops.as_ref() }.ok_or(EINVAL)?;
        register(device, ops)
    };
    registered().map_or_else(|e: Error| e.to_errno(), |()| 0)
}

/// # Safety
///
/// None beyond the C header's.
#[no_mangle]
unsafe extern "C" fn ib_unregister_mr_ext(device: *mut ib_device) {
    if let Some(device) = NonNull::new(device) {
        unregister(device);
    }
}
