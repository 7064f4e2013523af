// SPDX-License-Identifier: GPL-2.0

//! Work requests of users in the kernel.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h) (`struct ib_send_wr`)

use super::{
    driver::Driver,
    object::Object, //
};
use crate::bindings::{
    self,
    ib_ah,
    ib_mr,
    ib_recv_wr,
    ib_send_wr,
    ib_sge, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A send work request, for the duration of the call that posts it.
#[derive(Clone, Copy)]
pub struct SendWr<'a>(&'a ib_send_wr);

/// What a send work request has besides its elements.
pub enum SendArgs<'a, D: Driver> {
    /// Nothing.
    None,
    /// Memory of the other side.
    Remote {
        /// Its first byte.
        addr: u64,
        /// Its key.
        rkey: u32,
    },
    /// A word of memory of the other side.
    Atomic {
        /// Its address.
        addr: u64,
        /// Its key.
        rkey: u32,
        /// What to compare with or to add.
        compare_add: u64,
        /// What to put there.
        swap: u64,
    },
    /// A region to register.
    Register {
        /// The region, whose pages have been mapped.
        region: &'a Arc<D::Region>,
        /// Its key from now on.
        key: u32,
        /// What it may be used for (`IB_ACCESS_*`).
        access: u32,
        /// The address of its first byte.
        iova: u64,
        /// Bytes.
        length: u64,
    },
    /// Where a datagram goes.
    Datagram {
        /// The device.
        ah: &'a Arc<D::Ah>,
        /// The queue pair.
        qp_num: u32,
        /// What proves that it may go there.
        qkey: u32,
    },
}

/// # Safety
///
/// `list` points to `count` elements that live for `'a`.
unsafe fn elements<'a>(list: *const ib_sge, count: c_int) -> &'a [ib_sge] {
    match usize::try_from(count) {
        // SAFETY: By the requirements of this function.
        Ok(count) if count > 0 && !list.is_null() => unsafe {
            core::slice::from_raw_parts(list, count)
        },
        _ => &[],
    }
}

impl<'a> SendWr<'a> {
    /// # Safety
    ///
    /// `wr` is a work request that its poster keeps for `'a`; it is the start of the larger
    /// structure that its opcode asks for, which for a datagram queue pair is `struct ib_ud_wr`.
    pub(super) unsafe fn new(wr: &'a ib_send_wr) -> Self {
        Self(wr)
    }

    /// What the poster calls it.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both members of the union are 64 bits.
        unsafe { *self.0.__bindgen_anon_1.wr_id.as_ref() }
    }

    /// `IB_WR_*`.
    pub fn opcode(&self) -> u32 {
        self.0.opcode
    }

    /// `IB_SEND_*`.
    pub fn flags(&self) -> u32 {
        self.0.send_flags as u32
    }

    /// The immediate word or the key to invalidate.
    pub fn extra(&self) -> u32 {
        // SAFETY: Both members of the union are 32 bits.
        unsafe { *self.0.ex.invalidate_rkey.as_ref() }
    }

    /// The elements.
    pub fn elements(&self) -> &'a [ib_sge] {
        // SAFETY: By the requirements of `new`.
        unsafe { elements(self.0.sg_list, self.0.num_sge) }
    }

    /// Copies the bytes of the elements to `out`, as inline data; `EINVAL` if there are more.
    pub fn copy_inline(&self, out: &mut [u8]) -> Result<usize> {
        let mut at = 0usize;
        for element in self.elements() {
            let end = at.checked_add(element.length as usize).ok_or(EINVAL)?;
            let to = out.get_mut(at..end).ok_or(EINVAL)?;
            // SAFETY: The device maps memory virtually, so the address of an element is that of
            // the poster's bytes, which it vouches for.
            unsafe {
                core::ptr::copy(element.addr as *const u8, to.as_mut_ptr(), to.len());
            }
            at = end;
        }
        Ok(at)
    }

    /// The rest of the request, on a queue pair of datagrams or of another kind. `EINVAL` if it
    /// names an object of no driver.
    pub fn args<D: Driver>(&self, is_datagram: bool) -> Result<SendArgs<'a, D>> {
        let wr = core::ptr::from_ref(self.0);
        // SAFETY: By the requirements of `new` the request is of the kind that its opcode and its
        // queue pair ask for. The objects that it names are of the same device, and their owner
        // keeps them until the request completes.
        unsafe {
            if is_datagram {
                let ud = &*wr.cast::<bindings::ib_ud_wr>();
                if ud.ah.is_null() {
                    return Err(EINVAL);
                }
                return Ok(SendArgs::Datagram {
                    ah: Object::<ib_ah, D::Ah>::state(ud.ah)?,
                    qp_num: ud.remote_qpn,
                    qkey: ud.remote_qkey,
                });
            }
            Ok(match self.opcode() {
                bindings::ib_wr_opcode_IB_WR_RDMA_WRITE
                | bindings::ib_wr_opcode_IB_WR_RDMA_WRITE_WITH_IMM
                | bindings::ib_wr_opcode_IB_WR_RDMA_READ
                | bindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV => {
                    let rdma = &*wr.cast::<bindings::ib_rdma_wr>();
                    SendArgs::Remote {
                        addr: rdma.remote_addr,
                        rkey: rdma.rkey,
                    }
                }
                bindings::ib_wr_opcode_IB_WR_ATOMIC_CMP_AND_SWP
                | bindings::ib_wr_opcode_IB_WR_ATOMIC_FETCH_AND_ADD => {
                    let atomic = &*wr.cast::<bindings::ib_atomic_wr>();
                    SendArgs::Atomic {
                        addr: atomic.remote_addr,
                        rkey: atomic.rkey,
                        compare_add: atomic.compare_add,
                        swap: atomic.swap,
                    }
                }
                bindings::ib_wr_opcode_IB_WR_REG_MR => {
                    let reg = &*wr.cast::<bindings::ib_reg_wr>();
                    if reg.mr.is_null() {
                        return Err(EINVAL);
                    }
                    SendArgs::Register {
                        region: Object::<ib_mr, D::Region>::state(reg.mr)?,
                        key: reg.key,
                        access: reg.access as u32,
                        iova: (*reg.mr).iova,
                        length: (*reg.mr).length,
                    }
                }
                _ => SendArgs::None,
            })
        }
    }
}

/// A receive work request, for the duration of the call that posts it.
#[derive(Clone, Copy)]
pub struct RecvWr<'a>(&'a ib_recv_wr);

impl<'a> RecvWr<'a> {
    /// # Safety
    ///
    /// `wr` is a work request that its poster keeps for `'a`.
    pub(super) unsafe fn new(wr: &'a ib_recv_wr) -> Self {
        Self(wr)
    }

    /// What the poster calls it.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: Both members of the union are 64 bits.
        unsafe { *self.0.__bindgen_anon_1.wr_id.as_ref() }
    }

    /// The elements.
    pub fn elements(&self) -> &'a [ib_sge] {
        // SAFETY: By the requirements of `new`.
        unsafe { elements(self.0.sg_list, self.0.num_sge) }
    }
}
