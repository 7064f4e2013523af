// SPDX-License-Identifier: GPL-2.0

//! WRITE on one to 16 queue pairs in turn.

use mrx_demo::verbs::Work;

use super::Bench;
use crate::{
    flow::{unlimited, Flow},
    link::{Shape, Waiting},
    report::Unit,
};

pub const BANDWIDTH: &str = "Bandwidth by queue pairs, WRITE 64 KiB";
pub const MESSAGES: &str = "Message rate by queue pairs, WRITE 8 B";

const COUNTS: [usize; 5] = [1, 2, 4, 8, 16];
const LARGE: usize = 64 << 10;

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for count in COUNTS {
        for (subject, device) in bench.devices() {
            let shape = Shape {
                queues: count,
                bytes: LARGE,
            };
            let link = Waiting::start(&device, shape)?.connect()?;
            let row = if count == 1 {
                "1 queue pair".into()
            } else {
                format!("{count} queue pairs")
            };
            let rate = |size| {
                let range = link.own.region.range(0, size);
                let mut work = Work::write(range, link.remote.start, link.remote.key);
                let works = std::slice::from_mut(&mut work);
                Flow::of_size(size).rate(bench.time, &link.own.qps, works, unlimited)
            };
            let (small, large) = (rate(8)?, rate(LARGE)?);
            link.finish()?;
            bench
                .report
                .add(MESSAGES, row.clone(), subject, small, Unit::PerSecond);
            let mib = large * LARGE as f64 / f64::from(1 << 20);
            bench
                .report
                .add(BANDWIDTH, row, subject, mib, Unit::MibPerSecond);
        }
    }
    Ok(())
}
