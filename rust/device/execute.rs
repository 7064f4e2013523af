// SPDX-License-Identifier: GPL-2.0

//! What a work request does.
//!
//! Bytes go straight from where they are to where they have to be, in the context that executes the
//! send queue. Everything that can be checked is checked before the first byte moves, in the order
//! in which the two ends of a wire would: the requester's own side first, then whether the other
//! side is there, then the other side's memory, then whether it is ready (IBTA 1.7, 9.7 and 10.7).

use super::{
    attrs::Attrs,
    qp::Qp,
    sq::{
        Attempts,
        Route,
        SendQueue, //
    },
    status::{
        Completion,
        Done,
        Status, //
    },
    wqe::{
        total,
        Local,
        Operation,
        RawSge,
        Remote,
        SendRequest,
        Sge, //
    },
};
use crate::rdma::{
    driver::QpEvent,
    log::warn_ratelimited,
    mr::{
        access::Access,
        region::Domain,
        stream::{
            copy,
            CopyError,
            Stream, //
        },
        window::{
            AccessError,
            Window, //
        },
    },
    task, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// What became of the request at the head of the queue.
pub enum Verdict {
    /// It is done with, well or badly.
    Done,
    /// It has to be tried again after a while.
    Later {
        /// In how many microseconds.
        micros: u64,
    },
}

/// Why a request did not succeed.
enum Failure {
    /// It ends like this, and the queue pair breaks.
    Fatal(Status),
    /// The same, and the other side breaks too, with this event.
    Both(Status, Option<QpEvent>),
    /// Nobody answers.
    Unanswered,
    /// The other side has no receive posted, and asks for this patience.
    NotReady { micros: u64 },
}

/// The other side while nobody answers for ever is asked again this often.
const POLL_MICROS: u64 = 100_000;

/// Executes the request at the head of `send`, which has been copied to `send.wqe`.
pub fn execute(qp: &Arc<Qp>, send: &mut SendQueue) -> Verdict {
    let attrs = qp.attrs();
    let inline = send.inline_data();
    let limits = send.limits();
    let SendQueue {
        wqe,
        recv,
        local,
        remote,
        attempts,
        route,
        ..
    } = send;
    let request = wqe.understand(limits);
    let mut transfer = Transfer {
        qp,
        attrs: &attrs,
        request: &request,
        inline,
        recv,
        local,
        remote,
        route,
    };
    let done = match request.operation {
        Ok(Operation::Write { .. }) => Done::RdmaWrite,
        Ok(Operation::Read { .. }) => Done::RdmaRead,
        Ok(Operation::Bind { .. }) => Done::Bind,
        Ok(Operation::Send { .. }) | Err(_) => Done::Send,
    };
    let fatal = |status| {
        qp.complete_send(request.wr_id, status, done, 0);
        qp.fail(None);
        Verdict::Done
    };
    match transfer.run() {
        Ok(()) => {
            if request.signalled || qp.signal_all {
                qp.complete_send(request.wr_id, Status::Success, done, request.length as u32);
            }
            Verdict::Done
        }
        Err(Failure::Fatal(status)) => fatal(status),
        Err(Failure::Both(status, event)) => {
            if let Some(peer) = transfer.peer() {
                peer.fail(event);
            }
            fatal(status)
        }
        Err(Failure::Unanswered) => {
            let Some(micros) = attrs.ack_timeout_us() else {
                return Verdict::Later {
                    micros: POLL_MICROS,
                };
            };
            let attempts = attempts.get_or_insert(Attempts {
                unanswered: attrs.retry_cnt,
                not_ready: attrs.rnr_retry,
            });
            match attempts.unanswered.checked_sub(1) {
                Some(left) => {
                    attempts.unanswered = left;
                    Verdict::Later { micros }
                }
                None => {
                    warn_ratelimited!(
                        "queue pair {}: queue pair {} does not answer on this machine\n",
                        qp.number,
                        attrs.dest_qp_num
                    );
                    fatal(Status::RetryExceeded)
                }
            }
        }
        Err(Failure::NotReady { micros }) => {
            let attempts = attempts.get_or_insert(Attempts {
                unanswered: attrs.retry_cnt,
                not_ready: attrs.rnr_retry,
            });
            match attempts.not_ready {
                FOR_EVER => Verdict::Later { micros },
                0 => fatal(Status::RnrRetryExceeded),
                left => {
                    attempts.not_ready = left - 1;
                    Verdict::Later { micros }
                }
            }
        }
    }
}

/// The RNR retry count that stands for no limit.
const FOR_EVER: u8 = 7;

/// A request on its way.
struct Transfer<'a> {
    qp: &'a Arc<Qp>,
    attrs: &'a Attrs,
    request: &'a SendRequest<'a>,
    inline: *const u8,
    recv: &'a mut super::wqe::RawRecv,
    local: &'a mut KVec<Window>,
    remote: &'a mut KVec<Window>,
    route: &'a mut Option<Route>,
}

impl Transfer<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        match self.request.operation.map_err(Failure::Fatal)? {
            Operation::Send { imm } => self.send(imm),
            Operation::Write { remote, imm } => self.write(remote, imm),
            Operation::Read { remote } => self.read(remote),
            Operation::Bind { key } => self
                .qp
                .domain
                .bind(key)
                .map_err(|_| Failure::Fatal(Status::BindError)),
        }
    }

    /// Finds the other side, if it is connected to this one and can be reached.
    fn peer(&mut self) -> Option<Arc<Qp>> {
        let attrs = self.attrs;
        let peer = self.qp.port.qps().get(attrs.dest_qp_num)?;
        if !peer.state().receives() || peer.attrs().dest_qp_num != self.qp.number {
            return None;
        }
        if !self.qp.port.is_running() || !peer.port.is_running() {
            return None;
        }
        let route = Route {
            qp_num: peer.number,
            generation: super::port::address_generation(),
        };
        if *self.route != Some(route) {
            if !peer.port.owns_gid(&attrs.dest_gid) {
                return None;
            }
            *self.route = Some(route);
        }
        peer.heard();
        Some(peer)
    }

    /// Checks the local elements.
    fn check_local(&mut self, access: Access) -> Result<(), Failure> {
        self.local.clear();
        match self.request.local {
            Local::Inline(_) => Ok(()),
            Local::Elements(elements) => windows(self.local, &self.qp.domain, elements, access)
                .map_err(|_| Failure::Fatal(Status::LocalProtection)),
        }
    }

    /// Checks the other side's memory. A request of no bytes needs none (IBTA 1.7, C9-88).
    fn check_remote(
        &mut self,
        peer: &Arc<Qp>,
        remote: Remote,
        access: Access,
    ) -> Result<(), Failure> {
        self.remote.clear();
        if !Access::from_bits(peer.attrs().access).includes(access) {
            return Err(Failure::Both(
                Status::RemoteInvalidRequest,
                Some(QpEvent::RequestError),
            ));
        }
        if self.request.length == 0 {
            return Ok(());
        }
        let window = peer
            .domain
            .window(remote.key, remote.addr, self.request.length, access)
            .map_err(|_| REMOTE_ACCESS)?;
        push(self.remote, window).map_err(|_| REMOTE_ACCESS)
    }

    /// Takes a receive of the other side.
    fn take_recv(&mut self, peer: &Arc<Qp>) -> Result<(), Failure> {
        if peer.take_recv(self.recv) {
            return Ok(());
        }
        if !peer.state().receives() {
            return Err(Failure::Unanswered);
        }
        Err(Failure::NotReady {
            micros: peer.attrs().rnr_delay_us(),
        })
    }

    fn complete_recv(&self, peer: &Arc<Qp>, status: Status, done: Done, imm: Option<u32>) {
        peer.complete_recv(&Completion {
            wr_id: self.recv.wr_id(),
            status,
            done,
            byte_len: self.request.length as u32,
            imm,
            qp_num: peer.number,
            src_qp: self.qp.number,
            solicited: self.request.solicited,
        });
    }

    /// Ends the receive that was taken with an error, which breaks the other side.
    fn fail_recv(&self, peer: &Arc<Qp>, theirs: Status, ours: Status) -> Failure {
        self.complete_recv(peer, theirs, Done::Recv, None);
        Failure::Both(ours, None)
    }

    fn send(&mut self, imm: Option<u32>) -> Result<(), Failure> {
        self.check_local(Access::LOCAL_READ)?;
        let peer = self.peer().ok_or(Failure::Unanswered)?;
        self.take_recv(&peer)?;
        let Some(elements) = self.recv.elements(peer.recv_max_sge()) else {
            return Err(self.fail_recv(&peer, Status::LocalQpOperation, Status::RemoteOperation));
        };
        if total(elements) < self.request.length {
            return Err(self.fail_recv(&peer, Status::LocalLength, Status::RemoteInvalidRequest));
        }
        self.remote.clear();
        if windows(self.remote, &peer.domain, elements, Access::LOCAL_WRITE).is_err() {
            return Err(self.fail_recv(&peer, Status::LocalProtection, Status::RemoteOperation));
        }
        match self.push_bytes() {
            Ok(()) => {}
            Err(CopyError::To(_)) => {
                return Err(self.fail_recv(&peer, Status::LocalProtection, Status::RemoteOperation))
            }
            Err(CopyError::From(_)) => {
                return Err(self.fail_recv(&peer, Status::Flushed, Status::LocalProtection))
            }
            Err(CopyError::Stopped) => {
                return Err(self.fail_recv(&peer, Status::Flushed, Status::Flushed))
            }
        }
        self.complete_recv(&peer, Status::Success, Done::Recv, imm);
        Ok(())
    }

    fn write(&mut self, remote: Remote, imm: Option<u32>) -> Result<(), Failure> {
        self.check_local(Access::LOCAL_READ)?;
        let peer = self.peer().ok_or(Failure::Unanswered)?;
        self.check_remote(&peer, remote, Access::REMOTE_WRITE)?;
        if imm.is_some() {
            self.take_recv(&peer)?;
        }
        if let Err(e) = self.push_bytes() {
            let failure = match e {
                CopyError::To(_) => REMOTE_ACCESS,
                CopyError::From(_) => Failure::Fatal(Status::LocalProtection),
                CopyError::Stopped => Failure::Fatal(Status::Flushed),
            };
            if imm.is_some() {
                self.complete_recv(&peer, Status::Flushed, Done::Recv, None);
                peer.fail(None);
            }
            return Err(failure);
        }
        if imm.is_some() {
            self.complete_recv(&peer, Status::Success, Done::RecvRdmaWithImm, imm);
        }
        Ok(())
    }

    fn read(&mut self, remote: Remote) -> Result<(), Failure> {
        if self.attrs.max_rd_atomic == 0 {
            return Err(Failure::Fatal(Status::LocalQpOperation));
        }
        self.check_local(Access::LOCAL_WRITE)?;
        let peer = self.peer().ok_or(Failure::Unanswered)?;
        if peer.attrs().max_dest_rd_atomic == 0 {
            return Err(Failure::Both(
                Status::RemoteInvalidRequest,
                Some(QpEvent::RequestError),
            ));
        }
        self.check_remote(&peer, remote, Access::REMOTE_READ)?;
        let mut from = Stream::new(self.remote);
        let mut to = Stream::to_write(self.local);
        match copy(&mut to, &mut from, self.request.length, || self.go_on()) {
            Ok(_) => Ok(()),
            Err(CopyError::From(_)) => Err(REMOTE_ACCESS),
            Err(CopyError::To(_)) => Err(Failure::Fatal(Status::LocalProtection)),
            Err(CopyError::Stopped) => Err(Failure::Fatal(Status::Flushed)),
        }
    }

    /// Moves the local bytes to `self.remote`.
    fn push_bytes(&self) -> Result<(), CopyError> {
        let mut to = Stream::to_write(self.remote);
        let mut from = match self.request.local {
            Local::Elements(_) => Stream::new(self.local),
            // SAFETY: The inline data is in the slot of the request, which is not given back
            // before the request is done with; the length is within the slot by the limits of the
            // queue.
            Local::Inline(len) => unsafe { Stream::of_kernel_memory(self.inline, len) },
        };
        copy(&mut to, &mut from, self.request.length, || self.go_on()).map(|_| ())
    }

    /// Whether a long copy goes on: not when its queue pair broke, its process is dying or its
    /// device is going away.
    fn go_on(&self) -> bool {
        task::let_others_run();
        self.qp.state() == super::attrs::State::ReadyToSend
            && !task::is_dying()
            && !self.qp.port.is_leaving()
    }
}

const REMOTE_ACCESS: Failure = Failure::Both(Status::RemoteAccess, Some(QpEvent::AccessError));

/// Checks `elements` and puts their windows into `out`. Elements of no bytes need no region.
fn windows(
    out: &mut KVec<Window>,
    domain: &Arc<Domain>,
    elements: &[RawSge],
    access: Access,
) -> Result<(), AccessError> {
    for element in elements {
        let sge = Sge::from(element);
        if sge.length == 0 {
            continue;
        }
        let window = domain.window(sge.key, sge.addr, u64::from(sge.length), access)?;
        push(out, window)?;
    }
    Ok(())
}

/// Adds a window; the list has room for as many as there can be.
fn push(out: &mut KVec<Window>, window: Window) -> Result<(), AccessError> {
    out.push_within_capacity(window)
        .map_err(|_| AccessError::OutOfBounds)
}
