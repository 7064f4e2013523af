// SPDX-License-Identifier: GPL-2.0

//! What a completion says, and when there is one.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use mrx::sys;

use crate::harness::{ensure_eq, memory::ALL, Link, Pair, Qp, QpOptions, Setup, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new("completions: a receive names its own queue pair", numbers),
    Test::new(
        "completions: only the immediate variants set the immediate flag",
        immediate_flag,
    ),
    Test::new(
        "completions: a receive counts the bytes that came, not those it had room for",
        short_message,
    ),
    Test::new(
        "completions: the completion of a send names the sender's queue pair",
        sender,
    ),
    Test::new(
        "completions: an unsignalled request completes silently",
        unsignaled,
    ),
    Test::new(
        "completions: a signalled request after unsignalled ones reports itself alone",
        mixed,
    ),
    Test::new("completions: sq_sig_all reports every request", signal_all),
    Test::new(
        "completions: sends complete in the order of posting",
        in_order,
    ),
    Test::new(
        "completions: receives complete in the order of posting",
        receives_in_order,
    ),
    Test::new(
        "completions: unsignalled requests free their places in the ring",
        ring_reuse,
    ),
    Test::new(
        "completions: who sees a request complete finds room for the next one",
        room,
    ),
    Test::new(
        "completions: two queue pairs may share one completion queue",
        shared_cq,
    ),
    Test::new(
        "completions: polling an empty queue finds nothing",
        empty_poll,
    ),
    Test::new(
        "completions: a fenced SEND after a READ sends what the READ fetched",
        fence,
    ),
];

const SILENCE: Duration = Duration::from_millis(100);

fn numbers(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    for (to, from) in [(&pair.b, &pair.a), (&pair.a, &pair.b)] {
        to.post_recv(2, &[region.whole()])?;
        from.post(&Work::send(1, &[region.sge(0..10)]))?;
        let received = to.recv_cq.wait()?;
        received.ok(2, sys::IBV_WC_RECV)?;
        ensure_eq!(received.0.qp_num, to.number());
        from.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    }
    Ok(())
}

fn immediate_flag(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    let piece = [region.sge(0..8)];
    let (addr, rkey) = (region.at(8), region.rkey());
    let cases = [
        (Work::send(1, &piece), 0),
        (Work::send_with_imm(1, &piece, 5), sys::IBV_WC_WITH_IMM),
        (
            Work::write_with_imm(1, &piece, addr, rkey, 6),
            sys::IBV_WC_WITH_IMM,
        ),
    ];
    for (work, flag) in cases {
        pair.b.post_recv(2, &[region.whole()])?;
        pair.a.post(&work)?;
        let received = pair.b.recv_cq.wait()?;
        received.is(2, sys::IBV_WC_SUCCESS)?;
        ensure_eq!(received.0.wc_flags & sys::IBV_WC_WITH_IMM, flag);
        ensure_eq!(received.0.wc_flags & sys::IBV_WC_WITH_INV, 0);
    }
    Ok(())
}

fn short_message(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(10_000, ALL)?;
    for len in [0, 1, 4095, 9999] {
        pair.b
            .post_recv(2, &[region.sge(0..5000), region.sge(5000..10_000)])?;
        pair.a.post(&Work::send(1, &[region.sge(0..len)]))?;
        pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(len)?;
    }
    Ok(())
}

fn sender(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(8, ALL)?;
    pair.a.post(&Work::write(
        1,
        &[region.whole()],
        region.at(0),
        region.rkey(),
    ))?;
    let sent = pair.a.send_cq.wait()?;
    sent.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    ensure_eq!(sent.0.qp_num, pair.a.number());
    Ok(())
}

fn unsignaled(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(8, ALL)?;
    pair.b.post_recv(2, &[region.whole()])?;
    pair.a
        .post(&Work::send(1, &[region.whole()]).unsignaled())?;
    pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?;
    pair.a.send_cq.stays_empty(SILENCE)
}

fn mixed(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    let work = |id| Work::write(id, &[region.whole()], region.at(0), region.rkey());
    let mut list: Vec<_> = (0..9).map(|id| work(id).unsignaled()).collect();
    list.push(work(9));
    pair.a.post_all(&list)?;
    pair.a.send_cq.wait()?.ok(9, sys::IBV_WC_RDMA_WRITE)?;
    pair.a.send_cq.stays_empty(SILENCE)
}

fn signal_all(setup: &Setup) -> anyhow::Result<()> {
    let options = QpOptions {
        signal_all: true,
        ..Default::default()
    };
    let pair = Pair::with(setup, &options, &Link::default())?;
    let region = pair.region(8, ALL)?;
    for id in 0..4 {
        let work = Work::write(id, &[region.whole()], region.at(0), region.rkey());
        pair.a.post(&work.unsignaled())?;
    }
    for id in 0..4 {
        pair.a.send_cq.wait()?.ok(id, sys::IBV_WC_RDMA_WRITE)?;
    }
    Ok(())
}

fn in_order(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(100_000, ALL)?;
    let (addr, rkey) = (region.at(50_000), region.rkey());
    let list: Vec<_> = (0..60)
        .map(|id| {
            // Large and small ones, of both directions.
            let piece = [region.sge(0..if id % 3 == 0 { 50_000 } else { 8 })];
            if id % 2 == 0 {
                Work::write(id, &piece, addr, rkey)
            } else {
                Work::read(id, &piece, addr, rkey)
            }
        })
        .collect();
    pair.a.post_all(&list)?;
    for id in 0..60 {
        let opcode = if id % 2 == 0 {
            sys::IBV_WC_RDMA_WRITE
        } else {
            sys::IBV_WC_RDMA_READ
        };
        pair.a.send_cq.wait()?.ok(id, opcode)?;
    }
    Ok(())
}

fn receives_in_order(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(100, ALL)?;
    for id in 0..100 {
        pair.b.post_recv(id, &[region.whole()])?;
    }
    for id in 0..100 {
        pair.a
            .post(&Work::send(id, &[region.sge(0..id as usize)]))?;
    }
    for id in 0..100 {
        pair.b
            .recv_cq
            .wait()?
            .ok(id, sys::IBV_WC_RECV)?
            .bytes(id as usize)?;
    }
    Ok(())
}

fn ring_reuse(setup: &Setup) -> anyhow::Result<()> {
    let options = QpOptions {
        depth: 8,
        ..Default::default()
    };
    let pair = Pair::with(setup, &options, &Link::default())?;
    let region = pair.region(8, ALL)?;
    let work = |id| Work::write(id, &[region.whole()], region.at(0), region.rkey());
    for round in 0..200 {
        pair.a
            .post_all(&[work(1).unsignaled(), work(2).unsignaled(), work(round)])?;
        pair.a.send_cq.wait()?.ok(round, sys::IBV_WC_RDMA_WRITE)?;
    }
    Ok(())
}

/// A queue pair that two threads use.
struct Shared<'a>(&'a Qp);

// SAFETY: libibverbs takes calls from several threads, and the counts of what
// a queue pair refers to are not touched by posting and polling.
unsafe impl Sync for Shared<'_> {}

fn room(setup: &Setup) -> anyhow::Result<()> {
    const REQUESTS: u64 = 20_000;
    let options = QpOptions {
        depth: 1,
        ..Default::default()
    };
    let pair = Pair::with(setup, &options, &Link::default())?;
    let region = pair.region(8, ALL)?;
    let sges = [region.whole()];
    let (addr, rkey) = (region.at(0), region.rkey());
    let qp = Shared(&pair.a);
    let done = AtomicBool::new(false);
    // One thread polls while the other is still in the call that executed.
    let post_after_each = || {
        let Shared(qp) = &qp;
        while !done.load(Ordering::Relaxed) {
            let Some(completion) = qp.send_cq.poll()? else {
                continue;
            };
            let id = completion.id();
            completion.ok(id, sys::IBV_WC_RDMA_WRITE)?;
            if id == REQUESTS {
                break;
            }
            qp.post(&Work::write(id + 1, &sges, addr, rkey))
                .with_context(|| format!("request {}", id + 1))?;
        }
        anyhow::Ok(())
    };
    let relay = || {
        let outcome = post_after_each();
        done.store(true, Ordering::Relaxed);
        outcome
    };
    qp.0.post(&Work::write(1, &sges, addr, rkey))?;
    std::thread::scope(|scope| {
        let other = scope.spawn(relay);
        let outcome = relay();
        let joined = other.join();
        outcome?;
        joined.map_err(|_| anyhow::anyhow!("the other thread panicked"))?
    })
}

fn shared_cq(setup: &Setup) -> anyhow::Result<()> {
    let first = Pair::new(setup)?;
    let cq = &first.a.send_cq;
    let make = || crate::harness::Qp::on(&first.pd, &QpOptions::default(), cq.clone(), cq.clone());
    let (a, b) = (make()?, make()?);
    a.connect(&Link::default(), b.address())?;
    b.connect(&Link::default(), a.address())?;
    let region = first.region(8, ALL)?;
    b.post_recv(2, &[region.whole()])?;
    a.post(&Work::send(1, &[region.whole()]))?;
    let mut found = cq.wait_for(2)?;
    found.sort_by_key(|completion| completion.id());
    found[0].ok(1, sys::IBV_WC_SEND)?;
    ensure_eq!(found[0].0.qp_num, a.number());
    found[1].ok(2, sys::IBV_WC_RECV)?;
    ensure_eq!(found[1].0.qp_num, b.number());
    Ok(())
}

fn empty_poll(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    pair.a.send_cq.stays_empty(SILENCE)?;
    pair.b.recv_cq.stays_empty(SILENCE)
}

fn fence(setup: &Setup) -> anyhow::Result<()> {
    const LEN: usize = 200_000;
    let pair = Pair::new(setup)?;
    let bytes = crate::harness::pattern(3, LEN);
    let far = pair.filled(&bytes, ALL)?;
    let (here, there) = (pair.region(LEN, ALL)?, pair.region(LEN, ALL)?);
    pair.b.post_recv(3, &[there.whole()])?;
    pair.a.post_all(&[
        Work::read(1, &[here.whole()], far.at(0), far.rkey()),
        Work::send(2, &[here.whole()]).fenced(),
    ])?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_READ)?;
    pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_SEND)?;
    pair.b.recv_cq.wait()?.ok(3, sys::IBV_WC_RECV)?.bytes(LEN)?;
    crate::harness::check::same_bytes(&there.memory.all(), &bytes, "what was sent")
}
