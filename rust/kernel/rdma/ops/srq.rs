// SPDX-License-Identifier: GPL-2.0

//! Operations on shared receive queues.

use super::{
    super::{
        driver::Driver,
        object::Object,
        wr::RecvWr, //
    },
    device_state,
    handle,
    user,
    Ops, //
};
use crate::bindings::{
    self,
    ib_recv_wr,
    ib_srq, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};

impl<D: Driver> Ops<D> {
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn create_srq(
        srq: *mut ib_srq,
        init: *mut bindings::ib_srq_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                if (*init).srq_type != bindings::ib_srq_type_IB_SRQT_BASIC {
                    return Err(EOPNOTSUPP);
                }
                let user = user(udata, (*srq).uobject.cast());
                let device = device_state::<D>((*srq).device)?;
                let state = device.create_srq(handle(srq)?, &mut (*init).attr, user)?;
                Object::<ib_srq, D::Srq>::install(srq, state);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn modify_srq(
        srq: *mut ib_srq,
        attr: *mut bindings::ib_srq_attr,
        mask: bindings::ib_srq_attr_mask,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let user = user(udata, (*srq).uobject.cast());
                D::modify_srq(Object::<ib_srq, D::Srq>::state(srq)?, &*attr, mask, user)?;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn query_srq(
        srq: *mut ib_srq,
        attr: *mut bindings::ib_srq_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe { D::query_srq(Object::<ib_srq, D::Srq>::state(srq)?, &mut *attr) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn destroy_srq(
        srq: *mut ib_srq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_srq, D::Srq>::take(srq) } {
            D::destroy_srq(&state);
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn post_srq_recv(
        srq: *mut ib_srq,
        wr: *const ib_recv_wr,
        bad_wr: *mut *const ib_recv_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The poster's list lives during the call, and
            // so does the place for the first request that is not posted.
            unsafe {
                let state = Object::<ib_srq, D::Srq>::state(srq)?;
                let mut next = wr;
                while let Some(current) = next.as_ref() {
                    let wr = RecvWr::new(current);
                    D::post_srq_recv(state, &wr).inspect_err(|_| *bad_wr = current)?;
                    next = current.next;
                }
            }
            Ok(0)
        })
    }
}
