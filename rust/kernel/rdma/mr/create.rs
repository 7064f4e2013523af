// SPDX-License-Identifier: GPL-2.0

//! `ib_create_mr` and `ib_destroy_mr`.
//!
//! C header: [`include/rdma/ib_mr_ext.h`](srctree/include/rdma/ib_mr_ext.h)

use super::{
    super::{
        driver::Driver,
        object::Object,
        ops::Ops, //
    },
    access::Access,
    region::{
        Domain,
        Region, //
    },
};
use crate::bindings::{
    self,
    ib_mr,
    ib_mr_init_attr,
    ib_pd, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
};

/// The most descriptors of a layout, whatever its kind.
pub const MAX_DESCRIPTORS: u32 = 1 << 20;

/// `dereg_mr` of the driver whose regions are [`Region`]s, by which its devices are known.
static EXTENSION: Atomic<usize> = Atomic::new(0);

/// Says that devices of driver `D` have [`Region`]s for regions, and so indirect ones as well.
pub fn extend<D: Driver<Pd = Domain, Region = Region>>() {
    EXTENSION.store(Ops::<D>::dereg_mr as usize, Release);
}

/// Whether the regions of `device` are [`Region`]s.
///
/// # Safety
///
/// `device` is alive.
unsafe fn has_extension(device: *const bindings::ib_device) -> bool {
    // SAFETY: By the requirements of this function.
    let dereg_mr = unsafe { (*device).ops.dereg_mr };
    dereg_mr.map(|f| f as usize) == Some(EXTENSION.load(Acquire))
}

/// Creates a region; see the C header.
///
/// # Safety
///
/// `pd` is alive, and nobody destroys it during the call.
pub unsafe fn create(pd: *mut ib_pd, attr: &ib_mr_init_attr) -> Result<*mut ib_mr> {
    let descriptors = u32::try_from(attr.max_reg_descriptors).map_err(|_| EINVAL)?;
    if descriptors == 0 || attr.flags & !bindings::ib_mr_create_flags_IB_MR_SIGNATURE_EN != 0 {
        return Err(EINVAL);
    }
    let signature = attr.flags & bindings::ib_mr_create_flags_IB_MR_SIGNATURE_EN != 0;
    // SAFETY: By the requirements of this function. `ib_alloc_mr` and its variant count the region
    // on its domain and make it visible as a resource.
    unsafe {
        let device = (*pd).device;
        let ours = has_extension(device);
        match attr.reg_type {
            bindings::ib_mr_reg_type_IB_MR_REG_DIRECT if signature => {
                if (*device).ops.alloc_mr_integrity.is_none() {
                    return Err(EOPNOTSUPP);
                }
                from_err_ptr(bindings::ib_alloc_mr_integrity(
                    pd,
                    descriptors,
                    descriptors,
                ))
            }
            bindings::ib_mr_reg_type_IB_MR_REG_DIRECT => {
                if (*device).ops.alloc_mr.is_none() {
                    return Err(ENOSYS);
                }
                let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
                from_err_ptr(bindings::ib_alloc_mr(pd, kind, descriptors))
            }
            bindings::ib_mr_reg_type_IB_MR_REG_INDIRECT if ours && !signature => {
                if descriptors > MAX_DESCRIPTORS {
                    return Err(EINVAL);
                }
                let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
                from_err_ptr(bindings::ib_alloc_mr(pd, kind, descriptors))
            }
            bindings::ib_mr_reg_type_IB_MR_REG_INDIRECT => Err(EOPNOTSUPP),
            _ => Err(EINVAL),
        }
    }
}

/// Sets what an indirect region may be used for, before anybody knows its key.
///
/// # Safety
///
/// `mr` is a live region that [`create`] made as indirect.
pub(super) unsafe fn set_access(mr: *mut ib_mr, access: Access) -> Result<Arc<Region>> {
    // SAFETY: `create` makes indirect regions on devices only whose regions are `Region`s.
    let region = unsafe { Object::<ib_mr, Region>::state(mr) }?.clone();
    region.set_access(access);
    Ok(region)
}

/// # Safety
///
/// See the C header: `pd` is alive, and `attr` valid.
#[no_mangle]
unsafe extern "C" fn ib_create_mr(pd: *mut ib_pd, attr: *const ib_mr_init_attr) -> *mut ib_mr {
    // SAFETY: By the requirements of this function.
    unsafe { create(pd, &*attr) }.unwrap_or_else(|e| e.to_ptr())
}

/// # Safety
///
/// See the C header: `mr` is a live region that the caller gives up if this succeeds.
#[no_mangle]
unsafe extern "C" fn ib_destroy_mr(mr: *mut ib_mr) -> c_int {
    // The driver refuses to end a region that is in use, before the core changes anything.
    // SAFETY: By the requirements of this function.
    let ret = unsafe { bindings::ib_dereg_mr_user(mr, core::ptr::null_mut()) };
    to_result(ret).map_or_else(|e| e.to_errno(), |()| 0)
}
