// SPDX-License-Identifier: GPL-2.0

//! Queue pairs, completion queues, and work requests.

use std::{
    ffi::CStr,
    io, ptr,
    rc::Rc,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use mrx::sys::{
    self, ibv_cq, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr, ibv_sge, ibv_wc,
};

use super::{device::PORT, pointer, region::ALL, status, Device};

/// How long a completion may take, on a slow machine too.
const DEADLINE: Duration = Duration::from_secs(30);

/// Completions taken at once.
const BATCH: usize = 16;

/// A completion queue.
pub struct Completions {
    raw: *mut ibv_cq,
    device: Rc<Device>,
}

impl Completions {
    /// A queue with room for so many.
    pub fn new(device: &Rc<Device>, depth: u32) -> io::Result<Rc<Self>> {
        // SAFETY: the context is open.
        let raw = unsafe {
            sys::ibv_create_cq(
                device.context,
                depth as i32,
                ptr::null_mut(),
                ptr::null_mut(),
                0,
            )
        };
        Ok(Rc::new(Self {
            raw: pointer(raw)?,
            device: device.clone(),
        }))
    }

    /// Takes the completions that are there, and says how many. Fails if one of
    /// them is a failure.
    pub fn take(&self) -> anyhow::Result<usize> {
        let mut found = [ibv_wc::default(); BATCH];
        // SAFETY: the queue is live, and there is room for as many.
        let count = unsafe { sys::ibv_poll_cq(self.raw, BATCH as i32, found.as_mut_ptr()) };
        let count = usize::try_from(count).context("poll a completion queue")?;
        for completion in &found[..count] {
            if completion.status != sys::IBV_WC_SUCCESS {
                // SAFETY: the answer is a string constant for every value.
                let name = unsafe { CStr::from_ptr(sys::ibv_wc_status_str(completion.status)) };
                anyhow::bail!("a work request failed: {}", name.to_string_lossy());
            }
        }
        Ok(count)
    }

    /// Waits until at least one completion is there, and takes all that are.
    pub fn wait(&self) -> anyhow::Result<usize> {
        let mut tries = 0_u32;
        let mut started = None;
        loop {
            match self.take()? {
                0 => {}
                count => return Ok(count),
            }
            tries = tries.wrapping_add(1);
            if tries % 64 == 0 {
                let started = *started.get_or_insert_with(Instant::now);
                anyhow::ensure!(
                    started.elapsed() < DEADLINE,
                    "no completion in {DEADLINE:?}"
                );
                // The other process and the kernel need the processor, too.
                std::thread::yield_now();
            }
        }
    }

    /// Waits for so many completions.
    pub fn wait_for(&self, count: usize) -> anyhow::Result<()> {
        let mut left = count;
        while left > 0 {
            left = left.saturating_sub(self.wait()?);
        }
        Ok(())
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that use it hold an `Rc`.
        unsafe { sys::ibv_destroy_cq(self.raw) };
    }
}

/// Where a queue pair is.
#[derive(Clone, Copy)]
pub struct Address {
    /// Its number.
    pub number: u32,
    /// The address of its port.
    pub gid: [u8; 16],
}

/// How many of what a queue pair has room for.
#[derive(Clone, Copy)]
pub struct Depths {
    /// Send work requests.
    pub send: u32,
    /// Receive work requests.
    pub receive: u32,
}

/// A send work request of one range. It stays the same from post to post.
#[derive(Clone, Copy)]
pub struct Work {
    wr: ibv_send_wr,
    sge: ibv_sge,
}

impl Work {
    fn new(opcode: sys::ibv_wr_opcode, sge: ibv_sge) -> Self {
        let send_flags = sys::IBV_SEND_SIGNALED;
        let wr = ibv_send_wr {
            opcode,
            send_flags,
            num_sge: 1,
            ..Default::default()
        };
        Self { wr, sge }
    }

    fn remote(mut self, remote_addr: u64, rkey: u32) -> Self {
        self.wr.wr.rdma = sys::ibv_send_wr__bindgen_ty_2__bindgen_ty_1 { remote_addr, rkey };
        self
    }

    /// SEND
    pub fn send(sge: ibv_sge) -> Self {
        Self::new(sys::IBV_WR_SEND, sge)
    }

    /// RDMA WRITE to an address under a key
    pub fn write(sge: ibv_sge, address: u64, rkey: u32) -> Self {
        Self::new(sys::IBV_WR_RDMA_WRITE, sge).remote(address, rkey)
    }

    /// RDMA READ from an address under a key
    pub fn read(sge: ibv_sge, address: u64, rkey: u32) -> Self {
        Self::new(sys::IBV_WR_RDMA_READ, sge).remote(address, rkey)
    }

    /// Without a completion, if it succeeds.
    pub fn unsignaled(mut self) -> Self {
        self.wr.send_flags &= !sys::IBV_SEND_SIGNALED;
        self
    }
}

/// A reliable connected queue pair.
pub struct QueuePair {
    raw: *mut ibv_qp,
    device: Rc<Device>,
    /// Completions of sends.
    pub sent: Rc<Completions>,
    /// Completions of receives.
    pub received: Rc<Completions>,
}

impl QueuePair {
    /// A queue pair with completion queues of its own.
    pub fn new(device: &Rc<Device>, depths: Depths) -> io::Result<Self> {
        let sent = Completions::new(device, depths.send)?;
        let received = Completions::new(device, depths.receive)?;
        Self::on(depths, &sent, &received)
    }

    /// A queue pair on completion queues that others may use as well.
    pub fn on(
        depths: Depths,
        sent: &Rc<Completions>,
        received: &Rc<Completions>,
    ) -> io::Result<Self> {
        let device = &sent.device;
        let mut init = ibv_qp_init_attr {
            send_cq: sent.raw,
            recv_cq: received.raw,
            qp_type: sys::IBV_QPT_RC,
            ..Default::default()
        };
        init.cap.max_send_wr = depths.send;
        init.cap.max_recv_wr = depths.receive;
        init.cap.max_send_sge = 1;
        init.cap.max_recv_sge = 1;
        // SAFETY: the domain and the completion queues are live.
        let raw = pointer(unsafe { sys::ibv_create_qp(device.pd, &mut init) })?;
        Ok(Self {
            raw,
            device: device.clone(),
            sent: sent.clone(),
            received: received.clone(),
        })
    }

    /// Where it is.
    pub fn address(&self) -> Address {
        // SAFETY: the queue pair is live.
        let number = unsafe { (*self.raw).qp_num };
        Address {
            number,
            gid: self.device.gid,
        }
    }

    fn modify(&self, mut attr: ibv_qp_attr, mask: u32, what: &str) -> anyhow::Result<()> {
        // SAFETY: the queue pair is live.
        status(unsafe { sys::ibv_modify_qp(self.raw, &mut attr, mask as i32) })
            .with_context(|| format!("bring a queue pair to {what}"))
    }

    /// Connects it.
    pub fn connect(&self, peer: Address) -> anyhow::Result<()> {
        let init = ibv_qp_attr {
            qp_state: sys::IBV_QPS_INIT,
            port_num: PORT,
            qp_access_flags: ALL,
            ..Default::default()
        };
        let mask = sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT;
        self.modify(init, mask | sys::IBV_QP_ACCESS_FLAGS, "INIT")?;

        let receive = ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTR,
            path_mtu: self.device.mtu,
            dest_qp_num: peer.number,
            max_dest_rd_atomic: 16,
            // the shortest, 10 µs
            min_rnr_timer: 1,
            ah_attr: self.device.route_to(peer.gid),
            ..Default::default()
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_AV
            | sys::IBV_QP_PATH_MTU
            | sys::IBV_QP_DEST_QPN
            | sys::IBV_QP_RQ_PSN
            | sys::IBV_QP_MAX_DEST_RD_ATOMIC
            | sys::IBV_QP_MIN_RNR_TIMER;
        self.modify(receive, mask, "RTR")?;

        let send = ibv_qp_attr {
            qp_state: sys::IBV_QPS_RTS,
            // half a second, which a loaded emulator may need
            timeout: 17,
            retry_cnt: 7,
            rnr_retry: 7,
            max_rd_atomic: 16,
            ..Default::default()
        };
        let mask = sys::IBV_QP_STATE
            | sys::IBV_QP_SQ_PSN
            | sys::IBV_QP_TIMEOUT
            | sys::IBV_QP_RETRY_CNT
            | sys::IBV_QP_RNR_RETRY
            | sys::IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(send, mask, "RTS")
    }

    /// Posts one send work request.
    pub fn post(&self, work: &mut Work) -> anyhow::Result<()> {
        self.post_all(std::slice::from_mut(work))
    }

    /// Posts send work requests in one call.
    pub fn post_all(&self, works: &mut [Work]) -> anyhow::Result<()> {
        let mut next: *mut ibv_send_wr = ptr::null_mut();
        for work in works.iter_mut().rev() {
            work.wr.sg_list = &raw mut work.sge;
            work.wr.next = next;
            next = &raw mut work.wr;
        }
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is live; the list outlives the call.
        status(unsafe { sys::ibv_post_send(self.raw, next, &mut bad) }).context("post to send")
    }

    /// Posts one receive work request, `count` times.
    pub fn post_receives(&self, mut sge: ibv_sge, count: usize) -> anyhow::Result<()> {
        let mut wr = ibv_recv_wr {
            sg_list: &mut sge,
            num_sge: 1,
            ..Default::default()
        };
        let mut bad = ptr::null_mut();
        for _ in 0..count {
            // SAFETY: the queue pair is live; the request outlives the call.
            status(unsafe { sys::ibv_post_recv(self.raw, &mut wr, &mut bad) })
                .context("post to receive")?;
        }
        Ok(())
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        // SAFETY: the queue pair is live.
        unsafe { sys::ibv_destroy_qp(self.raw) };
    }
}
