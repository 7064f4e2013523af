// SPDX-License-Identifier: GPL-2.0

//! Registration and deregistration of memory whose pages are there.

use std::time::{Duration, Instant};

use mrx_demo::verbs::{Memory, Region};

use super::{Bench, MRX, RXE};
use crate::{
    flow::seconds,
    link::Loop,
    report::{bytes, Unit},
};

pub const TABLE: &str = "Registration";

const SIZES: [usize; 5] = [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let loops = bench
        .devices()
        .into_iter()
        .map(|(subject, device)| Ok((subject, Loop::new(&device)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    for size in SIZES {
        let memory = Memory::new(size)?;
        for (subject, ends) in &loops {
            let mut deregister = Vec::new();
            let register = seconds(bench.time, || {
                let started = Instant::now();
                let region = Region::over(&ends.device, &memory)?;
                let registered = Instant::now();
                drop(region);
                deregister.push(registered.elapsed());
                Ok(registered - started)
            })?;
            let deregister =
                crate::flow::median(deregister.iter().map(Duration::as_secs_f64).collect());
            for (what, value) in [("ibv_reg_mr", register), ("ibv_dereg_mr", deregister)] {
                let row = format!("{what} {}", bytes(size));
                bench
                    .report
                    .add(TABLE, row, subject, value * 1e6, Unit::Microseconds);
            }
        }
    }
    let row = format!("ibv_reg_mr {}", bytes(64 << 20));
    bench.report.hold(TABLE, &row, MRX, RXE, 1.0);
    Ok(())
}
