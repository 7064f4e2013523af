// SPDX-License-Identifier: GPL-2.0

//! Operations on completion queues.

use super::{
    super::{
        driver::Driver,
        object::Object, //
    },
    device_state,
    handle,
    user,
    Ops, //
};
use crate::bindings::{
    self,
    ib_cq, //
};
use kernel::{
    error::from_result,
    prelude::*, //
};
impl<D: Driver> Ops<D> {
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn create_cq(
        cq: *mut ib_cq,
        attr: *const bindings::ib_cq_init_attr,
        attrs: *mut bindings::uverbs_attr_bundle,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The driver's data is the first member of the
            // bundle, so a null bundle gives a null pointer to it.
            unsafe {
                if (*attr).flags != 0 {
                    return Err(EOPNOTSUPP);
                }
                let user = user(attrs.cast(), (*cq).uobject.cast());
                let mut entries = (*attr).cqe;
                let device = device_state::<D>((*cq).device)?;
                let state = device.create_cq(handle(cq)?, &mut entries, user)?;
                (*cq).cqe = entries as c_int;
                Object::<ib_cq, D::Cq>::install(cq, state);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn resize_user_cq(
        cq: *mut ib_cq,
        entries: c_uint,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let user = user(udata, (*cq).uobject.cast());
                let mut entries = entries;
                D::resize_cq(Object::<ib_cq, D::Cq>::state(cq)?, &mut entries, user)?;
                (*cq).cqe = entries as c_int;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn req_notify_cq(
        cq: *mut ib_cq,
        flags: bindings::ib_cq_notify_flags,
    ) -> c_int {
        from_result(|| {
            let solicited = flags & bindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK
                == bindings::ib_cq_notify_flags_IB_CQ_SOLICITED;
            let missed = flags & bindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
            // SAFETY: See the module's documentation.
            let state = unsafe { Object::<ib_cq, D::Cq>::state(cq)? };
            Ok(c_int::from(D::request_notify(state, solicited, missed)))
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn destroy_cq(
        cq: *mut ib_cq,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_cq, D::Cq>::take(cq) } {
            D::destroy_cq(&state);
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn poll_cq(
        cq: *mut ib_cq,
        entries: c_int,
        out: *mut bindings::ib_wc,
    ) -> c_int {
        from_result(|| {
            let entries = usize::try_from(entries).map_err(|_| EINVAL)?;
            // SAFETY: See the module's documentation. The caller has room for as many entries,
            // which are plain data and may be read as such whatever they hold.
            unsafe {
                let out = core::slice::from_raw_parts_mut(out, entries);
                Ok(D::poll_cq(Object::<ib_cq, D::Cq>::state(cq)?, out) as c_int)
            }
        })
    }
}
