// SPDX-License-Identifier: GPL-2.0

//! WRITE of 8 bytes with other keys each time, while more and more regions
//! exist.

use std::time::{Duration, Instant};

use mrx_demo::verbs::{Memory, Region, Work};

use super::{Bench, MRX};
use crate::{
    flow::{unlimited, Flow},
    link::Loop,
    report::{grouped, Unit},
};

pub const TABLE: &str = "WRITE of 8 bytes, by regions";

const COUNTS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

/// Registering takes long.
const RXE_MOST: usize = 1_000;

/// Where that many take longer, they are left out.
const LIMIT: Duration = Duration::from_secs(40);

/// Keys that are used.
const KEYS: usize = 1024;

const FLOW: Flow = Flow {
    window: 64,
    list: 16,
};

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (subject, device) in bench.devices() {
        let ends = Loop::new(&device)?;
        let memory = Memory::new(4096)?;
        let mut regions = Vec::new();
        let started = Instant::now();
        for count in COUNTS {
            if subject != MRX && count > RXE_MOST {
                break;
            }
            while regions.len() < count && started.elapsed() < LIMIT {
                regions.push(Region::over(&ends.device, &memory)?);
            }
            if regions.len() < count {
                break;
            }
            let mut random = fastrand::Rng::with_seed(1);
            let mut any = || &regions[random.usize(..count)];
            let mut works: Vec<_> = (0..KEYS)
                .map(|_| (any(), any()))
                .map(|(from, to)| Work::write(from.range(0, 8), to.start() + 64, to.rkey()))
                .collect();
            let qps = std::slice::from_ref(&ends.qp);
            let rate = FLOW.rate(bench.time, qps, &mut works, unlimited)?;
            let row = format!("{} regions", grouped(count as u64));
            bench
                .report
                .add(TABLE, row, subject, 1e6 / rate, Unit::Microseconds);
        }
    }
    Ok(())
}
