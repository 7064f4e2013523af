// SPDX-License-Identifier: GPL-2.0

//! What a work request does.
//!
//! Bytes go straight from where they are to where they have to be, in the context that executes the
//! send queue. Everything that can be checked is checked before the first byte moves, in the order
//! in which the two ends of a wire would: the requester's own side first, then whether the other
//! side is there, then the other side's memory, then whether it is ready (IBTA 1.7, 9.7 and 10.7).

use super::{
    attrs::Attrs,
    execute::{
        imm_only,
        Failure, //
    },
    port::reach_generation,
    qp::Qp,
    request::{
        Local,
        Operation,
        Remote,
        SendRequest,
        Sge, //
    },
    sq::{
        Route,
        Workspace, //
    },
    status::{
        Completion,
        Done,
        Extra,
        Status, //
    },
    wqe::{
        total,
        RawSend,
        RawSge, //
    },
};
use crate::rdma::{
    events::QpEvent,
    mr::{
        access::Access,
        bytes::Bytes,
        copying::{
            transfer,
            CopyError, //
        },
        key::Key,
        region::Domain,
        side::Side,
        window::{
            AccessError,
            Wanted, //
        },
    },
    task, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A request on its way.
pub struct Transfer<'a> {
    pub(super) qp: &'a Arc<Qp>,
    pub(super) attrs: &'a Attrs,
    pub(super) wqe: &'a RawSend,
    pub(super) request: &'a SendRequest<'a>,
    pub(super) inline: *const u8,
    pub(super) workspace: &'a mut Workspace,
    /// The other side of the request before this one, if it was executed just now.
    pub(super) last_peer: &'a mut Option<Arc<Qp>>,
}

pub(super) const REMOTE_ACCESS: Failure =
    Failure::Refused(Status::RemoteAccess, Some(QpEvent::AccessError));
pub(super) const INVALID_REQUEST: Failure =
    Failure::Refused(Status::RemoteInvalidRequest, Some(QpEvent::RequestError));

impl Transfer<'_> {
    /// Carries the request out.
    pub fn run(&mut self, operation: &Operation) -> Result<(), Failure> {
        let domain = &self.qp.domain;
        let fatal = |status| move |_| Failure::Fatal(status);
        match *operation {
            Operation::Send { extra } if self.qp.transport.is_datagram() => self.datagram(extra),
            Operation::Send { extra } => self.send(extra),
            Operation::Write { remote, imm } => self.write(remote, imm),
            Operation::AtomicWrite { remote } => self.atomic_write(remote),
            Operation::Read { remote, invalidate } => self.read(remote, invalidate),
            Operation::Atomic { remote, operation } => self.atomic(remote, operation),
            Operation::Flush {
                remote,
                length,
                persistent,
            } => self.flush(remote, length, persistent),
            Operation::Bind { key } => domain.bind(key).map_err(fatal(Status::BindError)),
            Operation::BindWindow(ref wanted) => domain
                .bind_window(wanted, self.qp.number)
                .map_err(fatal(Status::BindError)),
            Operation::Invalidate { key } => domain
                .invalidate(key, self.qp.number)
                .map_err(fatal(Status::LocalQpOperation)),
            Operation::Register(ref wanted) => domain
                .register(wanted)
                .map_err(fatal(Status::LocalQpOperation)),
        }
    }

    /// Finds the other side, if it is connected to this one and can be reached.
    pub fn peer(&mut self) -> Option<Arc<Qp>> {
        let (qp, number) = (self.qp, self.attrs.dest_qp_num);
        let last = self.last_peer.take();
        let peer = match last.filter(|peer| peer.number == number) {
            Some(peer) => peer,
            None => qp.port.qps().get(number)?,
        };
        let state = peer.answers(qp)?;
        self.reach(&peer, &self.attrs.path.dgid).then(|| {
            peer.heard(state);
            peer
        })
    }

    /// Does what involves the other side, if that can be reached.
    #[inline]
    pub(super) fn with_peer(
        &mut self,
        f: impl FnOnce(&mut Self, &Arc<Qp>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let peer = self.peer().ok_or(Failure::Unanswered)?;
        let outcome = match peer.visit(self.qp) {
            Some(_visit) => f(self, &peer),
            None => Err(Failure::Unanswered),
        };
        *self.last_peer = Some(peer);
        outcome
    }

    /// As [`Transfer::with_peer`], for a request that brings something back: both sides must have
    /// been set to have some of those outstanding.
    #[inline]
    pub(super) fn with_reading_peer(
        &mut self,
        f: impl FnOnce(&mut Self, &Arc<Qp>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.attrs.max_rd_atomic == 0 {
            return Err(Failure::Fatal(Status::LocalQpOperation));
        }
        self.with_peer(|this, peer| {
            if !peer.takes_reads() {
                return Err(INVALID_REQUEST);
            }
            f(this, peer)
        })
    }

    /// Whether the device of `peer` has the address `gid` and both devices can send.
    #[inline(always)]
    pub(super) fn reach(&mut self, peer: &Arc<Qp>, gid: &[u8; 16]) -> bool {
        let route = Route {
            device: Arc::as_ptr(&peer.port).addr(),
            gid: *gid,
            generation: reach_generation(),
        };
        self.workspace.route == Some(route) || self.reach_anew(peer, route)
    }

    /// As [`Transfer::reach`], where that was not found out before.
    #[inline(never)]
    fn reach_anew(&mut self, peer: &Arc<Qp>, route: Route) -> bool {
        let (from, to) = (&self.qp.port, &peer.port);
        let found = from.is_running() && to.is_running() && to.owns_gid(&route.gid);
        if found {
            self.workspace.route = Some(route);
        }
        found
    }

    /// Checks the local elements.
    pub(super) fn check_local(&mut self, access: Access) -> Result<(), Failure> {
        self.workspace.local.clear();
        match self.request.local {
            Local::Inline(_) => Ok(()),
            Local::Elements(elements) => add_elements(
                &mut self.workspace.local,
                &self.qp.domain,
                elements,
                access,
                u64::MAX,
            )
            .map_err(|_| Failure::Fatal(Status::LocalProtection)),
        }
    }

    /// Checks `length` bytes of the other side's memory. A request of no bytes needs none (IBTA
    /// 1.7, C9-88).
    pub(super) fn check_remote(
        &mut self,
        peer: &Arc<Qp>,
        remote: Remote,
        length: u64,
        access: Access,
    ) -> Result<(), Failure> {
        self.workspace.remote.clear();
        if !peer.grants().includes(access) {
            return Err(INVALID_REQUEST);
        }
        if length == 0 {
            return Ok(());
        }
        let wanted = Wanted {
            key: remote.key,
            addr: remote.addr,
            length,
            access,
        };
        self.workspace
            .remote
            .add_remote(&peer.domain, wanted, peer.number)
            .map_err(|_| REMOTE_ACCESS)
    }

    /// Takes a receive of the other side.
    pub(super) fn take_recv(&mut self, peer: &Arc<Qp>) -> Result<(), Failure> {
        if peer.take_recv(&mut self.workspace.recv, |_| true) {
            return Ok(());
        }
        if !peer.state().receives() {
            return Err(Failure::Unanswered);
        }
        Err(Failure::NotReady {
            micros: peer.attrs().rnr_delay_us(),
        })
    }

    fn complete_recv(&self, peer: &Arc<Qp>, status: Status, done: Done, extra: Extra) {
        peer.complete_recv(Completion {
            status,
            byte_len: self.request.length as u32,
            extra,
            src_qp: self.qp.wire_number(),
            solicited: self.request.solicited,
            ..peer.completion(self.workspace.recv.wr_id(), done)
        });
    }

    /// Ends the receive that was taken with an error, which breaks the other side.
    pub(super) fn fail_recv(&self, peer: &Arc<Qp>, theirs: Status, ours: Status) -> Failure {
        self.complete_recv(peer, theirs, Done::Recv, Extra::None);
        peer.fail(None);
        Failure::PeerFailed(ours)
    }

    /// Checks the receive that was taken, which is to hold `length` bytes.
    pub(super) fn check_recv(&mut self, peer: &Arc<Qp>, length: u64) -> Result<(), Failure> {
        let Some(elements) = self.workspace.recv.elements(peer.recv_max_sge) else {
            return Err(self.fail_recv(peer, Status::LocalQpOperation, Status::RemoteOperation));
        };
        if total(elements) < length {
            return Err(self.fail_recv(peer, Status::LocalLength, Status::RemoteInvalidRequest));
        }
        self.workspace.remote.clear();
        // What the message does not reach is not looked at, as programs expect: ib_send_bw posts
        // receives that go beyond the end of its region.
        if add_elements(
            &mut self.workspace.remote,
            &peer.domain,
            elements,
            Access::LOCAL_WRITE,
            length,
        )
        .is_err()
        {
            return Err(self.fail_recv(peer, Status::LocalProtection, Status::RemoteOperation));
        }
        Ok(())
    }

    /// What a copy into a receive failed with.
    pub(super) fn copy_failed(&self, peer: &Arc<Qp>, error: CopyError) -> Failure {
        let failure = match error {
            CopyError::To(_) => {
                return self.fail_recv(peer, Status::LocalProtection, Status::RemoteOperation)
            }
            CopyError::From(_) => Failure::Fatal(Status::LocalProtection),
            CopyError::Stopped => self.stopped(peer),
        };
        // The receive is gone, and so is the message: the other side cannot go on.
        self.complete_recv(peer, Status::Flushed, Done::Recv, Extra::None);
        peer.fail(None);
        failure
    }

    /// What becomes of a request whose copy was stopped.
    pub(super) fn stopped(&self, peer: &Arc<Qp>) -> Failure {
        match peer.state().receives() {
            true => Failure::Fatal(Status::Flushed),
            // It is as if nobody had been there.
            false => Failure::Unanswered,
        }
    }

    fn send(&mut self, extra: Extra) -> Result<(), Failure> {
        self.check_local(Access::LOCAL_READ)?;
        self.with_peer(|this, peer| {
            this.take_recv(peer)?;
            this.check_recv(peer, this.request.length)?;
            this.push_bytes(this.workspace.remote.bytes(), Some(peer))
                .map_err(|error| this.copy_failed(peer, error))?;
            if let Extra::Invalidate(key) = extra {
                let key = Key::from_raw(key);
                if peer.domain.invalidate(key, peer.number).is_err() {
                    let status = Status::RemoteInvalidRequest;
                    return Err(this.fail_recv(peer, status, status));
                }
            }
            this.complete_recv(peer, Status::Success, Done::Recv, extra);
            Ok(())
        })
    }

    fn write(&mut self, remote: Remote, imm: Option<u32>) -> Result<(), Failure> {
        self.check_local(Access::LOCAL_READ)?;
        self.with_peer(|this, peer| {
            this.check_remote(peer, remote, this.request.length, Access::REMOTE_WRITE)?;
            if imm.is_some() {
                this.take_recv(peer)?;
            }
            if let Err(e) = this.push_bytes(this.workspace.remote.bytes(), Some(peer)) {
                let failure = match e {
                    CopyError::To(_) => REMOTE_ACCESS,
                    CopyError::From(_) => Failure::Fatal(Status::LocalProtection),
                    CopyError::Stopped => this.stopped(peer),
                };
                if imm.is_some() {
                    this.complete_recv(peer, Status::Flushed, Done::Recv, Extra::None);
                    peer.fail(None);
                }
                return Err(failure);
            }
            if imm.is_some() {
                let extra = imm_only(imm);
                this.complete_recv(peer, Status::Success, Done::RecvRdmaWithImm, extra);
            }
            Ok(())
        })
    }

    fn read(&mut self, remote: Remote, invalidate: Option<Key>) -> Result<(), Failure> {
        self.check_local(Access::LOCAL_WRITE)?;
        self.with_reading_peer(|this, peer| {
            let length = this.request.length;
            this.check_remote(peer, remote, length, Access::REMOTE_READ)?;
            let (to, from) = (this.workspace.local.bytes(), this.workspace.remote.bytes());
            transfer(to, from, length, || this.go_on(Some(peer))).map_err(|error| match error {
                CopyError::From(_) => REMOTE_ACCESS,
                CopyError::To(_) => Failure::Fatal(Status::LocalProtection),
                CopyError::Stopped => this.stopped(peer),
            })
        })?;
        if let Some(key) = invalidate {
            let invalidated = self.qp.domain.invalidate(key, self.qp.number);
            invalidated.map_err(|_| Failure::Fatal(Status::LocalQpOperation))?;
        }
        Ok(())
    }

    /// The local bytes.
    #[inline]
    pub(super) fn bytes(&self) -> Bytes<'_> {
        match self.request.local {
            Local::Elements(_) => self.workspace.local.bytes(),
            // SAFETY: The inline data is in the slot of the request, which is not given back
            // before the request is done with; the length is within the slot by the limits of the
            // queue.
            Local::Inline(len) => unsafe { Bytes::of_kernel_memory(self.inline, len) },
        }
    }

    /// Moves the local bytes to `to`, which is memory of `peer`, if of anybody else.
    #[inline]
    pub(super) fn push_bytes(
        &self,
        to: Bytes<'_>,
        peer: Option<&Arc<Qp>>,
    ) -> Result<(), CopyError> {
        transfer(to, self.bytes(), self.request.length, || self.go_on(peer))
    }

    /// Whether a long copy goes on: not when its queue pair or that of the other side broke, its
    /// process is dying or its device is going away.
    pub(super) fn go_on(&self, peer: Option<&Arc<Qp>>) -> bool {
        task::pause()
            && self.qp.state().receives()
            && peer.is_none_or(|peer| peer.state().receives())
            && !self.qp.port.is_leaving()
    }
}

/// Checks the first `length` bytes of `elements`, or all of them if they have less, and adds them to
/// `side`. Elements of no bytes need no region.
fn add_elements(
    side: &mut Side,
    domain: &Arc<Domain>,
    elements: &[RawSge],
    access: Access,
    mut length: u64,
) -> Result<(), AccessError> {
    for element in elements {
        let sge = Sge::from(element);
        let part = length.min(u64::from(sge.length));
        if part == 0 {
            continue;
        }
        length -= part;
        let wanted = Wanted {
            key: sge.key,
            addr: sge.addr,
            length: part,
            access,
        };
        side.add(domain, wanted)?;
    }
    Ok(())
}
