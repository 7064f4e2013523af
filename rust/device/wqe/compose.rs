// SPDX-License-Identifier: GPL-2.0

//! How users in the kernel write requests into a ring: the reverse of what [`super`] reads.

use super::{
    super::request::Destination,
    RawDma,
    RawRecv,
    RawSend,
    RawSge,
    DRIVER1,
    MAX_SGE,
    READ_WITH_INVALIDATE,
    RECV_HEADER,
    SEND_HEADER, //
};
use crate::{
    bindings,
    rdma::mr::fast::Registration, //
};
use kernel::{
    prelude::*,
    transmute::AsBytes, //
};

/// How a user in the kernel names `opcode`, as rings do.
pub fn opcode_from_kernel(opcode: u32) -> u32 {
    match opcode {
        bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => READ_WITH_INVALIDATE,
        bindings::ib_wr_opcode_IB_WR_RESERVED1 => DRIVER1,
        other => other,
    }
}

impl RawSend {
    /// A request without elements and arguments. `opcode` is as rings have it.
    pub fn new(wr_id: u64, opcode: u32, send_flags: u32, ex: u32) -> Self {
        Self {
            wr_id,
            opcode,
            send_flags,
            ex,
            ..Self::default()
        }
    }

    fn set_args<const N: usize>(&mut self, args: [u32; N]) {
        for (to, from) in self.args.iter_mut().zip(args) {
            *to = from;
        }
    }

    /// See [`RawSend::remote`].
    pub fn set_remote(&mut self, addr: u64, rkey: u32) {
        self.set_args([low(addr), high(addr), rkey]);
    }

    /// See [`RawSend::atomic`].
    pub fn set_atomic(&mut self, addr: u64, rkey: u32, compare_add: u64, swap: u64) {
        self.set_args([
            low(addr),
            high(addr),
            low(compare_add),
            high(compare_add),
            low(swap),
            high(swap),
            rkey,
        ]);
    }

    /// See [`RawSend::register`].
    pub fn set_registration(&mut self, wanted: &Registration) {
        self.set_args([
            low(wanted.iova),
            high(wanted.iova),
            low(wanted.length),
            high(wanted.length),
            wanted.key.raw(),
            wanted.access.bits(),
        ]);
    }

    /// See [`RawSend::destination`].
    pub fn set_destination(&mut self, to: &Destination) {
        let path = &to.path;
        let mut args = [0; 16];
        let [qp_num, qkey, _, ah_num, _, _, _, _, _, _, gid @ .., flow, bytes] = &mut args;
        *qp_num = to.qp_num;
        *qkey = to.qkey;
        *ah_num = to.ah_num;
        for (to, from) in gid.iter_mut().zip(path.dgid.chunks_exact(4)) {
            let mut word = [0; 4];
            word.copy_from_slice(from);
            *to = u32::from_ne_bytes(word);
        }
        *flow = path.flow_label;
        *bytes = u32::from_ne_bytes([path.sgid_index, path.hop_limit, path.traffic_class, 0]);
        self.set_args(args);
    }

    /// Adds elements; `EINVAL` if there are more than a request can have.
    pub fn set_elements(&mut self, from: &[bindings::ib_sge]) -> Result {
        set_elements(&mut self.sges, &mut self.dma, from)
    }

    /// Says how much inline data there is.
    pub fn set_inline(&mut self, length: u32) {
        self.dma.length = length;
    }

    /// Bytes of the request in a ring.
    pub fn bytes(&self) -> &[u8] {
        used(self.as_bytes(), SEND_HEADER, self.dma.num_sge)
    }
}

/// The part of a request that is written to a ring.
fn used(all: &[u8], header: usize, num_sge: u32) -> &[u8] {
    let end = header + num_sge as usize * size_of::<RawSge>();
    all.get(..end).unwrap_or(all)
}

fn set_elements(
    sges: &mut [RawSge; MAX_SGE],
    dma: &mut RawDma,
    from: &[bindings::ib_sge],
) -> Result {
    if from.len() > MAX_SGE {
        return Err(EINVAL);
    }
    for (to, from) in sges.iter_mut().zip(from) {
        *to = RawSge {
            addr: from.addr,
            length: from.length,
            lkey: from.lkey,
        };
    }
    dma.num_sge = from.len() as u32;
    Ok(())
}

impl RawRecv {
    /// A receive of a user in the kernel; `EINVAL` if it has more elements than one can have.
    pub fn new(wr_id: u64, from: &[bindings::ib_sge]) -> Result<Self> {
        let mut raw = Self {
            wr_id,
            ..Self::default()
        };
        set_elements(&mut raw.sges, &mut raw.dma, from)?;
        Ok(raw)
    }

    /// Bytes of the receive in a ring.
    pub fn bytes(&self) -> &[u8] {
        used(self.as_bytes(), RECV_HEADER, self.dma.num_sge)
    }
}

const fn low(word: u64) -> u32 {
    word as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}
