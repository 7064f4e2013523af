// SPDX-License-Identifier: GPL-2.0

//! The table of operations that the core calls, made from a [`Driver`].
//!
//! Every function here has the same shape: turn the core's pointers into the driver's states, call
//! the driver, and turn its result into what the core expects. The core guarantees for all of them
//! that the objects it passes are alive during the call, that objects which the driver created are
//! passed only between their creation and their destruction, and that nothing else uses an object
//! that is being created or destroyed.

mod ah;
mod cq;
mod mad;
mod mr;
mod qp;
mod srq;

use super::{
    context::{
        self,
        UserContext, //
    },
    driver::{
        Driver,
        StatDesc, //
    },
    object::{
        Handle,
        Object, //
    },
    peer::private::{
        self,
        ContextId, //
    },
    registration,
    udata::Udata,
    work::OwnQueue, //
};
use crate::bindings::{
    self,
    ib_ah,
    ib_cq,
    ib_device,
    ib_mw,
    ib_pd,
    ib_qp,
    ib_srq, //
};
use core::ptr::NonNull;
use kernel::{
    error::from_result,
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
        context: *mut bindings::ib_ucontext,
        _udata: *mut bindings::ib_udata,
    ) -> c_int {
        from_result(|| {
            let queue = Arc::new(OwnQueue::of_context()?, GFP_KERNEL_ACCOUNT)?;
            // SAFETY: See the module's documentation.
            unsafe { Object::install(context, queue) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn dealloc_ucontext(context: *mut bindings::ib_ucontext) {
        if let Some(context) = ContextId::of(context) {
            private::forget(context);
        }
        // SAFETY: See the module's documentation. The queue pairs of the context are gone.
        drop(unsafe { Object::<bindings::ib_ucontext, OwnQueue>::take(context) });
    }

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
    unsafe extern "C" fn alloc_hw_port_stats(
        _device: *mut ib_device,
        _port: u32,
    ) -> *mut bindings::rdma_hw_stats {
        let lifespan = bindings::RDMA_HW_STATS_DEFAULT_LIFESPAN as usize;
        // SAFETY: The descriptors live for ever.
        unsafe {
            bindings::rdma_alloc_hw_stats_struct(
                StatDesc::as_ptr(D::COUNTERS),
                D::COUNTERS.len() as c_int,
                lifespan,
            )
        }
    }

    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    unsafe extern "C" fn get_hw_stats(
        device: *mut ib_device,
        stats: *mut bindings::rdma_hw_stats,
        port: u32,
        _index: c_int,
    ) -> c_int {
        from_result(|| {
            if port == 0 || stats.is_null() {
                return Err(EINVAL);
            }
            // SAFETY: See the module's documentation. The structure was made by
            // `alloc_hw_port_stats`, with a value for each counter.
            unsafe {
                let values = (*stats).value.as_mut_slice(D::COUNTERS.len());
                device_state::<D>(device)?.read_counters(values);
            }
            Ok(D::COUNTERS.len() as c_int)
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
            poll_cq: Some(Self::poll_cq),
            destroy_cq: Some(Self::destroy_cq),
            create_qp: Some(Self::create_qp),
            modify_qp: Some(Self::modify_qp),
            query_qp: Some(Self::query_qp),
            destroy_qp: Some(Self::destroy_qp),
            post_send: Some(Self::post_send),
            post_recv: Some(Self::post_recv),
            attach_mcast: Some(Self::attach_mcast),
            detach_mcast: Some(Self::detach_mcast),
            create_srq: Some(Self::create_srq),
            modify_srq: Some(Self::modify_srq),
            query_srq: Some(Self::query_srq),
            destroy_srq: Some(Self::destroy_srq),
            post_srq_recv: Some(Self::post_srq_recv),
            create_ah: Some(Self::create_ah),
            modify_ah: Some(Self::modify_ah),
            query_ah: Some(Self::query_ah),
            destroy_ah: Some(Self::destroy_ah),
            reg_user_mr: Some(Self::reg_user_mr),
            reg_user_mr_dmabuf: Some(Self::reg_user_mr_dmabuf),
            rereg_user_mr: Some(Self::rereg_user_mr),
            get_dma_mr: Some(Self::get_dma_mr),
            alloc_mr: Some(Self::alloc_mr),
            map_mr_sg: Some(Self::map_mr_sg),
            dereg_mr: Some(Self::dereg_mr),
            advise_mr: Some(Self::advise_mr),
            fill_res_mr_entry: Some(Self::fill_res_mr_entry),
            fill_stat_mr_entry: Some(Self::fill_stat_mr_entry),
            alloc_mw: Some(Self::alloc_mw),
            dealloc_mw: Some(Self::dealloc_mw),
            alloc_hw_port_stats: Some(Self::alloc_hw_port_stats),
            get_hw_stats: Some(Self::get_hw_stats),
            process_mad: Some(Self::process_mad),
            create_user_ah: Some(Self::create_ah),
            add_gid: Some(Self::gid_changed),
            del_gid: Some(Self::gid_changed),
            size_ib_pd: size_of::<Object<ib_pd, D::Pd>>(),
            size_ib_cq: size_of::<Object<ib_cq, D::Cq>>(),
            size_ib_qp: size_of::<Object<ib_qp, D::Qp>>(),
            size_ib_srq: size_of::<Object<ib_srq, D::Srq>>(),
            size_ib_ah: size_of::<Object<ib_ah, D::Ah>>(),
            size_ib_mw: size_of::<Object<ib_mw, D::Mw>>(),
            size_ib_ucontext: size_of::<Object<bindings::ib_ucontext, OwnQueue>>(),
            ..Default::default()
        };
        // SAFETY: The device is valid and not registered; the core copies the table.
        unsafe { bindings::ib_set_device_ops(device, &ops) };
    }
}
