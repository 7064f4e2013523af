// SPDX-License-Identifier: GPL-2.0

//! Local pieces that a queue pair may not use (IBTA 10.7.3, 11.6.2).
//!
//! `rdma_rxe` of 7.3 fails many of these: it reports a faulty request of the
//! sender as flushed, with those before it that wait for their acknowledgement,
//! and every faulty receive as a local QP operation error.

use mrx::sys;

use crate::harness::{
    check::same_bytes, ensure_eq, memory::ALL, pattern, Mr, Pair, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "local faults: a SEND with an unknown lkey fails at home",
        unknown,
    ),
    Test::new(
        "local faults: a SEND with the lkey of a deregistered region fails at home",
        deregistered,
    ),
    Test::new(
        "local faults: an lkey that the last request used fails once its region is gone",
        gone_after_use,
    ),
    Test::new(
        "local faults: a SEND with an lkey of another domain fails at home",
        other_domain,
    ),
    Test::new(
        "local faults: a SEND that starts before its region fails at home",
        before,
    ),
    Test::new(
        "local faults: a SEND that ends one byte behind its region fails at home",
        behind,
    ),
    Test::new(
        "local faults: a SEND whose piece wraps around the address space fails at home",
        wrapping,
    ),
    Test::new(
        "local faults: a bad second piece fails the SEND",
        second_piece,
    ),
    Test::new(
        "local faults: a WRITE from a bad piece leaves the target alone",
        write_source,
    ),
    Test::new(
        "local faults: a READ into a region without local write fails at home",
        read_only_target,
    ),
    Test::new(
        "local faults: a READ into a piece behind its region fails at home",
        read_behind,
    ),
    Test::new(
        "local faults: an atomic into a region without local write fails at home",
        atomic_target,
    ),
    Test::new(
        "local faults: a region that grants nothing can be sent from",
        plain_source,
    ),
    Test::new(
        "local faults: pieces up to the last byte are fine",
        exact_end,
    ),
    Test::new(
        "local faults: a failed request flushes those behind it, in order, unsignalled ones too",
        flush_behind,
    ),
    Test::new(
        "local faults: a receive with an unknown lkey fails on both sides",
        receive_unknown,
    ),
    Test::new(
        "local faults: a receive into a region without local write fails on both sides",
        receive_read_only,
    ),
    Test::new(
        "local faults: a receive behind its region fails on both sides",
        receive_behind,
    ),
    Test::new(
        "local faults: a receive with an lkey of another domain fails on both sides",
        receive_other_domain,
    ),
    Test::new(
        "local faults: a receive takes a message that does not reach what is wrong with it",
        receive_far_end,
    ),
    Test::new(
        "local faults: a message larger than its receive fails on both sides",
        receive_small,
    ),
    Test::new(
        "local faults: a failed receive flushes those behind it, in order",
        receives_behind,
    ),
];

/// Posts `work`, which must fail at `a` before the peer sees a thing.
fn fails_at_home(pair: &Pair, work: &Work) -> anyhow::Result<()> {
    pair.a.post(work)?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_LOC_PROT_ERR)?;
    pair.a.breaks()
}

fn sends(setup: &Setup, piece: impl Fn(&Mr) -> Sge) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(1000, ALL)?;
    pair.b.post_recv(2, &[region.whole()])?;
    fails_at_home(&pair, &Work::send(1, &[piece(&region)]))?;
    ensure_eq!(
        pair.b.recv_cq.poll()?.map(|completion| completion.id()),
        None
    );
    Ok(())
}

fn unknown(setup: &Setup) -> anyhow::Result<()> {
    for key in [0, 0xffff_ffff, 0x1234_5678] {
        sends(setup, |region| Sge {
            lkey: key,
            ..region.whole()
        })?;
    }
    // The right index with the wrong variant part.
    sends(setup, |region| Sge {
        lkey: region.lkey() ^ 1,
        ..region.whole()
    })
}

fn deregistered(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let mut region = pair.region(1000, ALL)?;
    let piece = region.whole();
    region.deregister()?;
    fails_at_home(&pair, &Work::send(1, &[piece]))
}

fn gone_after_use(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let mut near = pair.region(8, ALL)?;
    let far = pair.region(8, ALL)?;
    let work = Work::write(1, &[near.whole()], far.at(0), far.rkey());
    pair.a.post(&work)?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    near.deregister()?;
    fails_at_home(&pair, &work)
}

fn other_domain(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = Mr::new(&pair.context.pd()?, 1000, ALL)?;
    fails_at_home(&pair, &Work::send(1, &[region.whole()]))
}

fn before(setup: &Setup) -> anyhow::Result<()> {
    sends(setup, |region| Sge {
        addr: region.at(0) - 1,
        ..region.sge(0..8)
    })
}

fn behind(setup: &Setup) -> anyhow::Result<()> {
    sends(setup, |region| Sge {
        length: 1001,
        ..region.whole()
    })?;
    sends(setup, |region| Sge {
        addr: region.at(1000),
        length: 1,
        lkey: region.lkey(),
    })
}

fn wrapping(setup: &Setup) -> anyhow::Result<()> {
    sends(setup, |region| Sge {
        addr: u64::MAX - 3,
        length: 8,
        lkey: region.lkey(),
    })
}

fn second_piece(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(1000, ALL)?;
    pair.b.post_recv(2, &[region.whole()])?;
    let bad = Sge {
        addr: region.at(999),
        length: 2,
        lkey: region.lkey(),
    };
    fails_at_home(&pair, &Work::send(1, &[region.sge(0..10), bad]))
}

fn write_source(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 1000);
    let (source, target) = (pair.region(1000, ALL)?, pair.filled(&bytes, ALL)?);
    let bad = Sge {
        lkey: 0x7777_7777,
        ..source.whole()
    };
    fails_at_home(&pair, &Work::write(1, &[bad], target.at(0), target.rkey()))?;
    same_bytes(&target.memory.all(), &bytes, "the target")
}

fn read_only_target(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 1000);
    let (far, near) = (pair.region(1000, ALL)?, pair.filled(&bytes, 0)?);
    fails_at_home(
        &pair,
        &Work::read(1, &[near.whole()], far.at(0), far.rkey()),
    )?;
    same_bytes(&near.memory.all(), &bytes, "the region without local write")
}

fn read_behind(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (far, near) = (pair.region(1000, ALL)?, pair.region(1000, ALL)?);
    let bad = Sge {
        length: 100,
        ..near.sge(901..1000)
    };
    fails_at_home(&pair, &Work::read(1, &[bad], far.at(0), far.rkey()))
}

fn atomic_target(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (far, near) = (pair.region(8, ALL)?, pair.region(8, 0)?);
    fails_at_home(
        &pair,
        &Work::fetch_add(1, near.whole(), far.at(0), far.rkey(), 1),
    )
}

fn plain_source(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 1000);
    let (source, target) = (pair.filled(&bytes, 0)?, pair.region(1000, ALL)?);
    pair.a.post(&Work::write(
        1,
        &[source.whole()],
        target.at(0),
        target.rkey(),
    ))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    same_bytes(&target.memory.all(), &bytes, "the target")
}

fn exact_end(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (source, target) = (pair.region(5001, ALL)?, pair.region(5001, ALL)?);
    let last = [source.sge(5000..5001)];
    pair.a
        .post(&Work::write(1, &last, target.at(5000), target.rkey()))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    pair.a
        .post(&Work::read(2, &last, target.at(5000), target.rkey()))?;
    pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_RDMA_READ)?;
    Ok(())
}

fn flush_behind(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    let good = |id| Work::write(id, &[region.sge(0..8)], region.at(8), region.rkey());
    let bad = Sge {
        lkey: 0x7777_7777,
        ..region.whole()
    };
    let mut list = vec![good(0), Work::write(1, &[bad], region.at(0), region.rkey())];
    list.extend((2..10).map(|id| {
        if id % 2 == 0 {
            good(id).unsignaled()
        } else {
            good(id)
        }
    }));
    pair.a.post_all(&list)?;
    pair.a.send_cq.wait()?.ok(0, sys::IBV_WC_RDMA_WRITE)?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_LOC_PROT_ERR)?;
    pair.a.send_cq.flushes(2..10)?;
    pair.a.breaks()
}

/// A SEND of 100 bytes meets the receive that `piece` describes. Both sides
/// fail, and nothing is written to the receiving region.
fn receive_fails(
    setup: &Setup,
    access: u32,
    piece: impl Fn(&Mr) -> Sge,
    at_receiver: sys::ibv_wc_status,
    at_sender: sys::ibv_wc_status,
) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 1000);
    let (source, target) = (pair.region(100, ALL)?, pair.filled(&bytes, access)?);
    pair.b.post_recv(2, &[piece(&target)])?;
    pair.a.post(&Work::send(1, &[source.whole()]))?;
    pair.b.recv_cq.wait()?.is(2, at_receiver)?;
    pair.a.send_cq.wait()?.is(1, at_sender)?;
    pair.a.breaks()?;
    pair.b.breaks()?;
    same_bytes(&target.memory.all(), &bytes, "the receiving region")
}

fn receive_protected(setup: &Setup, access: u32, piece: impl Fn(&Mr) -> Sge) -> anyhow::Result<()> {
    receive_fails(
        setup,
        access,
        piece,
        sys::IBV_WC_LOC_PROT_ERR,
        sys::IBV_WC_REM_OP_ERR,
    )
}

fn receive_unknown(setup: &Setup) -> anyhow::Result<()> {
    receive_protected(setup, ALL, |region| Sge {
        lkey: 0x7777_7777,
        ..region.whole()
    })
}

fn receive_read_only(setup: &Setup) -> anyhow::Result<()> {
    receive_protected(setup, 0, Mr::whole)
}

fn receive_behind(setup: &Setup) -> anyhow::Result<()> {
    receive_protected(setup, ALL, |region| Sge {
        length: 100,
        ..region.sge(950..1000)
    })
}

fn receive_other_domain(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let other = Mr::new(&pair.context.pd()?, 1000, ALL)?;
    let source = pair.region(100, ALL)?;
    pair.b.post_recv(2, &[other.whole()])?;
    pair.a.post(&Work::send(1, &[source.whole()]))?;
    pair.b.recv_cq.wait()?.is(2, sys::IBV_WC_LOC_PROT_ERR)?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_OP_ERR)?;
    Ok(())
}

fn receive_far_end(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(1, 100);
    let source = pair.filled(&bytes, ALL)?;
    let beyond = |region: &Mr| {
        vec![Sge {
            length: 200,
            ..region.sge(900..1000)
        }]
    };
    let unknown = |region: &Mr| {
        let wrong = Sge {
            lkey: 0x7777_7777,
            ..region.whole()
        };
        vec![region.sge(900..1000), wrong]
    };
    for pieces in [beyond, unknown] {
        let target = pair.region(1000, ALL)?;
        pair.b.post_recv(2, &pieces(&target))?;
        pair.a.post(&Work::send(1, &[source.whole()]))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
        pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(100)?;
        same_bytes(&target.memory.read(900..1000), &bytes, "what came")?;
    }
    Ok(())
}

fn receive_small(setup: &Setup) -> anyhow::Result<()> {
    let small = |region: &Mr| region.sge(0..99);
    receive_fails(
        setup,
        ALL,
        small,
        sys::IBV_WC_LOC_LEN_ERR,
        sys::IBV_WC_REM_INV_REQ_ERR,
    )
}

fn receives_behind(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(1000, ALL)?;
    pair.b.post_recv(
        0,
        &[Sge {
            lkey: 0x7777_7777,
            ..region.whole()
        }],
    )?;
    for id in 1..10 {
        pair.b.post_recv(id, &[region.whole()])?;
    }
    pair.a.post(&Work::send(1, &[region.sge(0..8)]))?;
    pair.b.recv_cq.wait()?.is(0, sys::IBV_WC_LOC_PROT_ERR)?;
    pair.b.recv_cq.flushes(1..10)
}
