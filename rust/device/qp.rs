// SPDX-License-Identifier: GPL-2.0

//! Queue pairs.

use super::{
    attrs::{
        Attrs,
        Snapshot,
        State, //
    },
    cq::Cq,
    kernel_queue::Producer,
    multicast,
    port::Port,
    request::{
        SendLimits, //
    },
    rq::RecvQueue,
    sq::SendQueue,
    srq::Srq,
    transport::Transport,
    wqe::{
        RawRecv, //
    },
};
use crate::{
    bindings,
    rdma::{
        driver::{
            modify_is_ok,
            QpAttr,
            QpHandle,
            QpInit, //
        },
        events::QpEvent,
        gate::{
            Gate,
            Pass, //
        },
        id_table::IdTable,
        mr::{
            access::Access,
            region::Domain, //
        },
        work::{
            self,
            OwnQueue, //
        },
        wr::{
            RecvWr,
            SendWr, //
        }, //
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
            Relaxed,
            Release, //
        },
        Arc,
        Mutex,
        SpinLock, //
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
/// The first number that no queue pair can have: [`multicast::ALL`] stands for many.
pub const QPN_END: u32 = multicast::ALL;
/// The number by which the queue pair of managers is known on its device.
pub const MANAGER_QPN: u32 = 1;

/// A queue pair.
#[pin_data]
pub struct Qp {
    /// The device.
    pub port: Arc<Port>,
    /// The number in the table of all queue pairs.
    pub number: u32,
    /// What it promises.
    pub transport: Transport,
    /// What it may use.
    pub domain: Arc<Domain>,
    /// Whether every send completes visibly.
    pub signal_all: bool,
    /// Where completions of sends go.
    pub send_cq: Arc<Cq>,
    /// Where completions of receives go.
    pub recv_cq: Arc<Cq>,
    /// Where receives come from, if not from its own queue.
    pub srq: Option<Arc<Srq>>,
    /// Elements that a receive may have.
    pub recv_max_sge: u32,
    #[pin]
    pub(super) handle: QpHandle,
    /// A [`State`].
    pub(super) state: Atomic<u32>,
    /// The owner has been told that the other side began to talk.
    established: AtomicFlag,
    /// The owner has been told that nothing of the shared receive queue comes here any more.
    pub(super) last_told: AtomicFlag,
    /// Serialises changes of attributes.
    #[pin]
    control: Mutex<()>,
    /// The attributes; copied out as a whole. Changed by [`Qp::set_attrs`].
    #[pin]
    path: SpinLock<Attrs>,
    /// How often they have been changed.
    version: Atomic<u64>,
    /// What the other side looks at for each of its requests: its number,
    partner: Atomic<u32>,
    /// what it may do (`IB_ACCESS_*`),
    grants: Atomic<u32>,
    /// and how many reads it may have under way.
    reads: Atomic<u32>,
    /// Those who execute a request of the other side are inside. Whoever ends receiving waits for
    /// them: what was posted to be received, and the memory of the domain, is the owner's again then.
    #[pin]
    pub(super) visitors: Gate,
    /// The send queue. Whoever holds it executes.
    #[pin]
    pub(super) send: Mutex<SendQueue>,
    /// The receive queue, from which the other side takes.
    #[pin]
    pub(super) recv: SpinLock<RecvQueue>,
    /// Where the requests of a process go on: with its others. `None` for a user in the kernel.
    pub(super) own_queue: Option<Arc<OwnQueue>>,
    /// What its requests may be.
    send_limits: SendLimits,
    /// How many fit.
    send_capacity: u32,
    /// For a user in the kernel.
    #[pin]
    send_producer: Producer,
    /// As `send_producer`.
    #[pin]
    recv_producer: Producer,
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
        this.run_in_work_queue();
    }
}

/// What a new queue pair is made from.
pub struct NewQp<'a> {
    /// The device.
    pub port: &'a Arc<Port>,
    /// The number.
    pub number: u32,
    /// What it promises.
    pub transport: Transport,
    /// What it may use.
    pub domain: &'a Arc<Domain>,
    /// What its owner asked for.
    pub init: &'a QpInit<'a, Port>,
    /// Its sends.
    pub send: SendQueue,
    /// Its receives.
    pub recv: RecvQueue,
    /// The work queue of its process; `None` if its user is in the kernel.
    pub own_queue: Option<Arc<OwnQueue>>,
}

impl Qp {
    /// Puts a queue pair together.
    pub fn new(handle: impl PinInit<QpHandle>, new: NewQp<'_>) -> Result<Arc<Self>> {
        let init = new.init;
        Arc::pin_init(
            try_pin_init!(Self {
                port: new.port.clone(),
                number: new.number,
                transport: new.transport,
                domain: new.domain.clone(),
                signal_all: init.signal_all,
                send_cq: init.send_cq.clone(),
                recv_cq: init.recv_cq.clone(),
                srq: init.srq.cloned(),
                recv_max_sge: match init.srq {
                    Some(srq) => srq.max_sge(),
                    None => new.recv.max_sge(),
                },
                handle <- handle,
                state: Atomic::new(State::Reset as u32),
                established: AtomicFlag::new(false),
                last_told: AtomicFlag::new(false),
                control <- new_mutex!((), "Qp::control"),
                path <- new_spinlock!(Attrs::default(), "Qp::path"),
                version: Atomic::new(0u64),
                partner: Atomic::new(0u32),
                grants: Atomic::new(0u32),
                reads: Atomic::new(0u32),
                own_queue: new.own_queue,
                send_limits: new.send.limits(),
                send_capacity: new.send.capacity(),
                send_producer <- Producer::new(new.send.ring().clone()),
                recv_producer <- Producer::new(new.recv.ring().clone()),
                visitors <- Gate::new(),
                send <- new_mutex!(new.send, "Qp::send"),
                recv <- new_spinlock!(new.recv, "Qp::recv"),
                work <- new_delayed_work!("Qp::work"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// The number by which others know it.
    pub fn wire_number(&self) -> u32 {
        match self.transport {
            Transport::Management => MANAGER_QPN,
            _ => self.number,
        }
    }

    /// Whether the rings are filled by a user in the kernel.
    pub fn is_kernel(&self) -> bool {
        self.own_queue.is_none()
    }

    /// The state now.
    pub fn state(&self) -> State {
        State::from_raw(self.state.load(Acquire)).unwrap_or(State::Error)
    }

    /// The attributes now.
    pub fn attrs(&self) -> Attrs {
        *self.path.lock()
    }

    /// The attributes now, of which `known` is a copy: a new one if they have changed since. At
    /// first it is the default, as they are.
    #[inline]
    pub fn refresh<'a>(&self, known: &'a mut Snapshot) -> &'a Attrs {
        if self.version.load(Acquire) != known.version {
            let path = self.path.lock();
            *known = Snapshot {
                version: self.version.load(Relaxed),
                attrs: *path,
            };
        }
        &known.attrs
    }

    /// The queue pair that it is connected to.
    #[inline]
    pub fn partner(&self) -> u32 {
        self.partner.load(Relaxed)
    }

    /// The state in which it executes requests of `other`; `None` if it does not: it has to be
    /// connected to that, and of the same kind.
    #[inline]
    pub fn answers(&self, other: &Self) -> Option<State> {
        let state = self.state();
        let is_partner = self.partner() == other.number && self.transport == other.transport;
        (state.receives() && is_partner).then_some(state)
    }

    /// Begins to execute a request of `other` here, if that is possible now; see
    /// [`Qp::answers`].
    #[inline]
    pub fn visit(&self, other: &Self) -> Option<Pass<'_>> {
        let visit = self.visitors.enter()?;
        self.answers(other).map(|_| visit)
    }

    /// What requests of the other side may do.
    #[inline]
    pub fn grants(&self) -> Access {
        Access::from_bits(self.grants.load(Relaxed))
    }

    /// Whether the other side may have reads under way at all.
    #[inline]
    pub fn takes_reads(&self) -> bool {
        self.reads.load(Relaxed) != 0
    }

    fn set_attrs(&self, attrs: Attrs) {
        let mut path = self.path.lock();
        self.partner.store(attrs.dest_qp_num, Relaxed);
        self.grants.store(attrs.access, Relaxed);
        self.reads.store(attrs.max_dest_rd_atomic.into(), Relaxed);
        *path = attrs;
        self.version.fetch_add(1, Release);
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
        if !modify_is_ok(from as u32, to as u32, self.transport.raw(), mask) {
            return Err(EINVAL);
        }
        let attrs = self.attrs().changed(attr, mask)?;
        self.set_attrs(attrs);
        if self.state.cmpxchg(from as u32, to as u32, Full).is_err() {
            // The queue pair broke meanwhile; only the way out is open.
            if !matches!(to, State::Reset | State::Error) {
                return Err(EINVAL);
            }
            self.state.store(to as u32, Release);
        }
        match to {
            State::Reset => {
                let mut send = self.send.lock();
                self.visitors.quiesce();
                send.reset();
                self.recv.lock().reset();
                self.established.store(false, Relaxed);
                self.last_told.store(false, Relaxed);
                self.set_attrs(Attrs::default());
                drop(send);
                // What was to be continued later is not in the way of what comes next.
                self.wake();
            }
            State::SendDrained if from != to => {
                // Waits for the request that is being executed.
                drop(self.send.lock());
                let wanted = bindings::ib_qp_attr_mask_IB_QP_EN_SQD_ASYNC_NOTIFY;
                if mask & wanted != 0 && attr.en_sqd_async_notify != 0 {
                    self.handle.raise(QpEvent::SendDrained);
                }
            }
            State::Error => {
                self.run();
                self.wake();
            }
            State::ReadyToSend if from != to => self.run(),
            _ => {}
        }
        drop(control);
        Ok(())
    }

    /// Tells attributes and capabilities.
    pub fn query(&self, attr: &mut QpAttr) {
        let limits = self.send_limits;
        let recv = self.recv.lock();
        let state = self.state() as u32;
        attr.qp_state = state;
        attr.cur_qp_state = state;
        attr.cap.max_send_wr = self.send_capacity;
        attr.cap.max_send_sge = limits.max_sge;
        attr.cap.max_inline_data = limits.max_inline;
        if self.srq.is_none() {
            attr.cap.max_recv_wr = recv.capacity();
            attr.cap.max_recv_sge = recv.max_sge();
        }
        drop(recv);
        self.attrs().describe(attr);
    }

    /// Posts a send of a user in the kernel. Any context.
    pub fn post_send(&self, wr: &SendWr<'_>) -> Result {
        if !self.is_kernel() {
            return Err(EOPNOTSUPP);
        }
        if !self.state().takes_sends() {
            return Err(EINVAL);
        }
        let is_datagram = self.transport.is_datagram();
        self.send_producer
            .post_send(wr, is_datagram, self.send_limits)
    }

    /// Posts a receive of a user in the kernel. Any context.
    pub fn post_recv(self: &Arc<Self>, wr: &RecvWr<'_>) -> Result {
        if !self.is_kernel() || self.srq.is_some() {
            return Err(EOPNOTSUPP);
        }
        if self.state() == State::Reset {
            return Err(EINVAL);
        }
        self.recv_producer.post_recv(wr, self.recv_max_sge)?;
        if self.state() == State::Error {
            // Somebody has to flush it.
            self.wake();
        }
        Ok(())
    }

    /// Notes that a request of the other side came in `state` (IBTA 1.7, 11.6.3.1: communication
    /// established).
    #[inline]
    pub fn heard(&self, state: State) {
        // Most have been told long ago, and a look is cheaper than an exchange.
        let is_news = state == State::ReadyToReceive && !self.established.load(Relaxed);
        if is_news && !self.established.xchg(true, Full) {
            self.handle.raise(QpEvent::Established);
        }
    }

    /// Takes the next receive, if this queue pair may receive now and the receive `fits`. Returns
    /// whether there was one.
    pub fn take_recv(&self, out: &mut RawRecv, fits: impl FnOnce(&RawRecv) -> bool) -> bool {
        match &self.srq {
            Some(srq) => self.state().receives() && srq.take(out, fits),
            None => {
                let mut recv = self.recv.lock();
                self.state().receives() && recv.take(out, fits)
            }
        }
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
        self.wake();
        if let Some(event) = event {
            self.handle.raise(event);
        }
    }

    /// Ends the queue pair. No completion of it comes after this.
    pub fn destroy(self: &Arc<Self>) {
        if self.port.is_leaving() {
            // Its owner has not asked for this, and waits for what it posted to complete.
            self.fail(None);
            self.run();
        }
        self.state.store(State::Reset as u32, Release);
        self.port.clear_manager(self);
        multicast::forget(self);
        self.visitors.close();
        // Nobody queues work or completes a receive after this.
        self.handle.close();
        work::turn_off(self);
        // Waits for a request that is being executed by another thread of the process.
        let send_mapping = {
            let mut send = self.send.lock();
            send.discard();
            send.unmap()
        };
        let recv_mapping = self.recv.lock().unmap();
        // The process's context may go as soon as this returns, whoever still holds the queue pair.
        drop((send_mapping, recv_mapping));
    }
}
