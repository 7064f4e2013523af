// SPDX-License-Identifier: GPL-2.0

//! Completion events.
//!
//! `rdma_rxe` of 7.3 raises none for a flushed receive on a queue that is armed
//! for solicited completions only.

use std::{rc::Rc, time::Duration};

use mrx::sys;

use crate::harness::{
    memory::ALL, Channel, Context, Cq, Link, Mr, Pd, Qp, QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("events: an armed CQ reports its next completion", armed),
    Test::new("events: a CQ that is not armed reports nothing", not_armed),
    Test::new("events: arming lasts for one event", one_event),
    Test::new(
        "events: a CQ armed for solicited completions ignores others",
        solicited_only,
    ),
    Test::new(
        "events: a CQ armed for solicited completions reports a solicited SEND",
        solicited,
    ),
    Test::new(
        "events: a CQ armed for solicited completions reports a failed one",
        solicited_error,
    ),
    Test::new(
        "events: a CQ armed for all completions reports a send completion",
        send_side,
    ),
];

const SOON: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(100);

/// A sender, and a receiver whose two completion queues report to a channel.
struct Scene {
    sender: Qp,
    receiver: Qp,
    region: Mr,
    channel: Rc<Channel>,
    _pd: Rc<Pd>,
}

impl Scene {
    fn new(setup: &Setup) -> anyhow::Result<Self> {
        let context = Context::open(setup)?;
        let pd = context.pd()?;
        let channel = Channel::new(&context)?;
        let options = QpOptions::default();
        let (send_cq, recv_cq) = (
            Cq::with_events(&channel, 64)?,
            Cq::with_events(&channel, 64)?,
        );
        let receiver = Qp::on(&pd, &options, send_cq, recv_cq)?;
        let sender = Qp::new(&pd, &options)?;
        sender.connect(&Link::default(), receiver.address())?;
        receiver.connect(&Link::default(), sender.address())?;
        let region = Mr::new(&pd, 64, ALL)?;
        Ok(Self {
            sender,
            receiver,
            region,
            channel,
            _pd: pd,
        })
    }

    /// Sends one message, and sees it complete on both sides.
    fn message(&self, work: impl Fn(Work) -> Work) -> anyhow::Result<()> {
        self.receiver.post_recv(2, &[self.region.whole()])?;
        self.sender
            .post(&work(Work::send(1, &[self.region.sge(0..8)])))?;
        self.sender.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
        self.receiver.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?;
        Ok(())
    }

    fn expect(&self, event: bool) -> anyhow::Result<()> {
        let found = self.channel.event(if event { SOON } else { SILENCE })?;
        anyhow::ensure!(
            found == event,
            "{}",
            if event {
                "no event came"
            } else {
                "an event came"
            }
        );
        Ok(())
    }
}

fn armed(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.receiver.recv_cq.arm(false)?;
    scene.message(|work| work)?;
    scene.expect(true)
}

fn not_armed(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.message(|work| work.solicited())?;
    scene.expect(false)
}

fn one_event(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.receiver.recv_cq.arm(false)?;
    scene.message(|work| work)?;
    scene.expect(true)?;
    scene.message(|work| work)?;
    scene.expect(false)?;
    scene.receiver.recv_cq.arm(false)?;
    scene.message(|work| work)?;
    scene.expect(true)
}

fn solicited_only(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.receiver.recv_cq.arm(true)?;
    scene.message(|work| work)?;
    scene.expect(false)
}

fn solicited(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.receiver.recv_cq.arm(true)?;
    scene.message(|work| work)?;
    scene.message(|work| work.solicited())?;
    scene.expect(true)
}

fn solicited_error(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.receiver.recv_cq.arm(true)?;
    scene.receiver.post_recv(2, &[scene.region.whole()])?;
    scene.receiver.set_state(sys::IBV_QPS_ERR)?;
    scene
        .receiver
        .recv_cq
        .wait()?
        .is(2, sys::IBV_WC_WR_FLUSH_ERR)?;
    scene.expect(true)
}

fn send_side(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup)?;
    scene.receiver.send_cq.arm(false)?;
    let region = &scene.region;
    scene.receiver.post(&Work::write(
        1,
        &[region.whole()],
        region.at(0),
        region.rkey(),
    ))?;
    scene.expect(true)?;
    scene
        .receiver
        .send_cq
        .wait()?
        .ok(1, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}
