// SPDX-License-Identifier: GPL-2.0

//! Peers that are not ready, and peers that are not there (IBTA 9.7.5).

use std::time::Duration;

use mrx::sys;

use crate::harness::{
    memory::ALL, skip, Address, Link, Mr, Pair, Qp, QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "retries: a SEND without a receive fails after 0 to 6 RNR retries",
        exhausted,
    ),
    Test::new(
        "retries: a WRITE_WITH_IMM without a receive fails after the RNR retries",
        exhausted_by_write,
    ),
    Test::new(
        "retries: seven RNR retries wait until a receive is posted",
        for_ever,
    ),
    Test::new(
        "retries: a receive posted within the RNR timer is found",
        within_timer,
    ),
    Test::new("retries: a WRITE needs no receive", write_needs_none),
    Test::new(
        "retries: requests behind one that is not received wait for it",
        ordered,
    ),
    Test::new(
        "retries: a failed RNR retry flushes the requests behind it",
        flush_behind,
    ),
    Test::new("retries: a destroyed peer exceeds the retries", destroyed),
    Test::new(
        "retries: a peer that never was exceeds the retries",
        never_was,
    ),
    Test::new("retries: a peer in RESET exceeds the retries", reset),
    Test::new("retries: a peer in INIT exceeds the retries", initialised),
    Test::new(
        "retries: a peer in the error state exceeds the retries",
        broken,
    ),
    Test::new(
        "retries: a peer that is connected to somebody else exceeds the retries",
        connected_elsewhere,
    ),
    Test::new(
        "retries: an address where nobody is exceeds the retries",
        no_such_host,
    ),
];

/// Retries that are over soon.
fn hasty() -> Link {
    Link {
        timeout: 10,
        retries: 2,
        ..Default::default()
    }
}

fn without_receive(
    setup: &Setup,
    rnr_retries: u8,
    work: impl Fn(&Mr) -> Work,
) -> anyhow::Result<()> {
    let pair = Pair::linked(
        setup,
        &Link {
            rnr_retries,
            ..Default::default()
        },
    )?;
    let region = pair.region(64, ALL)?;
    pair.a.post(&work(&region))?;
    pair.a
        .send_cq
        .wait()?
        .is(1, sys::IBV_WC_RNR_RETRY_EXC_ERR)?;
    pair.a.breaks()?;
    anyhow::ensure!(pair.b.state()? == sys::IBV_QPS_RTS, "the peer broke, too");
    Ok(())
}

fn exhausted(setup: &Setup) -> anyhow::Result<()> {
    for retries in 0..7 {
        without_receive(setup, retries, |region| Work::send(1, &[region.whole()]))
            .map_err(|error| error.context(format!("{retries} retries")))?;
    }
    Ok(())
}

fn exhausted_by_write(setup: &Setup) -> anyhow::Result<()> {
    without_receive(setup, 2, |region| {
        Work::write_with_imm(1, &[region.sge(0..8)], region.at(8), region.rkey(), 1)
    })
}

fn for_ever(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    pair.a.post(&Work::send(1, &[region.whole()]))?;
    pair.a.send_cq.stays_empty(Duration::from_millis(500))?;
    pair.b.post_recv(2, &[region.whole()])?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?;
    Ok(())
}

fn within_timer(setup: &Setup) -> anyhow::Result<()> {
    // One retry, after 655 ms.
    let link = Link {
        rnr_retries: 1,
        rnr_timer: 0,
        ..Default::default()
    };
    let pair = Pair::linked(setup, &link)?;
    let region = pair.region(64, ALL)?;
    pair.a.post(&Work::send(1, &[region.whole()]))?;
    std::thread::sleep(Duration::from_millis(100));
    pair.b.post_recv(2, &[region.whole()])?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?;
    Ok(())
}

fn write_needs_none(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::linked(
        setup,
        &Link {
            rnr_retries: 0,
            ..Default::default()
        },
    )?;
    let region = pair.region(64, ALL)?;
    pair.a.post(&Work::write(
        1,
        &[region.sge(0..8)],
        region.at(8),
        region.rkey(),
    ))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}

fn ordered(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    pair.a.post_all(&[
        Work::send(1, &[region.sge(0..8)]),
        Work::write(2, &[region.sge(0..8)], region.at(8), region.rkey()),
    ])?;
    pair.a.send_cq.stays_empty(Duration::from_millis(200))?;
    pair.b.post_recv(3, &[region.whole()])?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}

fn flush_behind(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::linked(
        setup,
        &Link {
            rnr_retries: 1,
            ..Default::default()
        },
    )?;
    let region = pair.region(64, ALL)?;
    let list: Vec<_> = (1..6)
        .map(|id| Work::send(id, &[region.sge(0..8)]))
        .collect();
    pair.a.post_all(&list)?;
    pair.a
        .send_cq
        .wait()?
        .is(1, sys::IBV_WC_RNR_RETRY_EXC_ERR)?;
    pair.a.send_cq.flushes(2..6)
}

/// No request of `qp` gets an answer.
fn exceeds(qp: &Qp, region: &Mr) -> anyhow::Result<()> {
    let piece = [region.sge(0..8)];
    qp.post_all(&[
        Work::write(1, &piece, region.at(8), region.rkey()),
        Work::send(2, &piece),
        Work::send(3, &piece).unsignaled(),
    ])?;
    qp.send_cq.wait()?.is(1, sys::IBV_WC_RETRY_EXC_ERR)?;
    qp.send_cq.flushes([2, 3])?;
    qp.breaks()
}

fn destroyed(setup: &Setup) -> anyhow::Result<()> {
    let mut pair = Pair::linked(setup, &hasty())?;
    let region = pair.region(64, ALL)?;
    pair.b.destroy()?;
    exceeds(&pair.a, &region)
}

fn never_was(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    let lonely = Qp::new(&pair.pd, &QpOptions::default())?;
    lonely.connect(
        &hasty(),
        Address {
            number: 0x00ab_cdef,
            ..pair.a.address()
        },
    )?;
    exceeds(&lonely, &region)
}

fn reset(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::linked(setup, &hasty())?;
    let region = pair.region(64, ALL)?;
    pair.b.set_state(sys::IBV_QPS_RESET)?;
    exceeds(&pair.a, &region)
}

fn initialised(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::linked(setup, &hasty())?;
    let region = pair.region(64, ALL)?;
    pair.b.set_state(sys::IBV_QPS_RESET)?;
    pair.b.init(&hasty())?;
    pair.b.post_recv(4, &[region.whole()])?;
    exceeds(&pair.a, &region)
}

fn broken(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::linked(setup, &hasty())?;
    let region = pair.region(64, ALL)?;
    pair.b.set_state(sys::IBV_QPS_ERR)?;
    exceeds(&pair.a, &region)
}

fn connected_elsewhere(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::linked(setup, &hasty())?;
    let region = pair.region(64, ALL)?;
    let stranger = Qp::new(&pair.pd, &QpOptions::default())?;
    stranger.connect(&hasty(), pair.b.address())?;
    pair.b.post_recv(4, &[region.whole()])?;
    exceeds(&stranger, &region)?;
    // Those who are connected to each other have noticed nothing.
    pair.a.post(&Work::send(5, &[region.sge(0..8)]))?;
    pair.a.send_cq.wait()?.ok(5, sys::IBV_WC_SEND)?;
    pair.b.recv_cq.wait()?.ok(4, sys::IBV_WC_RECV)?;
    Ok(())
}

fn no_such_host(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    let lonely = Qp::new(&pair.pd, &QpOptions::default())?;
    let mut peer = pair.a.address();
    peer.gid[15] ^= 0x40;
    if let Err(error) = lonely.connect(&hasty(), peer) {
        return skip(format!("the network knows no way there: {error}"));
    }
    exceeds(&lonely, &region)
}
