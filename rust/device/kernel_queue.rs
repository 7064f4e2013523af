// SPDX-License-Identifier: GPL-2.0

//! How users in the kernel post: into the same rings as processes do, which nobody maps.
//!
//! Posting happens in any context and executes nothing. The rings have no pointers in them: what a
//! request names is named by its key, so that execution checks it as it does for a process.

use super::{
    ah::Ah,
    port::Port,
    request::{
        Destination,
        SendLimits, //
    },
    wqe::{
        compose::opcode_from_kernel,
        RawRecv,
        RawSend,
        SEND_HEADER, //
    },
};
use crate::{
    bindings,
    rdma::{
        mr::{
            access::Access,
            fast::Registration,
            key::Key, //
        },
        shared_ring::SharedRing,
        wr::{
            RecvWr,
            SendArgs,
            SendWr, //
        }, //
    },
};
use kernel::{
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    },
};

/// The end of a ring at which requests are put in.
#[pin_data]
pub struct Producer {
    ring: Arc<SharedRing>,
    /// One post at a time. A leaf, with interrupts off.
    #[pin]
    posting: SpinLockIrq<()>,
}

impl Producer {
    /// The end of `ring`.
    pub fn new(ring: Arc<SharedRing>) -> impl PinInit<Self> {
        pin_init!(Self {
            ring,
            posting <- new_spinlock_irq!((), "Producer::posting"),
        })
    }

    /// Has `fill` fill the next slot and adds it. `ENOMEM` if the ring is full.
    fn put(&self, fill: impl FnOnce(u32, &SharedRing) -> Result) -> Result {
        let _posting = self.posting.lock();
        let at = self.ring.producer();
        let next = self.ring.next(at);
        if next == self.ring.consumer() {
            return Err(ENOMEM);
        }
        fill(at, &self.ring)?;
        self.ring.set_producer(next);
        Ok(())
    }

    /// Posts a receive of at most `max_sge` elements.
    pub fn post_recv(&self, wr: &RecvWr<'_>, max_sge: u32) -> Result {
        if wr.elements().len() > max_sge as usize {
            return Err(EINVAL);
        }
        let raw = RawRecv::new(wr.wr_id(), wr.elements())?;
        self.put(|at, ring| {
            ring.write(at, raw.bytes());
            Ok(())
        })
    }

    /// Posts a send on a queue pair of datagrams or of another kind.
    pub fn post_send(&self, wr: &SendWr<'_>, is_datagram: bool, limits: SendLimits) -> Result {
        let opcode = opcode_from_kernel(wr.opcode());
        let mut raw = RawSend::new(wr.wr_id(), opcode, wr.flags(), wr.extra());
        match wr.args::<Port>(is_datagram)? {
            SendArgs::None => {}
            SendArgs::Remote { addr, rkey } => raw.set_remote(addr, rkey),
            SendArgs::Atomic {
                addr,
                rkey,
                compare_add,
                swap,
            } => raw.set_atomic(addr, rkey, compare_add, swap),
            SendArgs::Register {
                region,
                key,
                access,
                iova,
                length,
            } => {
                let key = Key::from_raw(key);
                if key.index() != region.index() {
                    return Err(EINVAL);
                }
                raw.set_registration(&Registration {
                    key,
                    access: Access::from_bits(access),
                    iova,
                    length,
                });
            }
            SendArgs::Datagram { ah, qp_num, qkey } => raw.set_destination(&Destination {
                qp_num,
                qkey,
                ah_num: 0,
                path: Ah::path(ah),
            }),
        }
        if wr.flags() & bindings::ib_send_flags_IB_SEND_INLINE as u32 != 0 {
            let mut data = [0u8; MAX_INLINE];
            let room = data.get_mut(..limits.max_inline as usize).ok_or(EINVAL)?;
            let length = wr.copy_inline(room)?;
            raw.set_inline(length as u32);
            let data = data.get(..length).ok_or(EINVAL)?;
            return self.put(|at, ring| {
                ring.write(at, raw.bytes());
                ring.write_at(at, SEND_HEADER, data);
                Ok(())
            });
        }
        if wr.elements().len() > limits.max_sge as usize {
            return Err(EINVAL);
        }
        raw.set_elements(wr.elements())?;
        self.put(|at, ring| {
            ring.write(at, raw.bytes());
            Ok(())
        })
    }
}

/// The most inline data of a queue, in bytes.
pub const MAX_INLINE: usize = super::wqe::MAX_SGE * 16;
