// SPDX-License-Identifier: GPL-2.0

//! Memory regions that mainline RDMA lacks, and a software RDMA device that executes them.
//!
//! - [`bindings`]: the C interfaces.
//! - [`rdma`]: safe abstractions over them, and the services of the product.
//! - [`device`]: the device, which uses all of it.

// The modules are laid out as they would stand in crates of their own, where `pub` is `pub`.
#![allow(unreachable_pub)]

use kernel::prelude::*;

mod bindings;
mod device;
#[path = "kernel/rdma/mod.rs"]
mod rdma;

use device::port::{
    Globals,
    Port,
    PortWatcher, //
};
use rdma::{
    dmabuf::Importer,
    mr::extension,
    netdev::Notifier,
    odp::PagingQueues,
    peer,
    registration::Registration,
    work::QueueOwner, //
};

module! {
    type: MrxModule,
    name: "ib_mrx",
    authors: ["The mrx authors"],
    description: "Non-contiguous and peer memory regions for RDMA",
    license: "GPL",
    alias: ["rdma-link-mrx"],
    imports_ns: ["DMA_BUF"],
}

/// What lives as long as the module. Dropped in this order: no more events of interfaces, then no
/// more devices, then what they shared and used, then no more work of theirs.
#[pin_data]
struct MrxModule {
    #[pin]
    _watcher: Notifier<PortWatcher>,
    #[pin]
    _registration: Registration<Port>,
    _globals: Globals,
    _queue_pairs: QueueOwner,
    _paging: PagingQueues,
    _importer: Importer,
    _extensions: extension::Globals,
    _peers: peer::Service,
}

impl kernel::InPlaceModule for MrxModule {
    fn init(_module: &'static ThisModule) -> impl PinInit<Self, Error> {
        // SAFETY: A module is initialised once, and this is the first thing that it does.
        let (globals, extensions) = unsafe { (Globals::new(), extension::Globals::new()) };
        rdma::copy::calibrate();
        // SAFETY: As above. The queues are dropped after all devices.
        let (queue_pairs, paging) = unsafe { (QueueOwner::of_queue_pairs(), PagingQueues::new()) };
        // SAFETY: As above. The device is dropped after all regions.
        let importer = unsafe { Importer::new() };
        try_pin_init!(Self {
            _importer: importer?,
            _extensions: extensions,
            // SAFETY: As above.
            _peers: unsafe { peer::Service::new() },
            _paging: paging?,
            _queue_pairs: queue_pairs?,
            _globals: globals?,
            _registration <- Registration::new(),
            _watcher <- Notifier::new(),
        })
    }
}
