// SPDX-License-Identifier: GPL-2.0

//! What becomes of a work request: whether it is done, fails, or has to wait.

use super::{
    attempts::{
        Attempts,
        FOR_EVER, //
    },
    counters::Counter,
    qp::Qp,
    request::{
        AtomicOperation,
        Operation, //
    },
    sq::SendQueue,
    status::{
        Done,
        Extra,
        Status, //
    },
    transfer::Transfer,
    transport::Transport,
};
use crate::rdma::{
    events::QpEvent,
    log::warn_ratelimited, //
};
use kernel::sync::Arc;

/// What became of the request at the head of the queue.
pub enum Verdict {
    /// It is done with. Its owner is told of this, if of anything.
    Done(Option<Ended>),
    /// It failed, of which its owner is told, and the queue pair breaks.
    Broken(Ended),
    /// It has to be tried again after a while.
    Later {
        /// In how many microseconds.
        micros: u64,
    },
}

/// How a request ended.
pub struct Ended {
    /// What its poster calls it.
    pub wr_id: u64,
    /// Whether it went well.
    pub status: Status,
    /// What it was.
    pub done: Done,
    /// Bytes that were moved.
    pub byte_len: u32,
}

/// Why a request did not succeed.
pub enum Failure {
    /// It ends like this, and the queue pair breaks.
    Fatal(Status),
    /// The other side refuses it. A connection that promises to deliver breaks on both sides, the
    /// other one with this event; else the message is lost.
    Refused(Status, Option<QpEvent>),
    /// The other side failed with what it had to contribute, and breaks. What this side learns of
    /// it, if it learns of anything.
    PeerFailed(Status),
    /// Nobody answers.
    Unanswered,
    /// The other side has no receive posted, and asks for this patience.
    NotReady {
        /// How long, in microseconds.
        micros: u64,
    },
}

fn done(operation: &Operation) -> Done {
    match operation {
        Operation::Send { .. } => Done::Send,
        Operation::Write { .. } => Done::RdmaWrite,
        Operation::AtomicWrite { .. } => Done::AtomicWrite,
        Operation::Read { .. } => Done::RdmaRead,
        Operation::Atomic { operation, .. } => match operation {
            AtomicOperation::CompareAndSwap { .. } => Done::CompareSwap,
            AtomicOperation::FetchAndAdd { .. } => Done::FetchAdd,
        },
        Operation::Flush { .. } => Done::Flush,
        Operation::Bind { .. } => Done::Bind,
        Operation::BindWindow(_) => Done::BindWindow,
        Operation::Invalidate { .. } => Done::LocalInvalidate,
        Operation::Register(_) => Done::Register,
    }
}

/// Executes the request at the head of `send`, which has been copied to `send.wqe`. Where it went is
/// left in `last_peer` for the next one.
pub fn execute(qp: &Arc<Qp>, send: &mut SendQueue, last_peer: &mut Option<Arc<Qp>>) -> Verdict {
    let inline = send.inline_data();
    let limits = send.limits();
    let SendQueue {
        wqe,
        workspace,
        attempts,
        attrs,
        ..
    } = send;
    let attrs = qp.refresh(attrs);
    let request = wqe.understand(limits);
    let operation = match &request.operation {
        Ok(operation) if qp.transport.offers(operation) => Ok(operation),
        Ok(_) => Err(Status::LocalQpOperation),
        Err(status) => Err(*status),
    };
    let kind = || operation.map_or(Done::Send, done);
    let mut transfer = Transfer {
        qp,
        attrs,
        wqe,
        request: &request,
        inline,
        workspace,
        last_peer,
    };
    let outcome = match operation {
        Ok(operation) => transfer.run(operation),
        Err(status) => Err(Failure::Fatal(status)),
    };
    let counters = &qp.port.counters;
    match outcome {
        Ok(()) => {
            counters.count(Counter::Sends);
            counters.add(Counter::SentBytes, request.length);
        }
        Err(failure) => match failed(transfer, attempts, failure) {
            Fate::Lost => {}
            Fate::Again { micros } => return Verdict::Later { micros },
            Fate::Broken(status) => {
                counters.count(Counter::SendErrors);
                return Verdict::Broken(Ended {
                    wr_id: request.wr_id,
                    status,
                    done: kind(),
                    byte_len: 0,
                });
            }
        },
    }
    Verdict::Done((request.signalled || qp.signal_all).then(|| Ended {
        wr_id: request.wr_id,
        status: Status::Success,
        done: kind(),
        byte_len: request.length as u32,
    }))
}

/// What a failure means for a request.
enum Fate {
    /// An unreliable transport cannot deliver it, and nobody is told.
    Lost,
    /// It is tried again.
    Again {
        /// In how many microseconds.
        micros: u64,
    },
    /// It ends like this, and the queue pair breaks.
    Broken(Status),
}

/// Decides what a failure means for the request, and lets the other side know.
#[cold]
fn failed(mut transfer: Transfer<'_>, attempts: &mut Option<Attempts>, failure: Failure) -> Fate {
    let (qp, attrs) = (transfer.qp, transfer.attrs);
    let counters = &qp.port.counters;
    let is_reliable = qp.transport == Transport::Reliable;
    match failure {
        Failure::Fatal(status) => Fate::Broken(status),
        // The other side broke where its receive was completed.
        Failure::PeerFailed(status) if is_reliable => Fate::Broken(status),
        Failure::PeerFailed(_) => Fate::Lost,
        _ if !is_reliable => {
            counters.count(Counter::Dropped);
            Fate::Lost
        }
        Failure::Refused(status, event) => {
            if let Some(peer) = transfer.peer() {
                peer.fail(event);
            }
            Fate::Broken(status)
        }
        Failure::Unanswered => {
            let attempts = attempts.get_or_insert_with(|| Attempts::all(attrs));
            let Some(micros) = attrs.ack_timeout_us() else {
                return Fate::Again {
                    micros: attempts.slowest(),
                };
            };
            if let Some(left) = attempts.unanswered.checked_sub(1) {
                attempts.unanswered = left;
                return Fate::Again { micros };
            }
            warn_ratelimited!(
                "queue pair {}: queue pair {} does not answer on this machine\n",
                qp.number,
                attrs.dest_qp_num
            );
            counters.count(Counter::RetryExceeded);
            Fate::Broken(Status::RetryExceeded)
        }
        Failure::NotReady { micros } => {
            counters.count(Counter::NotReady);
            let attempts = attempts.get_or_insert_with(|| Attempts::all(attrs));
            match attempts.not_ready {
                FOR_EVER => Fate::Again {
                    micros: micros.max(attempts.less_often()),
                },
                0 => {
                    counters.count(Counter::RnrRetryExceeded);
                    Fate::Broken(Status::RnrRetryExceeded)
                }
                left => {
                    attempts.not_ready = left - 1;
                    Fate::Again { micros }
                }
            }
        }
    }
}

/// What comes along with a write.
pub fn imm_only(imm: Option<u32>) -> Extra {
    imm.map_or(Extra::None, Extra::Imm)
}
