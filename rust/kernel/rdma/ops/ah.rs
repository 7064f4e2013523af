// SPDX-License-Identifier: GPL-2.0

//! Operations on address handles.

use super::{
    super::{
        addressing::Path,
        driver::Driver,
        object::Object,
        udata::Udata, //
    },
    device_state,
    Ops, //
};
use crate::bindings::{
    self,
    ib_ah,
    ib_pd, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<D: Driver> Ops<D> {
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn create_ah(
        ah: *mut ib_ah,
        init: *mut bindings::rdma_ah_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let path = Path::from_attr(&*(*init).ah_attr).ok_or(EINVAL)?;
                let flags =
                    match (*init).flags & bindings::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE {
                        0 => GFP_ATOMIC,
                        _ => GFP_KERNEL_ACCOUNT,
                    };
                let device = device_state::<D>((*ah).device)?;
                let pd = Object::<ib_pd, D::Pd>::state((*ah).pd)?;
                let state = device.create_ah(pd, &path, flags, Udata::from_raw(udata))?;
                Object::<ib_ah, D::Ah>::install(ah, state);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn modify_ah(
        ah: *mut ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let path = Path::from_attr(&*attr).ok_or(EINVAL)?;
                D::modify_ah(Object::<ib_ah, D::Ah>::state(ah)?, &path);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn query_ah(
        ah: *mut ib_ah,
        attr: *mut bindings::rdma_ah_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe { D::query_ah(Object::<ib_ah, D::Ah>::state(ah)?).describe(&mut *attr) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn destroy_ah(ah: *mut ib_ah, _flags: u32) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_ah, D::Ah>::take(ah) } {
            D::destroy_ah(&state);
        }
        0
    }
}
