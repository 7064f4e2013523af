// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The work request that makes a staged layout active.

use std::marker::PhantomData;

use crate::{
    sys::{self, ibv_send_wr, ibv_sge},
    Region,
};

/// A work request that makes the layout active which was staged for a region.
///
/// Post it with `ibv_post_send`, like any other. What is posted behind it on
/// the same queue pair sees the new layout, and what is before it the old one.
///
/// ```no_run
/// # use mrx::{BindRequest, Range, Region, SetLayout, SetLayoutError};
/// # unsafe fn example<'a>(qp: *mut mrx::sys::ibv_qp, region: &mut Region<'a>, range: Range<'a>)
/// # -> Result<(), SetLayoutError> {
/// region.set_layout_sg(SetLayout::WITH_POST_WR, &[range])?;
/// let mut bind = BindRequest::new(region, 17);
/// let mut bad = std::ptr::null_mut();
/// // SAFETY: the queue pair is live, and the request outlives the call.
/// let errno = unsafe { mrx::sys::ibv_post_send(qp, bind.as_mut_ptr(), &mut bad) };
/// # assert_eq!(errno, 0);
/// # Ok(())
/// # }
/// ```
pub struct BindRequest<'a> {
    request: ibv_send_wr,
    piece: ibv_sge,
    region: PhantomData<&'a Region<'a>>,
}

impl<'a> BindRequest<'a> {
    /// A signalled request with this `wr_id`.
    pub fn new(region: &'a Region<'_>, wr_id: u64) -> Self {
        let request = ibv_send_wr {
            wr_id,
            opcode: sys::IBV_WR_BIND_MR,
            send_flags: sys::IBV_SEND_SIGNALED,
            num_sge: 1,
            ..Default::default()
        };
        let piece = ibv_sge {
            lkey: region.lkey(),
            ..Default::default()
        };
        Self {
            request,
            piece,
            region: PhantomData,
        }
    }

    /// The flags, `enum ibv_send_flags`.
    pub fn send_flags(&mut self) -> &mut u32 {
        &mut self.request.send_flags
    }

    /// The structure of libibverbs, which is valid until `self` moves or ends.
    pub fn as_mut_ptr(&mut self) -> *mut ibv_send_wr {
        self.request.sg_list = &raw mut self.piece;
        &raw mut self.request
    }
}
