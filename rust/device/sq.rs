// SPDX-License-Identifier: GPL-2.0

//! The send queue of a queue pair, and what its execution needs at hand.

use super::{
    attempts::Attempts,
    attrs::Snapshot,
    request::SendLimits,
    wqe::{
        RawRecv,
        RawSend,
        RawSge,
        MAX_SGE,
        SEND_HEADER, //
    },
};
use crate::{
    bindings,
    rdma::{
        context::{
            Mapping,
            UserContext, //
        },
        mr::side::Side,
        shared_ring::SharedRing, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    }, //
};

/// How the other side was reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Its device, by the place of that in memory; only to be compared.
    pub device: usize,
    /// The address that the device had.
    pub gid: [u8; 16],
    /// The generation in which that was found out.
    pub generation: u32,
}

/// Sends that have been posted.
///
/// Everything that executing a request needs is allocated here once.
pub struct SendQueue {
    ring: Arc<SharedRing>,
    /// Absent if the ring is filled by a user in the kernel.
    mapping: Option<Mapping>,
    consumer: u32,
    limits: SendLimits,
    /// The request that is being executed.
    pub wqe: KBox<RawSend>,
    /// What its execution works with.
    pub workspace: Workspace,
    /// For the request at the head, once it had to wait.
    pub attempts: Option<Attempts>,
    /// Until when the request at the head has to wait.
    pub not_before: Option<Instant<Monotonic>>,
    /// The attributes that the last request was executed with.
    pub attrs: Snapshot,
}

/// What the execution of requests works with. Some of it is left for the next request, which most
/// likely needs the same.
pub struct Workspace {
    /// The receive of the other side that the request goes into.
    pub recv: KBox<RawRecv>,
    /// The local bytes.
    pub local: Side,
    /// The bytes of the other side.
    pub remote: Side,
    /// Where a datagram is gathered before anybody's receive is used up for it; empty on
    /// connections.
    pub gathered: KVec<u8>,
    /// Where the other side was found last.
    pub route: Option<Route>,
}

impl Workspace {
    /// Makes one for requests of up to [`MAX_SGE`] elements, and datagrams of `gather` bytes.
    fn new(gather: usize) -> Result<Self> {
        Ok(Self {
            recv: KBox::new(RawRecv::default(), GFP_KERNEL_ACCOUNT)?,
            local: Side::new(MAX_SGE)?,
            remote: Side::new(MAX_SGE)?,
            gathered: KVec::from_elem(0, gather, GFP_KERNEL_ACCOUNT)?,
            route: None,
        })
    }

    /// The request is done with.
    #[inline(always)]
    fn finish(&mut self) {
        self.local.finish();
        self.remote.finish();
    }

    /// Forgets regions.
    fn forget(&mut self) {
        self.local.forget();
        self.remote.forget();
    }
}

impl SendQueue {
    /// Makes a queue of at least `max_wr` requests, of up to `max_sge` elements or `max_inline`
    /// bytes of inline data. Datagrams may have `gather` bytes.
    pub fn new(
        context: Option<UserContext>,
        max_wr: u32,
        max_sge: u32,
        max_inline: u32,
        gather: usize,
    ) -> Result<Self> {
        let sge_bytes = (max_sge as usize)
            .checked_mul(size_of::<RawSge>())
            .ok_or(EINVAL)?;
        let payload = sge_bytes.max(max_inline as usize);
        if payload > MAX_SGE * size_of::<RawSge>() {
            return Err(EINVAL);
        }
        let payload = payload.next_multiple_of(size_of::<RawSge>());
        let ring = SharedRing::new(max_wr, SEND_HEADER + payload)?;
        let mapping = context
            .map(|context| context.offer(ring.clone()))
            .transpose()?;
        Ok(Self {
            ring,
            mapping,
            consumer: 0,
            limits: SendLimits {
                max_sge: (payload / size_of::<RawSge>()) as u32,
                max_inline: payload as u32,
                from_kernel: context.is_none(),
            },
            wqe: KBox::new(RawSend::default(), GFP_KERNEL_ACCOUNT)?,
            workspace: Workspace::new(gather)?,
            attempts: None,
            not_before: None,
            attrs: Snapshot::default(),
        })
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

    /// Requests that fit.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// What a request may have.
    pub fn limits(&self) -> SendLimits {
        self.limits
    }

    /// Requests that are posted.
    pub fn len(&self) -> u32 {
        self.ring.distance(self.consumer, self.ring.producer())
    }

    /// Copies the request at the head, which has been posted, out of the ring.
    pub fn peek(&mut self) {
        // Most requests have one element, and some operations use it whatever their number.
        let most = SEND_HEADER + size_of::<RawSge>();
        self.ring.read_part(self.consumer, &mut *self.wqe, 0..most);
        let len = self.wqe.len(self.limits.max_sge);
        if len > most {
            self.ring
                .read_part(self.consumer, &mut *self.wqe, most..len);
        }
    }

    /// The inline data of the request at the head. The process may change it at any time.
    pub fn inline_data(&self) -> *const u8 {
        self.ring.slot(self.consumer).wrapping_add(SEND_HEADER)
    }

    /// Says that the request at the head is done with. Who is told that it is finds room for another.
    pub fn pop(&mut self) {
        self.workspace.finish();
        self.attempts = None;
        self.not_before = None;
        self.consumer = self.ring.next(self.consumer);
        self.ring.set_consumer(self.consumer);
    }

    /// Forgets everything that was posted, without a completion.
    pub fn discard(&mut self) {
        self.consumer = self.ring.producer();
        self.ring.set_consumer(self.consumer);
        self.forget();
    }

    /// Starts anew.
    pub fn reset(&mut self) {
        self.consumer = 0;
        self.ring.set_consumer(0);
        self.ring.set_producer(0);
        self.workspace.route = None;
        self.forget();
    }

    /// Forgets what belongs to the request at the head, or to the last one.
    fn forget(&mut self) {
        self.workspace.forget();
        self.attempts = None;
        self.not_before = None;
    }
}
