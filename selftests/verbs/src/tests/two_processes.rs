// SPDX-License-Identifier: GPL-2.0

//! Traffic between two processes.

use std::os::unix::net::UnixStream;

use mrx::sys;

use crate::harness::{
    check::same_bytes,
    memory::ALL,
    pattern,
    peer::{exchange, hear, tell, Peer},
    Context, Link, Mr, Qp, QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("two processes: SEND and receive", send),
    Test::new("two processes: WRITE into the other's memory", write),
    Test::new("two processes: READ from the other's memory", read),
    Test::new("two processes: 2,000 messages ping-pong", ping_pong),
];

const LEN: usize = 70_001;

/// One side: a connected queue pair, and a region.
struct Side {
    qp: Qp,
    region: Mr,
    stream: UnixStream,
}

impl Side {
    fn new(setup: &Setup, bytes: &[u8], mut stream: UnixStream) -> anyhow::Result<Self> {
        let context = Context::open(setup)?;
        let pd = context.pd()?;
        let qp = Qp::new(&pd, &QpOptions::default())?;
        let region = Mr::filled(&pd, bytes, ALL)?;
        let link = Link::default();
        qp.init(&link)?;
        let peer = exchange(&mut stream, &qp)?;
        qp.ready_to_receive(&link, peer)?;
        qp.ready_to_send(&link)?;
        Ok(Self { qp, region, stream })
    }

    /// Waits until the other side is here, too.
    fn meet(&mut self) -> anyhow::Result<()> {
        tell(&mut self.stream, 0)?;
        hear(&mut self.stream).map(drop)
    }

    /// Learns where the other's region is, and tells where ours is.
    fn swap_keys(&mut self) -> anyhow::Result<(u64, u32)> {
        tell(&mut self.stream, self.region.at(0))?;
        tell(&mut self.stream, self.region.rkey().into())?;
        Ok((hear(&mut self.stream)?, hear(&mut self.stream)? as u32))
    }
}

fn send(setup: &Setup) -> anyhow::Result<()> {
    let bytes = pattern(1, LEN);
    let peer = Peer::start(|stream| {
        let mut side = Side::new(setup, &bytes, stream)?;
        side.meet()?;
        side.qp.post(&Work::send(1, &[side.region.whole()]))?;
        side.qp.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
        side.meet()
    })?;
    let mut side = Side::new(setup, &[0; LEN], peer.stream.try_clone()?)?;
    side.qp.post_recv(2, &[side.region.whole()])?;
    side.meet()?;
    side.qp
        .recv_cq
        .wait()?
        .ok(2, sys::IBV_WC_RECV)?
        .bytes(LEN)?;
    same_bytes(&side.region.memory.all(), &bytes, "what came")?;
    side.meet()?;
    peer.finish()
}

fn write(setup: &Setup) -> anyhow::Result<()> {
    let bytes = pattern(2, LEN);
    let peer = Peer::start(|stream| {
        let mut side = Side::new(setup, &bytes, stream)?;
        let (addr, rkey) = side.swap_keys()?;
        side.qp
            .post(&Work::write(1, &[side.region.whole()], addr, rkey))?;
        side.qp.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
        side.meet()
    })?;
    let mut side = Side::new(setup, &[0; LEN], peer.stream.try_clone()?)?;
    side.swap_keys()?;
    side.meet()?;
    same_bytes(&side.region.memory.all(), &bytes, "what was written")?;
    peer.finish()
}

fn read(setup: &Setup) -> anyhow::Result<()> {
    let bytes = pattern(3, LEN);
    let peer = Peer::start(|stream| {
        let mut side = Side::new(setup, &bytes, stream)?;
        side.swap_keys()?;
        side.meet()
    })?;
    let mut side = Side::new(setup, &[0; LEN], peer.stream.try_clone()?)?;
    let (addr, rkey) = side.swap_keys()?;
    side.qp
        .post(&Work::read(1, &[side.region.whole()], addr, rkey))?;
    side.qp
        .send_cq
        .wait()?
        .ok(1, sys::IBV_WC_RDMA_READ)?
        .bytes(LEN)?;
    same_bytes(&side.region.memory.all(), &bytes, "what was read")?;
    side.meet()?;
    peer.finish()
}

const ROUNDS: u64 = 1000;

fn ping_pong(setup: &Setup) -> anyhow::Result<()> {
    let peer = Peer::start(|stream| {
        let mut side = Side::new(setup, &[0; 8], stream)?;
        side.qp.post_recv(0, &[side.region.whole()])?;
        side.meet()?;
        for round in 0..ROUNDS {
            side.qp
                .recv_cq
                .wait()?
                .ok(round, sys::IBV_WC_RECV)?
                .bytes(8)?;
            side.qp.post_recv(round + 1, &[side.region.whole()])?;
            side.qp.post(&Work::send(round, &[side.region.whole()]))?;
            side.qp.send_cq.wait()?.ok(round, sys::IBV_WC_SEND)?;
        }
        side.meet()
    })?;
    let mut side = Side::new(setup, &[0; 8], peer.stream.try_clone()?)?;
    side.meet()?;
    for round in 0..ROUNDS {
        side.region.memory.write(0, &round.to_ne_bytes());
        side.qp.post_recv(round, &[side.region.whole()])?;
        side.qp.post(&Work::send(round, &[side.region.whole()]))?;
        side.qp.send_cq.wait()?.ok(round, sys::IBV_WC_SEND)?;
        side.qp
            .recv_cq
            .wait()?
            .ok(round, sys::IBV_WC_RECV)?
            .bytes(8)?;
        same_bytes(&side.region.memory.all(), &round.to_ne_bytes(), "the echo")?;
    }
    side.meet()?;
    peer.finish()
}
