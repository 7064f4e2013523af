// SPDX-License-Identifier: GPL-2.0

//! Work requests as they stand in rings.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)
//!
//! A raw request is copied out of its ring once; everything is decided on the copy.

use super::{
    request::{
        AtomicOperation,
        Destination,
        Local,
        Operation,
        Remote,
        SendLimits,
        SendRequest,
        Sge, //
    },
    status::{
        Extra,
        Status, //
    },
};
use crate::{
    bindings,
    rdma::{
        addressing::Path,
        mr::{
            access::Access,
            fast::Registration,
            key::Key,
            memory_window::BindRequest, //
        }, //
    },
};
use core::mem::offset_of;
use kernel::transmute::{
    AsBytes,
    FromBytes, //
};

pub mod compose;

/// The most scatter/gather elements of a work request.
pub const MAX_SGE: usize = 32;
/// The most bytes of a message (IBTA 1.7, 9.7.6.1.1: 2 GiB).
pub const MAX_MESSAGE: u64 = 1 << 31;

const WR: usize = offset_of!(bindings::rxe_send_wqe, wr);
const WR_ARGS: usize = WR + offset_of!(bindings::rxe_send_wr, wr);
const DMA: usize = offset_of!(bindings::rxe_send_wqe, dma);
const ARGS_WORDS: usize = (DMA - WR_ARGS) / 4;

/// A scatter/gather element in a ring.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct RawSge {
    addr: u64,
    length: u32,
    lkey: u32,
}

/// `struct rxe_dma_info`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawDma {
    length: u32,
    resid: u32,
    cur_sge: u32,
    num_sge: u32,
    sge_offset: u32,
    reserved: u32,
}

impl RawDma {
    /// Bytes of the elements that follow, of which there are at most `max_sge`.
    fn element_bytes(&self, max_sge: u32) -> usize {
        self.num_sge.min(max_sge) as usize * size_of::<RawSge>()
    }
}

/// A send work request in a ring: `struct rxe_send_wqe` with its elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawSend {
    wr_id: u64,
    reserved: u32,
    opcode: u32,
    send_flags: u32,
    ex: u32,
    args: [u32; ARGS_WORDS],
    dma: RawDma,
    sges: [RawSge; MAX_SGE],
}

/// A receive work request in a ring: `struct rxe_recv_wqe` with its elements.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawRecv {
    wr_id: u64,
    reserved: u32,
    padding: u32,
    dma: RawDma,
    sges: [RawSge; MAX_SGE],
}

/// Bytes of a send work request before its elements or inline data.
pub const SEND_HEADER: usize = offset_of!(RawSend, sges);
/// Bytes of a receive work request before its elements.
pub const RECV_HEADER: usize = offset_of!(RawRecv, sges);

const _: () = assert!(SEND_HEADER == size_of::<bindings::rxe_send_wqe>());
const _: () = assert!(RECV_HEADER == size_of::<bindings::rxe_recv_wqe>());
const _: () = assert!(offset_of!(RawSend, dma) == DMA);
const _: () = assert!(offset_of!(RawSend, args) == WR_ARGS);
const _: () = assert!(offset_of!(RawRecv, dma) == offset_of!(bindings::rxe_recv_wqe, dma));
const _: () = assert!(size_of::<RawSge>() == size_of::<bindings::rxe_sge>());

// SAFETY: Integers only, without padding, as the assertions on the sizes show.
unsafe impl FromBytes for RawSend {}
// SAFETY: As above.
unsafe impl AsBytes for RawSend {}
// SAFETY: As above.
unsafe impl FromBytes for RawRecv {}
// SAFETY: As above.
unsafe impl AsBytes for RawRecv {}

impl Default for RawSend {
    fn default() -> Self {
        Self {
            wr_id: 0,
            reserved: 0,
            opcode: 0,
            send_flags: 0,
            ex: 0,
            args: [0; ARGS_WORDS],
            dma: RawDma::default(),
            sges: [RawSge::default(); MAX_SGE],
        }
    }
}

impl Default for RawRecv {
    fn default() -> Self {
        Self {
            wr_id: 0,
            reserved: 0,
            padding: 0,
            dma: RawDma::default(),
            sges: [RawSge::default(); MAX_SGE],
        }
    }
}

impl From<&RawSge> for Sge {
    fn from(raw: &RawSge) -> Self {
        Self {
            addr: raw.addr,
            length: raw.length,
            key: Key::from_raw(raw.lkey),
        }
    }
}

/// `IBV_WR_DRIVER1` of libibverbs, which `mrx.h` names `IBV_WR_BIND_MR`.
const DRIVER1: u32 = 11;
/// What `IB_WR_RDMA_READ_WITH_INV`, which users in the kernel can post, is in rings: its value
/// there is that of [`DRIVER1`].
const READ_WITH_INVALIDATE: u32 = 0x100;

/// A flag of [`RawSend`]'s `args`: `IB_FLUSH_PERSISTENT`.
const FLUSH_PERSISTENT: u32 = 1 << 1;
/// `IB_FLUSH_MR`: the level of a flush that is about the whole region.
const FLUSH_REGION: u32 = 1;

impl RawSend {
    /// What the poster calls it.
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Bytes up to the end of its elements, of which there are at most `max_sge`.
    pub fn len(&self, max_sge: u32) -> usize {
        SEND_HEADER + self.dma.element_bytes(max_sge)
    }

    fn remote(&self) -> Remote {
        // `struct { u64 remote_addr; u32 rkey; u32 reserved; } rdma`
        let [low, high, rkey, ..] = self.args;
        Remote {
            addr: word(low, high),
            key: Key::from_raw(rkey),
        }
    }

    fn atomic(&self, is_compare: bool) -> Operation {
        // `struct { u64 remote_addr; u64 compare_add; u64 swap; u32 rkey; u32 reserved; } atomic`
        let [a0, a1, c0, c1, s0, s1, rkey, ..] = self.args;
        let compare_add = word(c0, c1);
        Operation::Atomic {
            remote: Remote {
                addr: word(a0, a1),
                key: Key::from_raw(rkey),
            },
            operation: if is_compare {
                AtomicOperation::CompareAndSwap {
                    compare: compare_add,
                    swap: word(s0, s1),
                }
            } else {
                AtomicOperation::FetchAndAdd { add: compare_add }
            },
        }
    }

    fn flush(&self) -> Operation {
        // `struct { u64 remote_addr; u32 length; u32 rkey; u8 type; u8 level; } flush`, of which the
        // provider library leaves `length` out.
        let [a0, a1, _, rkey, how, ..] = self.args;
        let length = self.dma.length;
        Operation::Flush {
            remote: Remote {
                addr: word(a0, a1),
                key: Key::from_raw(rkey),
            },
            length: (how >> 8 & 0xff != FLUSH_REGION).then_some(length),
            persistent: how & FLUSH_PERSISTENT != 0,
        }
    }

    fn bind_window(&self) -> Operation {
        // `struct { u64 addr; u64 length; u32 mr_lkey; u32 mw_rkey; u32 rkey; u32 access; } mw`
        let [a0, a1, l0, l1, mr_lkey, mw_rkey, rkey, access, ..] = self.args;
        Operation::BindWindow(BindRequest {
            window: Key::from_raw(mw_rkey),
            key: Key::from_raw(rkey),
            region: Key::from_raw(mr_lkey),
            addr: word(a0, a1),
            length: word(l0, l1),
            access: Access::from_bits(access),
        })
    }

    fn register(&self) -> Operation {
        // As `set_registration` writes it.
        let [a0, a1, l0, l1, key, access, ..] = self.args;
        Operation::Register(Registration {
            key: Key::from_raw(key),
            access: Access::from_bits(access),
            iova: word(a0, a1),
            length: word(l0, l1),
        })
    }

    /// Where the request goes, on a queue pair of datagrams.
    pub fn destination(&self) -> Destination {
        // `struct { u32 remote_qpn, remote_qkey; u16 pkey_index, reserved; u32 ah_num, pad[4];
        // struct rxe_av av; } ud`; `av` begins with a port, a network and a hardware address.
        let [qp_num, qkey, _, ah_num, _, _, _, _, _, _, d0, d1, d2, d3, flow, bytes, ..] =
            self.args;
        let mut dgid = [0; 16];
        for (to, from) in dgid.chunks_exact_mut(4).zip([d0, d1, d2, d3]) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        let [sgid_index, hop_limit, traffic_class, _] = bytes.to_ne_bytes();
        Destination {
            qp_num,
            qkey,
            ah_num,
            path: Path {
                dgid,
                sgid_index,
                flow_label: flow,
                hop_limit,
                traffic_class,
                sl: 0,
            },
        }
    }

    fn operation(&self, limits: SendLimits) -> Result<Operation, Status> {
        Ok(match self.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => Operation::Send { extra: Extra::None },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => Operation::Send {
                extra: Extra::Imm(self.ex),
            },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_INV => Operation::Send {
                extra: Extra::Invalidate(self.ex),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => Operation::Write {
                remote: self.remote(),
                imm: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => Operation::Write {
                remote: self.remote(),
                imm: Some(self.ex),
            },
            bindings::ib_wr_opcode_IB_WR_ATOMIC_WRITE => Operation::AtomicWrite {
                remote: self.remote(),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => Operation::Read {
                remote: self.remote(),
                invalidate: None,
            },
            READ_WITH_INVALIDATE if limits.from_kernel => Operation::Read {
                remote: self.remote(),
                invalidate: Some(Key::from_raw(self.ex)),
            },
            bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP => self.atomic(true),
            bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => self.atomic(false),
            bindings::ib_wr_opcode_IB_WR_FLUSH => self.flush(),
            bindings::ib_wr_opcode_IB_WR_BIND_MW => self.bind_window(),
            bindings::ib_wr_opcode_IB_WR_LOCAL_INV => Operation::Invalidate {
                key: Key::from_raw(self.ex),
            },
            bindings::ib_wr_opcode_IB_WR_REG_MR if limits.from_kernel => self.register(),
            DRIVER1 => Operation::Bind {
                // The first element names the region; its address and length mean nothing.
                key: Key::from_raw(self.sges.first().map_or(0, |sge| sge.lkey)),
            },
            _ => return Err(Status::LocalQpOperation),
        })
    }

    /// Understands the request, within the limits of its queue.
    pub fn understand(&self, limits: SendLimits) -> SendRequest<'_> {
        let has = |flag: bindings::ib_send_flags| self.send_flags & flag as u32 != 0;
        let mut operation = self.operation(limits);
        let (inline_possible, inline_always, local_only) = match operation {
            Ok(Operation::Send { .. } | Operation::Write { .. }) => (true, false, false),
            // The provider library leaves the word where inline data is, without a flag.
            Ok(Operation::AtomicWrite { .. }) => (true, !limits.from_kernel, false),
            Ok(Operation::Read { .. } | Operation::Atomic { .. }) => (false, false, false),
            _ => (false, false, true),
        };
        let mut refuse = |status| {
            if operation.is_ok() {
                operation = Err(status);
            }
        };
        let (local, length) = if local_only {
            (Local::Elements(&[]), 0)
        } else if has(bindings::ib_send_flags_IB_SEND_INLINE) || inline_always {
            if !inline_possible {
                refuse(Status::LocalQpOperation);
            }
            if self.dma.length > limits.max_inline {
                refuse(Status::LocalLength);
            }
            let length = self.dma.length.min(limits.max_inline);
            (Local::Inline(length as usize), u64::from(length))
        } else {
            let elements = elements(&self.sges, self.dma.num_sge, limits.max_sge);
            if elements.is_none() {
                refuse(Status::LocalQpOperation);
            }
            let elements = elements.unwrap_or(&[]);
            (Local::Elements(elements), total(elements))
        };
        if length > MAX_MESSAGE {
            refuse(Status::LocalLength);
        }
        SendRequest {
            wr_id: self.wr_id,
            signalled: has(bindings::ib_send_flags_IB_SEND_SIGNALED),
            solicited: has(bindings::ib_send_flags_IB_SEND_SOLICITED),
            operation,
            local,
            length,
        }
    }
}

const fn word(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

impl RawRecv {
    /// What the poster calls it.
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }

    /// Bytes up to the end of its elements, of which there are at most `max_sge`.
    pub fn len(&self, max_sge: u32) -> usize {
        RECV_HEADER + self.dma.element_bytes(max_sge)
    }

    /// Where the message goes; `None` if the request has more elements than its queue allows.
    pub fn elements(&self, max_sge: u32) -> Option<&[RawSge]> {
        elements(&self.sges, self.dma.num_sge, max_sge)
    }
}

fn elements(sges: &[RawSge; MAX_SGE], count: u32, max: u32) -> Option<&[RawSge]> {
    if count > max {
        return None;
    }
    sges.get(..count as usize)
}

/// Bytes of all elements. Cannot overflow: 32 bits for each of at most [`MAX_SGE`].
pub fn total(elements: &[RawSge]) -> u64 {
    elements.iter().map(|e| u64::from(e.length)).sum()
}
