// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues (IBTA 1.7, 10.2.9).

use super::{
    kernel_queue::Producer,
    rq::RecvQueue,
    wqe::RawRecv, //
};
use crate::{
    bindings,
    rdma::{
        context::UserContext,
        driver::{
            SrqAttr,
            SrqHandle, //
        },
        udata::Udata,
        wr::RecvWr, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
    transmute::{
        AsBytes,
        FromBytes, //
    },
};

/// The most receives of a shared queue.
pub const MAX_WR: u32 = 1 << 14;
/// The most elements of a receive in a shared queue. The provider library has no room for more.
pub const MAX_SGE: u32 = 27;

struct Receives {
    queue: RecvQueue,
    /// The owner is told when fewer are left; 0: never.
    limit: u32,
}

/// A queue from which several queue pairs take their receives.
#[pin_data]
pub struct Srq {
    #[pin]
    handle: SrqHandle,
    /// For a user in the kernel.
    #[pin]
    producer: Producer,
    is_kernel: bool,
    max_sge: u32,
    /// Senders take from it, whatever queue pair they send to.
    #[pin]
    receives: SpinLock<Receives>,
}

/// `struct rxe_create_srq_resp`.
#[repr(C)]
struct CreateResponse {
    ring: bindings::mminfo,
    number: u32,
    reserved: u32,
}

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for CreateResponse {}

/// `struct rxe_modify_srq_cmd`.
#[repr(transparent)]
struct ModifyRequest {
    info_addr: u64,
}

// SAFETY: Any bytes make an integer.
unsafe impl FromBytes for ModifyRequest {}

/// `struct mminfo`, written where the library asks for it.
#[repr(transparent)]
struct Info(bindings::mminfo);

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for Info {}

fn check_size(max_wr: u32) -> Result {
    if max_wr == 0 || max_wr > MAX_WR {
        return Err(EINVAL);
    }
    Ok(())
}

impl Srq {
    /// Makes a queue and says how large it is. `EINVAL` if it is to be empty or too large.
    pub fn new(
        handle: impl PinInit<SrqHandle>,
        attr: &mut SrqAttr,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<Arc<Self>> {
        /// How often a queue has been made, for numbers that tell them apart.
        static NUMBER: Atomic<u32> = Atomic::new(1);

        check_size(attr.max_wr)?;
        if attr.max_sge > MAX_SGE {
            return Err(EINVAL);
        }
        attr.max_sge = attr.max_sge.max(1);
        let queue = RecvQueue::new(user.map(|(context, _)| context), attr.max_wr, attr.max_sge)?;
        if attr.srq_limit > queue.capacity() {
            return Err(EINVAL);
        }
        if let Some((_, udata)) = user {
            udata.respond(&CreateResponse {
                ring: queue.info(),
                number: NUMBER.fetch_add(1, Relaxed) & 0x00ff_ffff,
                reserved: 0,
            })?;
        }
        attr.max_wr = queue.capacity();
        let limit = attr.srq_limit;
        let max_sge = attr.max_sge;
        Arc::pin_init(
            pin_init!(Self {
                handle <- handle,
                producer <- Producer::new(queue.ring().clone()),
                is_kernel: user.is_none(),
                max_sge,
                receives <- new_spinlock!(Receives { queue, limit }, "Srq::receives"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Changes size or limit. `EINVAL` if the receives do not fit or the limit is above the size;
    /// nothing has changed then.
    pub fn modify(
        &self,
        attr: &SrqAttr,
        mask: u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result {
        let limit = (mask & bindings::ib_srq_attr_mask_IB_SRQ_LIMIT != 0).then_some(attr.srq_limit);
        if mask & bindings::ib_srq_attr_mask_IB_SRQ_MAX_WR == 0 {
            let mut receives = self.receives.lock();
            if let Some(limit) = limit {
                if limit > receives.queue.capacity() {
                    return Err(EINVAL);
                }
                receives.limit = limit;
            }
            return Ok(());
        }
        let (context, udata) = user.ok_or(EOPNOTSUPP)?;
        check_size(attr.max_wr)?;
        let request = udata.request::<ModifyRequest>()?;
        let mut new = RecvQueue::new(Some(context), attr.max_wr, self.max_sge)?;
        udata.respond_at(request.info_addr, &Info(new.info()))?;
        let old = {
            let mut receives = self.receives.lock();
            let limit = limit.unwrap_or(receives.limit);
            if limit > new.capacity() {
                return Err(EINVAL);
            }
            new.take_over(&receives.queue)?;
            receives.limit = limit;
            core::mem::replace(&mut receives.queue, new)
        };
        drop(old);
        Ok(())
    }

    /// Tells size and limit.
    pub fn query(&self, attr: &mut SrqAttr) {
        let receives = self.receives.lock();
        attr.max_wr = receives.queue.capacity();
        attr.max_sge = receives.queue.max_sge();
        attr.srq_limit = receives.limit;
    }

    /// Elements that a receive may have.
    pub fn max_sge(&self) -> u32 {
        self.max_sge
    }

    /// Takes the next receive, if `fits`. Returns whether there was one that did.
    pub fn take(&self, out: &mut RawRecv, fits: impl FnOnce(&RawRecv) -> bool) -> bool {
        let (taken, reached) = {
            let mut receives = self.receives.lock();
            let taken = receives.queue.take(out, fits);
            let reached = taken && receives.queue.len() < receives.limit;
            if reached {
                // The owner is told once (IBTA 1.7, 10.2.9.3).
                receives.limit = 0;
            }
            (taken, reached)
        };
        if reached {
            self.handle.limit_reached();
        }
        taken
    }

    /// Posts a receive of a user in the kernel.
    pub fn post(&self, wr: &RecvWr<'_>) -> Result {
        if !self.is_kernel {
            return Err(EOPNOTSUPP);
        }
        self.producer.post_recv(wr, self.max_sge)
    }

    /// Ends the queue: nobody is told of anything any more.
    pub fn close(&self) {
        self.handle.close();
        let mapping = self.receives.lock().queue.unmap();
        // The process's context may go as soon as this returns, whoever still holds the queue.
        drop(mapping);
    }
}
