// SPDX-License-Identifier: GPL-2.0

//! How a queue pair gets its work done: who executes, until where, and what is flushed.

use super::{
    attrs::State,
    counters::Counter,
    execute::{
        self,
        Ended,
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
        delay::fsleep,
        msecs_to_jiffies,
        Delta,
        Instant,
        Monotonic, //
    },
    workqueue::Queue, //
};

/// Waits up to this long are waited for in the work queue itself, whose clock is coarser.
const SHORT_MICROS: u64 = 2000;
/// After so long others have their turn in the work queue.
const TURN: Delta = Delta::from_millis(20);

impl Qp {
    /// There are sends in the ring. Those of a process are executed; those of a user in the kernel,
    /// who may be in any context, will be.
    ///
    /// `EINVAL` if nothing can be sent yet; the requests of a process are forgotten then.
    pub fn doorbell(self: &Arc<Self>) -> Result {
        if self.is_kernel() {
            match self.state() {
                // It is to be flushed now, whatever was waited for before.
                State::Error => self.wake(),
                _ => self.continue_in(0),
            }
            return Ok(());
        }
        if !self.state().takes_sends() {
            self.send.lock().discard();
            return Err(EINVAL);
        }
        self.run();
        Ok(())
    }

    /// Executes what is posted, as far as that is possible now; the rest goes on later.
    pub(super) fn run(self: &Arc<Self>) {
        if let Some(micros) = self.execute_posted() {
            self.continue_in(micros);
        }
    }

    /// As [`Qp::run`], in the work queue. What has to wait for less than the clock of the work
    /// queue can tell is waited for here.
    pub(super) fn run_in_work_queue(self: &Arc<Self>) {
        let begun = Instant::<Monotonic>::now();
        while let Some(micros) = self.execute_posted() {
            // There can only be so many at work at a time.
            if micros > SHORT_MICROS || begun.elapsed() >= TURN {
                self.continue_in(micros);
                return;
            }
            fsleep(Delta::from_micros(micros.max(1) as i64));
        }
    }

    /// Executes what is posted, as far as that is possible now. Returns after how many microseconds
    /// to go on, if there is more.
    ///
    /// What is posted meanwhile is left to the doorbell that follows it: a process that always says
    /// that its ring is full keeps nobody here.
    fn execute_posted(self: &Arc<Self>) -> Option<u64> {
        let mut send = self.send.lock();
        let mut left = send.len();
        // Most requests go where the one before went. Not kept any longer: a queue pair does not
        // outlive its owner because somebody may send to it again.
        let mut last_peer = None;
        loop {
            match self.state() {
                State::ReadyToSend => {}
                State::Error => {
                    self.flush_sends(&mut send);
                    // Still under the lock: two who flush would mix up the order.
                    self.flush_recvs(&send);
                    return None;
                }
                _ => return None,
            }
            if left == 0 {
                return None;
            }
            if let Some(micros) = left_to_wait(&mut send) {
                return Some(micros);
            }
            send.peek();
            match execute::execute(self, &mut send, &mut last_peer) {
                Verdict::Done(ended) => {
                    send.pop();
                    left -= 1;
                    if let Some(ended) = ended {
                        self.complete_send(ended);
                    }
                }
                Verdict::Broken(ended) => {
                    send.pop();
                    left -= 1;
                    self.complete_send(ended);
                    self.fail(None);
                }
                Verdict::Later { micros } => {
                    // Not for ever, and far from what a time in nanoseconds can hold.
                    let micros = micros.min(u64::from(u32::MAX));
                    let delay = Delta::from_micros(micros as i64);
                    send.not_before = Some(Instant::<Monotonic>::now() + delay);
                    return Some(micros);
                }
            }
            if !task::pause() {
                return Some(0);
            }
        }
    }

    fn flush_sends(&self, send: &mut SendQueue) {
        for _ in 0..send.len() {
            send.peek();
            send.pop();
            self.complete_send(Ended {
                wr_id: send.wqe.wr_id(),
                status: Status::Flushed,
                done: Done::Send,
                byte_len: 0,
            });
            task::let_others_run();
        }
    }

    /// Flushes what is posted to be received. `send` keeps others from doing so at the same time.
    fn flush_recvs(&self, _send: &SendQueue) {
        // Receives that have been taken complete first.
        self.visitors.quiesce();
        if self.srq.is_some() {
            if !self.last_told.xchg(true, Full) {
                self.handle.raise(QpEvent::LastRequest);
            }
            return;
        }
        let mut raw = RawRecv::default();
        let posted = self.recv.lock().len();
        for _ in 0..posted {
            if !self.recv.lock().take(&mut raw, |_| true) {
                break;
            }
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
    fn complete_send(&self, ended: Ended) {
        self.send_cq.post(&Completion {
            status: ended.status,
            byte_len: ended.byte_len,
            ..self.completion(ended.wr_id, ended.done)
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

    /// The queue in which it goes on.
    fn work_queue(&self) -> Option<&Queue> {
        match &self.own_queue {
            Some(own) => Some(own.get()),
            None => work::KERNEL_QUEUE_PAIRS.get(),
        }
    }

    /// Has the work queue go on with this queue pair in a while, unless it will do so earlier.
    fn continue_in(self: &Arc<Self>, micros: u64) {
        let millis = match micros {
            0..=SHORT_MICROS => 0,
            _ => micros.div_ceil(1000).min(u64::from(u32::MAX)) as u32,
        };
        let jiffies = msecs_to_jiffies(millis);
        if let (Some(_inside), Some(queue)) = (self.handle.enter(), self.work_queue()) {
            work::queue_after(queue, self, jiffies);
        }
    }

    /// Has the work queue go on with this queue pair now, even if it was to wait.
    pub(super) fn wake(self: &Arc<Self>) {
        if let (Some(_inside), Some(queue)) = (self.handle.enter(), self.work_queue()) {
            work::hasten(queue, self);
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
