// SPDX-License-Identifier: GPL-2.0

//! RDMA: safe abstractions over `ib_core` and `ib_uverbs`, and the services built on them.
//!
//! Abstractions:
//!
//! - [`driver`]: what a software driver implements; [`ops`] makes the core's table from it,
//!   [`registration`] brings devices to life.
//! - [`addressing`]: addresses of devices, and the ways between them.
//! - [`events`]: what a driver tells the owners of objects; [`wr`]: work requests of the kernel.
//! - [`object`]: states of objects that the core allocates, and the way back to them.
//! - [`context`], [`udata`], [`shared_ring`]: what a process maps, sends and shares.
//! - [`umem`]: pinned user memory; [`dmabuf`]: buffers of other drivers.
//! - [`uverbs`]: methods of the ioctl tree.
//! - [`netdev`]: interfaces, and what happens to them.
//! - [`gate`], [`rwsem`], [`id_table`], [`work`], [`task`], [`memcg`], [`log`]: ends of access, locks,
//!   numbers, later, manners.
//!
//! Services, which know no particular device:
//!
//! - [`mr`]: memory regions with attributes, and layouts over them.
//! - [`odp`]: memory that is paged on demand, and advice about it.
//! - [`peer`]: memory of other devices, offered by their drivers.

pub mod addressing;
pub mod context;
pub mod copy;
pub mod dmabuf;
pub mod driver;
pub mod events;
pub mod gate;
pub mod id_table;
pub mod log;
pub mod memcg;
pub mod mr;
pub mod netdev;
pub mod object;
pub mod odp;
mod ops;
pub mod peer;
pub mod registration;
pub mod rwsem;
pub mod shared_ring;
pub mod task;
pub mod udata;
pub mod umem;
pub mod uverbs;
pub mod work;
pub mod wr;
