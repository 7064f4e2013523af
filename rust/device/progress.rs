// SPDX-License-Identifier: GPL-2.0

//! How a queue pair gets its work done: who executes, until where, and what is flushed.

use super::{
    attrs::State,
    counters::Counter,
    execute::{
        self,
        Verdict, //
    },
    qp::Qp,
    sq::SendQueue,
    status::{
        Completion,
        Done,
        Extra,
        Status, //
    },
    wqe::RawRecv, //
};
use crate::rdma::{
    events::QpEvent,
    task,
    work, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::Full,
        Arc, //
    },
    time::{
        msecs_to_jiffies,
        Delta,
        Instant,
        Monotonic, //
    },
};

impl Qp {
    /// There are sends in the ring. Those of a process are executed; those of a user in the kernel,
    /// who may be in any context, will be.
    ///
    /// `EINVAL` if nothing can be sent yet; the requests of a process are forgotten then.
    pub fn doorbell(self: &Arc<Self>) -> Result {
        if self.is_kernel() {
            self.continue_in(0);
            return Ok(());
        }
        if !self.state().takes_sends() {
            self.send.lock().discard();
            return Err(EINVAL);
        }
        self.run();
        Ok(())
    }

    /// Executes what is posted, as far as that is possible now.
    pub(super) fn run(self: &Arc<Self>) {
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
            if let Some(micros) = left_to_wait(&mut send) {
                self.continue_in(micros);
                return;
            }
            match execute::execute(self, &mut send) {
                Verdict::Done => send.pop(),
                Verdict::Later { micros } => {
                    // Not for ever, and far from what a time in nanoseconds can hold.
                    let micros = micros.min(u64::from(u32::MAX));
                    send.not_before =
                        Some(Instant::<Monotonic>::now() + Delta::from_micros(micros as i64));
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
        if self.srq.is_some() {
            if !self.last_told.xchg(true, Full) {
                self.handle.raise(QpEvent::LastRequest);
            }
            return;
        }
        let mut raw = RawRecv::default();
        while self.recv.lock().take(&mut raw, |_| true) {
            self.complete_recv(Completion {
                status: Status::Flushed,
                ..self.completion(raw.wr_id(), Done::Recv)
            });
            task::let_others_run();
        }
    }

    /// A successful completion of a request of this queue pair that moved no bytes.
    pub fn completion(&self, wr_id: u64, done: Done) -> Completion {
        Completion {
            wr_id,
            status: Status::Success,
            done,
            byte_len: 0,
            extra: Extra::None,
            network: None,
            qp_num: self.wire_number(),
            qp_address: self.handle.address(),
            src_qp: 0,
            solicited: false,
        }
    }

    /// Posts the completion of a send.
    pub fn complete_send(&self, wr_id: u64, status: Status, done: Done, byte_len: u32) {
        self.send_cq.post(&Completion {
            status,
            byte_len,
            ..self.completion(wr_id, done)
        });
    }

    /// Posts the completion of a receive, unless the queue pair is gone.
    pub fn complete_recv(&self, completion: Completion) {
        if let Some(_inside) = self.handle.enter() {
            if completion.status == Status::Success {
                let counters = &self.port.counters;
                counters.count(Counter::Receives);
                counters.add(Counter::ReceivedBytes, u64::from(completion.byte_len));
            }
            self.recv_cq.post(&completion);
        }
    }

    /// Has the work queue go on with this queue pair in a while, unless it will do so earlier.
    fn continue_in(self: &Arc<Self>, micros: u64) {
        let jiffies = msecs_to_jiffies(micros.div_ceil(1000).min(u64::from(u32::MAX)) as u32);
        if let Some(_inside) = self.handle.enter() {
            work::queue_after(self, jiffies);
        }
    }

    /// Has the work queue go on with this queue pair now, even if it was to wait.
    pub(super) fn wake(self: &Arc<Self>) {
        if let Some(_inside) = self.handle.enter() {
            work::hasten(self);
        }
    }
}

/// How long the request at the head still has to wait, in microseconds.
fn left_to_wait(send: &mut SendQueue) -> Option<u64> {
    let left = send.not_before? - Instant::<Monotonic>::now();
    match u64::try_from(left.as_micros_ceil()) {
        Ok(micros) if micros > 0 => Some(micros),
        _ => {
            send.not_before = None;
            None
        }
    }
}
