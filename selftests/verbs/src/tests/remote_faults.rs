// SPDX-License-Identifier: GPL-2.0

//! Remote memory that a peer may not touch (IBTA 9.7.4.1, 10.6.3).

use mrx::sys;

use crate::harness::{check::same_bytes, memory::ALL, pattern, Link, Mr, Pair, Setup, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new("remote faults: an unknown rkey is refused", unknown),
    Test::new(
        "remote faults: the rkey of a deregistered region is refused",
        deregistered,
    ),
    Test::new(
        "remote faults: an rkey that the last request used is refused once its region is gone",
        gone_after_use,
    ),
    Test::new(
        "remote faults: an rkey that differs in its variant from the last one is refused",
        variant_of_the_last,
    ),
    Test::new(
        "remote faults: an rkey of another domain is refused",
        other_domain,
    ),
    Test::new(
        "remote faults: an address before the region is refused",
        before,
    ),
    Test::new(
        "remote faults: a range that ends one byte behind the region is refused",
        behind,
    ),
    Test::new(
        "remote faults: a range that wraps around the address space is refused",
        wrapping,
    ),
    Test::new(
        "remote faults: a WRITE needs remote write, and a READ remote read",
        rights,
    ),
    Test::new(
        "remote faults: local write alone opens nothing to the peer",
        local_only,
    ),
    Test::new(
        "remote faults: a refused large WRITE changes no byte of the target",
        large,
    ),
    Test::new(
        "remote faults: a queue pair that forbids WRITE refuses it as an invalid request",
        queue_pair_forbids_write,
    ),
    Test::new(
        "remote faults: a queue pair that forbids READ refuses it as an invalid request",
        queue_pair_forbids_read,
    ),
    Test::new(
        "remote faults: a zero-length WRITE or READ needs no valid rkey",
        zero_length,
    ),
    Test::new(
        "remote faults: a refused request flushes those behind it, in order",
        flush_behind,
    ),
    Test::new(
        "remote faults: a refusing queue pair flushes its receives",
        receives,
    ),
    Test::new(
        "remote faults: a refused WRITE_WITH_IMM writes nothing",
        with_immediate,
    ),
    Test::new("remote faults: other queue pairs go on", others_live),
];

/// What a requester aims at.
struct Aim {
    addr: u64,
    rkey: u32,
    len: usize,
}

impl Aim {
    /// The first 8 bytes of a region.
    fn start_of(far: &Mr) -> Self {
        Self {
            addr: far.at(0),
            rkey: far.rkey(),
            len: 8,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Write,
    Read,
}

const BOTH: [Kind; 2] = [Kind::Write, Kind::Read];
const LEN: usize = 1000;

/// A request of this kind is refused with a remote access error, breaks both
/// queue pairs, and moves no byte.
fn refused(setup: &Setup, kind: Kind, access: u32, aim: impl Fn(&Mr) -> Aim) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let far = pair.filled(&pattern(1, LEN), access)?;
    let aim = aim(&far);
    refused_at(&pair, kind, &aim)?;
    same_bytes(&far.memory.all(), &pattern(1, LEN), "the far region")
}

fn refused_at(pair: &Pair, kind: Kind, aim: &Aim) -> anyhow::Result<()> {
    let near = pair.filled(&pattern(2, aim.len), ALL)?;
    let work = match kind {
        Kind::Write => Work::write(1, &[near.whole()], aim.addr, aim.rkey),
        Kind::Read => Work::read(1, &[near.whole()], aim.addr, aim.rkey),
    };
    pair.a.post(&work)?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    pair.a.breaks()?;
    pair.b.breaks()?;
    same_bytes(&near.memory.all(), &pattern(2, aim.len), "the near region")
}

fn unknown(setup: &Setup) -> anyhow::Result<()> {
    for kind in BOTH {
        for key in [0, 0xffff_ffff, 0x1234_5678] {
            refused(setup, kind, ALL, |far| Aim {
                addr: far.at(0),
                rkey: key,
                len: 8,
            })?;
        }
        // The right index with the wrong variant part.
        refused(setup, kind, ALL, |far| Aim {
            addr: far.at(0),
            rkey: far.rkey() ^ 1,
            len: 8,
        })?;
    }
    Ok(())
}

fn deregistered(setup: &Setup) -> anyhow::Result<()> {
    for kind in BOTH {
        let pair = Pair::new(setup)?;
        let mut far = pair.region(LEN, ALL)?;
        let aim = Aim::start_of(&far);
        far.deregister()?;
        refused_at(&pair, kind, &aim)?;
    }
    Ok(())
}

/// A WRITE of 8 bytes to the start of `far` succeeds.
fn reached(pair: &Pair, far: &Mr) -> anyhow::Result<()> {
    let near = pair.region(8, ALL)?;
    pair.a
        .post(&Work::write(0, &[near.whole()], far.at(0), far.rkey()))?;
    pair.a.send_cq.wait()?.ok(0, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}

fn gone_after_use(setup: &Setup) -> anyhow::Result<()> {
    for kind in BOTH {
        let pair = Pair::new(setup)?;
        let mut far = pair.region(LEN, ALL)?;
        reached(&pair, &far)?;
        let aim = Aim::start_of(&far);
        far.deregister()?;
        refused_at(&pair, kind, &aim)?;
    }
    Ok(())
}

fn variant_of_the_last(setup: &Setup) -> anyhow::Result<()> {
    for kind in BOTH {
        let pair = Pair::new(setup)?;
        let far = pair.region(LEN, ALL)?;
        reached(&pair, &far)?;
        let aim = Aim {
            addr: far.at(0),
            rkey: far.rkey() ^ 1,
            len: 8,
        };
        refused_at(&pair, kind, &aim)?;
    }
    Ok(())
}

fn other_domain(setup: &Setup) -> anyhow::Result<()> {
    for kind in BOTH {
        let pair = Pair::new(setup)?;
        let far = Mr::new(&pair.context.pd()?, LEN, ALL)?;
        refused_at(&pair, kind, &Aim::start_of(&far))?;
    }
    Ok(())
}

/// A place in the other side's memory, given its region, and a number of bytes.
type Place = (fn(&Mr) -> u64, usize);

/// Neither a WRITE nor a READ reaches any of these places.
fn unreachable(setup: &Setup, places: &[Place]) -> anyhow::Result<()> {
    for kind in BOTH {
        for &(addr, len) in places {
            refused(setup, kind, ALL, |far| Aim {
                addr: addr(far),
                rkey: far.rkey(),
                len,
            })?;
        }
    }
    Ok(())
}

fn before(setup: &Setup) -> anyhow::Result<()> {
    unreachable(setup, &[(|far| far.at(0) - 1, 8), (|_| 0, 8)])
}

fn behind(setup: &Setup) -> anyhow::Result<()> {
    let places: [Place; 3] = [
        (|far| far.at(LEN - 7), 8),
        (|far| far.at(0), LEN + 1),
        (|far| far.at(LEN), 1),
    ];
    unreachable(setup, &places)
}

fn wrapping(setup: &Setup) -> anyhow::Result<()> {
    unreachable(setup, &[(|_| u64::MAX - 3, 8), (|_| u64::MAX, 2)])
}

fn rights(setup: &Setup) -> anyhow::Result<()> {
    let whole = |far: &Mr| Aim {
        addr: far.at(0),
        rkey: far.rkey(),
        len: LEN,
    };
    refused(
        setup,
        Kind::Write,
        ALL & !sys::IBV_ACCESS_REMOTE_WRITE,
        whole,
    )?;
    refused(setup, Kind::Read, ALL & !sys::IBV_ACCESS_REMOTE_READ, whole)
}

fn local_only(setup: &Setup) -> anyhow::Result<()> {
    for kind in BOTH {
        for access in [0, sys::IBV_ACCESS_LOCAL_WRITE] {
            // A region with no remote right may have no rkey: the lkey then.
            refused(setup, kind, access, |far| {
                let rkey = if far.rkey() == 0 {
                    far.lkey()
                } else {
                    far.rkey()
                };
                Aim {
                    addr: far.at(0),
                    rkey,
                    len: 8,
                }
            })?;
        }
    }
    Ok(())
}

fn large(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let far = pair.filled(&pattern(1, 100_000), ALL)?;
    let aim = Aim {
        addr: far.at(1),
        rkey: far.rkey(),
        len: 100_000,
    };
    refused_at(&pair, Kind::Write, &aim)?;
    same_bytes(&far.memory.all(), &pattern(1, 100_000), "the far region")
}

fn queue_pair_forbids(setup: &Setup, right: u32, work: impl Fn(&Mr) -> Work) -> anyhow::Result<()> {
    let pair = Pair::linked(
        setup,
        &Link {
            access: ALL & !right,
            ..Default::default()
        },
    )?;
    let region = pair.filled(&pattern(1, LEN), ALL)?;
    pair.a.post(&work(&region))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_INV_REQ_ERR)?;
    pair.a.breaks()?;
    pair.b.breaks()?;
    same_bytes(&region.memory.all(), &pattern(1, LEN), "the region")
}

fn queue_pair_forbids_write(setup: &Setup) -> anyhow::Result<()> {
    queue_pair_forbids(setup, sys::IBV_ACCESS_REMOTE_WRITE, |region| {
        Work::write(1, &[region.sge(0..10)], region.at(10), region.rkey())
    })
}

fn queue_pair_forbids_read(setup: &Setup) -> anyhow::Result<()> {
    queue_pair_forbids(setup, sys::IBV_ACCESS_REMOTE_READ, |region| {
        Work::read(1, &[region.sge(0..10)], region.at(10), region.rkey())
    })
}

fn zero_length(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    pair.a.post(&Work::write(1, &[], 0xdead, 0xdead_beef))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    pair.a.post(&Work::read(2, &[], 0xdead, 0xdead_beef))?;
    pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_RDMA_READ)?;
    Ok(())
}

fn flush_behind(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.filled(&pattern(1, LEN), ALL)?;
    let piece = [region.sge(0..8)];
    let write = |id, rkey| Work::write(id, &piece, region.at(16), rkey);
    let mut list = vec![write(0, region.rkey()), write(1, region.rkey() ^ 0xffff)];
    list.extend((2..10).map(|id| Work::write(id, &piece, region.at(500), region.rkey())));
    pair.a.post_all(&list)?;
    pair.a.send_cq.wait()?.ok(0, sys::IBV_WC_RDMA_WRITE)?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    pair.a.send_cq.flushes(2..10)?;
    same_bytes(
        &region.memory.read(500..LEN),
        &pattern(1, LEN)[500..],
        "the target of the flushed",
    )
}

fn receives(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(LEN, ALL)?;
    for id in 10..15 {
        pair.b.post_recv(id, &[region.whole()])?;
    }
    refused_at(
        &pair,
        Kind::Write,
        &Aim {
            addr: 0,
            rkey: region.rkey(),
            len: 8,
        },
    )?;
    pair.b.recv_cq.flushes(10..15)
}

fn with_immediate(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let near = pair.region(8, ALL)?;
    let far = pair.filled(&pattern(1, LEN), ALL & !sys::IBV_ACCESS_REMOTE_WRITE)?;
    pair.b.post_recv(2, &[])?;
    pair.a.post(&Work::write_with_imm(
        1,
        &[near.whole()],
        far.at(0),
        far.rkey(),
        1,
    ))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    let received = pair.b.recv_cq.wait()?;
    anyhow::ensure!(
        received.status() != sys::IBV_WC_SUCCESS,
        "the receive succeeded"
    );
    same_bytes(&far.memory.all(), &pattern(1, LEN), "the far region")
}

fn others_live(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let other = Pair::in_domain(&pair.pd, &Default::default(), &Link::default())?;
    let region = pair.region(LEN, ALL)?;
    refused_at(
        &pair,
        Kind::Write,
        &Aim {
            addr: 0,
            rkey: region.rkey(),
            len: 8,
        },
    )?;
    other.a.post(&Work::write(
        3,
        &[region.sge(0..8)],
        region.at(8),
        region.rkey(),
    ))?;
    other.a.send_cq.wait()?.ok(3, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}
