// SPDX-License-Identifier: GPL-2.0

//! States and attributes of a queue pair.
//!
//! IBTA 1.7, 10.3.1 (states) and 11.2.5.2 (attributes).

use crate::{
    bindings,
    rdma::{
        addressing::Path,
        driver::QpAttr, //
    },
};
use kernel::prelude::*;

/// The states of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// Nothing is posted or executed.
    Reset = bindings::ib_qp_state_IB_QPS_RESET,
    /// Receives may be posted.
    Init = bindings::ib_qp_state_IB_QPS_INIT,
    /// Requests of the other side are executed.
    ReadyToReceive = bindings::ib_qp_state_IB_QPS_RTR,
    /// Everything works.
    ReadyToSend = bindings::ib_qp_state_IB_QPS_RTS,
    /// Sends are held back.
    SendDrained = bindings::ib_qp_state_IB_QPS_SQD,
    /// Sends are flushed, receives still work (not for reliable connections).
    SendError = bindings::ib_qp_state_IB_QPS_SQE,
    /// Everything is flushed.
    Error = bindings::ib_qp_state_IB_QPS_ERR,
}

impl State {
    /// The state with the C value `raw`.
    pub fn from_raw(raw: u32) -> Option<Self> {
        Some(match raw {
            bindings::ib_qp_state_IB_QPS_RESET => Self::Reset,
            bindings::ib_qp_state_IB_QPS_INIT => Self::Init,
            bindings::ib_qp_state_IB_QPS_RTR => Self::ReadyToReceive,
            bindings::ib_qp_state_IB_QPS_RTS => Self::ReadyToSend,
            bindings::ib_qp_state_IB_QPS_SQD => Self::SendDrained,
            bindings::ib_qp_state_IB_QPS_SQE => Self::SendError,
            bindings::ib_qp_state_IB_QPS_ERR => Self::Error,
            _ => return None,
        })
    }

    /// Whether sends may be posted: to be executed, or to be flushed.
    pub fn takes_sends(self) -> bool {
        !matches!(self, Self::Reset | Self::Init | Self::ReadyToReceive)
    }

    /// Whether requests of the other side are executed.
    pub fn receives(self) -> bool {
        matches!(
            self,
            Self::ReadyToReceive | Self::ReadyToSend | Self::SendDrained | Self::SendError
        )
    }
}

/// The most outstanding reads that a queue pair can be set to.
pub const MAX_READS: u8 = 128;

/// The attributes that are set by changing a queue pair. Plain data, copied as a whole.
#[derive(Clone, Copy, Default)]
pub struct Attrs {
    /// The queue pair on the other side.
    pub dest_qp_num: u32,
    /// The way to the other side's device.
    pub path: Path,
    /// What the other side may do to this one (`IB_ACCESS_*`).
    pub access: u32,
    /// How often to try again when the other side does not answer, and after how long
    /// (4.096 µs · 2^timeout, 0: for ever).
    pub retry_cnt: u8,
    /// See `retry_cnt`.
    pub timeout: u8,
    /// How often to try again when the other side has no receive posted, 7: for ever.
    pub rnr_retry: u8,
    /// How long the other side has to wait if this one has no receive posted (IBTA table 46).
    pub min_rnr_timer: u8,
    /// Reads that may be outstanding.
    pub max_rd_atomic: u8,
    /// Reads of the other side that may be outstanding.
    pub max_dest_rd_atomic: u8,
    /// Kept to be told when asked; of no consequence here.
    pub path_mtu: u32,
    /// As `path_mtu`.
    pub sq_psn: u32,
    /// As `path_mtu`.
    pub rq_psn: u32,
    /// What datagrams to this queue pair have to prove.
    pub qkey: u32,
    /// As `path_mtu`.
    pub port_num: u32,
}

/// Attributes that were copied from a queue pair, and in which version.
#[derive(Default)]
pub struct Snapshot {
    /// How often they had been changed.
    pub version: u64,
    /// What they were.
    pub attrs: Attrs,
}

const PSN_MASK: u32 = 0x00ff_ffff;

impl Attrs {
    /// The attributes after a change; `EINVAL` if one is out of range.
    pub fn changed(&self, attr: &QpAttr, mask: u32) -> Result<Self> {
        let mut new = *self;
        let has = |bit| mask & bit != 0;
        if has(bindings::ib_qp_attr_mask_IB_QP_PORT) {
            check(attr.port_num == 1)?;
            new.port_num = attr.port_num;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_PKEY_INDEX) {
            check(attr.pkey_index == 0)?;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS) {
            new.access = attr.qp_access_flags as u32;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_QKEY) {
            new.qkey = attr.qkey;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_AV) {
            new.path = Path::from_attr(&attr.ah_attr).ok_or(EINVAL)?;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_PATH_MTU) {
            check((1..=5).contains(&attr.path_mtu))?;
            new.path_mtu = attr.path_mtu;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_TIMEOUT) {
            check(attr.timeout <= 31)?;
            new.timeout = attr.timeout;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_RETRY_CNT) {
            check(attr.retry_cnt <= 7)?;
            new.retry_cnt = attr.retry_cnt;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_RNR_RETRY) {
            check(attr.rnr_retry <= 7)?;
            new.rnr_retry = attr.rnr_retry;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_MIN_RNR_TIMER) {
            check(attr.min_rnr_timer <= 31)?;
            new.min_rnr_timer = attr.min_rnr_timer;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_MAX_QP_RD_ATOMIC) {
            check(attr.max_rd_atomic <= MAX_READS)?;
            new.max_rd_atomic = attr.max_rd_atomic;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_MAX_DEST_RD_ATOMIC) {
            check(attr.max_dest_rd_atomic <= MAX_READS)?;
            new.max_dest_rd_atomic = attr.max_dest_rd_atomic;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_SQ_PSN) {
            new.sq_psn = attr.sq_psn & PSN_MASK;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_RQ_PSN) {
            new.rq_psn = attr.rq_psn & PSN_MASK;
        }
        if has(bindings::ib_qp_attr_mask_IB_QP_DEST_QPN) {
            check(attr.dest_qp_num <= PSN_MASK)?;
            new.dest_qp_num = attr.dest_qp_num;
        }
        Ok(new)
    }

    /// Tells the attributes.
    pub fn describe(&self, attr: &mut QpAttr) {
        attr.dest_qp_num = self.dest_qp_num;
        attr.qp_access_flags = self.access as c_int;
        attr.retry_cnt = self.retry_cnt;
        attr.timeout = self.timeout;
        attr.rnr_retry = self.rnr_retry;
        attr.min_rnr_timer = self.min_rnr_timer;
        attr.max_rd_atomic = self.max_rd_atomic;
        attr.max_dest_rd_atomic = self.max_dest_rd_atomic;
        attr.path_mtu = self.path_mtu;
        attr.sq_psn = self.sq_psn;
        attr.rq_psn = self.rq_psn;
        attr.qkey = self.qkey;
        attr.port_num = self.port_num;
        self.path.describe(&mut attr.ah_attr);
    }

    /// How long the other side is given to answer; `None`: for ever.
    pub fn ack_timeout_us(&self) -> Option<u64> {
        (self.timeout != 0).then(|| (4096u64 << self.timeout) / 1000)
    }

    /// How long to wait when this queue pair, as a responder, has no receive posted.
    pub fn rnr_delay_us(&self) -> u64 {
        // IBTA 1.7, table 46, in units of 10 µs.
        const TENS: [u32; 32] = [
            65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
            1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
        ];
        let tens = TENS.get(usize::from(self.min_rnr_timer)).copied();
        u64::from(tens.unwrap_or(65536)) * 10
    }
}

fn check(holds: bool) -> Result {
    if holds {
        Ok(())
    } else {
        Err(EINVAL)
    }
}
