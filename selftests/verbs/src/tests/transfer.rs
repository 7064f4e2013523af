// SPDX-License-Identifier: GPL-2.0

//! Bytes arrive as they were sent.

use mrx::sys;

use crate::harness::{
    check::same_bytes, ensure_eq, memory::ALL, pattern, Link, Mr, Pair, QpOptions, Setup, Sge,
    Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("transfer: a SEND delivers its bytes to the posted receive, for sizes from 0 to 1 MiB", send),
    Test::new("transfer: an RDMA WRITE puts its bytes at the remote address, for sizes from 0 to 1 MiB", write),
    Test::new("transfer: an RDMA READ fetches the remote bytes, for sizes from 0 to 1 MiB", read),
    Test::new("transfer: a WRITE_WITH_IMM puts its bytes and consumes a receive, for sizes from 0 to 1 MiB", write_with_imm),
    Test::new("transfer: a SEND_WITH_IMM delivers bytes and immediate, for sizes from 0 to 1 MiB", send_with_imm),
    Test::new("transfer: a SEND gathers from odd pieces and scatters to other odd pieces", send_pieces),
    Test::new("transfer: a WRITE gathers from 16 odd pieces", write_pieces),
    Test::new("transfer: a READ scatters to 16 odd pieces", read_pieces),
    Test::new("transfer: pieces of length zero contribute nothing", empty_pieces),
    Test::new("transfer: inline data is taken when the request is posted", inline),
    Test::new("transfer: an inline SEND needs no lkey", inline_without_key),
    Test::new("transfer: a message at every misalignment of source and target arrives whole", misaligned),
    Test::new("transfer: 1,000 WRITEs of random place and size leave what a plain copy leaves", random_writes),
    Test::new("transfer: a queue pair may be connected to itself", loopback),
    Test::new("transfer: UC carries SEND and WRITE", unreliable),
];

const SIZES: &[usize] = &[0, 1, 7, 64, 4096, 65_537, 1 << 20];

/// What stands around the target, to see that nothing else is written.
const MARGIN: usize = 64;

/// Runs `transfer` for each size with a source that holds a pattern and a
/// target with margins, and compares what the target holds then.
fn each_size(
    setup: &Setup,
    transfer: impl Fn(&Pair, &Mr, &Mr, usize) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    for &len in SIZES {
        let bytes = pattern(len as u64, len + 1);
        let source = pair.filled(&bytes, ALL)?;
        let target = pair.region(len + 2 * MARGIN, ALL)?;
        transfer(&pair, &source, &target, len)
            .map_err(|error| error.context(format!("size {len}")))?;
        let mut wanted = vec![0; len + 2 * MARGIN];
        wanted[MARGIN..MARGIN + len].copy_from_slice(&bytes[..len]);
        same_bytes(
            &target.memory.all(),
            &wanted,
            &format!("the target, size {len}"),
        )?;
        same_bytes(
            &source.memory.all(),
            &bytes,
            &format!("the source, size {len}"),
        )?;
    }
    Ok(())
}

fn inner(target: &Mr, len: usize) -> Sge {
    target.sge(MARGIN..MARGIN + len)
}

fn send(setup: &Setup) -> anyhow::Result<()> {
    each_size(setup, |pair, source, target, len| {
        pair.b.post_recv(2, &[inner(target, len)])?;
        pair.a.post(&Work::send(1, &[source.sge(0..len)]))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
        pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(len)?;
        Ok(())
    })
}

fn write(setup: &Setup) -> anyhow::Result<()> {
    each_size(setup, |pair, source, target, len| {
        pair.a.post(&Work::write(
            1,
            &[source.sge(0..len)],
            target.at(MARGIN),
            target.rkey(),
        ))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
        Ok(())
    })
}

fn read(setup: &Setup) -> anyhow::Result<()> {
    each_size(setup, |pair, source, target, len| {
        pair.a.post(&Work::read(
            1,
            &[inner(target, len)],
            source.at(0),
            source.rkey(),
        ))?;
        pair.a
            .send_cq
            .wait()?
            .ok(1, sys::IBV_WC_RDMA_READ)?
            .bytes(len)?;
        Ok(())
    })
}

fn write_with_imm(setup: &Setup) -> anyhow::Result<()> {
    each_size(setup, |pair, source, target, len| {
        pair.b.post_recv(2, &[])?;
        let (addr, rkey) = (target.at(MARGIN), target.rkey());
        pair.a.post(&Work::write_with_imm(
            1,
            &[source.sge(0..len)],
            addr,
            rkey,
            0xdead_0001,
        ))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
        let received = pair.b.recv_cq.wait()?;
        received.ok(2, sys::IBV_WC_RECV_RDMA_WITH_IMM)?.bytes(len)?;
        ensure_eq!(received.immediate(), 0xdead_0001);
        Ok(())
    })
}

fn send_with_imm(setup: &Setup) -> anyhow::Result<()> {
    each_size(setup, |pair, source, target, len| {
        pair.b.post_recv(2, &[inner(target, len)])?;
        pair.a
            .post(&Work::send_with_imm(1, &[source.sge(0..len)], 0x0102_0304))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
        let received = pair.b.recv_cq.wait()?;
        received.ok(2, sys::IBV_WC_RECV)?.bytes(len)?;
        ensure_eq!(received.immediate(), 0x0102_0304);
        Ok(())
    })
}

/// Splits a region into consecutive pieces of these lengths.
fn pieces(region: &Mr, lengths: &[usize]) -> Vec<Sge> {
    let mut at = 0;
    lengths
        .iter()
        .map(|len| {
            at += len;
            region.sge(at - len..at)
        })
        .collect()
}

/// Sixteen lengths that fit no alignment; together 13,000 bytes.
const ODD: [usize; 16] = [
    1, 3, 4095, 17, 1, 2, 4097, 129, 5, 255, 63, 31, 1023, 3111, 7, 160,
];

/// Two connected queue pairs, bytes for all of the odd lengths, a region with them and one without.
struct OddLengths {
    pair: Pair,
    bytes: Vec<u8>,
    source: Mr,
    target: Mr,
}

impl OddLengths {
    fn new(setup: &Setup, seed: u64) -> anyhow::Result<Self> {
        let pair = Pair::new(setup)?;
        let bytes = pattern(seed, ODD.iter().sum());
        let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(bytes.len(), ALL)?);
        Ok(Self {
            pair,
            bytes,
            source,
            target,
        })
    }

    /// All bytes have come.
    fn check(&self) -> anyhow::Result<()> {
        same_bytes(&self.target.memory.all(), &self.bytes, "the target")
    }
}

fn send_pieces(setup: &Setup) -> anyhow::Result<()> {
    let odd = OddLengths::new(setup, 1)?;
    let OddLengths {
        pair,
        bytes,
        source,
        target,
    } = &odd;
    let mut other = ODD;
    other.reverse();
    pair.b.post_recv(2, &pieces(target, &other))?;
    pair.a.post(&Work::send(1, &pieces(source, &ODD)))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b
        .recv_cq
        .wait()?
        .ok(2, sys::IBV_WC_RECV)?
        .bytes(bytes.len())?;
    odd.check()
}

fn write_pieces(setup: &Setup) -> anyhow::Result<()> {
    let odd = OddLengths::new(setup, 2)?;
    let (a, target) = (&odd.pair.a, &odd.target);
    let local = pieces(&odd.source, &ODD);
    a.post(&Work::write(1, &local, target.at(0), target.rkey()))?;
    a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    odd.check()
}

fn read_pieces(setup: &Setup) -> anyhow::Result<()> {
    let odd = OddLengths::new(setup, 3)?;
    let (a, source) = (&odd.pair.a, &odd.source);
    let local = pieces(&odd.target, &ODD);
    a.post(&Work::read(1, &local, source.at(0), source.rkey()))?;
    let read = a.send_cq.wait()?;
    read.ok(1, sys::IBV_WC_RDMA_READ)?.bytes(odd.bytes.len())?;
    odd.check()
}

fn empty_pieces(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(4, 100);
    let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(100, ALL)?);
    pair.b.post_recv(2, &pieces(&target, &[0, 60, 0, 0, 40]))?;
    pair.a
        .post(&Work::send(1, &pieces(&source, &[30, 0, 70, 0])))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(100)?;
    same_bytes(&target.memory.all(), &bytes, "the target")
}

fn inline(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let source = pair.region(256, 0)?;
    for len in [0, 1, 63, 64, 65, 256] {
        let bytes = pattern(5, len);
        let target = pair.region(256, ALL)?;
        source.memory.write(0, &bytes);
        let piece = source.sge(0..len);
        pair.a
            .post(&Work::write(1, &[piece], target.at(0), target.rkey()).inline())?;
        // The request has left the source behind.
        source.memory.write(0, &[0xee; 256]);
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
        let mut wanted = [0; 256];
        wanted[..len].copy_from_slice(&bytes);
        same_bytes(
            &target.memory.all(),
            &wanted,
            &format!("the target, size {len}"),
        )?;
    }
    Ok(())
}

fn inline_without_key(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let bytes = pattern(6, 90);
    let target = pair.region(90, ALL)?;
    let addr = bytes.as_ptr().expose_provenance() as u64;
    let halves = [
        Sge {
            addr,
            length: 41,
            lkey: 0xffff_ffff,
        },
        Sge {
            addr: addr + 41,
            length: 49,
            lkey: 0,
        },
    ];
    pair.b.post_recv(2, &[target.whole()])?;
    pair.a.post(&Work::send(1, &halves).inline())?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(90)?;
    same_bytes(&target.memory.all(), &bytes, "the target")
}

fn misaligned(setup: &Setup) -> anyhow::Result<()> {
    const LEN: usize = 5000;
    let pair = Pair::new(setup)?;
    let bytes = pattern(7, LEN + 16);
    let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(LEN + 16, ALL)?);
    for (from, to) in [(0, 1), (1, 0), (3, 5), (7, 8), (8, 7), (15, 2), (1, 1)] {
        let piece = source.sge(from..from + LEN);
        pair.a
            .post(&Work::write(1, &[piece], target.at(to), target.rkey()))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
        let found = target.memory.read(to..to + LEN);
        same_bytes(
            &found,
            &bytes[from..from + LEN],
            &format!("from {from} to {to}"),
        )?;
    }
    Ok(())
}

fn random_writes(setup: &Setup) -> anyhow::Result<()> {
    const LEN: usize = 40_000;
    let pair = Pair::new(setup)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let bytes = pattern(setup.seed, LEN);
    let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(LEN, ALL)?);
    let mut wanted = vec![0; LEN];
    for round in 0..20 {
        let works: Vec<_> = (0..50)
            .map(|n| {
                let len = random.usize(0..6000);
                let (from, to) = (random.usize(0..=LEN - len), random.usize(0..=LEN - len));
                wanted[to..to + len].copy_from_slice(&bytes[from..from + len]);
                Work::write(
                    n,
                    &[source.sge(from..from + len)],
                    target.at(to),
                    target.rkey(),
                )
            })
            .collect();
        pair.a.post_all(&works)?;
        for n in 0..50 {
            pair.a.send_cq.wait()?.ok(n, sys::IBV_WC_RDMA_WRITE)?;
        }
        same_bytes(
            &target.memory.all(),
            &wanted,
            &format!("the target after round {round}"),
        )?;
    }
    Ok(())
}

fn loopback(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let own = crate::harness::Qp::new(&pair.pd, &QpOptions::default())?;
    own.connect(&Link::default(), own.address())?;
    let bytes = pattern(8, 3000);
    let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(3000, ALL)?);
    own.post_recv(2, &[target.whole()])?;
    own.post(&Work::send(1, &[source.whole()]))?;
    own.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    own.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(3000)?;
    same_bytes(&target.memory.all(), &bytes, "the target")
}

fn unreliable(setup: &Setup) -> anyhow::Result<()> {
    let options = QpOptions {
        kind: sys::IBV_QPT_UC,
        ..Default::default()
    };
    let pair = Pair::with(setup, &options, &Link::default())?;
    let bytes = pattern(9, 9000);
    let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(9000, ALL)?);
    pair.b.post_recv(2, &[target.sge(0..4000)])?;
    pair.a.post(&Work::send(1, &[source.sge(0..4000)]))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b
        .recv_cq
        .wait()?
        .ok(2, sys::IBV_WC_RECV)?
        .bytes(4000)?;
    pair.b.post_recv(4, &[])?;
    let rest = [source.sge(4000..9000)];
    pair.a.post(&Work::write_with_imm(
        3,
        &rest,
        target.at(4000),
        target.rkey(),
        9,
    ))?;
    pair.a.send_cq.wait()?.ok(3, sys::IBV_WC_RDMA_WRITE)?;
    pair.b
        .recv_cq
        .wait()?
        .ok(4, sys::IBV_WC_RECV_RDMA_WITH_IMM)?
        .bytes(5000)?;
    same_bytes(&target.memory.all(), &bytes, "the target")
}
