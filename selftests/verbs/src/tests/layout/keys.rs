// SPDX-License-Identifier: GPL-2.0

//! When a region gets new keys.

use mrx::sys;

use super::scene::{fetch, gather, pair, small, Scene, ZERO_BASED};
use crate::harness::{
    check::{fails_with, same_bytes},
    command::method,
    ensure_eq,
    layout::Entry,
    memory::ALL,
    pattern, Memory, Mr, Pair, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("keys: a layout with as many ranges keeps the keys", kept),
    Test::new(
        "keys: a layout with more or fewer ranges brings new keys",
        changed,
    ),
    Test::new("keys: the old remote key fails at once", old_rkey),
    Test::new("keys: the old local key fails at once", old_lkey),
    Test::new(
        "keys: AVOID_INVALIDATION refuses a layout that would bring new keys",
        avoided,
    ),
    Test::new(
        "keys: AVOID_INVALIDATION accepts a layout that keeps the keys",
        not_needed,
    ),
    Test::new(
        "keys: a layout of the other kind brings new keys",
        other_kind,
    ),
    Test::new(
        "keys: a hundred changes never bring back a key that was just given up",
        fresh,
    ),
    Test::new(
        "keys: they stay when there is no room for the answer",
        no_room,
    ),
];

fn scene(setup: &Setup) -> anyhow::Result<(Pair, Scene)> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    Ok((pair, scene))
}

fn keys(region: &Mr) -> (u32, u32) {
    (region.lkey(), region.rkey())
}

fn kept(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    let before = keys(&scene.holder);
    let [first, second] = [scene.regions[1].sge(0..100), scene.regions[0].sge(0..7)];
    scene.holder.set_layout(&[first, second])?;
    ensure_eq!(keys(&scene.holder), before);
    let wanted = [
        scene.regions[1].memory.all(),
        scene.regions[0].memory.read(0..7),
    ]
    .concat();
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 107)?,
        &wanted,
        "the new layout",
    )?;
    same_bytes(
        &gather(&pair, &scene.holder, 0, 107)?,
        &wanted,
        "the new layout",
    )
}

fn changed(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    for count in [3, 1, 2, 500] {
        let (lkey, rkey) = keys(&scene.holder);
        scene.holder.set_layout(&vec![scene.ranges[0]; count])?;
        anyhow::ensure!(scene.holder.lkey() != lkey, "the lkey is the same");
        anyhow::ensure!(scene.holder.rkey() != rkey, "the rkey is the same");
        same_bytes(
            &fetch(&pair, &scene.holder, 0, 60)?,
            &scene.expected(0, 60),
            "the new layout",
        )?;
    }
    Ok(())
}

fn old_rkey(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    let rkey = scene.holder.rkey();
    scene.holder.set_layout(&scene.ranges[..1])?;
    let plain = pair.region(8, ALL)?;
    pair.a.post(&Work::read(1, &[plain.whole()], 0, rkey))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}

fn old_lkey(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    let piece = scene.holder.piece(0, 8);
    scene.holder.set_layout(&scene.ranges[..1])?;
    let plain = pair.region(8, ALL)?;
    pair.a
        .post(&Work::write(1, &[piece], plain.at(0), plain.rkey()))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_LOC_PROT_ERR)?;
    Ok(())
}

fn avoided(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    let before = (keys(&scene.holder), scene.holder.layout()?);
    let flags = sys::IBV_MR_SET_LAYOUT_AVOID_INVALIDATION;
    for ranges in [vec![scene.ranges[0]], vec![scene.ranges[0]; 3]] {
        let Err(refusal) = scene.holder.set_layout_with(flags, &ranges) else {
            anyhow::bail!("the layout was accepted");
        };
        ensure_eq!(refusal.code, sys::IBV_MR_SET_LAYOUT_ERR_WOULD_INVALIDATE);
        ensure_eq!(refusal.errno, libc::ESTALE);
        ensure_eq!((keys(&scene.holder), scene.holder.layout()?), before);
    }
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "the old layout",
    )
}

fn not_needed(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    let before = keys(&scene.holder);
    let swapped = [scene.ranges[1], scene.ranges[0]];
    scene
        .holder
        .set_layout_with(sys::IBV_MR_SET_LAYOUT_AVOID_INVALIDATION, &swapped)?;
    ensure_eq!(keys(&scene.holder), before);
    let wanted = [scene.expected(60, 40), scene.expected(0, 60)].concat();
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &wanted,
        "the new layout",
    )
}

fn other_kind(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene) = scene(setup)?;
    let rkey = scene.holder.rkey();
    let first = Sge {
        length: 2,
        ..scene.regions[0].sge(0..2)
    };
    let entries = [
        Entry::new(first, 1, &[(4, 10)]),
        Entry::new(first, 1, &[(4, 10)]),
    ];
    scene.holder.set_interleaved(0, &entries)?;
    anyhow::ensure!(scene.holder.rkey() != rkey, "the rkey is the same");
    let plain = pair.region(8, ALL)?;
    pair.a.post(&Work::read(1, &[plain.whole()], 0, rkey))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    Ok(())
}

fn fresh(setup: &Setup) -> anyhow::Result<()> {
    let (_pair, scene) = scene(setup)?;
    let mut seen = vec![scene.holder.rkey()];
    for n in 0..100 {
        scene.holder.set_layout(&vec![scene.ranges[0]; 1 + n % 2])?;
        let rkey = scene.holder.rkey();
        anyhow::ensure!(
            !seen.contains(&rkey),
            "rkey {rkey:#x} came back after {n} changes"
        );
        seen.push(rkey);
    }
    Ok(())
}

/// Sets a layout of one range, and has the new keys written to these addresses.
fn set_answered(region: &Mr, range: &Sge, lkey: u64, rkey: u64) -> std::io::Result<()> {
    // SAFETY: the region is live, and so is its context.
    let (descriptor, handle) = unsafe { ((*(*region.raw).context).cmd_fd, (*region.raw).handle) };
    let list = sys::mrx_user_list {
        addr: std::ptr::from_ref(range).expose_provenance() as u64,
        count: 1,
        entry_size: size_of::<Sge>() as u32,
    };
    let at = std::ptr::from_ref(&list).expose_provenance() as u64;
    let number = sys::MRX_METHOD_MR_SET_LAYOUT_SG;
    let attributes = [
        (sys::MRX_ATTR_SET_LAYOUT_HANDLE, 0, handle.into()),
        (sys::MRX_ATTR_SET_LAYOUT_LIST, size_of_val(&list), at),
        (sys::MRX_ATTR_SET_LAYOUT_RESP_LKEY, 4, lkey),
        (sys::MRX_ATTR_SET_LAYOUT_RESP_RKEY, 4, rkey),
    ];
    method(descriptor, sys::UVERBS_OBJECT_MR, number, attributes)
}

fn no_room(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let bytes = pattern(6, 100);
    let (region, mut source) = (pair.filled(&bytes, ALL)?, pair.region(100, ALL)?);
    let (range, room) = (source.whole(), Memory::new(8)?);
    // Address space that nothing may write to.
    let hole = Memory::mapped(4096, libc::PROT_NONE, libc::MAP_PRIVATE)?;
    for (lkey, rkey) in [(&hole, &room), (&room, &hole), (&hole, &hole)] {
        let refused = set_answered(&region, &range, lkey.addr(), rkey.addr());
        fails_with(refused, libc::EFAULT, "without room for a key")?;
        ensure_eq!(region.layout_info()?.kind, sys::MRX_LAYOUT_NONE);
        same_bytes(&fetch(&pair, &region, 0, 100)?, &bytes, "by the old rkey")?;
        same_bytes(&gather(&pair, &region, 0, 100)?, &bytes, "by the old lkey")?;
    }
    source.deregister()?;
    Ok(())
}
