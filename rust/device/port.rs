// SPDX-License-Identifier: GPL-2.0

//! A device on its interface: its attributes, its addresses, its state.

use super::{
    ah::{
        self,
        AhTable, //
    },
    counters::{
        Counter,
        Counters, //
    },
    multicast,
    qp::{
        Qp,
        QpTable,
        FIRST_QPN,
        QPN_END, //
    },
    srq,
    wqe::{
        MAX_MESSAGE,
        MAX_SGE, //
    },
};
use crate::{
    bindings,
    rdma::{
        driver::{
            DeviceAttr,
            DeviceHandle,
            PortAttr, //
        },
        id_table::IdTable,
        log::warn_ratelimited,
        mr::{
            extension,
            fast::MAX_PAGES,
            key::{
                INDEX_END,
                WINDOW_INDEX_END, //
            },
            region::{
                self,
                RegionTable,
                WindowTable, //
            },
        },
        netdev::{
            NetDevice,
            Watcher, //
        },
        registration::unregister_later, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        global_lock,
        Arc,
        SpinLock, //
    }, //
};

/// The most work requests of a queue.
pub const MAX_WR: u32 = 1 << 14;
/// The most entries of a completion queue.
pub const MAX_CQE: u32 = 1 << 20;

/// The prefix of names by which the stock provider library knows the device.
const NAME_PREFIX: &[u8] = b"rxe";

/// A device.
#[pin_data]
pub struct Port {
    #[pin]
    handle: DeviceHandle,
    netdev: NetDevice,
    /// Whether the interface can send; follows the interface.
    running: Atomic<u32>,
    /// The device is being taken from its users: what takes long has to end.
    leaving: AtomicFlag,
    regions: Arc<RegionTable>,
    windows: Arc<WindowTable>,
    ahs: Arc<AhTable>,
    qps: Arc<QpTable>,
    /// Queue pair 1. A leaf.
    #[pin]
    manager: SpinLock<Option<Arc<Qp>>>,
    /// What has been done.
    pub counters: Counters,
}

global_lock! {
    // SAFETY: Initialised by `Globals::new`, before anything else of the module runs.
    unsafe(uninit) static PORTS: Mutex<KVec<Arc<Port>>> = KVec::new();
}

global_lock! {
    // SAFETY: As above.
    unsafe(uninit) static QPS: Mutex<Option<Arc<QpTable>>> = None;
}

/// How often it has changed who can be reached.
static REACH_GENERATION: Atomic<u32> = Atomic::new(0);

/// How often an address or the state of an interface has changed, on any device. What was found out
/// about who can be reached holds as long as this stays.
#[inline]
pub fn reach_generation() -> u32 {
    REACH_GENERATION.load(Acquire)
}

/// What was found out before about who can be reached holds no longer.
fn reach_has_changed() {
    REACH_GENERATION.fetch_add(1, Full);
}

/// What all devices share. To be dropped after the last of them has gone.
pub struct Globals(());

impl Globals {
    /// Prepares what all devices share.
    ///
    /// # Safety
    ///
    /// Called once, before any other function of this file.
    pub unsafe fn new() -> Result<Self> {
        // SAFETY: By the requirements of this function.
        unsafe {
            PORTS.init();
            QPS.init();
            multicast::init();
        }
        let table = Arc::pin_init(IdTable::new(FIRST_QPN..QPN_END, FIRST_QPN), GFP_KERNEL)?;
        *QPS.lock() = Some(table);
        Ok(Self(()))
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        *QPS.lock() = None;
        *PORTS.lock() = KVec::new();
        multicast::end();
    }
}

impl Port {
    /// Makes a device on `netdev`. `EPERM` on a VLAN, whose addresses belong to the interface below
    /// it; `EEXIST` if there is one already.
    pub fn new(
        handle: impl PinInit<DeviceHandle>,
        netdev: NetDevice,
        name: &CStr,
    ) -> Result<Arc<Self>> {
        if netdev.is_vlan() {
            warn_ratelimited!("a link needs an interface that is no VLAN\n");
            return Err(EPERM);
        }
        if !name.to_bytes().starts_with(NAME_PREFIX) {
            pr_warn!(
                "{}: stock libibverbs finds its provider by the name and ignores this device; names that start with \"rxe\" work\n",
                name
            );
        }
        let qps = QPS.lock().as_ref().cloned().ok_or(ENODEV)?;
        let port = Arc::pin_init(
            try_pin_init!(Self {
                handle <- handle,
                running: Atomic::new(u32::from(netdev.is_running())),
                netdev,
                leaving: AtomicFlag::new(false),
                regions: Arc::pin_init(region::new_table(), GFP_KERNEL)?,
                windows: Arc::pin_init(region::new_window_table(), GFP_KERNEL)?,
                ahs: Arc::pin_init(IdTable::new(ah::NUMBERS, ah::NUMBERS.start), GFP_KERNEL)?,
                qps,
                manager <- new_spinlock!(None, "Port::manager"),
                counters: Counters::new(),
            }),
            GFP_KERNEL,
        )?;
        port.enrol()?;
        Ok(port)
    }

    /// Adds the device to what is known of all devices, so that nothing can be missing of it once
    /// it is registered.
    fn enrol(self: &Arc<Self>) -> Result {
        let mut ports = PORTS.lock();
        if ports.iter().any(|port| port.netdev == self.netdev) {
            self.netdev
                .with_name(|on| warn_ratelimited!("there is a link on {} already\n", on));
            return Err(EEXIST);
        }
        ports.push(self.clone(), GFP_KERNEL)?;
        drop(ports);
        extension::offer::<Self>(&self.handle).inspect_err(|_| self.leave())
    }

    /// Undoes [`Port::enrol`].
    pub fn strike(self: &Arc<Self>) {
        extension::withdraw(&self.handle);
        self.leave();
    }

    fn leave(self: &Arc<Self>) {
        PORTS.lock().retain(|port| !Arc::ptr_eq(port, self));
    }

    /// The way back to the core's device.
    pub fn handle(&self) -> &DeviceHandle {
        &self.handle
    }

    /// The interface.
    pub fn netdev(&self) -> &NetDevice {
        &self.netdev
    }

    /// The regions of the device.
    pub fn regions(&self) -> &Arc<RegionTable> {
        &self.regions
    }

    /// The memory windows of the device.
    pub fn windows(&self) -> &Arc<WindowTable> {
        &self.windows
    }

    /// The address handles of processes on the device.
    pub fn ahs(&self) -> &Arc<AhTable> {
        &self.ahs
    }

    /// Queue pair 1 of the device.
    pub fn manager(&self) -> Option<Arc<Qp>> {
        self.manager.lock().clone()
    }

    /// Makes `qp` queue pair 1. `EBUSY` if there is one.
    pub fn set_manager(&self, qp: &Arc<Qp>) -> Result {
        let mut manager = self.manager.lock();
        if manager.is_some() {
            return Err(EBUSY);
        }
        *manager = Some(qp.clone());
        Ok(())
    }

    /// Has `qp` be queue pair 1 no more, if it was.
    pub fn clear_manager(&self, qp: &Arc<Qp>) {
        let old = {
            let mut manager = self.manager.lock();
            match &*manager {
                Some(is) if Arc::ptr_eq(is, qp) => manager.take(),
                _ => None,
            }
        };
        drop(old);
    }

    /// The device that has the address `gid`: this one, or else another. Addresses are unique within
    /// a network only, and every interface with a namespace of its own may be in another one.
    pub fn resolve(self: &Arc<Self>, gid: &[u8; 16]) -> Option<Arc<Self>> {
        if self.owns_gid(gid) {
            return Some(self.clone());
        }
        PORTS
            .lock()
            .iter()
            .find(|port| !port.is_leaving() && port.owns_gid(gid))
            .cloned()
    }

    /// The queue pairs of all devices.
    pub fn qps(&self) -> &Arc<QpTable> {
        &self.qps
    }

    /// Whether the interface can send.
    #[inline]
    pub fn is_running(&self) -> bool {
        self.running.load(Relaxed) != 0
    }

    /// Whether the interface can send from now on.
    fn set_running(&self, running: bool) {
        self.running.store(u32::from(running), Release);
        reach_has_changed();
    }

    /// Whether the device is being taken from its users, who are waited for.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Relaxed)
    }

    /// Whether `gid` is an address of this device.
    pub fn owns_gid(&self, gid: &[u8; 16]) -> bool {
        self.handle.owns_gid(gid)
    }

    /// Notes that what was known of addresses is void.
    pub fn addresses_changed(&self) {
        reach_has_changed();
    }

    /// The device is there for its users.
    pub fn attach(&self) {
        self.leaving.store(false, Relaxed);
    }

    /// The device is being taken from its users.
    pub fn detach(&self) {
        self.leaving.store(true, Relaxed);
    }

    /// Calls `f` for each device, registered or not.
    pub fn for_each(mut f: impl FnMut(&Arc<Self>)) {
        for port in PORTS.lock().iter() {
            f(port);
        }
    }

    /// Fills the device's attributes.
    pub fn describe(&self, attr: &mut DeviceAttr) {
        attr.vendor_id = 0x00ff_ffff;
        attr.max_mr_size = u64::MAX;
        attr.page_size_cap = 0xffff_f000;
        attr.max_qp = 1 << 20;
        attr.max_qp_wr = MAX_WR;
        attr.device_cap_flags = (bindings::ib_device_cap_flags_IB_DEVICE_SYS_IMAGE_GUID
            | bindings::ib_device_cap_flags_IB_DEVICE_RC_RNR_NAK_GEN
            | bindings::ib_device_cap_flags_IB_DEVICE_PORT_ACTIVE_EVENT
            | bindings::ib_device_cap_flags_IB_DEVICE_BAD_QKEY_CNTR
            | bindings::ib_device_cap_flags_IB_DEVICE_SRQ_RESIZE
            | bindings::ib_device_cap_flags_IB_DEVICE_MEM_MGT_EXTENSIONS
            | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW
            | bindings::ib_device_cap_flags_IB_DEVICE_MEM_WINDOW_TYPE_2B
            | bindings::ib_device_cap_flags_IB_DEVICE_FLUSH_GLOBAL
            | bindings::ib_device_cap_flags_IB_DEVICE_ATOMIC_WRITE)
            as u64;
        attr.atomic_cap = bindings::ib_atomic_cap_IB_ATOMIC_HCA;
        attr.max_srq = 1 << 20;
        attr.max_srq_wr = srq::MAX_WR;
        attr.max_srq_sge = srq::MAX_SGE;
        attr.max_mw = WINDOW_INDEX_END - INDEX_END;
        attr.max_ah = ah::NUMBERS.end - ah::NUMBERS.start;
        attr.max_mcast_grp = multicast::MAX_MEMBERS;
        attr.max_mcast_qp_attach = multicast::MAX_MEMBERS;
        attr.max_total_mcast_qp_attach = multicast::MAX_MEMBERS;
        attr.kernel_cap_flags = u64::from(
            bindings::ib_kernel_cap_flags_IBK_ALLOW_USER_UNREG
                | bindings::ib_kernel_cap_flags_IBK_ON_DEMAND_PAGING,
        );
        describe_paging(attr);
        attr.max_send_sge = MAX_SGE as u32;
        attr.max_recv_sge = MAX_SGE as u32;
        attr.max_sge_rd = MAX_SGE as u32;
        attr.max_cq = 1 << 20;
        attr.max_cqe = MAX_CQE;
        attr.max_mr = INDEX_END;
        attr.max_pd = 1 << 20;
        attr.max_qp_rd_atom = u32::from(super::attrs::MAX_READS);
        attr.max_qp_init_rd_atom = u32::from(super::attrs::MAX_READS);
        attr.max_res_rd_atom = 0x3f000;
        attr.max_fast_reg_page_list_len = MAX_PAGES;
        attr.max_pkeys = 1;
        attr.local_ca_ack_delay = 15;
        attr.sys_image_guid = self.netdev.eui64().to_be();
        attr.hw_ver = 0;
    }

    /// Fills the port's attributes.
    pub fn describe_port(&self, attr: &mut PortAttr) {
        let up = self.netdev.is_running();
        attr.state = if up {
            bindings::ib_port_state_IB_PORT_ACTIVE
        } else {
            bindings::ib_port_state_IB_PORT_DOWN
        };
        attr.phys_state = match (up, self.netdev.is_up()) {
            (true, _) => bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_LINK_UP,
            (false, true) => bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_POLLING,
            (false, false) => bindings::ib_port_phys_state_IB_PORT_PHYS_STATE_DISABLED,
        } as u8;
        attr.max_mtu = bindings::ib_mtu_IB_MTU_4096;
        attr.active_mtu = match self.netdev.mtu().saturating_sub(HEADERS) {
            0..512 => bindings::ib_mtu_IB_MTU_256,
            512..1024 => bindings::ib_mtu_IB_MTU_512,
            1024..2048 => bindings::ib_mtu_IB_MTU_1024,
            2048..4096 => bindings::ib_mtu_IB_MTU_2048,
            _ => bindings::ib_mtu_IB_MTU_4096,
        };
        attr.gid_tbl_len = 1024;
        attr.port_cap_flags = PORT_CM_SUP;
        attr.qkey_viol_cntr = self.counters.get(Counter::BadQkey).min(0xffff) as u32;
        attr.max_msg_sz = MAX_MESSAGE as u32;
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        attr.active_width = bindings::ib_port_width_IB_WIDTH_4X as u8;
        attr.active_speed = bindings::ib_port_speed_IB_SPEED_QDR as u16;
    }
}

/// What can be done with regions that are paged on demand: all that can be done with others.
fn describe_paging(attr: &mut DeviceAttr) {
    use bindings::*;
    attr.odp_caps.general_caps = u64::from(
        ib_odp_general_cap_bits_IB_ODP_SUPPORT | ib_odp_general_cap_bits_IB_ODP_SUPPORT_IMPLICIT,
    );
    let datagram = ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SEND
        | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_RECV
        | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_SRQ_RECV;
    let unreliable = datagram | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_WRITE;
    let caps = &mut attr.odp_caps.per_transport_caps;
    caps.ud_odp_caps = datagram;
    caps.uc_odp_caps = unreliable;
    caps.rc_odp_caps = unreliable
        | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_READ
        | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC
        | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_FLUSH
        | ib_odp_transport_cap_bits_IB_ODP_SUPPORT_ATOMIC_WRITE;
}

/// `IB_PORT_CM_SUP`: the port takes part in communication management.
const PORT_CM_SUP: u32 = 1 << 16;

/// Bytes that RoCE v2 would put around a payload: IPv6, UDP, base and extended transport headers,
/// checksum.
const HEADERS: u32 = 80;

/// Follows the interfaces of the devices.
pub struct PortWatcher;

impl Watcher for PortWatcher {
    fn unregistering(dev: &NetDevice) {
        Port::for_each(|port| {
            if port.netdev == *dev {
                port.set_running(false);
                unregister_later(port.as_ref());
            }
        });
    }

    fn changed(dev: &NetDevice) {
        Port::for_each(|port| {
            if port.netdev == *dev {
                port.set_running(dev.is_running());
            }
        });
    }
}
