// SPDX-License-Identifier: GPL-2.0

//! READ of 8 bytes somewhere in a large layout: what finding the place costs.

use mrx_demo::verbs::{Pattern, Region, Work};

use super::Bench;
use crate::{
    flow::{unlimited, Flow},
    link::Loop,
    report::Unit,
};

pub const TABLE: &str = "READ of 8 bytes, by place";

const PIECE: usize = 64;
const RANGES: usize = 65_536;

/// 100 million data of 8 bytes. They overlap, so that little memory is enough.
const DATUM: usize = 8;
const DIMENSIONS: [(u64, u64); 3] = [(8, 1000), (8, 1000), (8, 100)];

/// As many places as are tried.
const PLACES: usize = 1024;

const FLOW: Flow = Flow {
    window: 64,
    list: 16,
};

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let ends = Loop::new(&bench.mrx)?;
    let (_memory, below) = ends.region(RANGES * PIECE)?;

    measure(bench, &ends, "plain region", &below, RANGES * PIECE)?;

    let region = Region::empty(&ends.device)?;
    // Neighbours in the layout are none in memory.
    let place = |n: usize| (n * 7919) % RANGES * PIECE;
    region.set_layout(
        &(0..RANGES)
            .map(|n| below.range(place(n), PIECE))
            .collect::<Vec<_>>(),
    )?;
    measure(
        bench,
        &ends,
        "SG, 65,536 descriptors",
        &region,
        RANGES * PIECE,
    )?;

    let region = Region::empty(&ends.device)?;
    let dimensions = DIMENSIONS.to_vec();
    let data: u64 = DIMENSIONS.iter().map(|(_, count)| count).product();
    region.set_pattern(&[Pattern {
        first: below.range(0, DATUM),
        dimensions,
    }])?;
    measure(
        bench,
        &ends,
        "interleaved, 100,000,000 data",
        &region,
        data as usize * DATUM,
    )
}

fn measure(
    bench: &mut Bench,
    ends: &Loop,
    row: &str,
    region: &Region,
    len: usize,
) -> anyhow::Result<()> {
    let (_memory, local) = ends.region(4096)?;
    let last = len / DATUM - 1;
    let mut random = fastrand::Rng::with_seed(1);
    let mut places = |subject| match subject {
        "start" => 0,
        "middle" => last / 2,
        "end" => last,
        _ => random.usize(..=last),
    };
    for subject in ["start", "middle", "end", "anywhere"] {
        let read = |at: usize| {
            Work::read(
                local.range(0, DATUM),
                region.start() + (at * DATUM) as u64,
                region.rkey(),
            )
        };
        let mut works: Vec<_> = (0..PLACES).map(|_| read(places(subject))).collect();
        let rate = FLOW.rate(
            bench.time,
            std::slice::from_ref(&ends.qp),
            &mut works,
            unlimited,
        )?;
        bench
            .report
            .add(TABLE, row, subject, 1e6 / rate, Unit::Microseconds);
    }
    Ok(())
}
