// SPDX-License-Identifier: GPL-2.0

//! `ib_create_mr` and its kin, for consumers in the kernel.
//!
//! C header: [`include/rdma/ib_mr_ext.h`](srctree/include/rdma/ib_mr_ext.h)

use super::{
    super::object::Object,
    access::Access,
    binding::{
        Description,
        NamedPattern,
        NamedRange,
        Sight,
        Start, //
    },
    extension,
    fast::MAX_PAGES,
    key::Key,
    layout::{
        ByteStride,
        DatumCount,
        Dimension, //
    },
    region::Region, //
};
use crate::bindings::{
    self,
    ib_mr,
    ib_mr_ext_ops,
    ib_mr_init_attr,
    ib_mr_interleaved,
    ib_pd,
    ib_sge, //
};
use core::{
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
    sync::Arc, //
};

/// The most descriptors of a layout, whatever its kind.
pub const MAX_DESCRIPTORS: u32 = 1 << 20;

/// Extension operations of a device whose protection domains are
/// [`Domain`](super::region::Domain)s and whose regions are [`Region`]s.
pub static REGION_OPS: ib_mr_ext_ops = ib_mr_ext_ops {
    create_mr: Some(create_region),
    set_layout_sg: Some(set_layout_sg),
    set_layout_interleaved: Some(set_layout_interleaved),
};

/// Creates a region; see the C header.
///
/// # Safety
///
/// `pd` is alive, and nobody destroys it during the call.
pub unsafe fn create(pd: *mut ib_pd, attr: &ib_mr_init_attr) -> Result<*mut ib_mr> {
    let descriptors = u32::try_from(attr.max_reg_descriptors).map_err(|_| EINVAL)?;
    if descriptors == 0 || attr.flags & !SIGNATURE != 0 {
        return Err(EINVAL);
    }
    let signature = attr.flags & SIGNATURE != 0;
    let indirect = match attr.reg_type {
        bindings::ib_mr_reg_type_IB_MR_REG_DIRECT => false,
        bindings::ib_mr_reg_type_IB_MR_REG_INDIRECT => true,
        _ => return Err(EINVAL),
    };
    // SAFETY: By the requirements of this function. What makes a region counts it on its domain
    // and makes it visible as a resource.
    unsafe {
        let device = (*pd).device;
        if let Some(create_mr) = extension::of(device).and_then(|ops| ops.create_mr) {
            return from_err_ptr(create_mr(pd, attr));
        }
        if indirect {
            return Err(EOPNOTSUPP);
        }
        let most = match signature {
            true => (*device).attrs.max_pi_fast_reg_page_list_len,
            false => (*device).attrs.max_fast_reg_page_list_len,
        };
        if most != 0 && descriptors > most {
            return Err(EINVAL);
        }
        if signature {
            if (*device).ops.alloc_mr_integrity.is_none() {
                return Err(ENOSYS);
            }
            return from_err_ptr(bindings::ib_alloc_mr_integrity(
                pd,
                descriptors,
                descriptors,
            ));
        }
        if (*device).ops.alloc_mr.is_none() {
            return Err(ENOSYS);
        }
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        from_err_ptr(bindings::ib_alloc_mr(pd, kind, descriptors))
    }
}

const SIGNATURE: u32 = bindings::ib_mr_create_flags_IB_MR_SIGNATURE_EN;

/// # Safety
///
/// To be called by [`create`], which has checked the attributes.
unsafe extern "C" fn create_region(pd: *mut ib_pd, attr: *const ib_mr_init_attr) -> *mut ib_mr {
    let made = || {
        // SAFETY: By the requirements of this function.
        let attr = unsafe { &*attr };
        if attr.flags & SIGNATURE != 0 {
            return Err(EOPNOTSUPP);
        }
        let descriptors = attr.max_reg_descriptors as u32;
        let indirect = attr.reg_type == bindings::ib_mr_reg_type_IB_MR_REG_INDIRECT;
        let most = if indirect { MAX_DESCRIPTORS } else { MAX_PAGES };
        if descriptors > most {
            return Err(EINVAL);
        }
        let kind = bindings::ib_mr_type_IB_MR_TYPE_MEM_REG;
        // SAFETY: As above; a device with these operations makes regions that are `Region`s.
        unsafe {
            let mr = from_err_ptr(bindings::ib_alloc_mr(pd, kind, descriptors))?;
            if indirect {
                Object::<ib_mr, Region>::state(mr)?.make_indirect(None);
            }
            Ok(mr)
        }
    };
    made().unwrap_or_else(|e: Error| e.to_ptr())
}

/// Sets what an indirect region may be used for, before anybody knows its key.
///
/// # Safety
///
/// `mr` is a live region that [`create`] made as indirect, on a device with [`REGION_OPS`].
pub(super) unsafe fn set_access(mr: *mut ib_mr, access: Access) -> Result<Arc<Region>> {
    // SAFETY: By the requirements of this function.
    let region = unsafe { Object::<ib_mr, Region>::state(mr) }?.clone();
    region.make_indirect(Some(access));
    Ok(region)
}

/// # Safety
///
/// `mr` is a live region that is a [`Region`], and nobody else sets a layout on it now.
pub(super) unsafe fn set_layout(
    mr: *mut ib_mr,
    description: Description,
    flags: u32,
) -> Result<Key> {
    // SAFETY: By the requirements of this function.
    let region: &Arc<Region> = unsafe { Object::state(mr) }?;
    let start = match flags & bindings::ib_mr_layout_flags_IB_MR_LAYOUT_WITH_POST_WR {
        0 => Start::Now,
        _ => Start::WithWorkRequest,
    };
    let keep_key = flags & bindings::ib_mr_layout_flags_IB_MR_LAYOUT_AVOID_INVALIDATION != 0;
    // SAFETY: The core frees its object after the region has been deregistered.
    let sight = unsafe { Sight::new(NonNull::new(mr).ok_or(EINVAL)?) };
    let key = region.set_layout(description, keep_key, start, sight)?;
    // SAFETY: As above.
    unsafe {
        (*mr).lkey = key.raw();
        (*mr).rkey = key.raw();
    }
    Ok(key)
}

/// # Safety
///
/// See the C header: `mr` is a live region, `list` has `num` entries.
unsafe extern "C" fn set_layout_sg(
    mr: *mut ib_mr,
    flags: u32,
    num: u32,
    list: *const ib_sge,
) -> c_int {
    from_result(|| {
        let mut ranges = KVVec::with_capacity(num as usize, GFP_KERNEL)?;
        // SAFETY: By the requirements of this function.
        for sge in unsafe { slice::from_raw_parts(list, num as usize) } {
            let range = NamedRange {
                key: Key::from_raw(sge.lkey),
                addr: sge.addr,
                length: u64::from(sge.length),
            };
            ranges.push(range, GFP_KERNEL)?;
        }
        // SAFETY: As above.
        unsafe { set_layout(mr, Description::Sg(ranges), flags) }?;
        Ok(0)
    })
}

/// # Safety
///
/// See the C header: `mr` is a live region, `list` has `num` entries, and each of them as many
/// dimensions as it says.
unsafe extern "C" fn set_layout_interleaved(
    mr: *mut ib_mr,
    flags: u32,
    num: u32,
    list: *const ib_mr_interleaved,
) -> c_int {
    from_result(|| {
        let mut entries = KVVec::with_capacity(num as usize, GFP_KERNEL)?;
        let mut dimensions = KVVec::new();
        // SAFETY: By the requirements of this function.
        for entry in unsafe { slice::from_raw_parts(list, num as usize) } {
            let pattern = NamedPattern {
                first: NamedRange {
                    key: Key::from_raw(entry.lkey),
                    addr: entry.addr,
                    length: u64::from(entry.length),
                },
                repeat: entry.num_repeated,
                dimensions: entry.num_dimensions,
            };
            entries.push(pattern, GFP_KERNEL)?;
            if entry.num_dimensions == 0 || entry.dims.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: As above.
            let own = unsafe { slice::from_raw_parts(entry.dims, entry.num_dimensions as usize) };
            for dim in own {
                let dimension = Dimension {
                    stride: ByteStride(dim.offset_stride),
                    count: DatumCount(dim.datum_count),
                };
                dimensions.push(dimension, GFP_KERNEL)?;
            }
        }
        let description = Description::Interleaved {
            entries,
            dimensions,
        };
        // SAFETY: As above.
        unsafe { set_layout(mr, description, flags) }?;
        Ok(0)
    })
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
    // SAFETY: By the requirements of this function. A driver refuses to end a region that is in
    // use.
    let ret = unsafe { bindings::ib_dereg_mr_user(mr, core::ptr::null_mut()) };
    to_result(ret).map_or_else(|e| e.to_errno(), |()| 0)
}

/// What `flags` and `num` must be for any device.
fn check_layout(flags: u32, num: u32, list_is_null: bool) -> Result {
    let known = bindings::ib_mr_layout_flags_IB_MR_LAYOUT_WITH_POST_WR
        | bindings::ib_mr_layout_flags_IB_MR_LAYOUT_AVOID_INVALIDATION;
    if flags & !known != 0 || num == 0 || list_is_null {
        return Err(EINVAL);
    }
    if num > MAX_DESCRIPTORS {
        return Err(EOPNOTSUPP);
    }
    Ok(())
}

/// # Safety
///
/// See the C header: `mr` is a live region, `list` has `num` entries.
#[no_mangle]
unsafe extern "C" fn ib_mr_set_layout_sg(
    mr: *mut ib_mr,
    flags: u32,
    num: u32,
    list: *const ib_sge,
) -> c_int {
    from_result(|| {
        check_layout(flags, num, list.is_null())?;
        // SAFETY: By the requirements of this function.
        let ops = extension::of(unsafe { (*mr).device }).ok_or(EOPNOTSUPP)?;
        let set = ops.set_layout_sg.ok_or(EOPNOTSUPP)?;
        // SAFETY: As above.
        Ok(unsafe { set(mr, flags, num, list) })
    })
}

/// # Safety
///
/// See the C header: `mr` is a live region, `list` has `num` entries, and each of them as many
/// dimensions as it says.
#[no_mangle]
unsafe extern "C" fn ib_mr_set_layout_interleaved(
    mr: *mut ib_mr,
    flags: u32,
    num: u32,
    list: *const ib_mr_interleaved,
) -> c_int {
    from_result(|| {
        check_layout(flags, num, list.is_null())?;
        // SAFETY: By the requirements of this function.
        let ops = extension::of(unsafe { (*mr).device }).ok_or(EOPNOTSUPP)?;
        let set = ops.set_layout_interleaved.ok_or(EOPNOTSUPP)?;
        // SAFETY: As above.
        Ok(unsafe { set(mr, flags, num, list) })
    })
}
