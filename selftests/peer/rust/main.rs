// SPDX-License-Identifier: GPL-2.0

//! Reference peer-memory client in Rust.
//!
//! - [`provider`]: the abstraction that clients in Rust use.
//! - [`range`]: the client. [`slots`]: its registrations.
//! - [`buffer`], [`memory`]: what it offers.
//!
//! This file is the device through which tests map buffers and say how the client is to behave;
//! see `mrx_peer.h`.

#![allow(unreachable_pub)]

mod bindings;
mod buffer;
mod memory;
#[path = "../../../rust/kernel/rdma/peer/provider.rs"]
mod provider;
mod range;
mod slots;

use bindings::{
    mrx_peer_alloc,
    mrx_peer_counters,
    mrx_peer_fault,
    mrx_peer_register, //
};
use buffer::Buffer;
use kernel::{
    c_str,
    fs::File,
    ioctl::{
        _IO,
        _IOR,
        _IOW, //
    },
    miscdevice::{
        MiscDevice,
        MiscDeviceOptions,
        MiscDeviceRegistration, //
    },
    mm::virt::VmaNew,
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
    transmute::{
        AsBytes,
        FromBytes, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};
use range::Range;

module! {
    type: PeerModule,
    name: "mrx_peer_rust",
    authors: ["The mrx authors"],
    description: "Reference peer-memory client in Rust",
    license: "GPL",
}

/// No more files, then no more clients.
#[pin_data(PinnedDrop)]
struct PeerModule {
    #[pin]
    _device: MiscDeviceRegistration<Device>,
}

impl kernel::InPlaceModule for PeerModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // SAFETY: A module is initialised once, and this is the first thing that it does.
        unsafe { slots::init() };
        let options = MiscDeviceOptions {
            name: c_str!("mrx_peer_rust"),
        };
        try_pin_init!(Self {
            _device <- MiscDeviceRegistration::register(options),
        })
    }
}

#[pinned_drop]
impl PinnedDrop for PeerModule {
    fn drop(self: Pin<&mut Self>) {
        // An open file keeps the module, so nobody registers any more.
        slots::unregister_all();
    }
}

// SAFETY: These C structures are integers and arrays of integers, without padding.
unsafe impl FromBytes for mrx_peer_register {}
// SAFETY: As above.
unsafe impl FromBytes for mrx_peer_alloc {}
// SAFETY: As above.
unsafe impl FromBytes for mrx_peer_fault {}
// SAFETY: As above.
unsafe impl AsBytes for mrx_peer_counters {}

/// An open file.
struct Device(Arc<Buffer>);

const REGISTER: u32 = _IOW::<mrx_peer_register>('P' as u32, 1);
const UNREGISTER: u32 = _IO('P' as u32, 2);
const ALLOC: u32 = _IOW::<mrx_peer_alloc>('P' as u32, 3);
const FAULT: u32 = _IOW::<mrx_peer_fault>('P' as u32, 4);
const INVALIDATE: u32 = _IO('P' as u32, 5);
const COUNTERS: u32 = _IOR::<mrx_peer_counters>('P' as u32, 6);
const ASKED: u32 = _IO('P' as u32, 7);

#[vtable]
impl MiscDevice for Device {
    type Ptr = Arc<Self>;

    fn open(_file: &File, _misc: &MiscDeviceRegistration<Self>) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(Buffer::new()?), GFP_KERNEL)?)
    }

    fn mmap(device: ArcBorrow<'_, Self>, _file: &File, vma: &VmaNew) -> Result {
        device.0.memory()?.map(vma)
    }

    fn ioctl(device: ArcBorrow<'_, Self>, _file: &File, cmd: u32, arg: usize) -> Result<isize> {
        let buffer = &device.0;
        match cmd {
            REGISTER => slots::register(&read(arg)?)?,
            UNREGISTER => slots::unregister(arg)?,
            ALLOC => buffer.allocate(read(arg)?)?,
            FAULT => buffer.state.lock().fault = read(arg)?,
            INVALIDATE => return take_back(buffer, arg as u32),
            ASKED => return slots::times_asked(arg),
            COUNTERS => {
                let counters = buffer.state.lock().counters;
                let len = size_of::<mrx_peer_counters>();
                UserSlice::new(UserPtr::from_addr(arg), len)
                    .writer()
                    .write(&counters)?;
            }
            _ => return Err(ENOTTY),
        }
        Ok(0)
    }
}

fn read<T: FromBytes>(arg: usize) -> Result<T> {
    UserSlice::new(UserPtr::from_addr(arg), size_of::<T>())
        .reader()
        .read()
}

/// Takes back all ranges of a buffer that there are now. Returns how many.
///
/// What a client in Rust cannot say (tickets that it was not given) is for the one in C, and so is
/// holding a lock that its own callbacks take.
fn take_back(buffer: &Arc<Buffer>, how: u32) -> Result<isize> {
    if how
        & (bindings::mrx_peer_invalidate_MRX_PEER_GARBAGE
            | bindings::mrx_peer_invalidate_MRX_PEER_FINISHED)
        != 0
    {
        return Ok(0);
    }
    let twice = how & bindings::mrx_peer_invalidate_MRX_PEER_TWICE != 0;
    let mut ranges: KVec<Arc<Range>> = KVec::new();
    for range in buffer.state.lock().ranges.iter() {
        ranges.push(range.clone(), GFP_ATOMIC)?;
    }
    let mut count = 0;
    for range in ranges {
        count += isize::from(range.take_back());
        if twice {
            range.take_back();
        }
    }
    Ok(count)
}
