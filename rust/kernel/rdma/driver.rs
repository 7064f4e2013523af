// SPDX-License-Identifier: GPL-2.0

//! What a software RDMA driver implements.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    context::UserContext,
    object::Handle,
    udata::Udata,
    umem::Umem, //
};
use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// Plain data of the core that drivers fill in or read.
pub use crate::bindings::{
    ib_device_attr as DeviceAttr,
    ib_port_attr as PortAttr,
    ib_qp_attr as QpAttr,
    ib_qp_cap as QpCap,
    ib_sge as Sge, //
};

/// A registered device, for the duration of a verbs call.
#[derive(Clone, Copy)]
pub struct DeviceRef<'a> {
    device: NonNull<bindings::ib_device>,
    _call: PhantomData<&'a ()>,
}

impl DeviceRef<'_> {
    /// # Safety
    ///
    /// `device` stays registered for the lifetime of the result.
    pub(super) unsafe fn from_raw(device: *mut bindings::ib_device) -> Result<Self> {
        Ok(Self {
            device: NonNull::new(device).ok_or(EINVAL)?,
            _call: PhantomData,
        })
    }

    /// Pins memory of the current process; see [`Umem`]. It must be released by the call that
    /// destroys the object it is pinned for.
    pub fn pin_user_memory(&self, addr: usize, len: usize, access: u32) -> Result<Umem> {
        // SAFETY: The device is registered during the call; `registration` gives devices no DMA
        // device; the core destroys all objects of a device before the device goes away.
        unsafe { Umem::pin(self.device.as_ptr(), addr, len, access) }
    }

    /// Checks a set of `IB_ACCESS_*` against what the device offers.
    pub fn check_access(&self, access: u32) -> Result {
        // SAFETY: The device is registered during the call.
        let ret = unsafe { bindings::mrx_check_mr_access(self.device.as_ptr(), access) };
        kernel::error::to_result(ret)
    }
}

/// How to make a queue pair.
pub struct QpInit<'a, D: Driver> {
    /// `IB_QPT_*`.
    pub kind: bindings::ib_qp_type,
    /// Where completions of the send queue go.
    pub send_cq: &'a Arc<D::Cq>,
    /// Where completions of the receive queue go.
    pub recv_cq: &'a Arc<D::Cq>,
    /// Whether a shared receive queue was asked for.
    pub has_srq: bool,
    /// Whether every send work request completes, signalled or not.
    pub signal_all: bool,
    /// `IB_QP_CREATE_*`.
    pub create_flags: u32,
}

/// A region that a driver made, and what the core is to know of it.
pub struct NewMr<R> {
    /// The driver's state.
    pub region: Arc<R>,
    /// The key for both local and remote use.
    pub key: u32,
    /// Address of the first byte.
    pub iova: u64,
    /// Bytes.
    pub length: u64,
}

/// The way back to a completion queue.
pub type CqHandle = Handle<bindings::ib_cq>;
/// The way back to a queue pair.
pub type QpHandle = Handle<bindings::ib_qp>;
/// The way back to a device.
pub type DeviceHandle = Handle<bindings::ib_device>;

/// A software driver. `Self` is the state of one device.
///
/// Callbacks run in process context and may sleep unless they say otherwise.
pub trait Driver: Send + Sync + Sized + 'static {
    /// State of a protection domain.
    type Pd: Send + Sync;
    /// State of a completion queue.
    type Cq: Send + Sync;
    /// State of a queue pair.
    type Qp: Send + Sync;
    /// State of a memory region.
    type Region: Send + Sync;

    /// Version of the ABI between the device and its provider library.
    const UVERBS_ABI: u32;

    /// The methods that the driver adds to the uverbs tree: null, or a list that an entry of kind
    /// `UAPI_DEF_END` closes.
    const UVERBS: &'static super::uverbs::Definitions;

    /// The device is about to be registered or is already.
    fn handle(&self) -> &DeviceHandle;
    /// The interface that the device sits on.
    fn netdev(&self) -> &super::netdev::NetDevice;
    /// The device is visible from now on.
    fn attached(self: &Arc<Self>);
    /// The device is invisible from now on; it may be attached again.
    fn detached(self: &Arc<Self>);

    /// An address of the device is being added or removed.
    fn addresses_changed(&self);

    /// Fills the device's attributes.
    fn query_device(&self, attr: &mut DeviceAttr);
    /// Fills the attributes of the only port.
    fn query_port(&self, attr: &mut PortAttr) -> Result;

    /// Makes a protection domain.
    fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Self::Pd>>;
    /// Ends a protection domain.
    fn dealloc_pd(pd: &Arc<Self::Pd>);

    /// Makes a completion queue of at least `*entries` entries and says how many it has.
    fn create_cq(
        self: &Arc<Self>,
        handle: impl PinInit<CqHandle>,
        entries: &mut u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<Arc<Self::Cq>>;
    /// Changes the size of a completion queue. `EINVAL` if its contents do not fit.
    fn resize_cq(
        cq: &Arc<Self::Cq>,
        entries: &mut u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result;
    /// Asks for an event at the next completion. Returns whether completions are already waiting.
    /// May be called in atomic context.
    fn request_notify(cq: &Arc<Self::Cq>, solicited_only: bool, report_missed: bool) -> bool;
    /// Ends a completion queue.
    fn destroy_cq(cq: &Arc<Self::Cq>);

    /// Makes a queue pair and updates `cap` to what it really has. Returns it with its number.
    fn create_qp(
        self: &Arc<Self>,
        handle: impl PinInit<QpHandle>,
        pd: &Arc<Self::Pd>,
        init: &QpInit<'_, Self>,
        cap: &mut QpCap,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<(Arc<Self::Qp>, u32)>;
    /// Changes the attributes in `mask` (`IB_QP_*`).
    fn modify_qp(qp: &Arc<Self::Qp>, attr: &QpAttr, mask: u32) -> Result;
    /// Reads the attributes.
    fn query_qp(qp: &Arc<Self::Qp>, attr: &mut QpAttr) -> Result;
    /// Whether the queue pair signals all, for queries.
    fn qp_signals_all(qp: &Arc<Self::Qp>) -> bool;
    /// Ends a queue pair.
    fn destroy_qp(qp: &Arc<Self::Qp>);
    /// The process has put work requests into its send ring.
    fn ring_doorbell(qp: &Arc<Self::Qp>) -> Result;

    /// Registers memory of the current process.
    fn reg_user_mr(
        self: &Arc<Self>,
        device: DeviceRef<'_>,
        pd: &Arc<Self::Pd>,
        start: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<NewMr<Self::Region>>;
    /// Registers a part of the buffer (dma-buf) that the current process knows as `fd`.
    fn reg_buffer(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        fd: i32,
        offset: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<NewMr<Self::Region>>;
    /// Makes a region without memory that layouts of up to `max_descriptors` may be set on.
    fn alloc_mr(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        max_descriptors: u32,
    ) -> Result<NewMr<Self::Region>>;
    /// Ends a region. `EBUSY` if something still uses it; nothing has changed then.
    fn dereg_mr(region: &Arc<Self::Region>) -> Result;
    /// Takes an advice (`IB_UVERBS_ADVISE_MR_ADVICE_*`) about ranges of regions.
    fn advise_mr(pd: &Arc<Self::Pd>, advice: u32, flags: u32, list: &[Sge]) -> Result;
    /// Calls `f` with name and value of each of a region's counters, until it fails.
    fn count_mr(region: &Arc<Self::Region>, f: &mut dyn FnMut(&CStr, u64) -> Result) -> Result;
}

/// Whether a queue pair of type `kind` may go from `from` to `to` with the attributes of `mask`.
pub fn modify_is_ok(
    from: bindings::ib_qp_state,
    to: bindings::ib_qp_state,
    kind: bindings::ib_qp_type,
    mask: u32,
) -> bool {
    // SAFETY: A pure function that checks its arguments' ranges.
    unsafe { bindings::ib_modify_qp_is_ok(from, to, kind, mask) }
}

/// The address of the far end in `attr`, if it is given by GID.
pub fn destination_gid(attr: &QpAttr) -> Option<[u8; 16]> {
    if u32::from(attr.ah_attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH == 0 {
        return None;
    }
    // SAFETY: All members of the union are 16 bytes without padding.
    Some(unsafe { *attr.ah_attr.grh.dgid.raw.as_ref() })
}

/// Tells the path to the far end in `attr`.
pub fn describe_path(
    attr: &mut QpAttr,
    gid: &[u8; 16],
    flow_label: u32,
    sgid_index: u8,
    hop_limit: u8,
    traffic_class: u8,
    sl: u8,
) {
    let ah = &mut attr.ah_attr;
    // SAFETY: All members of the union are 16 bytes without padding.
    unsafe { *ah.grh.dgid.raw.as_mut() = *gid };
    ah.grh.flow_label = flow_label;
    ah.grh.sgid_index = sgid_index;
    ah.grh.hop_limit = hop_limit;
    ah.grh.traffic_class = traffic_class;
    ah.sl = sl;
    ah.port_num = 1;
    ah.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
    ah.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
}

impl DeviceHandle {
    /// Whether one of the device's own addresses is `gid`.
    pub fn owns_gid(&self, gid: &[u8; 16]) -> bool {
        let mut raw = bindings::ib_gid::default();
        // SAFETY: All members of the union are 16 bytes without padding.
        unsafe { *raw.raw.as_mut() = *gid };
        // SAFETY: `with` keeps the device alive; the helper only looks in its GID cache.
        self.with(|device| unsafe { bindings::mrx_device_has_gid(device, &raw) })
            .unwrap_or(false)
    }
}

impl CqHandle {
    /// Tells the owner that there are completions.
    pub fn completed(&self) {
        self.with(|cq| {
            // SAFETY: `with` keeps the queue alive, and the core set the handler before the queue
            // could get a completion. It may be called in any context.
            unsafe {
                if let Some(handler) = (*cq).comp_handler {
                    handler(cq, (*cq).cq_context);
                }
            }
        });
    }

    /// Tells the owner that a completion was lost.
    pub fn overflowed(&self) {
        self.with(|cq| {
            // SAFETY: As in `completed`.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*cq).device,
                    event: bindings::ib_event_type_IB_EVENT_CQ_ERR,
                    ..Default::default()
                };
                *event.element.cq.as_mut() = cq;
                if let Some(handler) = (*cq).event_handler {
                    handler(&mut event, (*cq).cq_context);
                }
            }
        });
    }
}

/// What can befall a queue pair.
#[derive(Clone, Copy)]
pub enum QpEvent {
    /// The responder found a request that it must not execute.
    AccessError,
    /// The responder found a request that makes no sense.
    RequestError,
    /// The first request of the other side came, before this side was ready to send.
    Established,
}

impl QpHandle {
    /// Reports an asynchronous event.
    pub fn raise(&self, event: QpEvent) {
        let event = match event {
            QpEvent::AccessError => bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            QpEvent::RequestError => bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            QpEvent::Established => bindings::ib_event_type_IB_EVENT_COMM_EST,
        };
        self.with(|qp| {
            // SAFETY: `with` keeps the queue pair alive; the core set the handler when it was made.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*qp).device,
                    event,
                    ..Default::default()
                };
                *event.element.qp.as_mut() = qp;
                if let Some(handler) = (*qp).event_handler {
                    handler(&mut event, (*qp).qp_context);
                }
            }
        });
    }
}
