// SPDX-License-Identifier: GPL-2.0

//! The network interfaces that devices sit on.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr,
    types::Opaque, //
};

/// A network interface that this keeps from going away.
pub struct NetDevice {
    dev: NonNull<bindings::net_device>,
}

// SAFETY: The reference may be dropped from any thread.
unsafe impl Send for NetDevice {}
// SAFETY: What is read of the interface may be read by any thread.
unsafe impl Sync for NetDevice {}

impl NetDevice {
    /// Takes a reference of its own.
    ///
    /// # Safety
    ///
    /// `dev` is valid during the call.
    pub(super) unsafe fn get(dev: *mut bindings::net_device) -> Option<Self> {
        let dev = NonNull::new(dev)?;
        // SAFETY: By the requirements of this function.
        unsafe { bindings::mrx_netdev_hold(dev.as_ptr()) };
        Some(Self { dev })
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::net_device {
        self.dev.as_ptr()
    }

    /// Whether frames could be sent: the interface is up and has a carrier.
    pub fn is_running(&self) -> bool {
        // SAFETY: The reference keeps the interface alive.
        unsafe { bindings::mrx_netdev_running(self.dev.as_ptr()) }
    }

    /// Whether the interface is administratively up.
    pub fn is_up(&self) -> bool {
        // SAFETY: As above.
        unsafe { bindings::mrx_netdev_up(self.dev.as_ptr()) }
    }

    /// The largest payload of a frame, in bytes.
    pub fn mtu(&self) -> u32 {
        // SAFETY: As above; the field is read once.
        unsafe { bindings::mrx_netdev_mtu(self.dev.as_ptr()) }
    }

    /// The 64-bit identifier that IPv6 derives from the interface's address.
    pub fn eui64(&self) -> u64 {
        let mut eui = [0u8; 8];
        // SAFETY: As above; the buffer has the 8 bytes that are written.
        unsafe { bindings::mrx_netdev_eui64(self.dev.as_ptr(), eui.as_mut_ptr()) };
        u64::from_be_bytes(eui)
    }

    /// Whether this is a VLAN on top of another interface.
    pub fn is_vlan(&self) -> bool {
        // SAFETY: As above.
        unsafe { bindings::mrx_netdev_is_vlan(self.dev.as_ptr()) }
    }

    /// Calls `f` with the interface's name.
    pub fn with_name<R>(&self, f: impl FnOnce(&CStr) -> R) -> R {
        // SAFETY: As above; the name is always terminated, though it may change while it is read.
        f(unsafe { CStr::from_char_ptr(bindings::mrx_netdev_name(self.dev.as_ptr())) })
    }
}

impl Drop for NetDevice {
    fn drop(&mut self) {
        // SAFETY: Pairs with the hold in `get`.
        unsafe { bindings::mrx_netdev_put(self.dev.as_ptr()) };
    }
}

impl PartialEq for NetDevice {
    fn eq(&self, other: &Self) -> bool {
        self.dev == other.dev
    }
}

/// What happens to interfaces.
pub trait Watcher: 'static {
    /// `dev` is going away; references to it must be dropped soon. Called under the RTNL.
    fn unregistering(dev: &NetDevice);
    /// The state or the properties of `dev` changed. Called under the RTNL.
    fn changed(dev: &NetDevice);
}

/// A registered [`Watcher`].
#[pin_data(PinnedDrop)]
pub struct Notifier<W: Watcher> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    _watcher: PhantomData<W>,
}

// SAFETY: The block is only touched by the notifier chain, which has a lock of its own.
unsafe impl<W: Watcher> Send for Notifier<W> {}
// SAFETY: As above.
unsafe impl<W: Watcher> Sync for Notifier<W> {}

impl<W: Watcher> Notifier<W> {
    /// Registers `W`.
    pub fn new() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            block <- Opaque::try_ffi_init(|block: *mut bindings::notifier_block| {
                let fresh = bindings::notifier_block {
                    notifier_call: Some(Self::call),
                    ..Default::default()
                };
                // SAFETY: `block` is valid for writes, pinned, and stays until it is unregistered
                // when this is dropped.
                unsafe {
                    block.write(fresh);
                    to_result(bindings::register_netdevice_notifier(block))
                }
            }),
            _watcher: PhantomData,
        })
    }

    /// # Safety
    ///
    /// To be called by the notifier chain.
    unsafe extern "C" fn call(
        _block: *mut bindings::notifier_block,
        event: usize,
        info: *mut c_void,
    ) -> c_int {
        // SAFETY: The chain passes a `struct netdev_notifier_info` of a live interface.
        let dev = unsafe { NetDevice::get(bindings::mrx_netdev_of_notifier(info)) };
        if let Some(dev) = dev {
            if event == bindings::netdev_cmd_NETDEV_UNREGISTER as usize {
                W::unregistering(&dev);
            } else {
                W::changed(&dev);
            }
        }
        bindings::NOTIFY_DONE as c_int
    }
}

#[pinned_drop]
impl<W: Watcher> PinnedDrop for Notifier<W> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The block was registered by `new`.
        unsafe { bindings::unregister_netdevice_notifier(self.block.get()) };
    }
}
