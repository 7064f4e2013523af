// SPDX-License-Identifier: GPL-2.0

//! Operations on memory regions and windows.

use super::{
    super::{
        driver::{
            DeviceRef,
            Driver,
            NewMr,
            Property,
            Rereg, //
        },
        object::Object, //
    },
    device_state,
    Ops, //
};
use crate::bindings::{
    self,
    ib_mr,
    ib_mw,
    ib_pd, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    page::PAGE_SIZE,
    prelude::*, //
};
impl<D: Driver> Ops<D> {
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn reg_user_mr(
        pd: *mut ib_pd,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        dmah: *mut bindings::ib_dmah,
        _udata: *mut bindings::ib_udata,
    ) -> *mut ib_mr {
        // SAFETY: See the module's documentation.
        let made = || unsafe {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            let device = device_state::<D>((*pd).device)?;
            let caller = DeviceRef::from_raw((*pd).device)?.for_process_of((*pd).uobject);
            let pd = Object::<ib_pd, D::Pd>::state(pd)?;
            wrap_mr::<D>(|| device.reg_user_mr(caller, pd, start, length, iova, access as u32))
        };
        made().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn reg_user_mr_dmabuf(
        pd: *mut ib_pd,
        offset: u64,
        length: u64,
        iova: u64,
        fd: c_int,
        access: c_int,
        dmah: *mut bindings::ib_dmah,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> *mut ib_mr {
        // SAFETY: See the module's documentation.
        let made = || unsafe {
            if !dmah.is_null() {
                return Err(EOPNOTSUPP);
            }
            let device = device_state::<D>((*pd).device)?;
            let pd = Object::<ib_pd, D::Pd>::state(pd)?;
            wrap_mr::<D>(|| device.reg_buffer(pd, fd, offset, length, iova, access as u32))
        };
        made().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn alloc_mr(
        pd: *mut ib_pd,
        kind: bindings::ib_mr_type,
        max_descriptors: u32,
    ) -> *mut ib_mr {
        // SAFETY: See the module's documentation.
        let made = || unsafe {
            if kind != bindings::ib_mr_type_IB_MR_TYPE_MEM_REG {
                return Err(EINVAL);
            }
            let device = device_state::<D>((*pd).device)?;
            let pd = Object::<ib_pd, D::Pd>::state(pd)?;
            wrap_mr::<D>(|| device.alloc_mr(pd, max_descriptors))
        };
        made().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(in super::super) unsafe extern "C" fn dereg_mr(
        mr: *mut ib_mr,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. `wrap_mr` allocated the object.
            unsafe {
                if let Err(e) = D::dereg_mr(Object::<ib_mr, D::Region>::state(mr)?) {
                    // The core has taken the region out of its list of resources already.
                    bindings::mrx_track_mr_again(mr);
                    return Err(e);
                }
                drop(KBox::from_raw(mr.cast::<Object<ib_mr, D::Region>>()));
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn advise_mr(
        pd: *mut ib_pd,
        advice: bindings::ib_uverbs_advise_mr_advice,
        flags: u32,
        list: *mut bindings::ib_sge,
        len: u32,
        _attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        from_result(|| {
            if list.is_null() || len == 0 {
                return Err(EINVAL);
            }
            // SAFETY: See the module's documentation. The core passes a copy of the caller's list.
            unsafe {
                let list = core::slice::from_raw_parts(list, len as usize);
                let device = device_state::<D>((*pd).device)?;
                device.advise_mr(Object::<ib_pd, D::Pd>::state(pd)?, advice, flags, list)?;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn fill_res_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut ib_mr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The core looks at a region only between its
            // creation and its destruction. The message is the core's to fill.
            unsafe {
                let table = bindings::mrx_driver_attrs_begin(msg);
                if table.is_null() {
                    return Err(EMSGSIZE);
                }
                let region = Object::<ib_mr, D::Region>::state(mr);
                let filled = region.and_then(|region| {
                    D::describe_mr(region, &mut |name, property| {
                        let name = name.as_char_ptr();
                        to_result(match property {
                            Property::Text(text) => {
                                bindings::rdma_nl_put_driver_string(msg, name, text.as_char_ptr())
                            }
                            Property::Number(number) => {
                                bindings::rdma_nl_put_driver_u32(msg, name, number)
                            }
                        })
                    })
                });
                match filled {
                    Ok(()) => bindings::mrx_stats_end(msg, table),
                    Err(_) => bindings::mrx_stats_cancel(msg, table),
                }
                filled?;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn fill_stat_mr_entry(
        msg: *mut bindings::sk_buff,
        mr: *mut ib_mr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The core looks at a region's counters only
            // between its creation and its destruction. The message is the core's to fill.
            unsafe {
                let table = bindings::mrx_stats_begin(msg);
                if table.is_null() {
                    return Err(EMSGSIZE);
                }
                let region = Object::<ib_mr, D::Region>::state(mr);
                let filled = region.and_then(|region| {
                    D::count_mr(region, &mut |name, value| {
                        let name = name.as_char_ptr();
                        to_result(bindings::rdma_nl_stat_hwcounter_entry(msg, name, value))
                    })
                });
                match filled {
                    Ok(()) => bindings::mrx_stats_end(msg, table),
                    Err(_) => bindings::mrx_stats_cancel(msg, table),
                }
                filled?;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn rereg_user_mr(
        mr: *mut ib_mr,
        flags: c_int,
        start: u64,
        length: u64,
        iova: u64,
        access: c_int,
        pd: *mut ib_pd,
        _udata: *mut bindings::ib_udata,
    ) -> *mut ib_mr {
        let has = |flag: u32| flags as u32 & flag != 0;
        // SAFETY: See the module's documentation. The core destroys the old region after a new one
        // was returned.
        let made = || unsafe {
            let changes = Rereg::<D> {
                pd: match has(bindings::ib_mr_rereg_flags_IB_MR_REREG_PD) {
                    true => Some(Object::<ib_pd, D::Pd>::state(pd)?),
                    false => None,
                },
                memory: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_TRANS)
                    .then_some((start, length, iova)),
                access: has(bindings::ib_mr_rereg_flags_IB_MR_REREG_ACCESS)
                    .then_some(access as u32),
            };
            let device = device_state::<D>((*mr).device)?;
            // The domain of the region or the new one, in any case of the caller.
            let caller = DeviceRef::from_raw((*mr).device)?.for_process_of((*pd).uobject);
            let region = Object::<ib_mr, D::Region>::state(mr)?;
            wrap_mr::<D>(|| device.rereg_user_mr(caller, region, &changes))
        };
        made().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn get_dma_mr(pd: *mut ib_pd, access: c_int) -> *mut ib_mr {
        // SAFETY: See the module's documentation.
        let made = || unsafe {
            let device = device_state::<D>((*pd).device)?;
            let pd = Object::<ib_pd, D::Pd>::state(pd)?;
            wrap_mr::<D>(|| device.get_dma_mr(pd, access as u32))
        };
        made().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn map_mr_sg(
        mr: *mut ib_mr,
        sg: *mut bindings::scatterlist,
        nents: c_int,
        offset: *mut c_uint,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The caller has the region for itself until
            // it posts the request that registers it.
            let mapped = unsafe {
                let page_size = (*mr).page_size;
                if (page_size as usize) < PAGE_SIZE {
                    return Err(EINVAL);
                }
                D::start_mapping(Object::<ib_mr, D::Region>::state(mr)?, u64::from(page_size))?;
                bindings::ib_sg_to_pages(mr, sg, nents, offset, Some(Self::map_page))
            };
            to_result(mapped.min(0))?;
            Ok(mapped)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn map_page(mr: *mut ib_mr, addr: u64) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation; called by `ib_sg_to_pages` for `map_mr_sg`.
            D::map_page(unsafe { Object::<ib_mr, D::Region>::state(mr)? }, addr)?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn alloc_mw(
        mw: *mut ib_mw,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let is_type_2 = (*mw).type_ == bindings::ib_mw_type_IB_MW_TYPE_2;
                let device = device_state::<D>((*mw).device)?;
                let pd = Object::<ib_pd, D::Pd>::state((*mw).pd)?;
                let (state, key) = device.alloc_mw(pd, is_type_2)?;
                (*mw).rkey = key;
                Object::<ib_mw, D::Mw>::install(mw, state);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut ib_mw) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_mw, D::Mw>::take(mw) } {
            D::dealloc_mw(&state);
        }
        0
    }
}

/// Allocates the core's structure for a region that `make` makes. The core frees nothing of it:
/// `dereg_mr` does.
fn wrap_mr<D: Driver>(make: impl FnOnce() -> Result<NewMr<D::Region>>) -> Result<*mut ib_mr> {
    let mut object = KBox::<Object<ib_mr, D::Region>>::new_uninit(GFP_KERNEL_ACCOUNT | __GFP_ZERO)?;
    let mr = object.as_mut_ptr().cast::<ib_mr>();
    let made = make()?;
    // SAFETY: Zeroed memory is a valid `Object` without a state, and it is ours alone.
    unsafe {
        Object::<ib_mr, D::Region>::install(mr, made.region);
        (*mr).lkey = made.key;
        (*mr).rkey = made.key;
        (*mr).iova = made.iova;
        (*mr).length = made.length;
        Ok(KBox::into_raw(object.assume_init()).cast())
    }
}
