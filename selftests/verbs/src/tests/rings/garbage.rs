// SPDX-License-Identifier: GPL-2.0

//! Many words of the rings change at random.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        Arc,
    },
    time::{Duration, Instant},
};

use mrx::sys;

use super::victim::{domain, Victim, EDGES};
use crate::harness::{
    rings::{self, recv, ring_doorbell, send, Ring, Shape},
    Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("rings: random garbage in the send ring", send_garbage).seconds(180),
    Test::new("rings: random garbage in the receive ring", receive_garbage).seconds(180),
    Test::new(
        "rings: random garbage in the completion ring",
        completion_garbage,
    )
    .seconds(180),
    Test::new(
        "rings: random garbage in all rings while the kernel reads them",
        concurrent,
    )
    .seconds(180),
    Test::new(
        "rings: a producer index that is always ahead keeps nobody in the kernel",
        always_ahead,
    )
    .seconds(60),
];

/// Changes something somewhere in a ring.
fn disturb((ring, shape): (Ring, Shape), random: &mut fastrand::Rng, key: u32) {
    let value = match random.u8(0..5) {
        0 => random.u32(..),
        1 => random.u32(0..20),
        2 => key,
        _ => EDGES[random.usize(0..EDGES.len())],
    };
    let element = ring.element(shape, random.u32(..));
    match random.u8(0..12) {
        0 => ring.set_word(rings::PRODUCER, value),
        1 => ring.set_word(rings::CONSUMER, value),
        2 => ring.set_word(
            rings::PRODUCER,
            ring.word(rings::PRODUCER).wrapping_add(value % 8),
        ),
        3 => ring.set_word(rings::INDEX_MASK, value),
        4 => ring.set_word(rings::ELEMENT_SIZE, value),
        5 => ring.set_byte(random.usize(0..ring.len()), value as u8),
        6 => ring.set_word(element + send::OPCODE, random.u32(0..20)),
        7 => ring.set_word(element + send::FLAGS, random.u32(0..32)),
        8 => ring.set_word(element + send::DMA + random.usize(0..12) * 4, value),
        9 => ring.set_word(element + recv::DMA + random.usize(0..12) * 4, value),
        _ => ring.set_word(element + random.usize(0..shape.size / 4) * 4, value),
    }
}

/// Rounds of disturbing the rings that `choose` picks, each on a fresh victim.
fn garbage(setup: &Setup, choose: impl Fn(&Victim) -> Vec<(Ring, Shape)>) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    for round in 0..setup.rounds.unwrap_or(60) {
        let victim = Victim::new(&pd)?;
        victim.post_some();
        let rings = choose(&victim);
        let key = victim.region.lkey();
        for _ in 0..random.u32(1..60) {
            disturb(rings[random.usize(0..rings.len())], &mut random, key);
            if random.u8(0..4) == 0 {
                let _ = ring_doorbell(&victim.qp);
                let _ = victim
                    .peer
                    .post(&Work::send(5, &[victim.region.sge(0..64)]));
            }
        }
        let what = || format!("round {round} of seed {}", setup.seed);
        victim.end(&pd).map_err(|error| error.context(what()))?;
    }
    Ok(())
}

/// A ring that another thread always says is full, before and after the queue
/// pair breaks. All of its requests are zeroes: WRITEs of no bytes. The kernel
/// goes on with what it finds when it is called, and no further.
fn always_ahead(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    for state in [sys::IBV_QPS_RTS, sys::IBV_QPS_ERR] {
        let victim = Victim::new(&pd)?;
        let stop = Arc::new(AtomicBool::new(false));
        let laps = Arc::new(AtomicU64::new(0));
        let rings = [victim.send.0, victim.receive.0];
        let vandal = std::thread::spawn({
            let (stop, laps) = (stop.clone(), laps.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    laps.fetch_add(1, Ordering::Relaxed);
                    for ring in rings {
                        let full = ring.word(rings::CONSUMER).wrapping_sub(1);
                        ring.set_word(rings::PRODUCER, full);
                    }
                }
            }
        });
        while laps.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        if state == sys::IBV_QPS_ERR {
            victim.qp.set_state(state)?;
        }
        let mut done = 0;
        for _ in 0..30 {
            let before = sends(setup)?;
            let _ = ring_doorbell(&victim.qp);
            done = done.max(sends(setup)? - before);
        }
        victim.qp.set_state(sys::IBV_QPS_ERR)?;
        stop.store(true, Ordering::Relaxed);
        anyhow::ensure!(vandal.join().is_ok(), "the other thread panicked");
        let most = u64::from(victim.send.1.mask);
        anyhow::ensure!(
            done <= most,
            "one call executed {done} requests of a ring that has room for {most}"
        );
        victim.end(&pd)?;
    }
    Ok(())
}

/// What the device counts of requests that were executed. It is told late.
fn sends(setup: &Setup) -> anyhow::Result<u64> {
    let (device, folder) = (&setup.device, "ports/1/hw_counters");
    std::thread::sleep(Duration::from_millis(15));
    let path = format!("/sys/class/infiniband/{device}/{folder}/rdma_sends");
    Ok(std::fs::read_to_string(path)?.trim().parse()?)
}

fn send_garbage(setup: &Setup) -> anyhow::Result<()> {
    garbage(setup, |victim| vec![victim.send])
}

fn receive_garbage(setup: &Setup) -> anyhow::Result<()> {
    garbage(setup, |victim| vec![victim.receive])
}

fn completion_garbage(setup: &Setup) -> anyhow::Result<()> {
    garbage(setup, |victim| victim.completions.clone())
}

fn concurrent(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    for round in 0..setup.rounds.unwrap_or(60) / 3 {
        let victim = Victim::new(&pd)?;
        victim.post_some();
        let mut rings = victim.completions.clone();
        rings.extend([victim.send, victim.receive, victim.send, victim.receive]);
        let (key, stop) = (victim.region.lkey(), Arc::new(AtomicBool::new(false)));
        let seed = setup.seed.wrapping_add(round.into());
        let vandal = std::thread::spawn({
            let stop = stop.clone();
            move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !stop.load(Ordering::Relaxed) {
                    disturb(rings[random.usize(0..rings.len())], &mut random, key);
                    if random.u8(0..64) == 0 {
                        std::thread::yield_now();
                    }
                }
            }
        });
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            let _ = ring_doorbell(&victim.qp);
            let _ = victim
                .peer
                .post(&Work::send(5, &[victim.region.sge(0..64)]));
            std::thread::sleep(Duration::from_micros(200));
        }
        stop.store(true, Ordering::Relaxed);
        anyhow::ensure!(vandal.join().is_ok(), "the other thread panicked");
        let what = || format!("round {round} of seed {}", setup.seed);
        victim.end(&pd).map_err(|error| error.context(what()))?;
    }
    Ok(())
}
