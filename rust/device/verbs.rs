// SPDX-License-Identifier: GPL-2.0

//! The device as a driver of the core.

use super::{
    ah::Ah,
    counters,
    cq::Cq,
    make_qp,
    multicast,
    port::{
        Port,
        MAX_CQE, //
    },
    qp::Qp,
    srq::Srq, //
};
use crate::rdma::{
    addressing::Path,
    context::UserContext,
    dmabuf::Imported,
    driver::{
        CqHandle,
        DeviceAttr,
        DeviceHandle,
        DeviceRef,
        Driver,
        NewMr,
        PortAttr,
        Property,
        QpAttr,
        QpCap,
        QpHandle,
        QpInit,
        Rereg,
        Sge,
        SrqAttr,
        SrqHandle,
        StatDesc,
        Traffic,
        Wc, //
    },
    mr::{
        access::Access,
        fast::{
            FastPages,
            MAX_PAGES, //
        },
        memory::Memory,
        memory_window::{
            MemoryWindow,
            WindowType, //
        },
        methods,
        region::{
            Domain,
            NewRegion,
            Region, //
        },
    },
    netdev::NetDevice,
    odp::{
        advise,
        paged::OnDemand, //
    },
    registration::Link,
    udata::Udata,
    uverbs::Definitions,
    wr::{
        RecvWr,
        SendWr, //
    },
};
use kernel::{
    alloc::Flags,
    c_str,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// `RXE_UVERBS_ABI_VERSION`: the ABI between the rings here and the stock provider library.
const RXE_ABI: u32 = 2;

impl Link for Port {
    const TYPE: &'static CStr = c_str!("mrx");
    const NODE_DESC: &'static CStr = c_str!("mrx");

    fn new(
        handle: impl PinInit<DeviceHandle>,
        netdev: NetDevice,
        name: &CStr,
    ) -> Result<Arc<Self>> {
        Port::new(handle, netdev, name)
    }

    fn for_each(f: impl FnMut(&Arc<Self>)) {
        Port::for_each(f);
    }
}

fn new_mr(region: Arc<Region>, iova: u64, length: u64) -> NewMr<Region> {
    NewMr {
        key: region.key().raw(),
        region,
        iova,
        length,
    }
}

impl Driver for Port {
    type Pd = Domain;
    type Cq = Cq;
    type Qp = Qp;
    type Srq = Srq;
    type Ah = Ah;
    type Region = Region;
    type Mw = MemoryWindow;

    const UVERBS_ABI: u32 = RXE_ABI;
    const UVERBS: &'static Definitions = &methods::DEFINITIONS;
    const COUNTERS: &'static [StatDesc] = &counters::NAMES;

    fn handle(&self) -> &DeviceHandle {
        Port::handle(self)
    }

    fn netdev(&self) -> &NetDevice {
        Port::netdev(self)
    }

    fn attached(&self) {
        self.attach();
    }

    fn detached(&self) {
        self.detach();
    }

    fn gone(self: &Arc<Self>) {
        self.strike();
    }

    fn addresses_changed(&self) {
        Port::addresses_changed(self);
    }

    fn query_device(&self, attr: &mut DeviceAttr) {
        self.describe(attr);
    }

    fn query_port(&self, attr: &mut PortAttr) -> Result {
        self.describe_port(attr);
        Ok(())
    }

    fn read_counters(&self, values: &mut [u64]) {
        self.counters.read(values);
    }

    fn traffic(&self) -> Traffic {
        self.counters.traffic()
    }

    fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Domain>> {
        Domain::new(self.regions().clone(), self.windows().clone())
    }

    fn dealloc_pd(_pd: &Arc<Domain>) {}

    fn create_cq(
        self: &Arc<Self>,
        handle: impl PinInit<CqHandle>,
        entries: &mut u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<Arc<Cq>> {
        if *entries > MAX_CQE {
            return Err(EINVAL);
        }
        Cq::new(handle, entries, user)
    }

    fn resize_cq(
        cq: &Arc<Cq>,
        entries: &mut u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result {
        if *entries > MAX_CQE {
            return Err(EINVAL);
        }
        cq.resize(entries, user.ok_or(EOPNOTSUPP)?)
    }

    fn request_notify(cq: &Arc<Cq>, solicited_only: bool, report_missed: bool) -> bool {
        cq.request_notify(solicited_only, report_missed)
    }

    fn poll_cq(cq: &Arc<Cq>, out: &mut [Wc]) -> usize {
        cq.poll(out)
    }

    fn destroy_cq(cq: &Arc<Cq>) {
        cq.close();
    }

    fn create_qp(
        self: &Arc<Self>,
        handle: impl PinInit<QpHandle>,
        pd: &Arc<Domain>,
        init: &QpInit<'_, Self>,
        cap: &mut QpCap,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<(Arc<Qp>, u32)> {
        make_qp::make(self, handle, pd, init, cap, user)
    }

    fn modify_qp(qp: &Arc<Qp>, attr: &QpAttr, mask: u32) -> Result {
        qp.modify(attr, mask)
    }

    fn query_qp(qp: &Arc<Qp>, attr: &mut QpAttr) -> Result {
        qp.query(attr);
        Ok(())
    }

    fn qp_signals_all(qp: &Arc<Qp>) -> bool {
        qp.signal_all
    }

    fn destroy_qp(qp: &Arc<Qp>) {
        drop(qp.port.qps().remove(qp.number));
        qp.destroy();
    }

    fn ring_doorbell(qp: &Arc<Qp>) -> Result {
        qp.doorbell()
    }

    fn post_send(qp: &Arc<Qp>, wr: &SendWr<'_>) -> Result {
        qp.post_send(wr)
    }

    fn post_recv(qp: &Arc<Qp>, wr: &RecvWr<'_>) -> Result {
        qp.post_recv(wr)
    }

    fn attach_mcast(qp: &Arc<Qp>, gid: &[u8; 16]) -> Result {
        multicast::attach(qp, gid)
    }

    fn detach_mcast(qp: &Arc<Qp>, gid: &[u8; 16]) -> Result {
        multicast::detach(qp, gid)
    }

    fn create_srq(
        self: &Arc<Self>,
        handle: impl PinInit<SrqHandle>,
        attr: &mut SrqAttr,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<Arc<Srq>> {
        Srq::new(handle, attr, user)
    }

    fn modify_srq(
        srq: &Arc<Srq>,
        attr: &SrqAttr,
        mask: u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result {
        srq.modify(attr, mask, user)
    }

    fn query_srq(srq: &Arc<Srq>, attr: &mut SrqAttr) {
        srq.query(attr);
    }

    fn destroy_srq(srq: &Arc<Srq>) {
        srq.close();
    }

    fn post_srq_recv(srq: &Arc<Srq>, wr: &RecvWr<'_>) -> Result {
        srq.post(wr)
    }

    fn create_ah(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        path: &Path,
        flags: Flags,
        udata: Option<Udata<'_>>,
    ) -> Result<Arc<Ah>> {
        Ah::new(self.ahs(), pd, path, flags, udata)
    }

    fn modify_ah(ah: &Arc<Ah>, path: &Path) {
        ah.set_path(path);
    }

    fn query_ah(ah: &Arc<Ah>) -> Path {
        ah.path()
    }

    fn destroy_ah(ah: &Arc<Ah>) {
        ah.destroy();
    }

    fn reg_user_mr(
        self: &Arc<Self>,
        device: DeviceRef<'_>,
        pd: &Arc<Domain>,
        start: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<NewMr<Region>> {
        let rights = Access::from_bits(access);
        if !Access::SUPPORTED.includes(rights) {
            return Err(EOPNOTSUPP);
        }
        let memory = pin(device, start, length, iova, access)?;
        let region = pd.add_region(NewRegion {
            access: rights,
            iova,
            length,
            memory,
            max_descriptors: crate::rdma::mr::create::MAX_DESCRIPTORS,
        })?;
        Ok(new_mr(region, iova, length))
    }

    fn reg_buffer(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        fd: i32,
        offset: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<NewMr<Region>> {
        let rights = Access::from_bits(access);
        if !Access::SUPPORTED.includes(rights) || rights.includes(Access::ON_DEMAND) {
            return Err(EOPNOTSUPP);
        }
        let last = length.checked_sub(1).ok_or(EINVAL)?;
        iova.checked_add(last).ok_or(EINVAL)?;
        let region = pd.add_region(NewRegion {
            access: rights,
            iova,
            length,
            memory: Memory::Buffer(Imported::new(fd, offset, length)?),
            max_descriptors: crate::rdma::mr::create::MAX_DESCRIPTORS,
        })?;
        Ok(new_mr(region, iova, length))
    }

    fn rereg_user_mr(
        self: &Arc<Self>,
        device: DeviceRef<'_>,
        region: &Arc<Region>,
        changes: &Rereg<'_, Self>,
    ) -> Result<NewMr<Region>> {
        let access = changes.access.map_or(region.access(), Access::from_bits);
        if !Access::SUPPORTED.includes(access) {
            return Err(EOPNOTSUPP);
        }
        let domain = changes.pd.unwrap_or(region.domain());
        let (iova, length, new_memory) = match changes.memory {
            Some((start, length, iova)) => {
                let memory = pin(device, start, length, iova, access.bits())?;
                (iova, length, Some(memory))
            }
            None => (region.iova(), region.own_length(), None),
        };
        // From here on the old region is gone, as a failed re-registration may leave it.
        let keeps_memory = new_memory.is_none();
        let old = region.replace(|memory| match keeps_memory {
            true => memory.allows(access),
            false => Ok(()),
        })?;
        let region = domain.add_region(NewRegion {
            access,
            iova,
            length,
            memory: new_memory.unwrap_or(old),
            max_descriptors: crate::rdma::mr::create::MAX_DESCRIPTORS,
        })?;
        Ok(new_mr(region, iova, length))
    }

    fn get_dma_mr(self: &Arc<Self>, pd: &Arc<Domain>, access: u32) -> Result<NewMr<Region>> {
        let region = pd.add_region(NewRegion {
            access: Access::from_bits(access),
            iova: 0,
            length: u64::MAX,
            memory: Memory::Kernel,
            max_descriptors: 0,
        })?;
        Ok(new_mr(region, 0, 0))
    }

    fn start_mapping(region: &Arc<Region>, page_size: u64) -> Result {
        region.start_mapping(page_size)
    }

    fn map_page(region: &Arc<Region>, addr: u64) -> Result {
        region.map_page(addr)
    }

    fn alloc_mr(self: &Arc<Self>, pd: &Arc<Domain>, max_descriptors: u32) -> Result<NewMr<Region>> {
        let memory = match max_descriptors {
            0..=MAX_PAGES => Memory::Fast(FastPages::new(max_descriptors)?),
            // More than a list of pages may have: to be filled by a layout.
            _ => Memory::None,
        };
        let region = pd.add_region(NewRegion {
            access: Access::ZERO_BASED,
            iova: 0,
            length: 0,
            memory,
            max_descriptors,
        })?;
        Ok(new_mr(region, 0, 0))
    }

    fn dereg_mr(region: &Arc<Region>) -> Result {
        region.deregister()
    }

    fn advise_mr(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        advice: u32,
        flags: u32,
        list: &[Sge],
    ) -> Result {
        advise::advise(pd, advice, flags, list, &|| !self.is_leaving())
    }

    fn count_mr(region: &Arc<Region>, f: &mut dyn FnMut(&CStr, u64) -> Result) -> Result {
        match region.paged() {
            Some(memory) => memory.stats().for_each(f),
            None => Ok(()),
        }
    }

    fn describe_mr(region: &Arc<Region>, f: &mut dyn FnMut(&CStr, Property) -> Result) -> Result {
        region.describe(f)
    }

    fn alloc_mw(
        self: &Arc<Self>,
        pd: &Arc<Domain>,
        is_type_2: bool,
    ) -> Result<(Arc<MemoryWindow>, u32)> {
        let window = pd.add_memory_window(match is_type_2 {
            true => WindowType::Two,
            false => WindowType::One,
        })?;
        let key = window.key().raw();
        Ok((window, key))
    }

    fn dealloc_mw(window: &Arc<MemoryWindow>) {
        window.dealloc();
    }
}

/// The `length` bytes at `start` of the current process, for a region that starts at `iova`: pinned,
/// or to be found when they are needed if `access` says so.
fn pin(device: DeviceRef<'_>, start: u64, length: u64, iova: u64, access: u32) -> Result<Memory> {
    if length == 0 {
        return Ok(Memory::None);
    }
    if Access::from_bits(access).includes(Access::ON_DEMAND) {
        iova.checked_add(length - 1).ok_or(EINVAL)?;
        return Ok(Memory::Paged(OnDemand::new(start, length)?));
    }
    let addr = usize::try_from(start).map_err(|_| EFAULT)?;
    let len = usize::try_from(length).map_err(|_| EINVAL)?;
    // Addresses of the region must not wrap around either.
    iova.checked_add(length - 1).ok_or(EINVAL)?;
    Memory::of_process(device, addr, len, Access::from_bits(access))
}
