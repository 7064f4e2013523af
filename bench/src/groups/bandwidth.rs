// SPDX-License-Identifier: GPL-2.0

//! Bandwidth and message rate by size, between two processes, beside what one
//! copy costs: `process_vm_writev` from process to process, and `memcpy`.

use std::{io, time::Duration};

use mrx_demo::verbs::Work;

use super::{Bench, MRX, RXE};
use crate::{
    flow::{rate, unlimited, Flow},
    link::{Link, Shape, Waiting},
    report::{bytes, Unit},
};

pub const BANDWIDTH: &str = "Bandwidth";
pub const MESSAGES: &str = "Message rate";
pub const ONE_COPY: &str = "process_vm_writev";
pub const MEMCPY: &str = "memcpy";

/// What is measured for mrx and the limits.
pub const SIZES: [usize; 7] = [8, 256, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20];

/// What is measured for rxe, which is slow.
const RXE_SIZES: [usize; 5] = [8, 256, 4 << 10, 64 << 10, 1 << 20];

/// Larger messages have no message rate worth a table.
const SMALL: usize = 4 << 10;

const SHORTEST: usize = SIZES[0];

/// As programs post that want many messages.
const IN_LISTS: Flow = Flow {
    window: 128,
    list: 32,
};

const MIB: f64 = (1 << 20) as f64;

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let shape = Shape {
        queues: 1,
        bytes: SIZES[SIZES.len() - 1],
    };
    let waiting = bench
        .devices()
        .into_iter()
        .map(|(subject, device)| Ok((subject, Waiting::start(&device, shape)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut links = waiting
        .into_iter()
        .map(|(subject, waiting)| Ok((subject, waiting.connect()?)))
        .collect::<anyhow::Result<Vec<_>>>()?;

    for name in ["WRITE", "READ", "SEND"] {
        for size in SIZES {
            for (subject, link) in &mut links {
                if *subject == MRX || RXE_SIZES.contains(&size) {
                    let rate = transfer(name, bench.time, link, size, Flow::of_size(size))?;
                    note(bench, name, size, subject, rate);
                }
            }
            // In the middle of it all, so that they see the same machine.
            let (_, link) = &links[0];
            note(
                bench,
                name,
                size,
                ONE_COPY,
                one_copy(bench.time, link, size)?,
            );
            note(bench, name, size, MEMCPY, memcpy(bench.time, link, size)?);
        }
    }
    for name in ["WRITE", "READ", "SEND"] {
        for (subject, link) in &mut links {
            let rate = transfer(name, bench.time, link, SHORTEST, IN_LISTS)?;
            let row = in_lists(name);
            bench
                .report
                .add(MESSAGES, row, subject, rate, Unit::PerSecond);
        }
    }
    for (_, link) in links {
        link.finish()?;
    }
    for size in [64 << 10, 1 << 20] {
        bench
            .report
            .hold(BANDWIDTH, &row("WRITE", size), MRX, ONE_COPY, 0.7);
    }
    bench
        .report
        .hold(BANDWIDTH, &row("WRITE", 64 << 10), MRX, RXE, 30.0);
    for name in ["WRITE", "SEND", "READ"] {
        bench
            .report
            .hold(MESSAGES, &row(name, SHORTEST), MRX, RXE, 5.0);
        bench.report.hold(MESSAGES, &in_lists(name), MRX, RXE, 5.0);
    }
    Ok(())
}

fn in_lists(name: &str) -> String {
    format!("{}, {} in a call", row(name, SHORTEST), IN_LISTS.list)
}

pub fn row(name: &str, size: usize) -> String {
    format!("{name} {}", bytes(size))
}

fn note(bench: &mut Bench, name: &str, size: usize, subject: &'static str, rate: f64) {
    let row = row(name, size);
    if size <= SMALL {
        bench
            .report
            .add(MESSAGES, row.clone(), subject, rate, Unit::PerSecond);
    }
    bench.report.add(
        BANDWIDTH,
        row,
        subject,
        rate * size as f64 / MIB,
        Unit::MibPerSecond,
    );
}

fn transfer(
    name: &str,
    time: Duration,
    link: &mut Link,
    size: usize,
    flow: Flow,
) -> anyhow::Result<f64> {
    let (range, remote) = (link.own.region.range(0, size), link.remote);
    let work = match name {
        "SEND" => Work::send(range),
        "READ" => Work::read(range, remote.start, remote.key),
        _ => Work::write(range, remote.start, remote.key),
    };
    let mut works = vec![work; flow.list];
    if name != "SEND" {
        return flow.rate(time, &link.own.qps, &mut works, unlimited);
    }
    // All that was posted but for what earlier calls of this have used up.
    let used = link.credit() - u64::from(crate::link::DEPTHS.receive);
    link.while_receiving(|link| flow.rate(time, &link.own.qps, &mut works, || link.credit() - used))
}

fn one_copy(time: Duration, link: &Link, size: usize) -> anyhow::Result<f64> {
    let local = libc::iovec {
        iov_base: link.own.memory.start().cast(),
        iov_len: size,
    };
    let there = std::ptr::with_exposed_provenance_mut(link.remote.start as usize);
    let remote = libc::iovec {
        iov_base: there,
        iov_len: size,
    };
    rate(time, || {
        // SAFETY: the local range is ours; the remote one is in another process.
        let count = unsafe { libc::process_vm_writev(link.peer(), &local, 1, &remote, 1, 0) };
        anyhow::ensure!(
            count == size as isize,
            "process_vm_writev wrote {count} bytes ({})",
            io::Error::last_os_error()
        );
        Ok(())
    })
}

/// Within this process.
fn memcpy(time: Duration, link: &Link, size: usize) -> anyhow::Result<f64> {
    let target = mrx_demo::verbs::Memory::new(size)?;
    let source = std::hint::black_box(link.own.memory.start());
    // One call of the clock for several small copies.
    let times = (4096 / size).max(1);
    let rate = rate(time, || {
        for _ in 0..times {
            // SAFETY: both are as long, and different mappings.
            unsafe { std::ptr::copy_nonoverlapping(source, target.start(), size) };
            std::hint::black_box(target.start());
        }
        Ok(())
    })?;
    Ok(rate * times as f64)
}
