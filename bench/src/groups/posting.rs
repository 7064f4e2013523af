// SPDX-License-Identifier: GPL-2.0

//! WRITE of 8 bytes on each queue pair in turn, while more and more of them
//! exist and share a completion queue.

use std::time::{Duration, Instant};

use mrx_demo::verbs::{Completions, Depths, Device, Memory, QueuePair, Region, Work};

use super::{Bench, MRX};
use crate::{
    flow::{unlimited, Flow},
    report::{grouped, Unit},
};

pub const TABLE: &str = "WRITE of 8 bytes, by queue pairs";

const COUNTS: [usize; 4] = [2, 10, 100, 1_000];
const RXE_MOST: usize = 100;
/// Where that many take longer to make, they are left out.
const LIMIT: Duration = Duration::from_secs(40);
const DEPTHS: Depths = Depths {
    send: 64,
    receive: 1,
};
const FLOW: Flow = Flow {
    window: 32,
    list: 1,
};

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (subject, device) in bench.devices() {
        let device = Device::open(&device)?;
        let memory = Memory::new(4096)?;
        let region = Region::over(&device, &memory)?;
        let sent = Completions::new(&device, 1024)?;
        let received = Completions::new(&device, 1)?;
        let mut qps: Vec<QueuePair> = Vec::new();
        let started = Instant::now();
        for count in COUNTS {
            if subject != MRX && count > RXE_MOST {
                break;
            }
            while qps.len() < count && started.elapsed() < LIMIT {
                let make = || QueuePair::on(DEPTHS, &sent, &received);
                let (a, b) = (make()?, make()?);
                a.connect(b.address())?;
                b.connect(a.address())?;
                qps.extend([a, b]);
            }
            if qps.len() < count {
                break;
            }
            let mut work = Work::write(region.range(0, 8), region.start() + 64, region.rkey());
            let works = std::slice::from_mut(&mut work);
            let rate = FLOW.rate(bench.time, &qps, works, unlimited)?;
            let row = format!("{} queue pairs", grouped(count as u64));
            bench
                .report
                .add(TABLE, row, subject, 1e6 / rate, Unit::Microseconds);
        }
    }
    Ok(())
}
