// SPDX-License-Identifier: GPL-2.0

//! The device: a software RDMA provider that moves bytes from memory to memory.
//!
//! - [`port`]: a device on its interface, its attributes and addresses; [`counters`].
//! - [`cq`]: completion queues; [`status`]: how a work request ended.
//! - [`wqe`], [`request`]: work requests as they stand in rings, and as they are understood;
//!   [`kernel_queue`]: how users in the kernel put them there.
//! - [`qp`], [`make_qp`]: queue pairs; [`attrs`] their attributes and states, [`transport`] their kinds.
//! - [`sq`], [`rq`]: the two queues of a pair; [`srq`]: receives that several share.
//! - [`ah`], [`multicast`]: where datagrams go.
//! - [`progress`]: who executes the requests of a queue pair, and when.
//! - [`execute`]: what becomes of one; [`transfer`], [`atomic`], [`datagram`]: what it does;
//!   [`attempts`]: how often it is tried again.
//! - [`verbs`]: all of it as a [`Driver`](crate::rdma::driver::Driver).
//!
//! # Who executes
//!
//! A process that rings the doorbell executes its own send queue, up to what it has posted, before
//! the call returns. What cannot go on (the other side has no receive posted, or cannot be reached)
//! goes on later in a work queue, of which each context of a process has one. A queue pair that
//! breaks is flushed there, too, unless the one who broke it is its own poster. What a user in the
//! kernel posts, who may be in any context, is executed in a work queue of those.
//!
//! Whoever executes a request is a visitor of the other side ([`qp::Qp::visitors`]) meanwhile. Who
//! ends, resets or breaks that side waits for its visitors, who ask every now and then whether to go
//! on, and are asked nothing by those who wait.
//!
//! # Locks
//!
//! From the outside in; none is held while one further out is taken:
//!
//! 1. [`qp::Qp::control`]: one change of attributes at a time (mutex).
//! 2. [`qp::Qp::send`]: the send queue; whoever holds it executes (mutex). Never held for two queue
//!    pairs at a time: a request that breaks the other side queues work there.
//! 3. The list of devices in [`port`], the members of groups in [`multicast`], the layouts of a
//!    domain, and [`cq::Cq::resizing`] (mutexes), none within another.
//! 4. [`qp::Qp::recv`], [`srq::Srq::receives`], [`qp::Qp::path`], [`port::Port::manager`], the locks
//!    of regions and memory windows: leaves, held for a copy of a few words (spinlocks), taken in
//!    process context only.
//! 5. [`cq::Cq::ring`], [`kernel_queue::Producer`], [`ah::Ah::path`], the pages of a region of the
//!    kernel: leaves that are taken with interrupts off, since users in the kernel poll, post and
//!    map in any context.

pub mod ah;
pub mod atomic;
pub mod attempts;
pub mod attrs;
pub mod counters;
pub mod cq;
pub mod datagram;
pub mod execute;
pub mod kernel_queue;
pub mod make_qp;
pub mod multicast;
pub mod port;
pub mod progress;
pub mod qp;
pub mod request;
pub mod rq;
pub mod sq;
pub mod srq;
pub mod status;
pub mod transfer;
pub mod transport;
pub mod verbs;
pub mod wqe;
