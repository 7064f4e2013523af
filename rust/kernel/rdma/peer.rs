// SPDX-License-Identifier: GPL-2.0

//! Peer memory: memory of other devices, offered by their drivers.
//!
//! C header: [`include/rdma/peer_mem.h`](srctree/include/rdma/peer_mem.h)
//!
//! - [`callbacks`]: what a client can be asked, made safe to call.
//! - [`client`], [`users`]: a client, and who keeps it from going.
//! - [`registry`]: the clients there are, and the functions by which they come and go.
//! - [`mapping`]: a range of a client's memory that somebody uses.
//! - [`ticket`]: how a client names a range that it takes back.
//! - [`pages`]: where the bytes of a range are.
//! - [`private`]: what a client keeps for a process's verbs context.
//! - [`sysfs`]: what a person and a library see of it.
//!
//! # Life of a mapping
//!
//! [`Mapping::new`] asks the clients, in the order in which they registered, who owns the range.
//! The owner is then told to pin and to map it, after which the mapping has a user
//! ([`mapping::Importer`]), such as a region. Whichever comes first, dropping the [`Mapping`] or an
//! invalidation by the client, has the range unmapped and unpinned; dropping the [`Mapping`]
//! releases it. The steps that are left to undo are state of the mapping, and are taken from it one
//! by one by whoever undoes them, so that each is undone once.
//!
//! # Locks and waiting
//!
//! No lock of this service is held while a client is called, and an invalidation waits for nothing
//! but copies that are under way: not for a registration, not for a deregistration, not for another
//! invalidation. So a client may invalidate with locks held that its callbacks need. The other way
//! around, deregistration waits for an invalidation of the same range that has begun, since the
//! range is released last; and unregistration of a client waits for its ranges.
//!
//! [`registry`]'s lock and that of a client's tickets protect tables; [`mapping`]'s own protects the
//! state of one mapping and is a leaf.

mod callbacks;
mod client;
mod mapping;
mod pages;
pub mod private;
mod registry;
mod sysfs;
mod ticket;
mod users;

pub use mapping::{
    Importer,
    Mapping,
    Request, //
};
pub use pages::Pages;
pub use registry::Service;
