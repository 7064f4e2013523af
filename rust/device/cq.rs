// SPDX-License-Identifier: GPL-2.0

//! Completion queues.

use super::status::{
    Completion,
    Extra,
    Status, //
};
use crate::{
    bindings,
    rdma::{
        context::{
            Mapping,
            UserContext, //
        },
        driver::{
            CqHandle,
            Wc, //
        },
        log::warn_ratelimited,
        shared_ring::SharedRing,
        task,
        udata::Udata, //
    },
};
use kernel::{
    new_mutex,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLockIrq, //
    },
    transmute::{
        AsBytes,
        FromBytes, //
    }, //
};

/// Bytes of an entry, as the provider library expects them.
const ENTRY_SIZE: usize = 64;

const _: () = assert!(size_of::<bindings::ib_uverbs_wc>() <= ENTRY_SIZE);

/// Completions that are moved to another ring before interrupts are let in.
const MOVED_AT_ONCE: u32 = 256;

/// What the owner wants to be told of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Notify {
    Nothing,
    Solicited,
    Any,
}

/// The ring and the kernel's side of it.
struct Ring {
    ring: Arc<SharedRing>,
    /// Absent if the queue is polled by a user in the kernel.
    mapping: Option<Mapping>,
    /// The queue has been destroyed; nothing is written to the ring any more.
    closed: bool,
    producer: u32,
    /// How far the owner was known to have read.
    consumer: u32,
    notify: Notify,
    overflowed: bool,
}

/// A completion queue.
#[pin_data]
pub struct Cq {
    #[pin]
    handle: CqHandle,
    /// One change of size at a time. Taken before `ring`.
    #[pin]
    resizing: Mutex<()>,
    /// Guards the kernel's index and the request for an event. A leaf, with interrupts off.
    #[pin]
    ring: SpinLockIrq<Ring>,
}

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for Entry {}

/// An entry as it stands in the ring.
#[repr(transparent)]
struct Entry(bindings::ib_uverbs_wc);

impl From<&Completion> for Entry {
    fn from(c: &Completion) -> Self {
        let mut wc = bindings::ib_uverbs_wc {
            wr_id: c.wr_id,
            status: c.status as u32,
            opcode: c.done as u32,
            byte_len: c.byte_len,
            qp_num: c.qp_num,
            src_qp: c.src_qp,
            port_num: 1,
            ..Default::default()
        };
        let (flags, extra) = flags(c, USER_WITH_INVALIDATE);
        wc.wc_flags = flags;
        wc.ex.bindgen_union_field = extra;
        Self(wc)
    }
}

/// `IBV_WC_WITH_INV` of libibverbs, which is another bit than in the kernel.
const USER_WITH_INVALIDATE: u32 = 1 << 3;

/// The flags of a completion, and what it has besides; `with_invalidate` is the flag that says that
/// this is a key.
fn flags(c: &Completion, with_invalidate: u32) -> (u32, u32) {
    let (flag, extra) = match c.extra {
        Extra::None => (0, 0),
        Extra::Imm(imm) => (bindings::ib_wc_flags_IB_WC_WITH_IMM, imm),
        Extra::Invalidate(key) => (with_invalidate, key),
    };
    let header = match c.network {
        None => 0,
        Some(_) => bindings::ib_wc_flags_IB_WC_GRH,
    };
    (flag | header, extra)
}

/// An entry for a user in the kernel, which does not see it as it is.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct KernelEntry {
    wr_id: u64,
    qp_address: u64,
    status: u32,
    opcode: u32,
    byte_len: u32,
    flags: u32,
    extra: u32,
    src_qp: u32,
    network: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<KernelEntry>() <= ENTRY_SIZE);

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for KernelEntry {}
// SAFETY: As above.
unsafe impl FromBytes for KernelEntry {}

impl From<&Completion> for KernelEntry {
    fn from(c: &Completion) -> Self {
        let (flags, extra) = flags(c, bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE);
        let network_flag = bindings::ib_wc_flags_IB_WC_WITH_NETWORK_HDR_TYPE;
        Self {
            wr_id: c.wr_id,
            qp_address: c.qp_address as u64,
            status: c.status as u32,
            opcode: c.done as u32,
            byte_len: c.byte_len,
            flags: flags | c.network.map_or(0, |_| network_flag),
            extra,
            src_qp: c.src_qp,
            network: c.network.map_or(0, |network| network as u32),
            reserved: 0,
        }
    }
}

impl KernelEntry {
    fn put(&self, wc: &mut Wc) {
        *wc = Wc::default();
        wc.__bindgen_anon_1.bindgen_union_field = self.wr_id;
        wc.status = self.status;
        wc.opcode = self.opcode;
        wc.byte_len = self.byte_len;
        wc.qp = self.qp_address as *mut bindings::ib_qp;
        wc.ex.bindgen_union_field = self.extra;
        wc.src_qp = self.src_qp;
        wc.wc_flags = self.flags as c_int;
        wc.port_num = 1;
        wc.network_hdr_type = self.network as u8;
    }
}

fn make_ring(
    entries: &mut u32,
    user: Option<(UserContext, Udata<'_>)>,
) -> Result<(Arc<SharedRing>, Option<Mapping>)> {
    let ring = SharedRing::new(*entries, ENTRY_SIZE)?;
    let mapping = match user {
        None => None,
        Some((context, udata)) => {
            let mapping = context.offer(ring.clone())?;
            udata.respond(&Response(mapping.info()))?;
            Some(mapping)
        }
    };
    *entries = ring.capacity();
    Ok((ring, mapping))
}

/// What the provider library is told of a new ring.
#[repr(transparent)]
struct Response(bindings::mminfo);

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for Response {}

impl Cq {
    /// Makes a queue of at least `*entries` entries and says how many it has.
    pub fn new(
        handle: impl PinInit<CqHandle>,
        entries: &mut u32,
        user: Option<(UserContext, Udata<'_>)>,
    ) -> Result<Arc<Self>> {
        let (ring, mapping) = make_ring(entries, user)?;
        Arc::pin_init(
            try_pin_init!(Self {
                handle <- handle,
                resizing <- new_mutex!((), "Cq::resizing"),
                ring <- new_spinlock_irq!(Ring {
                    ring,
                    mapping,
                    closed: false,
                    producer: 0,
                    consumer: 0,
                    notify: Notify::Nothing,
                    overflowed: false,
                }, "Cq::ring"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Moves the completions that have not been polled into a ring of another size. `EINVAL` if
    /// they do not fit.
    ///
    /// A few at a time, since interrupts are off meanwhile; what is added in between goes to the old
    /// ring and is moved with the rest. The process is not to poll while it asks for this; if it
    /// does, it may find completions again that it has taken.
    pub fn resize(&self, entries: &mut u32, user: (UserContext, Udata<'_>)) -> Result {
        let (ring, mapping) = make_ring(entries, Some(user))?;
        let _resizing = self.resizing.lock();
        let mut from = {
            let own = self.ring.lock();
            own.ring.consumer()
        };
        let mut moved = 0;
        let old = loop {
            task::let_others_run();
            let mut own = self.ring.lock();
            let waiting = own.ring.distance(from, own.producer);
            if waiting > ring.capacity() - moved {
                return Err(EINVAL);
            }
            let mut entry = [0u64; ENTRY_SIZE / size_of::<u64>()];
            for _ in 0..waiting.min(MOVED_AT_ONCE) {
                own.ring.read_into(from, &mut entry);
                ring.write_from(moved, &entry);
                from = own.ring.next(from);
                moved += 1;
            }
            if waiting > MOVED_AT_ONCE {
                continue;
            }
            ring.set_producer(moved);
            own.producer = moved;
            own.consumer = 0;
            own.overflowed = false;
            break (
                core::mem::replace(&mut own.ring, ring),
                core::mem::replace(&mut own.mapping, mapping),
            );
        };
        drop(old);
        Ok(())
    }

    /// Adds a completion, and tells the owner if it asked for that.
    ///
    /// A completion that finds the queue full is lost; the owner is told once (IBTA 1.7, 11.6.3.1:
    /// CQ error).
    pub fn post(&self, completion: &Completion) {
        let (notify, overflow) = {
            let mut own = self.ring.lock();
            if own.closed {
                return;
            }
            let next = own.ring.next(own.producer);
            if next == own.consumer {
                own.consumer = own.ring.consumer();
            }
            if next == own.consumer {
                (false, !core::mem::replace(&mut own.overflowed, true))
            } else {
                match own.mapping {
                    Some(_) => own.ring.write_from(own.producer, &Entry::from(completion)),
                    None => own
                        .ring
                        .write_from(own.producer, &KernelEntry::from(completion)),
                }
                own.producer = next;
                own.ring.set_producer(next);
                let urgent = completion.solicited || completion.status != Status::Success;
                let notify = match own.notify {
                    Notify::Nothing => false,
                    Notify::Solicited => urgent,
                    Notify::Any => true,
                };
                if notify {
                    own.notify = Notify::Nothing;
                }
                (notify, false)
            }
        };
        if notify {
            self.handle.completed();
        }
        if overflow {
            warn_ratelimited!("a completion queue overflowed: completions are lost\n");
            self.handle.overflowed();
        }
    }

    /// Takes completions off the queue of a user in the kernel; returns how many.
    pub fn poll(&self, out: &mut [Wc]) -> usize {
        let own = self.ring.lock();
        if own.mapping.is_some() || own.closed {
            return 0;
        }
        let mut at = own.ring.consumer();
        let mut taken = 0;
        for wc in out {
            if at == own.producer {
                break;
            }
            let mut entry = KernelEntry::default();
            own.ring.read_into(at, &mut entry);
            entry.put(wc);
            at = own.ring.next(at);
            taken += 1;
        }
        own.ring.set_consumer(at);
        taken
    }

    /// Asks for an event; see [`Driver::request_notify`](crate::rdma::driver::Driver).
    pub fn request_notify(&self, solicited_only: bool, report_missed: bool) -> bool {
        let mut own = self.ring.lock();
        own.notify = match own.notify {
            Notify::Any => Notify::Any,
            _ if solicited_only => Notify::Solicited,
            _ => Notify::Any,
        };
        report_missed && own.ring.consumer() != own.producer
    }

    /// Ends the queue: nobody is told of anything any more.
    pub fn close(&self) {
        self.handle.close();
        let mapping = {
            let mut own = self.ring.lock();
            own.closed = true;
            own.mapping.take()
        };
        // The process's context may go as soon as this returns, whoever still holds the queue.
        drop(mapping);
    }
}
