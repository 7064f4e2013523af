// SPDX-License-Identifier: GPL-2.0

//! Receive queues: that of a queue pair, or what several share.

use super::wqe::{
    RawRecv,
    RawSge,
    MAX_SGE,
    RECV_HEADER, //
};
use crate::{
    bindings,
    rdma::{
        context::{
            Mapping,
            UserContext, //
        },
        shared_ring::SharedRing, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Receives that have been posted.
pub struct RecvQueue {
    ring: Arc<SharedRing>,
    /// Absent if the ring is filled by a user in the kernel.
    mapping: Option<Mapping>,
    consumer: u32,
    /// How far the owner was known to have posted.
    producer: u32,
    max_sge: u32,
}

fn make_ring(
    max_wr: u32,
    max_sge: u32,
    context: Option<UserContext>,
) -> Result<(Arc<SharedRing>, Option<Mapping>)> {
    if max_sge as usize > MAX_SGE {
        return Err(EINVAL);
    }
    let entry = RECV_HEADER + max_sge as usize * size_of::<RawSge>();
    let ring = SharedRing::new(max_wr, entry)?;
    let mapping = context
        .map(|context| context.offer(ring.clone()))
        .transpose()?;
    Ok((ring, mapping))
}

impl RecvQueue {
    /// Makes a queue of at least `max_wr` receives of up to `max_sge` elements.
    pub fn new(context: Option<UserContext>, max_wr: u32, max_sge: u32) -> Result<Self> {
        let (ring, mapping) = make_ring(max_wr, max_sge, context)?;
        Ok(Self {
            ring,
            mapping,
            consumer: 0,
            producer: 0,
            max_sge,
        })
    }

    /// Moves the receives of `old` to this queue, which is empty. `EINVAL` if they do not fit;
    /// nothing has changed then.
    pub fn take_over(&mut self, old: &Self) -> Result {
        let waiting = old.len();
        if waiting > self.capacity() {
            return Err(EINVAL);
        }
        let mut raw = RawRecv::default();
        let mut from = old.consumer;
        for to in 0..waiting {
            old.ring.read_into(from, &mut raw);
            self.ring.write_from(to, &raw);
            from = old.ring.next(from);
        }
        self.ring.set_producer(waiting);
        Ok(())
    }

    /// The ring, for who fills it in the kernel.
    pub fn ring(&self) -> &Arc<SharedRing> {
        &self.ring
    }

    /// Takes away what lets a process map the queue. The result is dropped before the process's
    /// context goes, and where sleeping is allowed.
    pub fn unmap(&mut self) -> Option<Mapping> {
        self.mapping.take()
    }

    /// What a process needs to map the queue.
    pub fn info(&self) -> bindings::mminfo {
        self.mapping.as_ref().map(Mapping::info).unwrap_or_default()
    }

    /// Receives that fit.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Receives that are posted.
    pub fn len(&self) -> u32 {
        self.ring.distance(self.consumer, self.ring.producer())
    }

    /// Elements that a receive may have.
    pub fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next receive out of the ring, if `fits`. Returns whether there was one that did.
    pub fn take(&mut self, out: &mut RawRecv, fits: impl FnOnce(&RawRecv) -> bool) -> bool {
        if self.producer == self.consumer {
            self.producer = self.ring.producer();
        }
        if self.producer == self.consumer {
            return false;
        }
        // Most receives have one element.
        let most = RECV_HEADER + size_of::<RawSge>();
        self.ring.read_part(self.consumer, out, 0..most);
        let len = out.len(self.max_sge);
        if len > most {
            self.ring.read_part(self.consumer, out, most..len);
        }
        if !fits(out) {
            return false;
        }
        self.consumer = self.ring.next(self.consumer);
        self.ring.set_consumer(self.consumer);
        true
    }

    /// Forgets everything that was posted.
    pub fn reset(&mut self) {
        self.consumer = 0;
        self.producer = 0;
        self.ring.set_consumer(0);
        self.ring.set_producer(0);
    }
}
