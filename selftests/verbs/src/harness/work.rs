// SPDX-License-Identifier: GPL-2.0

//! Work requests.

use std::ops::Range;

use mrx::sys::{self, ibv_send_wr};

use super::{window::Mw, Ah, Mr};

/// A piece of a local region.
pub type Sge = sys::ibv_sge;

/// What a window shall stand for.
#[derive(Clone)]
struct WindowBinding {
    window: sys::ibv_mw,
    rkey: u32,
    info: sys::ibv_mw_bind_info,
}

/// A send work request. Signalled, unless it says otherwise.
#[derive(Clone)]
pub struct Work {
    id: u64,
    opcode: sys::ibv_wr_opcode,
    flags: u32,
    immediate: u32,
    remote: (u64, u32),
    operands: (u64, u64),
    datagram: Option<(*mut sys::ibv_ah, u32, u32)>,
    binding: Option<WindowBinding>,
    pub sges: Vec<Sge>,
}

impl Work {
    fn new(id: u64, opcode: sys::ibv_wr_opcode, sges: &[Sge]) -> Self {
        Self {
            id,
            opcode,
            flags: sys::IBV_SEND_SIGNALED,
            immediate: 0,
            remote: (0, 0),
            operands: (0, 0),
            datagram: None,
            binding: None,
            sges: sges.to_vec(),
        }
    }

    pub fn send(id: u64, sges: &[Sge]) -> Self {
        Self::new(id, sys::IBV_WR_SEND, sges)
    }

    pub fn send_with_imm(id: u64, sges: &[Sge], immediate: u32) -> Self {
        Self {
            immediate,
            ..Self::new(id, sys::IBV_WR_SEND_WITH_IMM, sges)
        }
    }

    pub fn write(id: u64, sges: &[Sge], addr: u64, rkey: u32) -> Self {
        Self {
            remote: (addr, rkey),
            ..Self::new(id, sys::IBV_WR_RDMA_WRITE, sges)
        }
    }

    pub fn write_with_imm(id: u64, sges: &[Sge], addr: u64, rkey: u32, immediate: u32) -> Self {
        let opcode = sys::IBV_WR_RDMA_WRITE_WITH_IMM;
        Self {
            remote: (addr, rkey),
            immediate,
            ..Self::new(id, opcode, sges)
        }
    }

    pub fn read(id: u64, sges: &[Sge], addr: u64, rkey: u32) -> Self {
        Self {
            remote: (addr, rkey),
            ..Self::new(id, sys::IBV_WR_RDMA_READ, sges)
        }
    }

    pub fn fetch_add(id: u64, sge: Sge, addr: u64, rkey: u32, add: u64) -> Self {
        let opcode = sys::IBV_WR_ATOMIC_FETCH_AND_ADD;
        Self {
            remote: (addr, rkey),
            operands: (add, 0),
            ..Self::new(id, opcode, &[sge])
        }
    }

    pub fn compare_swap(id: u64, sge: Sge, at: (u64, u32), compare: u64, swap: u64) -> Self {
        let opcode = sys::IBV_WR_ATOMIC_CMP_AND_SWP;
        Self {
            remote: at,
            operands: (compare, swap),
            ..Self::new(id, opcode, &[sge])
        }
    }

    /// Makes the layout active that was staged for the region of this lkey.
    pub fn bind(id: u64, lkey: u32) -> Self {
        Self::new(
            id,
            sys::IBV_WR_BIND_MR,
            &[Sge {
                addr: 0,
                length: 0,
                lkey,
            }],
        )
    }

    /// Binds a window to a part of a region, with its next key. The window may end
    /// before the request is posted.
    pub fn bind_mw(id: u64, window: &Mw, region: &Mr, range: Range<usize>, access: u32) -> Self {
        let info = sys::ibv_mw_bind_info {
            mr: region.raw,
            addr: region.at(range.start),
            length: range.len() as u64,
            mw_access_flags: access,
        };
        Self {
            binding: Some(WindowBinding {
                window: window.shown(),
                rkey: window.next_rkey(),
                info,
            }),
            ..Self::new(id, sys::IBV_WR_BIND_MW, &[])
        }
    }

    /// Where a datagram goes: to a queue pair that has this Q_Key.
    pub fn to(self, ah: &Ah, number: u32, qkey: u32) -> Self {
        Self {
            datagram: Some((ah.raw, number, qkey)),
            ..self
        }
    }

    pub fn unsignaled(self) -> Self {
        Self {
            flags: self.flags & !sys::IBV_SEND_SIGNALED,
            ..self
        }
    }

    pub fn solicited(self) -> Self {
        Self {
            flags: self.flags | sys::IBV_SEND_SOLICITED,
            ..self
        }
    }

    pub fn inline(self) -> Self {
        Self {
            flags: self.flags | sys::IBV_SEND_INLINE,
            ..self
        }
    }

    pub fn fenced(self) -> Self {
        Self {
            flags: self.flags | sys::IBV_SEND_FENCE,
            ..self
        }
    }

    /// The structure of libibverbs. It points into `self`.
    pub fn raw(&self) -> ibv_send_wr {
        let mut wr = ibv_send_wr {
            wr_id: self.id,
            sg_list: self.sges.as_ptr().cast_mut(),
            num_sge: self.sges.len() as i32,
            opcode: self.opcode,
            send_flags: self.flags,
            ..Default::default()
        };
        wr.__bindgen_anon_1.imm_data = self.immediate.to_be();
        if let Some((ah, remote_qpn, remote_qkey)) = self.datagram {
            wr.wr.ud = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
                ah,
                remote_qpn,
                remote_qkey,
            };
            return wr;
        }
        if let Some(binding) = &self.binding {
            wr.__bindgen_anon_2.bind_mw = sys::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
                mw: (&raw const binding.window).cast_mut(),
                rkey: binding.rkey,
                bind_info: binding.info,
            };
            return wr;
        }
        let (remote_addr, rkey) = self.remote;
        match self.opcode {
            sys::IBV_WR_ATOMIC_FETCH_AND_ADD | sys::IBV_WR_ATOMIC_CMP_AND_SWP => {
                let (compare_add, swap) = self.operands;
                wr.wr.atomic = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_2 {
                    remote_addr,
                    compare_add,
                    swap,
                    rkey,
                };
            }
            _ => wr.wr.rdma = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr, rkey },
        }
        wr
    }
}
