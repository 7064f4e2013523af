// SPDX-License-Identifier: GPL-2.0

//! Devices that come and go with links.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_netlink.h`](srctree/include/rdma/rdma_netlink.h)
//!
//! # The driver id
//!
//! The provider library of `rdma_rxe` puts `RDMA_DRIVER_RXE` into the header of every ioctl, and
//! `ib_uverbs` compares that with the id which the device had when `ib_uverbs` took it up. But
//! `rdma_rxe` takes every device with that id for one of its own: it unregisters them when it is
//! unloaded and finds them by network interface. So a device here bears the id only while
//! `ib_uverbs` takes it up. `enable_driver` runs right before the clients of the core are told of
//! the device and sets it; the client of this module is told after `ib_uverbs`, since the module
//! needs a symbol of `ib_uverbs` and is therefore loaded after it, and takes it back. A move to
//! another network namespace goes the same way. In between the device has no network interface in
//! the core's table, so that it is not found by it.
//!
//! # The end of the module
//!
//! A device's last operation is `dealloc_driver`, which other contexts may be in when the module is
//! unloaded: who deletes the link, or the core's queue. The core keeps a device in its table until
//! that operation has returned, and `ib_unregister_driver` waits for all devices with an id that are
//! in the table. So a device that ends bears [`ENDING`], by which nobody else calls his devices, and
//! the registration waits first until all devices do, and then for those.

use super::{
    driver::{
        DeviceHandle,
        Driver, //
    },
    netdev::NetDevice,
    object::{
        Handle,
        Object, //
    },
    ops::{
        device_state,
        Ops, //
    },
};
use crate::bindings::{
    self,
    ib_device, //
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
    types::Opaque, //
};

/// The kind of links that a driver offers.
pub trait Link: Driver {
    /// The name of the link type, for `rdma link add ... type NAME`.
    const TYPE: &'static CStr;
    /// The text that describes a node, up to 63 bytes.
    const NODE_DESC: &'static CStr;

    /// Makes the state of a device on `netdev`; refuses interfaces that do not fit.
    fn new(handle: impl PinInit<DeviceHandle>, netdev: NetDevice, name: &CStr)
        -> Result<Arc<Self>>;

    /// Calls `f` for each device that was made and is not gone.
    fn for_each(f: impl FnMut(&Arc<Self>));
}

/// # Safety
///
/// To be called by the core, for a device of driver `D`.
pub(super) unsafe extern "C" fn enable_driver<D: Driver>(device: *mut ib_device) -> c_int {
    // SAFETY: The core calls this for a device of this driver. Readers of the id are `ib_uverbs`,
    // which is called after this, and those who look for a driver's devices; see above.
    unsafe { (*device).ops.driver_id = bindings::rdma_driver_id_RDMA_DRIVER_RXE };
    0
}

/// The driver id of devices that are in their last operation: the letters "mrx", far from the ids
/// that the core counts up.
const ENDING: bindings::rdma_driver_id = 0x6d72_7800;

/// # Safety
///
/// To be called by the core, for a device of driver `D`.
pub(super) unsafe extern "C" fn dealloc_driver<D: Driver>(device: *mut ib_device) {
    // SAFETY: The core calls this as the last thing before it frees the device.
    let Some(state) = (unsafe { Object::<ib_device, D>::take(device) }) else {
        return;
    };
    state.gone();
    state.handle().close();
    drop(state);
    // SAFETY: As above; `ib_uverbs` has let go of the device.
    unsafe { (*device).ops.driver_id = ENDING };
    DEVICES.fetch_sub(1, Full);
}

/// Has the device unregistered soon, from another context, if it is registered.
pub fn unregister_later<D: Driver>(state: &D) {
    state.handle().with(|device| {
        // SAFETY: The handle keeps the device alive, and a device that is registered stays so
        // while this reference is held, which is what the function asks for.
        unsafe {
            if bindings::mrx_device_try_get(device) {
                bindings::ib_unregister_device_queued(device);
                bindings::ib_device_put(device);
            }
        }
    });
}

/// Everything by which a driver is known to the core: a client, and a link type.
#[pin_data(PinnedDrop)]
pub struct Registration<L: Link> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    #[pin]
    link: Opaque<bindings::rdma_link_ops>,
    _driver: PhantomData<L>,
}

// SAFETY: Both structures are touched only by the core, which has locks of its own.
unsafe impl<L: Link> Send for Registration<L> {}
// SAFETY: As above.
unsafe impl<L: Link> Sync for Registration<L> {}

/// Devices that exist, from before their registration until they bear [`ENDING`].
static DEVICES: Atomic<i32> = Atomic::new(0);

/// The link type of the module's registration, for the devices made by it.
static LINK_OPS: Atomic<usize> = Atomic::new(0);

impl<L: Link> Registration<L> {
    /// Registers the driver.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            client <- Opaque::try_ffi_init(|client: *mut bindings::ib_client| {
                let mut fresh = bindings::ib_client {
                    name: L::TYPE.as_char_ptr(),
                    add: Some(Self::add),
                    remove: Some(Self::remove),
                    ..Default::default()
                };
                fresh.set_no_kverbs_req(1);
                // SAFETY: Looks at an address.
                if !unsafe { bindings::mrx_uverbs_is_there() } {
                    return Err(ENODEV);
                }
                // SAFETY: `client` is valid for writes, pinned, and stays until it is
                // unregistered when this is dropped.
                unsafe {
                    client.write(fresh);
                    to_result(bindings::ib_register_client(client))
                }
            }),
            link <- Opaque::ffi_init(|link: *mut bindings::rdma_link_ops| {
                let fresh = bindings::rdma_link_ops {
                    type_: L::TYPE.as_char_ptr(),
                    newlink: Some(Self::newlink),
                    ..Default::default()
                };
                // SAFETY: As above.
                unsafe {
                    link.write(fresh);
                    LINK_OPS.store(link as usize, Release);
                    bindings::rdma_link_register(link);
                }
            }),
            _driver: PhantomData,
        })
    }

    /// # Safety
    ///
    /// To be called by the core.
    unsafe extern "C" fn newlink(name: *const c_char, netdev: *mut bindings::net_device) -> c_int {
        from_result(|| {
            // SAFETY: The core passes a terminated name and a live interface.
            let (name, netdev) = unsafe {
                (
                    CStr::from_char_ptr(name),
                    NetDevice::get(netdev).ok_or(ENODEV)?,
                )
            };
            Self::register(name, netdev)?;
            Ok(0)
        })
    }

    fn register(name: &CStr, netdev: NetDevice) -> Result {
        // SAFETY: The size is that of a structure that starts with an `ib_device`.
        let device = unsafe {
            bindings::_ib_alloc_device(
                size_of::<Object<ib_device, L>>(),
                &raw mut bindings::init_net,
            )
        };
        let device = NonNull::new(device).ok_or(ENOMEM)?;
        let raw = device.as_ptr();
        // SAFETY: `dealloc_driver` closes the handle before the device's memory goes.
        let made = L::new(unsafe { Handle::new(device) }, netdev, name);
        let state = match made {
            Ok(state) => state,
            Err(e) => {
                // SAFETY: The device is not registered and has no operations yet.
                unsafe { bindings::ib_dealloc_device(raw) };
                return Err(e);
            }
        };
        let guid = state.netdev().eui64();
        // SAFETY: The device is fresh and ours alone until it is registered.
        let ret = unsafe {
            DEVICES.add(1, Relaxed);
            Object::<ib_device, L>::install(raw, state);
            Ops::<L>::set(raw);
            (*raw).node_type = bindings::RDMA_NODE_IB_CA as u8;
            (*raw).phys_port_cnt = 1;
            // For those who map memory for the device, which reaches all of it.
            let dev = (*raw).__bindgen_anon_1.dev.as_mut();
            dev.coherent_dma_mask = u64::MAX;
            dev.dma_mask = &raw mut dev.coherent_dma_mask;
            (*raw).num_comp_vectors = bindings::mrx_num_possible_cpus() as c_int;
            (*raw).node_guid = guid.to_be();
            (*raw).uverbs_cmd_mask |= (1
                << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_POST_SEND)
                | (1 << bindings::ib_uverbs_write_cmds_IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
            (*raw).driver_def = L::UVERBS.as_ptr();
            (*raw).link_ops = LINK_OPS.load(Acquire) as *const bindings::rdma_link_ops;
            let desc = L::NODE_DESC.to_bytes();
            for (to, from) in (*raw).node_desc.iter_mut().zip(desc) {
                *to = *from as c_char;
            }
            bindings::ib_register_device(raw, name.as_char_ptr(), core::ptr::null_mut())
        };
        if let Err(e) = to_result(ret) {
            // SAFETY: The core leaves a device that it could not register to the caller.
            unsafe { bindings::ib_dealloc_device(raw) };
            return Err(e);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// `device` is alive.
    unsafe fn is_ours(device: *mut ib_device) -> bool {
        // SAFETY: By the requirements of this function.
        let dealloc = unsafe { (*device).ops.dealloc_driver };
        dealloc.map(|f| f as usize) == Some(dealloc_driver::<L> as usize)
    }

    /// # Safety
    ///
    /// To be called by the core.
    unsafe extern "C" fn add(device: *mut ib_device) -> c_int {
        // SAFETY: The core passes a live device, and is told of it after `ib_uverbs`.
        unsafe {
            if !Self::is_ours(device) {
                return EOPNOTSUPP.to_errno();
            }
            (*device).ops.driver_id = bindings::rdma_driver_id_RDMA_DRIVER_UNKNOWN;
            from_result(|| {
                let state = device_state::<L>(device)?;
                to_result(bindings::ib_device_set_netdev(
                    device,
                    state.netdev().as_ptr(),
                    1,
                ))?;
                bindings::rdma_roce_rescan_port(device, 1);
                state.attached();
                Ok(0)
            })
        }
    }

    /// # Safety
    ///
    /// To be called by the core.
    unsafe extern "C" fn remove(device: *mut ib_device, _data: *mut c_void) {
        // SAFETY: The core passes a device for which `add` succeeded.
        unsafe {
            if let Ok(state) = device_state::<L>(device) {
                state.detached();
            }
            bindings::ib_device_set_netdev(device, core::ptr::null_mut(), 1);
        }
    }
}

#[pinned_drop]
impl<L: Link> PinnedDrop for Registration<L> {
    fn drop(self: Pin<&mut Self>) {
        // First no new devices, then no devices, then nobody in their last operation, then no
        // client, which devices need until their end.
        // SAFETY: Both were registered by `new`.
        unsafe {
            bindings::rdma_link_unregister(self.link.get());
            while DEVICES.load(Acquire) != 0 {
                // Again and again: a device that moves to another namespace cannot be unregistered.
                L::for_each(|state| unregister_later(&**state));
                fsleep(Delta::from_millis(1));
            }
            bindings::ib_unregister_driver(ENDING);
            bindings::ib_unregister_client(self.client.get());
        }
    }
}
