// SPDX-License-Identifier: GPL-2.0

//! The receive queue of a queue pair.

use super::wqe::{
    RawRecv,
    MAX_SGE,
    RECV_HEADER, //
};
use crate::rdma::{
    context::{
        Mapping,
        UserContext, //
    },
    shared_ring::SharedRing, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Receives that a process has posted.
pub struct RecvQueue {
    ring: Arc<SharedRing>,
    mapping: Mapping,
    consumer: u32,
    max_sge: u32,
}

impl RecvQueue {
    /// Makes a queue of at least `max_wr` receives of up to `max_sge` elements.
    pub fn new(context: UserContext, max_wr: u32, max_sge: u32) -> Result<Self> {
        if max_sge as usize > MAX_SGE {
            return Err(EINVAL);
        }
        let entry = RECV_HEADER + max_sge as usize * size_of::<super::wqe::RawSge>();
        let ring = SharedRing::new(max_wr, entry)?;
        let mapping = context.offer(ring.clone())?;
        Ok(Self {
            ring,
            mapping,
            consumer: 0,
            max_sge,
        })
    }

    /// What the process needs to map the queue.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Receives that fit.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Elements that a receive may have.
    pub fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next receive out of the ring. Returns whether there was one.
    pub fn take(&mut self, out: &mut RawRecv) -> bool {
        if self.ring.producer() == self.consumer {
            return false;
        }
        self.ring.read_into(self.consumer, out);
        self.consumer = self.ring.next(self.consumer);
        self.ring.set_consumer(self.consumer);
        true
    }

    /// Forgets everything that was posted.
    pub fn reset(&mut self) {
        self.consumer = 0;
        self.ring.set_consumer(0);
        self.ring.set_producer(0);
    }
}
