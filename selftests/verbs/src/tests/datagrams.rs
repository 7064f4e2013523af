// SPDX-License-Identifier: GPL-2.0

//! Unreliable datagrams.

use std::time::Duration;

use mrx::sys;

use crate::harness::{
    check::same_bytes, ensure_eq, memory::ALL, pattern, qp::QKEY, Ah, Link, Mr, Pair, Qp,
    QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "datagrams: a datagram arrives behind a GRH and names its sender",
        arrives,
    ),
    Test::new("datagrams: a datagram brings its immediate", immediate),
    Test::new(
        "datagrams: a datagram with the wrong Q_Key vanishes",
        wrong_qkey,
    ),
    Test::new(
        "datagrams: a datagram that finds no receive vanishes",
        no_receive,
    ),
    Test::new(
        "datagrams: one that is too long, or cannot be read, uses up no receive",
        spares_receives,
    ),
    Test::new(
        "datagrams: a datagram to a queue pair that does not exist completes at the sender",
        nobody,
    ),
];

/// Bytes in front of every datagram.
const GRH: usize = 40;
const SILENCE: Duration = Duration::from_millis(100);

struct Scene {
    pair: Pair,
    ah: Ah,
    source: Mr,
    target: Mr,
}

impl Scene {
    fn new(setup: &Setup) -> anyhow::Result<Self> {
        let options = QpOptions {
            kind: sys::IBV_QPT_UD,
            ..Default::default()
        };
        let pair = Pair::with(setup, &options, &Link::default())?;
        let ah = Ah::new(&pair.pd, pair.context.gid)?;
        let source = pair.filled(&pattern(1, 1000), ALL)?;
        let target = pair.region(GRH + 1000, ALL)?;
        Ok(Self {
            pair,
            ah,
            source,
            target,
        })
    }

    fn send(&self, work: Work, qkey: u32) -> anyhow::Result<()> {
        self.pair
            .a
            .post(&work.to(&self.ah, self.pair.b.number(), qkey))?;
        self.pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
        Ok(())
    }
}

fn arrives(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.pair.b.post_recv(2, &[scene.target.whole()])?;
    scene.send(Work::send(1, &[scene.source.whole()]), QKEY)?;
    let received = scene.pair.b.recv_cq.wait()?;
    received.ok(2, sys::IBV_WC_RECV)?.bytes(GRH + 1000)?;
    ensure_eq!(received.0.src_qp, scene.pair.a.number());
    ensure_eq!(received.0.qp_num, scene.pair.b.number());
    ensure_eq!(received.0.wc_flags & sys::IBV_WC_GRH, sys::IBV_WC_GRH);
    same_bytes(
        &scene.target.memory.read(GRH..GRH + 1000),
        &pattern(1, 1000),
        "the datagram",
    )
}

fn immediate(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.pair.b.post_recv(2, &[scene.target.whole()])?;
    scene.send(
        Work::send_with_imm(1, &[scene.source.sge(0..1)], 0x8000_0001),
        QKEY,
    )?;
    let received = scene.pair.b.recv_cq.wait()?;
    received.ok(2, sys::IBV_WC_RECV)?.bytes(GRH + 1)?;
    ensure_eq!(
        received.0.wc_flags & sys::IBV_WC_WITH_IMM,
        sys::IBV_WC_WITH_IMM
    );
    ensure_eq!(received.immediate(), 0x8000_0001);
    Ok(())
}

fn wrong_qkey(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.pair.b.post_recv(2, &[scene.target.whole()])?;
    scene.send(Work::send(1, &[scene.source.whole()]), QKEY + 1)?;
    scene.pair.b.recv_cq.stays_empty(SILENCE)?;
    scene.send(Work::send(1, &[scene.source.whole()]), QKEY)?;
    scene.pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?;
    Ok(())
}

fn no_receive(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.send(Work::send(1, &[scene.source.sge(0..10)]), QKEY)?;
    scene.pair.b.post_recv(2, &[scene.target.whole()])?;
    scene.pair.b.recv_cq.stays_empty(SILENCE)?;
    scene.send(Work::send(1, &[scene.source.sge(0..20)]), QKEY)?;
    scene
        .pair
        .b
        .recv_cq
        .wait()?
        .ok(2, sys::IBV_WC_RECV)?
        .bytes(GRH + 20)?;
    Ok(())
}

fn spares_receives(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    let b = &scene.pair.b;
    b.post_recv(2, &[scene.target.sge(0..GRH + 10)])?;
    scene.send(Work::send(1, &[scene.source.sge(0..11)]), QKEY)?;
    let options = QpOptions {
        kind: sys::IBV_QPT_UD,
        ..Default::default()
    };
    let other = Qp::new(&scene.pair.pd, &options)?;
    other.connect(&Link::default(), b.address())?;
    let mut piece = scene.source.sge(0..10);
    piece.lkey = 0;
    other.post(&Work::send(1, &[piece]).to(&scene.ah, b.number(), QKEY))?;
    other.send_cq.wait()?.is(1, sys::IBV_WC_LOC_PROT_ERR)?;
    b.recv_cq.stays_empty(SILENCE)?;
    scene.send(Work::send(1, &[scene.source.sge(0..10)]), QKEY)?;
    let received = b.recv_cq.wait()?;
    received.ok(2, sys::IBV_WC_RECV)?.bytes(GRH + 10)?;
    Ok(())
}

fn nobody(setup: &Setup) -> anyhow::Result<()> {
    let mut scene = Scene::new(setup)?;
    let number = scene.pair.b.number();
    scene.pair.b.destroy()?;
    let work = Work::send(1, &[scene.source.whole()]).to(&scene.ah, number, QKEY);
    scene.pair.a.post(&work)?;
    scene.pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    Ok(())
}
