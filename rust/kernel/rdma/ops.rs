// SPDX-License-Identifier: GPL-2.0

//! The table of operations that the core calls, made from a [`Driver`].
//!
//! Every function here has the same shape: turn the core's pointers into the driver's states, call
//! the driver, and turn its result into what the core expects. The core guarantees for all of them
//! that the objects it passes are alive during the call, that objects which the driver created are
//! passed only between their creation and their destruction, and that nothing else uses an object
//! that is being created or destroyed.

use super::{
    context::{
        self,
        UserContext, //
    },
    driver::{
        DeviceRef,
        Driver,
        NewMr,
        QpInit, //
    },
    object::{
        Handle,
        Object, //
    },
    registration,
    udata::Udata, //
};
use crate::bindings::{
    self,
    ib_cq,
    ib_device,
    ib_mr,
    ib_pd,
    ib_qp, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::Arc,
    ModuleMetadata, //
};

/// `IB_DEFAULT_PKEY_FULL`: full membership of the default partition.
const DEFAULT_PKEY: u16 = 0xffff;
/// `IB_MGMT_MAD_SIZE`: bytes of a management datagram.
const MAD_SIZE: u32 = 256;

/// The functions, as a type with one parameter so that each driver gets its own.
pub(super) struct Ops<D: Driver>(core::marker::PhantomData<D>);

/// # Safety
///
/// `device` is alive for `'a` and belongs to driver `D`.
pub(super) unsafe fn device_state<'a, D: Driver>(device: *mut ib_device) -> Result<&'a Arc<D>> {
    // SAFETY: `registration` allocates devices as `Object<ib_device, D>` and takes the state only
    // when the core frees the device.
    unsafe { Object::<ib_device, D>::state(device) }
}

/// The caller's context and private data, or `None` for a caller in the kernel.
///
/// # Safety
///
/// `udata` is null or valid, and `uobject` belongs to the running call if it is not.
unsafe fn user<'a>(
    udata: *mut bindings::ib_udata,
    uobject: *mut bindings::ib_uobject,
) -> Option<(UserContext, Udata<'a>)> {
    // SAFETY: By the requirements of this function.
    unsafe { Some((UserContext::of_uobject(uobject)?, Udata::from_raw(udata)?)) }
}

/// # Safety
///
/// `object` is alive until the driver's destroy callback for it has returned; every driver closes
/// its handles there.
unsafe fn handle<C>(object: *mut C) -> Result<impl PinInit<Handle<C>>> {
    // SAFETY: By the requirements of this function.
    Ok(unsafe { Handle::new(NonNull::new(object).ok_or(EINVAL)?) })
}

impl<D: Driver> Ops<D> {
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn query_device(
        device: *mut ib_device,
        attr: *mut bindings::ib_device_attr,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe { device_state::<D>(device)?.query_device(&mut *attr) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn query_port(
        device: *mut ib_device,
        port: u32,
        attr: *mut bindings::ib_port_attr,
    ) -> c_int {
        from_result(|| {
            if port != 1 {
                return Err(EINVAL);
            }
            // SAFETY: See the module's documentation.
            unsafe { device_state::<D>(device)?.query_port(&mut *attr)? };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn get_port_immutable(
        device: *mut ib_device,
        port: u32,
        immutable: *mut bindings::ib_port_immutable,
    ) -> c_int {
        from_result(|| {
            let mut attr = bindings::ib_port_attr::default();
            // SAFETY: See the module's documentation.
            unsafe {
                kernel::error::to_result(bindings::ib_query_port(device, port, &mut attr))?;
                (*immutable).core_cap_flags = bindings::mrx_core_cap_roce_v2();
                (*immutable).pkey_tbl_len = i32::from(attr.pkey_tbl_len);
                (*immutable).gid_tbl_len = attr.gid_tbl_len;
                (*immutable).max_mad_size = MAD_SIZE;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn get_link_layer(
        _device: *mut ib_device,
        _port: u32,
    ) -> bindings::rdma_link_layer {
        bindings::rdma_link_layer_IB_LINK_LAYER_ETHERNET
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn query_pkey(
        _device: *mut ib_device,
        _port: u32,
        index: u16,
        pkey: *mut u16,
    ) -> c_int {
        from_result(|| {
            if index != 0 {
                return Err(EINVAL);
            }
            // SAFETY: See the module's documentation.
            unsafe { *pkey = DEFAULT_PKEY };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn gid_changed(
        attr: *const bindings::ib_gid_attr,
        _context: *mut *mut c_void,
    ) -> c_int {
        // SAFETY: See the module's documentation. The table of addresses is set up while the
        // device is being registered, when it has its state already.
        if let Ok(state) = unsafe { device_state::<D>((*attr).device) } {
            state.addresses_changed();
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn alloc_ucontext(
        _context: *mut bindings::ib_ucontext,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn dealloc_ucontext(_context: *mut bindings::ib_ucontext) {}

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn disassociate_ucontext(_context: *mut bindings::ib_ucontext) {}

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn alloc_pd(pd: *mut ib_pd, _udata: *mut bindings::ib_udata) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let state = device_state::<D>((*pd).device)?.alloc_pd()?;
                Object::<ib_pd, D::Pd>::install(pd, state);
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn dealloc_pd(pd: *mut ib_pd, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_pd, D::Pd>::take(pd) } {
            D::dealloc_pd(&state);
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn create_cq(
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
    unsafe extern "C" fn resize_user_cq(
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
    unsafe extern "C" fn req_notify_cq(
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
    unsafe extern "C" fn destroy_cq(cq: *mut ib_cq, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_cq, D::Cq>::take(cq) } {
            D::destroy_cq(&state);
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn create_qp(
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
                    has_srq: !raw.srq.is_null(),
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
    unsafe extern "C" fn modify_qp(
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
    unsafe extern "C" fn query_qp(
        qp: *mut ib_qp,
        attr: *mut bindings::ib_qp_attr,
        _mask: c_int,
        init: *mut bindings::ib_qp_init_attr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            unsafe {
                let state = Object::<ib_qp, D::Qp>::state(qp)?;
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
    unsafe extern "C" fn destroy_qp(qp: *mut ib_qp, _udata: *mut bindings::ib_udata) -> c_int {
        // SAFETY: See the module's documentation.
        if let Some(state) = unsafe { Object::<ib_qp, D::Qp>::take(qp) } {
            D::destroy_qp(&state);
        }
        0
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn post_send(
        qp: *mut ib_qp,
        wr: *const bindings::ib_send_wr,
        bad_wr: *mut *const bindings::ib_send_wr,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation.
            let state = unsafe { Object::<ib_qp, D::Qp>::state(qp)? };
            if !wr.is_null() {
                // Queue pairs whose rings a process fills take no work requests from elsewhere.
                // SAFETY: The core passes a valid place for the first request not posted.
                unsafe { *bad_wr = wr };
                return Err(EOPNOTSUPP);
            }
            D::ring_doorbell(state)?;
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn reg_user_mr(
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
            let caller = DeviceRef::from_raw((*pd).device)?;
            let pd = Object::<ib_pd, D::Pd>::state(pd)?;
            wrap_mr::<D>(|| device.reg_user_mr(caller, pd, start, length, iova, access as u32))
        };
        made().unwrap_or_else(|e: Error| e.to_ptr())
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn reg_user_mr_dmabuf(
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
    unsafe extern "C" fn alloc_mr(
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

    /// Also what a driver's devices are known by.
    ///
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn dereg_mr(
        mr: *mut ib_mr,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            // SAFETY: See the module's documentation. `wrap_mr` allocated the object.
            unsafe {
                D::dereg_mr(Object::<ib_mr, D::Region>::state(mr)?)?;
                drop(KBox::from_raw(mr.cast::<Object<ib_mr, D::Region>>()));
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn advise_mr(
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
                D::advise_mr(Object::<ib_pd, D::Pd>::state(pd)?, advice, flags, list)?;
            }
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn fill_stat_mr_entry(msg: *mut bindings::sk_buff, mr: *mut ib_mr) -> c_int {
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

    /// Adds the table to a device.
    ///
    /// # Safety
    ///
    /// `device` was allocated as `Object<ib_device, D>` and is not registered yet.
    pub(super) unsafe fn set(device: *mut ib_device) {
        let ops = bindings::ib_device_ops {
            owner: <crate::LocalModule as ModuleMetadata>::THIS_MODULE.as_ptr(),
            driver_id: bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN,
            uverbs_abi_ver: D::UVERBS_ABI,
            enable_driver: Some(registration::enable_driver::<D>),
            dealloc_driver: Some(registration::dealloc_driver::<D>),
            query_device: Some(Self::query_device),
            query_port: Some(Self::query_port),
            get_port_immutable: Some(Self::get_port_immutable),
            get_link_layer: Some(Self::get_link_layer),
            query_pkey: Some(Self::query_pkey),
            alloc_ucontext: Some(Self::alloc_ucontext),
            dealloc_ucontext: Some(Self::dealloc_ucontext),
            disassociate_ucontext: Some(Self::disassociate_ucontext),
            mmap: Some(context::mmap),
            mmap_free: Some(context::mmap_free),
            alloc_pd: Some(Self::alloc_pd),
            dealloc_pd: Some(Self::dealloc_pd),
            create_cq: Some(Self::create_cq),
            resize_user_cq: Some(Self::resize_user_cq),
            req_notify_cq: Some(Self::req_notify_cq),
            destroy_cq: Some(Self::destroy_cq),
            create_qp: Some(Self::create_qp),
            add_gid: Some(Self::gid_changed),
            del_gid: Some(Self::gid_changed),
            modify_qp: Some(Self::modify_qp),
            query_qp: Some(Self::query_qp),
            destroy_qp: Some(Self::destroy_qp),
            post_send: Some(Self::post_send),
            reg_user_mr: Some(Self::reg_user_mr),
            reg_user_mr_dmabuf: Some(Self::reg_user_mr_dmabuf),
            alloc_mr: Some(Self::alloc_mr),
            dereg_mr: Some(Self::dereg_mr),
            advise_mr: Some(Self::advise_mr),
            fill_stat_mr_entry: Some(Self::fill_stat_mr_entry),
            size_ib_pd: size_of::<Object<ib_pd, D::Pd>>(),
            size_ib_cq: size_of::<Object<ib_cq, D::Cq>>(),
            size_ib_qp: size_of::<Object<ib_qp, D::Qp>>(),
            size_ib_ucontext: size_of::<bindings::ib_ucontext>(),
            ..Default::default()
        };
        // SAFETY: The device is valid and not registered; the core copies the table.
        unsafe { bindings::ib_set_device_ops(device, &ops) };
    }
}

/// Allocates the core's structure for a region that `make` makes. The core frees nothing of it:
/// `dereg_mr` does.
fn wrap_mr<D: Driver>(make: impl FnOnce() -> Result<NewMr<D::Region>>) -> Result<*mut ib_mr> {
    let mut object = KBox::<Object<ib_mr, D::Region>>::new_uninit(GFP_KERNEL | __GFP_ZERO)?;
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
