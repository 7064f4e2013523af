// SPDX-License-Identifier: GPL-2.0

//! What a port has done, for `rdma statistic`.

use crate::rdma::driver::{
    StatDesc,
    Traffic, //
};
use kernel::{
    c_str,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// What is counted. The names are those of `rdma_rxe` where it counts the same.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Counter {
    /// Messages and other requests that were carried out for the other side.
    Sends,
    /// Receives that were completed.
    Receives,
    /// Bytes that requests of this port moved.
    SentBytes,
    /// Bytes that came into receives of this port.
    ReceivedBytes,
    /// How often a sender had to wait for a receive.
    NotReady,
    /// Requests that were given up for want of an answer.
    RetryExceeded,
    /// Requests that were given up for want of a receive.
    RnrRetryExceeded,
    /// Requests that ended with another error.
    SendErrors,
    /// Messages that were lost, as unreliable transports may.
    Dropped,
    /// Datagrams that did not have the key of their destination.
    BadQkey,
}

const COUNT: usize = Counter::BadQkey as usize + 1;

/// The names, in the order of [`Counter`].
pub static NAMES: [StatDesc; COUNT] = [
    StatDesc::new(c_str!("rdma_sends")),
    StatDesc::new(c_str!("rdma_recvs")),
    StatDesc::new(c_str!("sent_bytes")),
    StatDesc::new(c_str!("rcvd_bytes")),
    StatDesc::new(c_str!("rcvd_rnr_err")),
    StatDesc::new(c_str!("retry_exceeded_err")),
    StatDesc::new(c_str!("retry_rnr_exceeded_err")),
    StatDesc::new(c_str!("send_err")),
    StatDesc::new(c_str!("dropped_messages")),
    StatDesc::new(c_str!("bad_qkey")),
];

/// The counters of a port.
pub struct Counters([Atomic<u64>; COUNT]);

impl Counters {
    /// All zero.
    pub const fn new() -> Self {
        Self([const { Atomic::new(0u64) }; COUNT])
    }

    /// Counts one.
    #[inline]
    pub fn count(&self, what: Counter) {
        self.add(what, 1);
    }

    /// Counts `many`.
    #[inline]
    pub fn add(&self, what: Counter, many: u64) {
        if let Some(counter) = self.0.get(what as usize) {
            counter.fetch_add(many, Relaxed);
        }
    }

    /// What one counter says.
    pub fn get(&self, what: Counter) -> u64 {
        self.0.get(what as usize).map_or(0, |c| c.load(Relaxed))
    }

    /// What went through the port.
    pub fn traffic(&self) -> Traffic {
        Traffic {
            sent_bytes: self.get(Counter::SentBytes),
            sent_messages: self.get(Counter::Sends),
            received_bytes: self.get(Counter::ReceivedBytes),
            received_messages: self.get(Counter::Receives),
        }
    }

    /// Reads them all.
    pub fn read(&self, values: &mut [u64]) {
        for (value, counter) in values.iter_mut().zip(&self.0) {
            *value = counter.load(Relaxed);
        }
    }
}
