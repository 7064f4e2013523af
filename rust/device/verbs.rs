// SPDX-License-Identifier: GPL-2.0

//! The device as a driver of the core.

use super::{
    cq::Cq,
    port::{
        Port,
        MAX_CQE,
        MAX_WR, //
    },
    qp::{
        NewQp,
        Qp, //
    },
    rq::RecvQueue,
    sq::SendQueue,
    wqe::MAX_SGE, //
};
use crate::{
    bindings,
    rdma::{
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
            QpAttr,
            QpCap,
            QpHandle,
            QpInit,
            Sge, //
        },
        mr::{
            access::Access,
            memory::{
                Memory,
                Pinned, //
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
        uverbs::Definitions, //
    },
};
use kernel::{
    c_str,
    prelude::*,
    str::CStr,
    sync::Arc,
    transmute::AsBytes, //
};

/// `RXE_UVERBS_ABI_VERSION`: the ABI between the rings here and the stock provider library.
const RXE_ABI: u32 = 2;

/// The most bytes of inline data.
const MAX_INLINE: u32 = (MAX_SGE * 16) as u32;

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

/// `struct rxe_create_qp_resp`.
#[repr(C)]
struct CreateQpResponse {
    recv: bindings::mminfo,
    send: bindings::mminfo,
}

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for CreateQpResponse {}

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
    type Region = Region;

    const UVERBS_ABI: u32 = RXE_ABI;
    const UVERBS: &'static Definitions = &methods::DEFINITIONS;

    fn handle(&self) -> &DeviceHandle {
        Port::handle(self)
    }

    fn netdev(&self) -> &NetDevice {
        Port::netdev(self)
    }

    fn attached(self: &Arc<Self>) {
        self.attach();
    }

    fn detached(self: &Arc<Self>) {
        self.detach();
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

    fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Domain>> {
        Domain::new(self.regions().clone())
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
        Cq::new(handle, entries, user.ok_or(EOPNOTSUPP)?)
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
        let (context, udata) = user.ok_or(EOPNOTSUPP)?;
        if init.kind != bindings::ib_qp_type_IB_QPT_RC || init.has_srq || init.create_flags != 0 {
            return Err(EOPNOTSUPP);
        }
        if cap.max_send_wr > MAX_WR
            || cap.max_recv_wr > MAX_WR
            || cap.max_send_sge as usize > MAX_SGE
            || cap.max_recv_sge as usize > MAX_SGE
            || cap.max_inline_data > MAX_INLINE
        {
            return Err(EINVAL);
        }
        let send = SendQueue::new(
            context,
            cap.max_send_wr,
            cap.max_send_sge,
            cap.max_inline_data,
        )?;
        let recv = RecvQueue::new(context, cap.max_recv_wr, cap.max_recv_sge)?;
        udata.respond(&CreateQpResponse {
            recv: recv.mapping().info(),
            send: send.mapping().info(),
        })?;
        cap.max_send_wr = send.capacity();
        cap.max_send_sge = send.limits().max_sge;
        cap.max_inline_data = send.limits().max_inline;
        cap.max_recv_wr = recv.capacity();

        let reserved = self.qps().reserve()?;
        let number = reserved.id();
        let qp = Qp::new(
            handle,
            NewQp {
                port: self.clone(),
                number,
                domain: pd.clone(),
                signal_all: init.signal_all,
                send_cq: init.send_cq.clone(),
                recv_cq: init.recv_cq.clone(),
                send,
                recv,
            },
        )?;
        reserved.fill(qp.clone());
        Ok((qp, number))
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
        let memory = if length == 0 {
            Memory::None
        } else if rights.includes(Access::ON_DEMAND) {
            iova.checked_add(length - 1).ok_or(EINVAL)?;
            Memory::Paged(OnDemand::new(start, length, rights.writes())?)
        } else {
            let addr = usize::try_from(start).map_err(|_| EFAULT)?;
            let len = usize::try_from(length).map_err(|_| EINVAL)?;
            // Addresses of the region must not wrap around either.
            iova.checked_add(length - 1).ok_or(EINVAL)?;
            Memory::Pinned(Pinned::new(device.pin_user_memory(addr, len, access)?)?)
        };
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

    fn alloc_mr(self: &Arc<Self>, pd: &Arc<Domain>, max_descriptors: u32) -> Result<NewMr<Region>> {
        let region = pd.add_region(NewRegion {
            access: Access::ZERO_BASED,
            iova: 0,
            length: 0,
            memory: Memory::None,
            max_descriptors,
        })?;
        Ok(new_mr(region, 0, 0))
    }

    fn dereg_mr(region: &Arc<Region>) -> Result {
        region.deregister()
    }

    fn advise_mr(pd: &Arc<Domain>, advice: u32, flags: u32, list: &[Sge]) -> Result {
        advise::advise(pd, advice, flags, list)
    }

    fn count_mr(region: &Arc<Region>, f: &mut dyn FnMut(&CStr, u64) -> Result) -> Result {
        match region.paged() {
            Some(memory) => memory.stats().for_each(f),
            None => Ok(()),
        }
    }
}
