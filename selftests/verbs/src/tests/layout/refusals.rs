// SPDX-License-Identifier: GPL-2.0

//! Layouts that are refused, and what is unchanged then.

use mrx::sys;

use super::scene::{fetch, gather, pair, small, Scene, ZERO_BASED};
use crate::harness::{
    check::same_bytes, ensure_eq, layout::Refusal, memory::ALL, Mr, Pair, Setup, Sge, Test,
};

pub const TESTS: &[Test] = &[
    Test::new("refusals: a layout of no ranges", no_ranges),
    Test::new("refusals: a negative number of ranges", negative),
    Test::new("refusals: a list where no memory is", no_list),
    Test::new("refusals: a range of length zero", zero_length),
    Test::new("refusals: an lkey that nobody has", unknown_key),
    Test::new("refusals: the lkey of a deregistered region", deregistered),
    Test::new("refusals: the lkey of another domain", other_domain),
    Test::new("refusals: a range that ends behind its region", behind),
    Test::new("refusals: a range that starts before its region", before),
    Test::new("refusals: a range that wraps around", wrapping),
    Test::new(
        "refusals: a range behind the end of another layout",
        behind_layout,
    ),
    Test::new(
        "refusals: remote write over a region without it",
        remote_write,
    ),
    Test::new(
        "refusals: remote read over a region without it",
        remote_read,
    ),
    Test::new(
        "refusals: local write over a region without it",
        local_write,
    ),
    Test::new(
        "refusals: a layout may not allow windows where a source does not",
        windows,
    ),
    Test::new(
        "refusals: a layout may not allow flushes where a source does not",
        flushes,
    ),
    Test::new("refusals: a region in its own layout", itself),
    Test::new(
        "refusals: a region in its own layout, around a corner",
        around_a_corner,
    ),
    Test::new("refusals: more ranges than the device can", too_many),
    Test::new(
        "refusals: more ranges than an indirect region was made for",
        more_than_made_for,
    ),
    Test::new("refusals: flags that do not exist", unknown_flags),
    Test::new("refusals: more levels than the device can", too_deep),
    Test::new(
        "refusals: a region that has no layout stays usable as it is",
        plain_stays,
    ),
    Test::new(
        "refusals: a refused layout keeps no hold on its regions",
        no_hold,
    ),
];

/// The attempt is refused with one of these codes, and the scene's layout, keys
/// and bytes are what they were.
fn refused_with(
    codes: &[i32],
    pair: &Pair,
    scene: &Scene,
    attempt: impl FnOnce() -> Result<(), Refusal>,
) -> anyhow::Result<()> {
    let holder = &scene.holder;
    let state = || anyhow::Ok((holder.layout()?, holder.lkey(), holder.rkey()));
    let before = state()?;
    match attempt() {
        Ok(()) => anyhow::bail!("the layout was accepted"),
        Err(refusal) => anyhow::ensure!(codes.contains(&refusal.code), "refused with {refusal}"),
    }
    ensure_eq!(state()?, before, "layout and keys after the refusal");
    let wanted = scene.expected(0, scene.len());
    same_bytes(
        &fetch(pair, holder, 0, scene.len())?,
        &wanted,
        "as remote key, afterwards",
    )?;
    same_bytes(
        &gather(pair, holder, 0, scene.len())?,
        &wanted,
        "as local key, afterwards",
    )
}

const INPUT: &[i32] = &[sys::IBV_MR_SET_LAYOUT_ERR_INPUT];
const LIMIT: &[i32] = &[
    sys::IBV_MR_SET_LAYOUT_ERR_INPUT,
    sys::IBV_MR_SET_LAYOUT_ERR_UNSUPPORTED,
];

/// Each list of ranges that `attempts` makes is an input error.
fn refused(
    setup: &Setup,
    attempts: impl Fn(&Pair, &Scene) -> anyhow::Result<Vec<Vec<Sge>>>,
) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    for (n, ranges) in attempts(&pair, &scene)?.into_iter().enumerate() {
        refused_with(INPUT, &pair, &scene, || scene.holder.set_layout(&ranges))
            .map_err(|error| error.context(format!("list {n}")))?;
    }
    Ok(())
}

/// As [`refused`], with a good range before and behind each bad one, too.
fn refused_range(setup: &Setup, bad: impl Fn(&Scene) -> Vec<Sge>) -> anyhow::Result<()> {
    refused(setup, |_, scene| {
        let good = scene.regions[1].sge(10..20);
        Ok(bad(scene)
            .into_iter()
            .flat_map(|bad| [vec![bad], vec![good, bad], vec![bad, good]])
            .collect())
    })
}

fn no_ranges(setup: &Setup) -> anyhow::Result<()> {
    refused(setup, |_, _| Ok(vec![vec![]]))
}

fn negative(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    for count in [-1, i32::MIN] {
        let attempt = || scene.holder.set_layout_counted(0, count, &scene.ranges);
        refused_with(INPUT, &pair, &scene, attempt)?;
    }
    Ok(())
}

fn no_list(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    // Address space that nothing may read.
    let hole = crate::harness::Memory::mapped(4096, libc::PROT_NONE, libc::MAP_PRIVATE)?;
    let list = std::ptr::with_exposed_provenance_mut(hole.addr() as usize);
    refused_with(INPUT, &pair, &scene, || {
        // SAFETY: the library gives the address on to the kernel.
        match unsafe { mrx::ffi::ibv_mr_set_layout_sg(scene.holder.raw, 0, 2, list) } {
            0 => Ok(()),
            code => Err(Refusal { code, errno: 0 }),
        }
    })
}

fn zero_length(setup: &Setup) -> anyhow::Result<()> {
    refused_range(setup, |scene| vec![scene.regions[0].sge(5..5)])
}

fn unknown_key(setup: &Setup) -> anyhow::Result<()> {
    refused_range(setup, |scene| {
        let range = scene.regions[0].sge(0..10);
        [0, 0xffff_ffff, range.lkey ^ 1]
            .map(|lkey| Sge { lkey, ..range })
            .to_vec()
    })
}

fn deregistered(setup: &Setup) -> anyhow::Result<()> {
    refused(setup, |pair, _| {
        let mut region = pair.region(100, ALL)?;
        let range = region.whole();
        region.deregister()?;
        Ok(vec![vec![range]])
    })
}

fn other_domain(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let region = Mr::new(&pair.context.pd()?, 100, ALL)?;
    refused_with(INPUT, &pair, &scene, || {
        scene.holder.set_layout(&[region.whole()])
    })
}

fn behind(setup: &Setup) -> anyhow::Result<()> {
    refused_range(setup, |scene| {
        let region = &scene.regions[0];
        vec![
            region.piece(0, 101),
            region.piece(99, 2),
            region.piece(100, 1),
            region.piece(5000, 1),
        ]
    })
}

fn before(setup: &Setup) -> anyhow::Result<()> {
    refused_range(setup, |scene| {
        let range = scene.regions[0].sge(0..10);
        vec![
            Sge {
                addr: range.addr - 1,
                ..range
            },
            Sge { addr: 0, ..range },
        ]
    })
}

fn wrapping(setup: &Setup) -> anyhow::Result<()> {
    refused_range(setup, |scene| {
        let range = scene.regions[0].sge(0..10);
        vec![
            Sge {
                addr: u64::MAX,
                length: 1,
                ..range
            },
            Sge {
                addr: u64::MAX - 4,
                ..range
            },
            Sge {
                length: u32::MAX,
                ..range
            },
        ]
    })
}

fn behind_layout(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let lower = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let upper = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    for (at, len) in [(0, 101), (100, 1), (99, 2)] {
        let attempt = || upper.holder.set_layout(&[lower.holder.piece(at, len)]);
        refused_with(INPUT, &pair, &upper, attempt)?;
    }
    Ok(())
}

/// A region that lacks `right` does not fit into a layout that grants all.
fn more_than_granted(setup: &Setup, right: u32) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let region = pair.region(100, ALL & !right)?;
    refused_with(INPUT, &pair, &scene, || {
        scene.holder.set_layout(&[region.whole()])
    })?;
    let both = [scene.ranges[0], region.whole()];
    refused_with(INPUT, &pair, &scene, || scene.holder.set_layout(&both))
}

fn remote_write(setup: &Setup) -> anyhow::Result<()> {
    more_than_granted(setup, sys::IBV_ACCESS_REMOTE_WRITE)
}

fn remote_read(setup: &Setup) -> anyhow::Result<()> {
    more_than_granted(setup, sys::IBV_ACCESS_REMOTE_READ)
}

fn local_write(setup: &Setup) -> anyhow::Result<()> {
    // Without local write there is no remote write and no atomic either.
    more_than_granted(setup, ALL & !sys::IBV_ACCESS_REMOTE_READ)
}

/// A region that grants this takes sources that grant it, and no others.
fn only_over_those_with(setup: &Setup, right: u32) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let bare = pair.region(100, sys::IBV_ACCESS_LOCAL_WRITE)?;
    let granting = pair.region(100, sys::IBV_ACCESS_LOCAL_WRITE | right)?;
    for base in [0, sys::IBV_ACCESS_ZERO_BASED] {
        let access = sys::IBV_ACCESS_LOCAL_WRITE | right | base;
        let holder = Mr::empty(&pair.pd, access)?;
        for ranges in [vec![bare.whole()], vec![granting.whole(), bare.whole()]] {
            let wanted = Refusal {
                code: sys::IBV_MR_SET_LAYOUT_ERR_INPUT,
                errno: libc::EPERM,
            };
            ensure_eq!(holder.set_layout(&ranges).err(), Some(wanted));
            ensure_eq!(holder.layout_info()?.kind, sys::MRX_LAYOUT_NONE);
        }
        holder.set_layout(&[granting.whole()])?;
    }
    Ok(())
}

fn windows(setup: &Setup) -> anyhow::Result<()> {
    only_over_those_with(setup, sys::IBV_ACCESS_MW_BIND)
}

fn flushes(setup: &Setup) -> anyhow::Result<()> {
    only_over_those_with(setup, sys::IBV_ACCESS_FLUSH_GLOBAL)
}

fn itself(setup: &Setup) -> anyhow::Result<()> {
    refused(setup, |_, scene| {
        Ok(vec![
            vec![scene.holder.piece(0, 10)],
            vec![scene.ranges[0], scene.holder.piece(0, 10)],
        ])
    })
}

fn around_a_corner(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let upper = Mr::empty(&pair.pd, ZERO_BASED)?;
    upper.set_layout(&[scene.holder.piece(0, 50)])?;
    refused_with(INPUT, &pair, &scene, || {
        scene.holder.set_layout(&[upper.piece(0, 10)])
    })?;
    drop(upper);
    Ok(())
}

fn too_many(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let most = pair.context.layout_caps()?.max_num_sg as usize;
    for count in [most + 1, 4 * most] {
        let ranges = vec![scene.ranges[0]; count];
        refused_with(LIMIT, &pair, &scene, || scene.holder.set_layout(&ranges))?;
    }
    let attempt = || scene.holder.set_layout_counted(0, i32::MAX, &scene.ranges);
    refused_with(LIMIT, &pair, &scene, attempt)
}

fn more_than_made_for(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::indirect(&pair.pd, 3, ALL)?)?;
    refused_with(LIMIT, &pair, &scene, || {
        scene.holder.set_layout(&[scene.ranges[0]; 4])
    })?;
    scene.holder.set_layout(&[scene.ranges[0]; 3])?;
    Ok(())
}

fn unknown_flags(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    for flags in [1 << 2, 1 << 15, 1 << 31] {
        let attempt = || scene.holder.set_layout_with(flags, &scene.ranges);
        refused_with(LIMIT, &pair, &scene, attempt)?;
    }
    Ok(())
}

fn too_deep(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    // Somewhere there is an end, and it is not before the one that is promised.
    let promised = pair.context.layout_caps()?.max_mr_nesting_level as usize;
    let mut stack = vec![pair.region(100, ALL)?];
    let refusal = loop {
        let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
        let below = stack
            .last()
            .map(|region| region.piece(0, 50))
            .unwrap_or_default();
        match holder.set_layout(&[below]) {
            Ok(()) => stack.push(holder),
            Err(refusal) => break refusal,
        }
        anyhow::ensure!(stack.len() < 1000, "a thousand levels were accepted");
    };
    anyhow::ensure!(LIMIT.contains(&refusal.code), "refused with {refusal}");
    anyhow::ensure!(
        stack.len() > promised,
        "{} levels, not {promised}",
        stack.len() - 1
    );
    while stack.pop().is_some() {}
    Ok(())
}

fn plain_stays(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let bytes = crate::harness::pattern(4, 300);
    let region = pair.filled(&bytes, ALL)?;
    let keys = (region.lkey(), region.rkey());
    let outcome = region.set_layout(&[Sge {
        addr: 0,
        length: 4,
        lkey: 0x7777_7777,
    }]);
    anyhow::ensure!(outcome.is_err(), "the layout was accepted");
    ensure_eq!((region.lkey(), region.rkey()), keys);
    same_bytes(
        &fetch(&pair, &region, 0, 300)?,
        &bytes,
        "the region's own bytes",
    )
}

fn no_hold(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let mut region = pair.region(100, ALL)?;
    for _ in 0..10 {
        let bad = Sge {
            lkey: 0x7777_7777,
            ..region.whole()
        };
        anyhow::ensure!(
            holder.set_layout(&[region.whole(), bad]).is_err(),
            "it was accepted"
        );
    }
    region.deregister()?;
    Ok(())
}
