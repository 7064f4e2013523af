// SPDX-License-Identifier: GPL-2.0

//! Memory that is paged on demand, beside what the kernel does for a process that
//! asks for its pages, and beside pinned memory.

use std::{
    io, slice,
    time::{Duration, Instant},
};

use mrx_demo::verbs::{Memory, Region, Work};

use super::Bench;
use crate::{
    flow::{median, seconds, unlimited, Flow},
    link::Loop,
    report::{bytes, Unit},
};

pub const PREFETCH: &str = "Finding the pages of 256 MiB of untouched memory";
pub const TRANSFER: &str = "WRITE over memory that is there";
pub const REGISTRATION: &str = "Registration of 1 GiB that is there";

/// The subjects.
const POPULATE: &str = "MADV_POPULATE_WRITE";
const ADVICE: &str = "flushed prefetch";
const PINNED: &str = "pinned";
const PAGED: &str = "paged";

/// Ratios that the project wants to see.
const PREFETCH_GOAL: f64 = 0.8;
const TRANSFER_GOAL: f64 = 0.9;

/// The pages that memory consists of.
const PAGES: [(&str, i32); 2] = [
    ("pages of 4 KiB", libc::MADV_NOHUGEPAGE),
    ("pages of 2 MiB", libc::MADV_HUGEPAGE),
];

const UNTOUCHED: usize = 256 << 20;
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
const LARGE: usize = 1 << 30;

/// How often two ways are measured in turn: transfers, and pages at least.
const TURNS: u32 = 4;
const LEAST: usize = 7;

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let ends = Loop::new(&bench.mrx)?;
    for (pages, advice) in PAGES {
        prefetch(bench, &ends, pages, advice)?;
    }
    for (pages, advice) in PAGES {
        transfers(bench, &ends, pages, advice)?;
    }
    registration(bench, &ends)
}

fn prefetch(bench: &mut Bench, ends: &Loop, pages: &str, advice: i32) -> anyhow::Result<()> {
    let untouched = || -> io::Result<_> {
        let memory = Memory::untouched(UNTOUCHED)?;
        memory.advise(advice)?;
        Ok(memory)
    };
    let (mut populate, mut prefetch) = (Vec::new(), Vec::new());
    let started = Instant::now();
    // In turn, so that other load of the machine meets both.
    while populate.len() < LEAST || started.elapsed() < 2 * bench.time {
        let memory = untouched()?;
        let begun = Instant::now();
        memory.advise(libc::MADV_POPULATE_WRITE)?;
        populate.push(begun.elapsed().as_secs_f64());
        drop(memory);
        let region = Region::paged_over(&ends.device, &untouched()?)?;
        let begun = Instant::now();
        region.prefetch()?;
        prefetch.push(begun.elapsed().as_secs_f64());
    }
    let rate = |seconds: f64| (UNTOUCHED >> 20) as f64 / seconds;
    for (subject, value) in [(POPULATE, median(populate)), (ADVICE, median(prefetch))] {
        bench
            .report
            .add(PREFETCH, pages, subject, rate(value), Unit::MibPerSecond);
    }
    bench
        .report
        .hold(PREFETCH, pages, ADVICE, POPULATE, PREFETCH_GOAL);
    Ok(())
}

fn transfers(bench: &mut Bench, ends: &Loop, pages: &str, advice: i32) -> anyhow::Result<()> {
    let largest = SIZES[SIZES.len() - 1];
    let there = || -> io::Result<_> {
        let memory = Memory::untouched(largest)?;
        memory.advise(advice)?;
        memory.advise(libc::MADV_POPULATE_WRITE)?;
        Ok(memory)
    };
    let (from, to) = (there()?, there()?);
    let pinned = (
        Region::over(&ends.device, &from)?,
        Region::over(&ends.device, &to)?,
    );
    let paged = (
        Region::paged_over(&ends.device, &from)?,
        Region::paged_over(&ends.device, &to)?,
    );
    paged.0.prefetch()?;
    paged.1.prefetch()?;
    for size in SIZES {
        let row = format!("{}, {pages}", bytes(size));
        let time = bench.time / TURNS;
        let rate = |(source, target): &(Region, Region)| -> anyhow::Result<f64> {
            let work = Work::write(source.range(0, size), target.start(), target.rkey());
            Flow::of_size(size).rate(time, slice::from_ref(&ends.qp), &mut [work], unlimited)
        };
        let mut best = [0.0_f64; 2];
        for _ in 0..TURNS {
            best[0] = best[0].max(rate(&pinned)?);
            best[1] = best[1].max(rate(&paged)?);
        }
        for (subject, rate) in [PINNED, PAGED].into_iter().zip(best) {
            let rate = rate * size as f64 / f64::from(1 << 20);
            bench
                .report
                .add(TRANSFER, &row, subject, rate, Unit::MibPerSecond);
        }
        bench
            .report
            .hold(TRANSFER, &row, PAGED, PINNED, TRANSFER_GOAL);
    }
    Ok(())
}

fn registration(bench: &mut Bench, ends: &Loop) -> anyhow::Result<()> {
    let memory = Memory::new(LARGE)?;
    for subject in [PINNED, PAGED] {
        let over = match subject {
            PINNED => Region::over,
            _ => Region::paged_over,
        };
        let mut deregister = Vec::new();
        let register = seconds(bench.time, || {
            let started = Instant::now();
            let region = over(&ends.device, &memory)?;
            let registered = Instant::now();
            drop(region);
            deregister.push(registered.elapsed());
            Ok(registered - started)
        })?;
        let deregister = median(deregister.iter().map(Duration::as_secs_f64).collect());
        for (row, value) in [("ibv_reg_mr", register), ("ibv_dereg_mr", deregister)] {
            bench
                .report
                .add(REGISTRATION, row, subject, value * 1e6, Unit::Microseconds);
        }
    }
    Ok(())
}
