// SPDX-License-Identifier: GPL-2.0

//! What the tests stand on: verbs objects that release themselves, waiting with
//! a deadline, processes, and the runner that prints KTAP.

pub mod check;
pub mod command;
pub mod cq;
pub mod device;
pub mod layout;
pub mod lent;
pub mod memory;
pub mod pair;
pub mod peer;
pub mod qp;
pub mod resources;
pub mod rings;
pub mod runner;
pub mod window;
pub mod work;

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

pub use crate::ensure_eq;
pub use check::skip;
pub use cq::{Channel, Cq};
pub use device::{Ah, Context, Pd};
pub use memory::{pattern, Memory, Mr};
pub use pair::Pair;
pub use qp::{Address, Link, Qp, QpOptions};
pub use work::{Sge, Work};

/// What the command line says.
pub struct Setup {
    pub device: String,
    pub patience: u32,
    pub seed: u64,
    pub rounds: Option<u32>,
}

/// A test: one behaviour, named as a sentence.
#[derive(Clone, Copy)]
pub struct Test {
    pub name: &'static str,
    pub body: fn(&Setup) -> anyhow::Result<()>,
    pub seconds: u32,
}

impl Test {
    pub const fn new(name: &'static str, body: fn(&Setup) -> anyhow::Result<()>) -> Self {
        Self {
            name,
            body,
            seconds: 30,
        }
    }

    /// The time limit, where the usual one is too short.
    pub const fn seconds(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }
}

static PATIENCE: OnceLock<u32> = OnceLock::new();

/// Sets the factor of the command line, once.
pub fn set_patience(factor: u32) {
    let _ = PATIENCE.set(factor.max(1));
}

/// A time limit, longer by the factor of the command line.
pub fn patient(limit: Duration) -> Duration {
    limit * *PATIENCE.get_or_init(|| 1)
}

/// Repeats `attempt` until it answers or the time is over.
pub fn until<T>(limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + patient(limit);
    let mut tries = 0_u32;
    loop {
        if let Some(answer) = attempt() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        // The device works in kernel threads that need the processor, too.
        tries += 1;
        if tries < 50 {
            std::thread::yield_now();
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}
