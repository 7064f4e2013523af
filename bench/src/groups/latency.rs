// SPDX-License-Identifier: GPL-2.0

//! SEND of 8 bytes to the other process and back. Half of the time is told.

use std::time::Instant;

use mrx_demo::verbs::Work;

use super::{Bench, MRX, RXE};
use crate::{
    flow::median,
    link::{Shape, Waiting},
    report::Unit,
};

pub const TABLE: &str = "Latency, half of a round trip";

const MEDIAN: &str = "SEND 8 B, median";
const LATE: &str = "SEND 8 B, 99th percentile";
const WARM_UP: usize = 50;
const PARTS: usize = 9;

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (subject, device) in bench.devices() {
        let mut link = Waiting::start(
            &device,
            Shape {
                queues: 1,
                bytes: 4096,
            },
        )?
        .connect()?;
        let time = bench.time * 3;
        let mut samples = link.while_echoing(|link| {
            let (own, qp) = (&link.own, &link.own.qps[0]);
            let mut work = Work::send(own.region.range(0, 8));
            let started = Instant::now();
            let mut samples = Vec::new();
            while samples.len() < 2 * WARM_UP || started.elapsed() < time {
                qp.post_receives(own.region.range(64, 8), 1)?;
                let before = Instant::now();
                qp.post(&mut work)?;
                qp.received.wait_for(1)?;
                samples.push(before.elapsed().as_secs_f64() * 1e6 / 2.0);
                qp.sent.wait_for(1)?;
            }
            Ok(samples.split_off(WARM_UP))
        })?;
        link.finish()?;
        // As everywhere, the best of several parts: other load spoils some.
        let parts = samples.chunks(samples.len().div_ceil(PARTS));
        let middle = parts
            .map(|part| median(part.to_vec()))
            .fold(f64::MAX, f64::min);
        samples.sort_by(f64::total_cmp);
        let late = samples[samples.len() * 99 / 100];
        bench
            .report
            .add(TABLE, MEDIAN, subject, middle, Unit::Microseconds);
        bench
            .report
            .add(TABLE, LATE, subject, late, Unit::Microseconds);
    }
    bench.report.hold(TABLE, MEDIAN, MRX, RXE, 5.0);
    Ok(())
}
