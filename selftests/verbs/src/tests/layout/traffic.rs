// SPDX-License-Identifier: GPL-2.0

//! Bytes move through a layout as through a plain gather.

use mrx::sys;

use super::scene::{fetch, gather, pair, put, scatter, Scene, ZERO_BASED};
use crate::harness::{check::same_bytes, memory::ALL, pattern, Mr, Pair, Setup, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new("layouts: 2 ranges, as remote and as local key", two),
    Test::new("layouts: 3 ranges, as remote and as local key", three),
    Test::new(
        "layouts: 1,000 ranges, as remote and as local key",
        thousand,
    )
    .seconds(60),
    Test::new("layouts: 65,536 ranges, as remote and as local key", many).seconds(120),
    Test::new(
        "layouts: ranges of zero-based regions are addressed from zero",
        zero_based_sources,
    ),
    Test::new(
        "layouts: ranges of regions with an iova are addressed by it",
        iova_sources,
    ),
    Test::new(
        "layouts: a layout on both ends of a SEND, a WRITE and a READ",
        both_ends,
    ),
    Test::new(
        "layouts: a request takes pieces of layouts and of plain regions together",
        mixed_pieces,
    ),
    Test::new("layouts: the same bytes may occur twice", twice),
    Test::new(
        "layouts: the last byte is in and the next one is out",
        bounds,
    ),
    Test::new(
        "layouts: an inline SEND does not look at the layout's key",
        inline,
    ),
    Test::new(
        "layouts: layouts over layouts, as deep as the device says",
        nested,
    ),
    Test::new("layouts: atomics work through a layout", atomics),
];

/// A region of every kind of addressing, of these sizes.
fn regions(pair: &Pair, sizes: &[usize]) -> anyhow::Result<Vec<Mr>> {
    let make = |(n, &len): (usize, &usize)| {
        let bytes = pattern(n as u64, len);
        match n % 3 {
            0 => Mr::filled(&pair.pd, &bytes, ALL),
            1 => Mr::filled(&pair.pd, &bytes, ZERO_BASED),
            _ => Mr::with_iova(
                &pair.pd,
                &bytes,
                0x7000_0000_0000 + n as u64 * 0x1_0000_0000,
                ALL,
            ),
        }
    };
    Ok(sizes
        .iter()
        .enumerate()
        .map(make)
        .collect::<std::io::Result<_>>()?)
}

/// Random parts of the layout move in all four ways, `rounds` times.
fn exercise(
    pair: &Pair,
    scene: &mut Scene,
    random: &mut fastrand::Rng,
    rounds: usize,
    longest: usize,
) -> anyhow::Result<()> {
    for round in 0..rounds {
        let len = random.usize(1..=longest.min(scene.len()));
        let at = random.usize(0..=scene.len() - len);
        let bytes = pattern(random.u64(..), len);
        let what = format!("round {round}, {len} bytes at {at}");
        let holder = &scene.holder;
        match round % 4 {
            0 => same_bytes(
                &fetch(pair, holder, at, len)?,
                &scene.expected(at, len),
                &what,
            )?,
            1 => same_bytes(
                &gather(pair, holder, at, len)?,
                &scene.expected(at, len),
                &what,
            )?,
            2 => {
                put(pair, holder, at, &bytes)?;
                scene.wrote(at, &bytes);
            }
            _ => {
                scatter(pair, holder, at, &bytes)?;
                scene.wrote(at, &bytes);
            }
        }
    }
    scene.check()
}

fn over(setup: &Setup, count: usize, sizes: &[usize], longest: usize) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let mut scene = Scene::new(holder, regions(&pair, sizes)?);
    // Of overlapping ranges nobody says which write is the last: these do not
    // overlap, and come in a random order.
    let mut parts: Vec<_> = (0..count)
        .map(|n| {
            (
                n % sizes.len(),
                n / sizes.len() * longest,
                random.usize(1..=longest),
            )
        })
        .collect();
    random.shuffle(&mut parts);
    for (region, at, len) in parts {
        scene.push(region, at, len);
    }
    scene.set()?;
    crate::harness::ensure_eq!(scene.holder.layout_info()?.num_descriptors as usize, count);
    crate::harness::ensure_eq!(scene.holder.layout_info()?.length as usize, scene.len());
    exercise(&pair, &mut scene, &mut random, 40, 100_000)
}

/// A few ranges that do not overlap.
fn few(setup: &Setup, count: usize) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let sizes: Vec<_> = (0..count).map(|n| 5000 + 777 * n).collect();
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let mut scene = Scene::new(holder, regions(&pair, &sizes)?);
    for (region, size) in sizes.iter().enumerate().rev() {
        scene.push(region, 13 + region, size - 100);
    }
    scene.set()?;
    let whole = scene.len();
    same_bytes(
        &fetch(&pair, &scene.holder, 0, whole)?,
        &scene.expected(0, whole),
        "the whole",
    )?;
    same_bytes(
        &gather(&pair, &scene.holder, 0, whole)?,
        &scene.expected(0, whole),
        "the whole",
    )?;
    exercise(&pair, &mut scene, &mut random, 80, whole)
}

fn two(setup: &Setup) -> anyhow::Result<()> {
    few(setup, 2)
}

fn three(setup: &Setup) -> anyhow::Result<()> {
    few(setup, 3)
}

fn thousand(setup: &Setup) -> anyhow::Result<()> {
    over(setup, 1000, &[50_000; 10], 500)
}

fn many(setup: &Setup) -> anyhow::Result<()> {
    over(setup, 65_536, &[65_536 * 16; 2], 32)
}

fn zero_based_sources(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let bytes = pattern(1, 10_000);
    let region = Mr::filled(&pair.pd, &bytes, ZERO_BASED)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let range = |addr, length| crate::harness::Sge {
        addr,
        length,
        lkey: region.lkey(),
    };
    holder.set_layout(&[range(9000, 1000), range(0, 10)])?;
    let wanted = [&bytes[9000..], &bytes[..10]].concat();
    same_bytes(&fetch(&pair, &holder, 0, 1010)?, &wanted, "the layout")
}

fn iova_sources(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let bytes = pattern(1, 10_000);
    let iova = 0x12_3456_7000;
    let region = Mr::with_iova(&pair.pd, &bytes, iova, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let range = |offset, length| crate::harness::Sge {
        addr: iova + offset,
        length,
        lkey: region.lkey(),
    };
    holder.set_layout(&[range(5000, 100), range(1, 10)])?;
    let wanted = [&bytes[5000..5100], &bytes[1..11]].concat();
    same_bytes(&gather(&pair, &holder, 0, 110)?, &wanted, "the layout")
}

fn both_ends(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let make = |piece: usize| {
        let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
        let mut scene = Scene::new(holder, regions(&pair, &[20_000; 4])?);
        for n in (0..20_000 / piece).rev() {
            for region in 0..4 {
                scene.push(region, n * piece, piece);
            }
        }
        scene.set()?;
        anyhow::Ok(scene)
    };
    let (near, mut far) = (make(10)?, make(77)?);
    for round in 0..30 {
        let len = random.usize(1..50_000);
        let (from, to) = (
            random.usize(0..=near.len() - len),
            random.usize(0..=far.len() - len),
        );
        let (here, there) = (near.holder.piece(from, len), far.holder.piece(to, len));
        match round % 3 {
            0 => {
                pair.b.post_recv(2, &[there])?;
                pair.a.post(&Work::send(1, &[here]))?;
                pair.b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(len)?;
            }
            1 => pair
                .a
                .post(&Work::write(1, &[here], there.addr, far.holder.rkey()))?,
            // The other way round: the target reads.
            _ => pair
                .a
                .post(&Work::read(1, &[there], here.addr, near.holder.rkey()))?,
        }
        pair.a.send_cq.wait()?.is(1, sys::IBV_WC_SUCCESS)?;
        far.wrote(to, &near.expected(from, len));
        far.check()?;
    }
    near.check()
}

fn mixed_pieces(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = super::scene::small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let plain = pair.filled(&pattern(5, 100), ALL)?;
    let target = pair.region(75, ALL)?;
    let pieces = [
        plain.sge(0..20),
        scene.holder.piece(50, 30),
        plain.sge(20..30),
        scene.holder.piece(0, 15),
    ];
    pair.a
        .post(&Work::write(1, &pieces, target.at(0), target.rkey()))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    let bytes = pattern(5, 100);
    let wanted = [
        &bytes[..20],
        &scene.expected(50, 30),
        &bytes[20..30],
        &scene.expected(0, 15),
    ]
    .concat();
    same_bytes(&target.memory.all(), &wanted, "the target")
}

fn twice(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let bytes = pattern(1, 100);
    let region = pair.filled(&bytes, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    holder.set_layout(&[region.sge(0..50), region.sge(0..50), region.sge(25..75)])?;
    let wanted = [&bytes[..50], &bytes[..50], &bytes[25..75]].concat();
    same_bytes(&fetch(&pair, &holder, 0, 150)?, &wanted, "as remote key")?;
    same_bytes(&gather(&pair, &holder, 0, 150)?, &wanted, "as local key")?;
    put(&pair, &holder, 60, b"once")?;
    same_bytes(&fetch(&pair, &holder, 10, 4)?, b"once", "the other place")
}

fn bounds(setup: &Setup) -> anyhow::Result<()> {
    for (at, len, inside) in [
        (99, 1, true),
        (0, 100, true),
        (100, 1, false),
        (99, 2, false),
        (0, 101, false),
    ] {
        let pair = pair(setup)?;
        let scene = super::scene::small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
        let plain = pair.region(len, ALL)?;
        let (addr, rkey) = (scene.holder.at(at), scene.holder.rkey());
        pair.a.post(&Work::read(1, &[plain.whole()], addr, rkey))?;
        let remote = if inside {
            sys::IBV_WC_SUCCESS
        } else {
            sys::IBV_WC_REM_ACCESS_ERR
        };
        pair.a.send_cq.wait()?.is(1, remote)?;

        let local = if inside {
            sys::IBV_WC_SUCCESS
        } else {
            sys::IBV_WC_LOC_PROT_ERR
        };
        let other = Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
        let piece = [scene.holder.piece(at, len)];
        other
            .a
            .post(&Work::write(2, &piece, plain.at(0), plain.rkey()))?;
        other.a.send_cq.wait()?.is(2, local)?;
    }
    Ok(())
}

fn inline(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let plain = pair.filled(b"taken from here", ALL)?;
    let target = pair.region(15, ALL)?;
    // The provider copies from the address, which is no address of the layout.
    let piece = crate::harness::Sge {
        lkey: holder.lkey(),
        ..plain.whole()
    };
    pair.a
        .post(&Work::write(1, &[piece], target.at(0), target.rkey()).inline())?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    same_bytes(&target.memory.all(), b"taken from here", "the target")
}

fn nested(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let levels = pair.context.layout_caps()?.max_mr_nesting_level as usize;
    let bytes = pattern(1, 1000);
    let ground = pair.filled(&bytes, ALL)?;
    let mut wanted = bytes.clone();
    let mut stack = vec![ground];
    for level in 1..=levels {
        let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
        let below = &stack[level - 1];
        // The second half first.
        holder.set_layout(&[
            below.piece(500, 500),
            below.piece(100, 400),
            below.piece(0, 100),
        ])?;
        wanted = [&wanted[500..], &wanted[100..500], &wanted[..100]].concat();
        crate::harness::ensure_eq!(holder.layout_info()?.nesting_level as usize, level);
        same_bytes(
            &fetch(&pair, &holder, 0, 1000)?,
            &wanted,
            &format!("level {level}"),
        )?;
        same_bytes(
            &gather(&pair, &holder, 3, 777)?,
            &wanted[3..780],
            &format!("level {level}"),
        )?;
        stack.push(holder);
    }
    let change = pattern(9, 300);
    let top = &stack[levels];
    put(&pair, top, 450, &change)?;
    wanted[450..750].copy_from_slice(&change);
    same_bytes(&fetch(&pair, top, 0, 1000)?, &wanted, "after a WRITE")?;
    // Deregistration runs from the top.
    while stack.pop().is_some() {}
    Ok(())
}

fn atomics(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let region = pair.region(64, ALL)?;
    let before = pair.region(8, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    holder.set_layout(&[region.sge(32..64), region.sge(0..8)])?;
    pair.a.post(&Work::fetch_add(
        1,
        before.whole(),
        holder.at(32),
        holder.rkey(),
        7,
    ))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_FETCH_ADD)?;
    same_bytes(&region.memory.read(0..8), &7_u64.to_ne_bytes(), "the word")
}
