// SPDX-License-Identifier: GPL-2.0

//! What a software RDMA driver implements.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    addressing::Path,
    context::UserContext,
    object::Handle,
    peer,
    udata::Udata,
    umem::Umem,
    wr::{
        RecvWr,
        SendWr, //
    }, //
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
    ib_sge as Sge,
    ib_srq_attr as SrqAttr,
    ib_wc as Wc, //
};

/// A registered device, for the duration of a verbs call.
#[derive(Clone, Copy)]
pub struct DeviceRef<'a> {
    device: NonNull<bindings::ib_device>,
    context: Option<peer::private::ContextId>,
    _call: PhantomData<&'a ()>,
}

impl DeviceRef<'_> {
    /// # Safety
    ///
    /// `device` stays registered for the lifetime of the result.
    pub(super) unsafe fn from_raw(device: *mut bindings::ib_device) -> Result<Self> {
        Ok(Self {
            device: NonNull::new(device).ok_or(EINVAL)?,
            context: None,
            _call: PhantomData,
        })
    }

    /// The same, on behalf of the process that made `uobject`, if one did.
    ///
    /// # Safety
    ///
    /// `uobject` is null or belongs to the verbs call that is running.
    pub(super) unsafe fn for_process_of(mut self, uobject: *mut bindings::ib_uobject) -> Self {
        if !uobject.is_null() {
            // SAFETY: By the requirements of this function.
            self.context = peer::private::ContextId::of(unsafe { (*uobject).context });
        }
        self
    }

    /// Pins memory of the current process; see [`Umem`]. It must be released by the call that
    /// destroys the object it is pinned for.
    pub fn pin_user_memory(&self, addr: usize, len: usize, access: u32) -> Result<Umem> {
        // SAFETY: The device is registered during the call; `registration` gives devices no DMA
        // device; the core destroys all objects of a device before the device goes away.
        unsafe { Umem::pin(self.device.as_ptr(), addr, len, access) }
    }

    /// Has the owner of memory that cannot be pinned, if there is one, map it; see
    /// [`Mapping::new`](peer::Mapping::new).
    pub fn map_peer_memory(
        &self,
        addr: usize,
        len: usize,
        writable: bool,
    ) -> Result<Option<(peer::Mapping, peer::Pages)>> {
        // SAFETY: The device is registered during the call.
        let device = unsafe {
            let dev = (*self.device.as_ptr()).__bindgen_anon_1.dev.as_mut();
            kernel::device::Device::get_device(dev)
        };
        peer::Mapping::new(peer::Request {
            addr,
            len,
            writable,
            device,
            context: self.context,
        })
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
    /// The shared receive queue, if it is to take its receives from one.
    pub srq: Option<&'a Arc<D::Srq>>,
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

/// What is told of a resource.
#[derive(Clone, Copy)]
pub enum Property {
    /// A word.
    Text(&'static CStr),
    /// A number.
    Number(u32),
}

/// The way back to a completion queue.
pub type CqHandle = Handle<bindings::ib_cq>;
/// The way back to a queue pair.
pub type QpHandle = Handle<bindings::ib_qp>;
/// The way back to a shared receive queue.
pub type SrqHandle = Handle<bindings::ib_srq>;
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
    /// State of a shared receive queue.
    type Srq: Send + Sync;
    /// State of an address handle.
    type Ah: Send + Sync;
    /// State of a memory region.
    type Region: Send + Sync;
    /// State of a memory window.
    type Mw: Send + Sync;

    /// Version of the ABI between the device and its provider library.
    const UVERBS_ABI: u32;

    /// The methods that the driver adds to the uverbs tree: null, or a list that an entry of kind
    /// `UAPI_DEF_END` closes.
    const UVERBS: &'static super::uverbs::Definitions;

    /// The counters of the port.
    const COUNTERS: &'static [StatDesc];

    /// The device is about to be registered or is already.
    fn handle(&self) -> &DeviceHandle;
    /// The interface that the device sits on.
    fn netdev(&self) -> &super::netdev::NetDevice;
    /// The device is visible from now on.
    fn attached(&self);
    /// The device is invisible from now on; it may be attached again.
    fn detached(&self);
    /// The device has gone, or could not be registered. [`Driver::handle`] is closed afterwards.
    fn gone(self: &Arc<Self>);

    /// An address of the device is being added or removed.
    fn addresses_changed(&self);

    /// Fills the device's attributes.
    fn query_device(&self, attr: &mut DeviceAttr);
    /// Fills the attributes of the only port.
    fn query_port(&self, attr: &mut PortAttr) -> Result;

    /// Reads the counters, in the order of [`Driver::COUNTERS`].
    fn read_counters(&self, values: &mut [u64]);

    /// What went through the port so far.
    fn traffic(&self) -> Traffic;

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
    /// Takes completions off a queue of a user in the kernel; returns how many. May be called in
    /// atomic context.
    fn poll_cq(cq: &Arc<Self::Cq>, out: &mut [Wc]) -> usize;
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
    /// There are work requests in the send ring: a process has put them there, or
    /// [`Driver::post_send`], in which case this may be called in atomic context.
    fn ring_doorbell(qp: &Arc<Self::Qp>) -> Result;
    /// Puts a work request of a user in the kernel into the send ring. May be called in atomic
    /// context. `ENOMEM` if the ring is full, `EINVAL` if the request makes no sense.
    fn post_send(qp: &Arc<Self::Qp>, wr: &SendWr<'_>) -> Result;
    /// The same for a receive.
    fn post_recv(qp: &Arc<Self::Qp>, wr: &RecvWr<'_>) -> Result;
    /// Has a queue pair receive what is sent to the multicast group `gid`.
    fn attach_mcast(qp: &Arc<Self::Qp>, gid: &[u8; 16]) -> Result;
    /// Ends that.
    fn detach_mcast(qp: &Arc<Self::Qp>, gid: &[u8; 16]) -> Result;

    /// Makes a shared receive queue and updates `attr` to what it really has.
    fn create_srq(
        self: &Arc<Self>,
        handle: impl PinInit<SrqHandle>,
        attr: &mut SrqAttr,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<Arc<Self::Srq>>;
    /// Changes the attributes in `mask` (`IB_SRQ_*`).
    fn modify_srq(
        srq: &Arc<Self::Srq>,
        attr: &SrqAttr,
        mask: u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result;
    /// Reads the attributes.
    fn query_srq(srq: &Arc<Self::Srq>, attr: &mut SrqAttr);
    /// Ends a shared receive queue.
    fn destroy_srq(srq: &Arc<Self::Srq>);
    /// As [`Driver::post_recv`].
    fn post_srq_recv(srq: &Arc<Self::Srq>, wr: &RecvWr<'_>) -> Result;

    /// Makes an address handle; for a process, it answers by what number the process names it.
    /// May be called in atomic context if there is no `udata`; `flags` is for allocations.
    fn create_ah(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        path: &Path,
        flags: kernel::alloc::Flags,
        udata: Option<Udata<'_>>,
    ) -> Result<Arc<Self::Ah>>;
    /// Changes where an address handle leads.
    fn modify_ah(ah: &Arc<Self::Ah>, path: &Path);
    /// Tells where an address handle leads.
    fn query_ah(ah: &Arc<Self::Ah>) -> Path;
    /// Ends an address handle. May be called in atomic context, as [`Driver::create_ah`].
    fn destroy_ah(ah: &Arc<Self::Ah>);

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
    /// Registers memory of the current process again, with another domain, memory or access;
    /// `None` where that stays as it is. The old region has ended when this succeeds.
    fn rereg_user_mr(
        self: &Arc<Self>,
        device: DeviceRef<'_>,
        region: &Arc<Self::Region>,
        changes: &Rereg<'_, Self>,
    ) -> Result<NewMr<Self::Region>>;
    /// Makes a region of all memory of the kernel, addressed as the kernel does.
    fn get_dma_mr(self: &Arc<Self>, pd: &Arc<Self::Pd>, access: u32)
        -> Result<NewMr<Self::Region>>;
    /// Begins a new list of pages for a region of a user in the kernel. Any context.
    fn start_mapping(region: &Arc<Self::Region>, page_size: u64) -> Result;
    /// Adds a page at a kernel address. Any context. `ENOMEM` if there are too many.
    fn map_page(region: &Arc<Self::Region>, addr: u64) -> Result;
    /// Makes a region without memory that layouts of up to `max_descriptors` may be set on.
    fn alloc_mr(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        max_descriptors: u32,
    ) -> Result<NewMr<Self::Region>>;
    /// Ends a region. `EBUSY` if something still uses it; nothing has changed then.
    fn dereg_mr(region: &Arc<Self::Region>) -> Result;
    /// Takes an advice (`IB_UVERBS_ADVISE_MR_ADVICE_*`) about ranges of regions.
    fn advise_mr(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        advice: u32,
        flags: u32,
        list: &[Sge],
    ) -> Result;
    /// Calls `f` with name and value of each of a region's counters, until it fails.
    fn count_mr(region: &Arc<Self::Region>, f: &mut dyn FnMut(&CStr, u64) -> Result) -> Result;

    /// Calls `f` with name and value of what a person may want to know of a region, until it fails.
    fn describe_mr(
        region: &Arc<Self::Region>,
        f: &mut dyn FnMut(&CStr, Property) -> Result,
    ) -> Result;

    /// Makes a memory window of type 2 or 1 and tells its key.
    fn alloc_mw(
        self: &Arc<Self>,
        pd: &Arc<Self::Pd>,
        is_type_2: bool,
    ) -> Result<(Arc<Self::Mw>, u32)>;
    /// Ends a memory window.
    fn dealloc_mw(mw: &Arc<Self::Mw>);
}

/// What went through a port.
#[derive(Clone, Copy, Default)]
pub struct Traffic {
    /// Bytes that its requests moved.
    pub sent_bytes: u64,
    /// Requests.
    pub sent_messages: u64,
    /// Bytes that came into its receives.
    pub received_bytes: u64,
    /// Receives.
    pub received_messages: u64,
}

/// What is to change of a registered region.
pub struct Rereg<'a, D: Driver> {
    /// Another domain.
    pub pd: Option<&'a Arc<D::Pd>>,
    /// Other memory: start, length, and address of the first byte.
    pub memory: Option<(u64, u64, u64)>,
    /// Other access rights (`IB_ACCESS_*`).
    pub access: Option<u32>,
}

/// The name of a counter.
#[repr(transparent)]
pub struct StatDesc(bindings::rdma_stat_desc);

// SAFETY: The descriptor is never written to.
unsafe impl Sync for StatDesc {}

impl StatDesc {
    /// A counter that is always on.
    pub const fn new(name: &'static kernel::str::CStr) -> Self {
        Self(bindings::rdma_stat_desc {
            name: kernel::str::as_char_ptr_in_const_context(name),
            flags: 0,
            priv_: core::ptr::null(),
        })
    }

    pub(super) fn as_ptr(list: &'static [Self]) -> *const bindings::rdma_stat_desc {
        list.as_ptr().cast()
    }
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
