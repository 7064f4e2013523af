// SPDX-License-Identifier: GPL-2.0

//! The device: a software RDMA provider that moves bytes from memory to memory.
//!
//! - [`port`]: a device on its interface, its attributes and addresses.
//! - [`cq`]: completion queues.
//! - [`wqe`]: work requests as they stand in rings, and as they are understood.
//! - [`qp`]: queue pairs; [`attrs`] their attributes and states.
//! - [`sq`], [`rq`]: the two queues of a pair.
//! - [`execute`]: what a work request does.
//! - [`status`]: how it ended.
//! - [`verbs`]: all of it as a [`Driver`](crate::rdma::driver::Driver).
//!
//! # Who executes
//!
//! A process that rings the doorbell executes its own send queue, up to what it has posted, before
//! the call returns. What cannot go on (the other side has no receive posted, or cannot be reached)
//! goes on later in a work queue. A queue pair that breaks is flushed in the work queue, too,
//! unless the one who broke it is its own poster.
//!
//! # Locks
//!
//! From the outside in; none is held while one further out is taken:
//!
//! 1. [`qp::Qp::control`]: one change of attributes at a time (mutex).
//! 2. [`qp::Qp::send`]: the send queue; whoever holds it executes (mutex). Never held for two queue
//!    pairs at a time: a request that breaks the other side queues work there.
//! 3. [`qp::Qp::recv`], [`qp::Qp::path`], the locks of regions: leaves, held for a copy of a few
//!    words (spinlocks).
//! 4. [`cq::Cq::ring`]: a completion queue; a leaf that is taken with interrupts off.

pub mod attrs;
pub mod cq;
pub mod execute;
pub mod port;
pub mod qp;
pub mod rq;
pub mod sq;
pub mod status;
pub mod verbs;
pub mod wqe;
