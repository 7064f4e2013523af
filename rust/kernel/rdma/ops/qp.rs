// SPDX-License-Identifier: GPL-2.0

//! Operations on queue pairs.

use super::{
    super::{
        driver::{
            Driver,
            QpInit, //
        },
        object::Object,
        wr::{
            RecvWr,
            SendWr, //
        }, //
    },
    device_state,
    handle,
    user,
    Ops, //
};
use crate::bindings::{
    self,
    ib_cq,
    ib_pd,
    ib_qp,
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
    pub(super) unsafe extern "C" fn create_qp(
        qp: *mut ib_qp,
        init: *mut bindings::ib_qp_init_attr,
        udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let raw = &mut *init;
                if raw.send_cq.is_null() || raw.recv_cq.is_null() || (*qp).pd.is_null() {
                    return Err(EOPNOTSUPP);
                }
                let init = QpInit::<D> {
                    kind: raw.qp_type,
                    send_cq: Object::<ib_cq, D::Cq>::state(raw.send_cq)?,
                    recv_cq: Object::<ib_cq, D::Cq>::state(raw.recv_cq)?,
                    srq: match raw.srq.is_null() {
                        true => None,
                        false => Some(Object::<ib_srq, D::Srq>::state(raw.srq)?),
                    },
                    signal_all: raw.sq_sig_type == bindings::ib_sig_type_IB_SIGNAL_ALL_WR,
                    create_flags: raw.create_flags,
                };
                let user = user(udata, (*qp).uobject.cast());
                let pd = Object::<ib_pd, D::Pd>::state((*qp).pd)?;
                let device = device_state::<D>((*qp).device)?;
                let (state, number) =
                    device.create_qp(handle(qp)?, pd, &init, &mut raw.cap, user)?;
                (*qp).qp_num = number;
                Object::<ib_qp, D::Qp>::install(qp, state);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn modify_qp(
        qp: *mut ib_qp,
        attr: *mut bindings::ib_qp_attr,
        mask: c_int,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe { D::modify_qp(Object::<ib_qp, D::Qp>::state(qp)?, &*attr, mask as u32)? };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn query_qp(
        qp: *mut ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: c_int,
        init: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let state = Object::<ib_qp, D::Qp>::state(qp)?;
                // All of it goes to whoever asks.
                core::ptr::write_bytes(attr, 0, 1);
                core::ptr::write_bytes(init, 0, 1);
                D::query_qp(state, &mut *attr)?;
                let init = &mut *init;
                init.event_handler = (*qp).event_handler;
                init.qp_context = (*qp).qp_context;
                init.send_cq = (*qp).send_cq;
                init.recv_cq = (*qp).recv_cq;
                init.srq = (*qp).srq;
                init.cap = core::ptr::read(&raw const (*attr).cap);
                init.qp_type = (*qp).qp_type;
                init.sq_sig_type = if D::qp_signals_all(state) {
                    bindings::ib_sig_type_IB_SIGNAL_ALL_WR
                } else {
                    bindings::ib_sig_type_IB_SIGNAL_REQ_WR
                };
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn destroy_qp(
        qp: *mut ib_qp,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_qp, D::Qp>::take(qp) } {
            D::destroy_qp(&state);
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn post_send(
        qp: *mut ib_qp,
        wr: *const bindings::ib_send_wr,
        bad_wr: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The poster's list lives during the call, and
            // so does the place for the first request that is not posted.
            let (state, posted) = unsafe {
                let state = Object::<ib_qp, D::Qp>::state(qp)?;
                let mut next = wr;
                let mut posted = Ok(());
                while let Some(current) = next.as_ref() {
                    posted = D::post_send(state, &SendWr::new(current));
                    if posted.is_err() {
                        *bad_wr = current;
                        break;
                    }
                    next = current.next;
                }
                (state, posted)
            };
            // What was posted before the bad one is executed.
            let rung = D::ring_doorbell(state);
            posted?;
            rung?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn post_recv(
        qp: *mut ib_qp,
        wr: *const ib_recv_wr,
        bad_wr: *mut *const ib_recv_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. The poster's list lives during the call, and
            // so does the place for the first request that is not posted.
            unsafe {
                let state = Object::<ib_qp, D::Qp>::state(qp)?;
                let mut next = wr;
                while let Some(current) = next.as_ref() {
                    D::post_recv(state, &RecvWr::new(current))
                        .inspect_err(|_| *bad_wr = current)?;
                    next = current.next;
                }
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn attach_mcast(
        qp: *mut ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. All members of the union are 16 bytes.
            unsafe {
                D::attach_mcast(Object::<ib_qp, D::Qp>::state(qp)?, (*gid).raw.as_ref())?;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn detach_mcast(
        qp: *mut ib_qp,
        gid: *mut bindings::ib_gid,
        _lid: u16,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. All members of the union are 16 bytes.
            unsafe {
                D::detach_mcast(Object::<ib_qp, D::Qp>::state(qp)?, (*gid).raw.as_ref())?;
            }
            Ok(0)
        })
    }
}
