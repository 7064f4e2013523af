// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    attrs::{
        Attrs,
        State, //
    },
    cq::Cq,
    execute::{
        self,
        Verdict, //
    },
    port::Port,
    rq::RecvQueue,
    sq::SendQueue,
    status::{
        Completion,
        Done,
        Status, //
    },
    wqe::RawRecv,
};
use crate::{
    bindings,
    rdma::{
        driver::{
            modify_is_ok,
            QpAttr,
            QpEvent,
            QpHandle, //
        },
        id_table::IdTable,
        mr::region::Domain,
        task,
        work, //
    },
};
use kernel::{
    impl_has_delayed_work,
    new_delayed_work,
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed, //
        },
        Arc,
        Mutex,
        SpinLock, //
    },
    time::{
        msecs_to_jiffies, //
    },
    workqueue::{
        DelayedWork,
        WorkItem, //
    }, //
};

/// The queue pairs of all devices: their numbers are unique in the kernel, which is how the other
/// side is found.
pub type QpTable = IdTable<Qp>;

/// The first number of an ordinary queue pair.
pub const FIRST_QPN: u32 = 16;
/// The first number that no queue pair can have.
pub const QPN_END: u32 = 1 << 24;

/// A reliable connection's end.
#[pin_data]
pub struct Qp {
    /// The device.
    pub port: Arc<Port>,
    /// The number.
    pub number: u32,
    /// What it may use.
    pub domain: Arc<Domain>,
    /// Whether every send completes visibly.
    pub signal_all: bool,
    /// Where completions of sends go.
    pub send_cq: Arc<Cq>,
    /// Where completions of receives go.
    pub recv_cq: Arc<Cq>,
    #[pin]
    handle: QpHandle,
    /// A [`State`].
    state: Atomic<u32>,
    /// The owner has been told that the other side began to talk.
    established: AtomicFlag,
    /// Serialises changes of attributes.
    #[pin]
    control: Mutex<()>,
    /// The attributes; copied out as a whole.
    #[pin]
    path: SpinLock<Attrs>,
    /// The send queue. Whoever holds it executes.
    #[pin]
    send: Mutex<SendQueue>,
    /// The receive queue, from which the other side takes.
    #[pin]
    recv: SpinLock<RecvQueue>,
    /// Whether `work` may be queued. A leaf lock, held while it is being queued.
    #[pin]
    works: SpinLock<bool>,
    /// Continues what could not be finished in the context of the poster.
    #[pin]
    work: DelayedWork<Qp>,
}

impl_has_delayed_work! {
    impl HasDelayedWork<Self> for Qp { self.work }
}

impl WorkItem for Qp {
    type Pointer = Arc<Qp>;

    fn run(this: Arc<Qp>) {
        this.run();
    }
}

/// The parts of a new queue pair.
pub struct NewQp {
    /// The device.
    pub port: Arc<Port>,
    /// The number.
    pub number: u32,
    /// What it may use.
    pub domain: Arc<Domain>,
    /// Whether every send completes visibly.
    pub signal_all: bool,
    /// Where completions of sends go.
    pub send_cq: Arc<Cq>,
    /// Where completions of receives go.
    pub recv_cq: Arc<Cq>,
    /// Its sends.
    pub send: SendQueue,
    /// Its receives.
    pub recv: RecvQueue,
}

impl Qp {
    /// Puts a queue pair together.
    pub fn new(handle: impl PinInit<QpHandle>, new: NewQp) -> Result<Arc<Self>> {
        Arc::pin_init(
            try_pin_init!(Self {
                port: new.port,
                number: new.number,
                domain: new.domain,
                signal_all: new.signal_all,
                send_cq: new.send_cq,
                recv_cq: new.recv_cq,
                handle <- handle,
                state: Atomic::new(State::Reset as u32),
                established: AtomicFlag::new(false),
                control <- new_mutex!((), "Qp::control"),
                path <- new_spinlock!(Attrs::default(), "Qp::path"),
                send <- new_mutex!(new.send, "Qp::send"),
                recv <- new_spinlock!(new.recv, "Qp::recv"),
                works <- new_spinlock!(true, "Qp::works"),
                work <- new_delayed_work!("Qp::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The state now.
    pub fn state(&self) -> State {
        State::from_raw(self.state.load(Acquire)).unwrap_or(State::Error)
    }

    /// The attributes now.
    pub fn attrs(&self) -> Attrs {
        *self.path.lock()
    }

    /// Changes attributes and state (IBTA 1.7, 11.2.5.2).
    pub fn modify(self: &Arc<Self>, attr: &QpAttr, mask: u32) -> Result {
        let control = self.control.lock();
        let from = self.state();
        if mask & bindings::ib_qp_attr_mask_IB_QP_CUR_STATE != 0
            && State::from_raw(attr.cur_qp_state) != Some(from)
        {
            return Err(EINVAL);
        }
        let to = if mask & bindings::ib_qp_attr_mask_IB_QP_STATE != 0 {
            State::from_raw(attr.qp_state).ok_or(EINVAL)?
        } else {
            from
        };
        let kind = bindings::ib_qp_type_IB_QPT_RC;
        if !modify_is_ok(from as u32, to as u32, kind, mask) {
            return Err(EINVAL);
        }
        let attrs = self.attrs().changed(attr, mask)?;
        *self.path.lock() = attrs;
        if self.state.cmpxchg(from as u32, to as u32, Full).is_err() {
            // The queue pair broke meanwhile; only the way out is open.
            if !matches!(to, State::Reset | State::Error) {
                return Err(EINVAL);
            }
            self.state.store(to as u32, kernel::sync::atomic::Release);
        }
        match to {
            State::Reset => {
                let mut send = self.send.lock();
                send.reset();
                self.recv.lock().reset();
                self.established.store(false, Relaxed);
                *self.path.lock() = Attrs::default();
            }
            State::Error => self.run(),
            State::ReadyToSend if from != to => self.run(),
            _ => {}
        }
        drop(control);
        Ok(())
    }

    /// Tells attributes and capabilities.
    pub fn query(&self, attr: &mut QpAttr) {
        let (max_send_wr, limits) = {
            let send = self.send.lock();
            (send.capacity(), send.limits())
        };
        let recv = self.recv.lock();
        let state = self.state() as u32;
        attr.qp_state = state;
        attr.cur_qp_state = state;
        attr.cap.max_send_wr = max_send_wr;
        attr.cap.max_send_sge = limits.max_sge;
        attr.cap.max_inline_data = limits.max_inline;
        attr.cap.max_recv_wr = recv.capacity();
        attr.cap.max_recv_sge = recv.max_sge();
        drop(recv);
        self.attrs().describe(attr);
    }

    /// The process has posted sends: executes them. `EINVAL` if nothing can be sent yet; the
    /// requests are forgotten then.
    pub fn doorbell(self: &Arc<Self>) -> Result {
        match self.state() {
            State::Reset | State::Init | State::ReadyToReceive => {
                self.send.lock().discard();
                Err(EINVAL)
            }
            _ => {
                self.run();
                Ok(())
            }
        }
    }

    /// Executes what is posted, as far as that is possible now.
    fn run(self: &Arc<Self>) {
        let mut send = self.send.lock();
        loop {
            match self.state() {
                State::ReadyToSend => {}
                State::Error => {
                    self.flush_sends(&mut send);
                    drop(send);
                    self.flush_recvs();
                    return;
                }
                _ => return,
            }
            if !send.peek() {
                return;
            }
            match execute::execute(self, &mut send) {
                Verdict::Done => send.pop(),
                Verdict::Later { micros } => {
                    self.continue_in(micros);
                    return;
                }
            }
            if task::is_dying() {
                self.continue_in(0);
                return;
            }
            task::let_others_run();
        }
    }

    fn flush_sends(&self, send: &mut SendQueue) {
        while send.peek() {
            self.complete_send(send.wqe.wr_id(), Status::Flushed, Done::Send, 0);
            send.pop();
        }
    }

    fn flush_recvs(&self) {
        let mut raw = RawRecv::default();
        while self.recv.lock().take(&mut raw) {
            self.complete_recv(&Completion {
                wr_id: raw.wr_id(),
                status: Status::Flushed,
                done: Done::Recv,
                byte_len: 0,
                imm: None,
                qp_num: self.number,
                src_qp: 0,
                solicited: false,
            });
            task::let_others_run();
        }
    }

    /// Posts the completion of a send.
    pub fn complete_send(&self, wr_id: u64, status: Status, done: Done, byte_len: u32) {
        self.send_cq.post(&Completion {
            wr_id,
            status,
            done,
            byte_len,
            imm: None,
            qp_num: self.number,
            src_qp: 0,
            solicited: false,
        });
    }

    /// Posts the completion of a receive, unless the queue pair is gone.
    pub fn complete_recv(&self, completion: &Completion) {
        if let Some(_inside) = self.handle.enter() {
            self.recv_cq.post(completion);
        }
    }

    /// Notes that a request of the other side came (IBTA 1.7, 11.6.3.1: communication established).
    #[inline]
    pub fn heard(&self) {
        if self.state() == State::ReadyToReceive && !self.established.xchg(true, Full) {
            self.handle.raise(QpEvent::Established);
        }
    }

    /// Takes the next receive, if this queue pair may receive now. Returns whether there was one.
    pub fn take_recv(&self, out: &mut RawRecv) -> bool {
        let mut recv = self.recv.lock();
        self.state().receives() && recv.take(out)
    }

    /// Elements that a receive may have.
    pub fn recv_max_sge(&self) -> u32 {
        self.recv.lock().max_sge()
    }

    /// Breaks the queue pair (IBTA 1.7, 10.3.1.6). What is posted is flushed by whoever executes,
    /// or soon. `event` is reported to the owner, if given.
    pub fn fail(self: &Arc<Self>, event: Option<QpEvent>) {
        let mut seen = self.state.load(Acquire);
        loop {
            let state = State::from_raw(seen).unwrap_or(State::Error);
            if !state.receives() {
                return;
            }
            match self.state.cmpxchg(seen, State::Error as u32, Full) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        self.continue_in(0);
        if let Some(event) = event {
            self.handle.raise(event);
        }
    }

    fn continue_in(self: &Arc<Self>, micros: u64) {
        let jiffies = msecs_to_jiffies(micros.div_ceil(1000).min(u64::from(u32::MAX)) as u32);
        let works = self.works.lock();
        if *works {
            work::run_in(self.clone(), jiffies);
        }
    }

    /// Ends the queue pair. No completion of it comes after this.
    pub fn destroy(self: &Arc<Self>) {
        self.state
            .store(State::Reset as u32, kernel::sync::atomic::Release);
        *self.works.lock() = false;
        work::turn_off(self);
        // Waits for a request that is being executed by another thread of the process.
        self.send.lock().discard();
        self.handle.close();
    }
}
