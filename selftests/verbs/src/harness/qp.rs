// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use std::{io, ptr, rc::Rc};

use mrx::sys::{self, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_state, ibv_qp_type};

use super::{
    check::{pointer, status},
    cq::DEADLINE,
    device::PORT,
    memory::ALL,
    until, Context, Cq, Pd, Sge, Work,
};

/// The Q_Key of all datagram queue pairs here.
pub const QKEY: u32 = 0x1122_3344;

/// How a queue pair is made.
#[derive(Clone)]
pub struct QpOptions {
    pub kind: ibv_qp_type,
    pub depth: u32,
    pub sges: u32,
    pub inline: u32,
    pub signal_all: bool,
}

impl Default for QpOptions {
    fn default() -> Self {
        Self {
            kind: sys::IBV_QPT_RC,
            depth: 128,
            sges: 16,
            inline: 256,
            signal_all: false,
        }
    }
}

/// How a queue pair is connected.
#[derive(Clone)]
pub struct Link {
    /// What the peer may do.
    pub access: u32,
    /// The time to wait for an acknowledgement: 4.096 µs · 2^timeout.
    pub timeout: u8,
    pub retries: u8,
    /// 7 is for ever.
    pub rnr_retries: u8,
    /// As IBTA 9.7.5.2.8 codes it: 1 is 10 µs, 0 is 655 ms.
    pub rnr_timer: u8,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            access: ALL,
            timeout: 17,
            retries: 7,
            rnr_retries: 7,
            rnr_timer: 1,
        }
    }
}

/// Where a queue pair is.
#[derive(Clone, Copy)]
pub struct Address {
    pub number: u32,
    pub psn: u32,
    pub gid: [u8; 16],
}

impl Address {
    pub fn to_bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&self.number.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.psn.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.gid);
        bytes
    }

    pub fn from_bytes(bytes: [u8; 24]) -> Self {
        let word = |at: usize| {
            u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let mut gid = [0; 16];
        gid.copy_from_slice(&bytes[8..]);
        Self {
            number: word(0),
            psn: word(4),
            gid,
        }
    }
}

/// A queue pair.
pub struct Qp {
    pub raw: *mut ibv_qp,
    pub pd: Rc<Pd>,
    pub send_cq: Rc<Cq>,
    pub recv_cq: Rc<Cq>,
    psn: u32,
    kind: ibv_qp_type,
}

impl Qp {
    /// A queue pair with two completion queues of its own.
    pub fn new(pd: &Rc<Pd>, options: &QpOptions) -> io::Result<Self> {
        let send_cq = Cq::new(&pd.context, 2 * options.depth)?;
        let recv_cq = Cq::new(&pd.context, 2 * options.depth)?;
        Self::on(pd, options, send_cq, recv_cq)
    }

    pub fn on(
        pd: &Rc<Pd>,
        options: &QpOptions,
        send_cq: Rc<Cq>,
        recv_cq: Rc<Cq>,
    ) -> io::Result<Self> {
        let mut init = ibv_qp_init_attr {
            send_cq: send_cq.raw,
            recv_cq: recv_cq.raw,
            qp_type: options.kind,
            sq_sig_all: options.signal_all.into(),
            ..Default::default()
        };
        init.cap.max_send_wr = options.depth;
        init.cap.max_recv_wr = options.depth;
        init.cap.max_send_sge = options.sges;
        init.cap.max_recv_sge = options.sges;
        init.cap.max_inline_data = options.inline;
        // SAFETY: the domain and the completion queues are live.
        let raw = pointer(unsafe { sys::ibv_create_qp(pd.raw, &mut init) })?;
        let psn = fastrand::u32(..) & 0xff_ffff;
        Ok(Self {
            raw,
            pd: pd.clone(),
            send_cq,
            recv_cq,
            psn,
            kind: options.kind,
        })
    }

    pub fn context(&self) -> &Rc<Context> {
        &self.pd.context
    }

    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is live.
        unsafe { (*self.raw).qp_num }
    }

    pub fn address(&self) -> Address {
        Address {
            number: self.number(),
            psn: self.psn,
            gid: self.context().gid,
        }
    }

    /// One call of `ibv_modify_qp`.
    pub fn modify(&self, attr: &mut ibv_qp_attr, mask: u32) -> io::Result<()> {
        // SAFETY: the queue pair is live.
        status(unsafe { sys::ibv_modify_qp(self.raw, attr, mask as i32) })
    }

    /// A change of state that needs no more than the state.
    pub fn set_state(&self, qp_state: ibv_qp_state) -> io::Result<()> {
        self.modify(
            &mut ibv_qp_attr {
                qp_state,
                ..Default::default()
            },
            sys::IBV_QP_STATE,
        )
    }

    pub fn state(&self) -> io::Result<ibv_qp_state> {
        Ok(self.query(sys::IBV_QP_STATE)?.qp_state)
    }

    /// Fails unless the queue pair gets into the error state.
    pub fn breaks(&self) -> anyhow::Result<()> {
        let broken = until(DEADLINE, || {
            self.state()
                .is_ok_and(|state| state == sys::IBV_QPS_ERR)
                .then_some(())
        });
        anyhow::ensure!(
            broken.is_some(),
            "QP {} did not get into the error state",
            self.number()
        );
        Ok(())
    }

    pub fn query(&self, mask: u32) -> io::Result<ibv_qp_attr> {
        let (mut attr, mut init) = (ibv_qp_attr::default(), ibv_qp_init_attr::default());
        // SAFETY: the queue pair is live, and both structures may be written.
        status(unsafe { sys::ibv_query_qp(self.raw, &mut attr, mask as i32, &mut init) })?;
        Ok(attr)
    }

    /// RESET to INIT
    pub fn init(&self, link: &Link) -> io::Result<()> {
        let mut attr = ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: PORT,
            qp_access_flags: link.access,
            qkey: QKEY,
            ..Default::default()
        };
        let last = if self.kind == sys::IBV_QPT_UD {
            sys::IBV_QP_QKEY
        } else {
            sys::IBV_QP_ACCESS_FLAGS
        };
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | last;
        self.modify(&mut attr, mask)
    }

    /// INIT to RTR
    pub fn ready_to_receive(&self, link: &Link, peer: Address) -> io::Result<()> {
        let mut attr = ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: self.context().mtu,
            dest_qp_num: peer.number,
            rq_psn: peer.psn,
            max_dest_rd_atomic: 8,
            min_rnr_timer: link.rnr_timer,
            ah_attr: self.context().route_to(peer.gid),
            ..Default::default()
        };
        let mut mask = sys::IBV_QP_STATE;
        if self.kind != sys::IBV_QPT_UD {
            mask |=
                sys::IBV_QP_AV | sys::IBV_QP_PATH_MTU | sys::IBV_QP_DEST_QPN | sys::IBV_QP_RQ_PSN;
        }
        if self.kind == sys::IBV_QPT_RC {
            mask |= sys::IBV_QP_MAX_DEST_RD_ATOMIC | sys::IBV_QP_MIN_RNR_TIMER;
        }
        self.modify(&mut attr, mask)
    }

    /// RTR to RTS
    pub fn ready_to_send(&self, link: &Link) -> io::Result<()> {
        let mut attr = ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            sq_psn: self.psn,
            timeout: link.timeout,
            retry_cnt: link.retries,
            rnr_retry: link.rnr_retries,
            max_rd_atomic: 8,
            ..Default::default()
        };
        let mut mask = sys::IBV_QP_STATE | sys::IBV_QP_SQ_PSN;
        if self.kind == sys::IBV_QPT_RC {
            mask |= sys::IBV_QP_TIMEOUT
                | sys::IBV_QP_RETRY_CNT
                | sys::IBV_QP_RNR_RETRY
                | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify(&mut attr, mask)
    }

    /// RESET to RTS
    pub fn connect(&self, link: &Link, peer: Address) -> io::Result<()> {
        self.init(link)?;
        self.ready_to_receive(link, peer)?;
        self.ready_to_send(link)
    }

    /// Posts one send work request.
    pub fn post(&self, work: &Work) -> io::Result<()> {
        self.post_all(std::slice::from_ref(work))
    }

    /// Posts a list of send work requests in one call.
    pub fn post_all(&self, works: &[Work]) -> io::Result<()> {
        let mut list: Vec<_> = works.iter().map(Work::raw).collect();
        for n in 1..list.len() {
            list[n - 1].next = &raw mut list[n];
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live; the list and what it points to
        // outlive the call.
        status(unsafe { sys::ibv_post_send(self.raw, list.as_mut_ptr(), &mut bad) })
    }

    /// Posts one receive work request.
    pub fn post_recv(&self, id: u64, sges: &[Sge]) -> io::Result<()> {
        let mut wr = sys::ibv_recv_wr {
            wr_id: id,
            sg_list: sges.as_ptr().cast_mut(),
            num_sge: sges.len() as i32,
            ..Default::default()
        };
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live; the list outlives the call.
        status(unsafe { sys::ibv_post_recv(self.raw, &mut wr, &mut bad) })
    }

    /// Takes the queue pair away before its time.
    pub fn destroy(&mut self) -> io::Result<()> {
        // SAFETY: the queue pair is live, and forgotten below.
        status(unsafe { sys::ibv_destroy_qp(self.raw) })?;
        self.raw = ptr::null_mut();
        Ok(())
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            if let Err(error) = self.destroy() {
                println!("a queue pair cannot be destroyed: {error}");
            }
        }
    }
}
