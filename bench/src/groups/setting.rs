// SPDX-License-Identifier: GPL-2.0

//! The cost of setting a layout again with the same counts, which keeps the
//! keys, beside the registration of a page.

use std::time::Instant;

use mrx_demo::verbs::{Pattern, PatternList, Region};

use super::Bench;
use crate::{
    flow::{rate, seconds},
    link::Loop,
    report::{grouped, Unit},
};

pub const TABLE: &str = "Setting a layout";

const COUNTS: [usize; 3] = [1, 16, 1024];
const PIECE: usize = 64;

/// The subjects; registration is the same in every row.
const SG: &str = "SG";
const INTERLEAVED: &str = "interleaved";
const REGISTER: &str = "ibv_reg_mr 4 KiB";

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let ends = Loop::new(&bench.mrx)?;
    let (page, _) = ends.region(4096)?;
    let register = seconds(bench.time, || {
        let started = Instant::now();
        let region = Region::over(&ends.device, &page)?;
        let time = started.elapsed();
        drop(region);
        Ok(time)
    })?;
    let (_memory, below) = ends.region(2 * PIECE * COUNTS[COUNTS.len() - 1])?;
    for count in COUNTS {
        let row = match count {
            1 => "1 descriptor".to_owned(),
            _ => format!("{} descriptors", grouped(count as u64)),
        };
        let ranges: Vec<_> = (0..count)
            .map(|n| below.range(2 * PIECE * n, PIECE))
            .collect();
        let region = Region::empty(&ends.device)?;
        let sg = 1e6 / rate(bench.time, || region.set_layout(&ranges))?;

        let entry = |&first| Pattern {
            first,
            dimensions: vec![(PIECE as u64, 2)],
        };
        let mut list = PatternList::new(&ranges.iter().map(entry).collect::<Vec<_>>());
        let region = Region::empty(&ends.device)?;
        let interleaved = 1e6 / rate(bench.time, || region.set_patterns(&mut list))?;

        let values = [
            (SG, sg),
            (INTERLEAVED, interleaved),
            (REGISTER, register * 1e6),
        ];
        for (subject, value) in values {
            bench
                .report
                .add(TABLE, row.clone(), subject, value, Unit::Microseconds);
        }
    }
    Ok(())
}
