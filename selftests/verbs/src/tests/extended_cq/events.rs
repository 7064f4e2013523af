// SPDX-License-Identifier: GPL-2.0

//! Completions that come while somebody waits for them.

use std::{os::unix::net::UnixStream, time::Duration};

use anyhow::Context as _;
use mrx::sys;

use super::{batch_of, wait, Scene, SILENCE, STANDARD};
use crate::harness::{
    cq::DEADLINE,
    ensure_eq,
    memory::ALL,
    peer::{exchange, hear, tell, Peer},
    until, Channel, Context, Cq, Link, Mr, Qp, QpOptions, Setup, Test, Work,
};

const SOON: Duration = Duration::from_secs(10);

pub const TESTS: &[Test] = &[
    Test::new(
        "extended CQ: an armed queue reports its next completion",
        events,
    ),
    Test::new(
        "extended CQ: a queue armed for solicited completions reports an error",
        error_event,
    ),
    Test::new(
        "extended CQ: a batch that is read while requests come misses none",
        traffic,
    ),
];

fn events(setup: &Setup) -> anyhow::Result<()> {
    for kind in [sys::IBV_QPT_RC, sys::IBV_QPT_UC, sys::IBV_QPT_UD] {
        let scene = Scene::new(setup, kind, STANDARD)?;
        for round in 0..3 {
            scene.b.recv_cq.arm(false)?;
            scene.b.post_recv(round, &[scene.region.sge(0..100)])?;
            scene.post(Work::send(9, &[scene.region.sge(200..208)]))?;
            anyhow::ensure!(scene.channel.event(SOON)?, "no event");
            ensure_eq!(wait(&scene.b.recv_cq)?.id, round);
            ensure_eq!(wait(&scene.a.send_cq)?.id, 9);
        }
        anyhow::ensure!(!scene.channel.event(SILENCE)?, "one event too many");
    }
    Ok(())
}

fn error_event(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let region = &scene.region;
    scene.a.send_cq.arm(true)?;
    scene.writes(0..1)?;
    anyhow::ensure!(!scene.channel.event(SILENCE)?, "an event for a success");
    let (piece, addr) = ([region.sge(0..8)], region.at(4096));
    scene.post(Work::write(1, &piece, addr, region.rkey()))?;
    anyhow::ensure!(scene.channel.event(SOON)?, "no event");
    ensure_eq!(wait(&scene.a.send_cq)?.id, 0);
    ensure_eq!(wait(&scene.a.send_cq)?.status, sys::IBV_WC_REM_ACCESS_ERR);
    Ok(())
}

fn traffic(setup: &Setup) -> anyhow::Result<()> {
    const COUNT: u64 = 2000;
    let mut peer = Peer::start(|stream| {
        let mut side = Side::new(setup, stream)?;
        for id in 0..COUNT {
            side.qp.post(&Work::send(id, &[side.region.sge(0..8)]))?;
            ensure_eq!(wait(&side.qp.send_cq)?.id, id);
        }
        hear(&mut side.stream).map(drop)
    })?;
    let side = Side::new(setup, peer.stream.try_clone()?)?;
    let mut cq = side.qp.recv_cq.batches();
    let mut due = 0;
    while due < COUNT {
        let ids = until(DEADLINE, || {
            let ids = batch_of(&mut cq, usize::MAX);
            ids.map(|ids| (!ids.is_empty()).then_some(ids)).transpose()
        });
        let ids = ids.with_context(|| format!("completion {due} does not come"))??;
        for id in ids {
            ensure_eq!(id, due);
            due += 1;
            side.qp.post_recv(id + DEPTH, &[side.region.whole()])?;
        }
    }
    tell(&mut peer.stream, 0)?;
    peer.finish()
}

/// Receives that are posted in the test with two processes.
const DEPTH: u64 = 64;

/// One of two processes, with receives posted.
struct Side {
    qp: Qp,
    region: Mr,
    stream: UnixStream,
}

impl Side {
    fn new(setup: &Setup, mut stream: UnixStream) -> anyhow::Result<Self> {
        let context = Context::open(setup)?;
        let pd = context.pd()?;
        let channel = Channel::new(&context)?;
        let cq = || Cq::extended(&channel, 256, STANDARD);
        let qp = Qp::on(&pd, &QpOptions::default(), cq()?, cq()?)?;
        let region = Mr::new(&pd, 64, ALL)?;
        qp.init(&Link::default())?;
        for id in 0..DEPTH {
            qp.post_recv(id, &[region.whole()])?;
        }
        let peer = exchange(&mut stream, &qp)?;
        qp.ready_to_receive(&Link::default(), peer)?;
        qp.ready_to_send(&Link::default())?;
        Ok(Self { qp, region, stream })
    }
}
