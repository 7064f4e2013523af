// SPDX-License-Identifier: GPL-2.0

//! Work requests: as they stand in the rings of a process, and as they are understood.
//!
//! C header: [`include/uapi/rdma/rdma_user_rxe.h`](srctree/include/uapi/rdma/rdma_user_rxe.h)
//!
//! A raw request is copied out of its ring once; everything is decided on the copy.

use super::status::Status;
use crate::{
    bindings,
    rdma::mr::key::Key, //
};
use core::mem::offset_of;
use kernel::transmute::{
    AsBytes,
    FromBytes, //
};

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

/// A scatter/gather element.
#[derive(Clone, Copy)]
pub struct Sge {
    /// The first byte, in the region's addressing.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// The region.
    pub key: Key,
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

/// Where the other side's bytes are.
#[derive(Clone, Copy)]
pub struct Remote {
    /// The first byte, in the region's addressing.
    pub addr: u64,
    /// The region.
    pub key: Key,
}

/// What a send work request asks for.
#[derive(Clone, Copy)]
pub enum Operation {
    /// A message into the next receive of the other side.
    Send {
        /// A word along with it, in network order.
        imm: Option<u32>,
    },
    /// Bytes into the other side's memory.
    Write {
        /// Where to.
        remote: Remote,
        /// A word for the next receive of the other side.
        imm: Option<u32>,
    },
    /// The layout that waits on a region is to stand from now on.
    Bind {
        /// The region.
        key: Key,
    },
    /// Bytes out of the other side's memory.
    Read {
        /// Where from.
        remote: Remote,
    },
}

/// `IBV_WR_DRIVER1` of libibverbs, which `mrx.h` names `IBV_WR_BIND_MR`.
const DRIVER1: u32 = 11;

/// Where the local bytes are.
#[derive(Clone, Copy)]
pub enum Local<'a> {
    /// In regions.
    Elements(&'a [RawSge]),
    /// In the ring itself, as many bytes.
    Inline(usize),
}

/// A send work request that has been understood.
pub struct SendRequest<'a> {
    /// What the poster calls it.
    pub wr_id: u64,
    /// Whether it completes visibly when it succeeds.
    pub signalled: bool,
    /// Whether the receiver is to be woken.
    pub solicited: bool,
    /// What to do; or why that makes no sense.
    pub operation: Result<Operation, Status>,
    /// The local side.
    pub local: Local<'a>,
    /// Bytes of the message.
    pub length: u64,
}

/// What the queue allows in a request.
#[derive(Clone, Copy)]
pub struct SendLimits {
    /// Elements.
    pub max_sge: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
}

impl RawSend {
    /// What the poster calls it.
    pub fn wr_id(&self) -> u64 {
        self.wr_id
    }

    fn remote(&self) -> Remote {
        // `struct { u64 remote_addr; u32 rkey; u32 reserved; } rdma`
        let [low, high, rkey, ..] = self.args;
        Remote {
            addr: u64::from(low) | u64::from(high) << 32,
            key: Key::from_raw(rkey),
        }
    }

    fn operation(&self) -> Result<Operation, Status> {
        Ok(match self.opcode {
            bindings::ib_wr_opcode_IB_WR_SEND => Operation::Send { imm: None },
            bindings::ib_wr_opcode_IB_WR_SEND_WITH_IMM => Operation::Send { imm: Some(self.ex) },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE => Operation::Write {
                remote: self.remote(),
                imm: None,
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM => Operation::Write {
                remote: self.remote(),
                imm: Some(self.ex),
            },
            bindings::ib_wr_opcode_IB_WR_RDMA_READ => Operation::Read {
                remote: self.remote(),
            },
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
        let mut operation = self.operation();
        let mut refuse = |status| {
            if operation.is_ok() {
                operation = Err(status);
            }
        };
        let (local, length) = if has(bindings::ib_send_flags_IB_SEND_INLINE) {
            if matches!(self.opcode, bindings::ib_wr_opcode_IB_WR_RDMA_READ) {
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

impl RawRecv {
    /// What the poster calls it.
    pub fn wr_id(&self) -> u64 {
        self.wr_id
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
