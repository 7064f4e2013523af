// SPDX-License-Identifier: GPL-2.0

//! Layouts that a work request makes active.

use std::time::Duration;

use mrx::sys;

use super::scene::{fetch, pair, small, Scene, ZERO_BASED};
use crate::harness::{
    check::{fails_with, same_bytes},
    ensure_eq,
    layout::Refusal,
    memory::ALL,
    pattern, Mr, Pair, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "binding: a staged layout is not active before its bind request",
        staged,
    ),
    Test::new(
        "binding: requests before the bind see the old layout, and those behind it the new one",
        in_order,
    ),
    Test::new(
        "binding: a bind request with nothing staged fails at home",
        nothing_staged,
    ),
    Test::new(
        "binding: a bind request with an unknown key fails at home",
        unknown,
    ),
    Test::new(
        "binding: a bind request of another domain fails at home",
        other_domain,
    ),
    Test::new("binding: one staged layout is bound once", once),
    Test::new("binding: the layout that was staged last is bound", last),
    Test::new("binding: a refused staging keeps what stands", refused),
    Test::new("binding: an unsignalled bind request is silent", unsignaled),
    Test::new("binding: a staged pattern is bound, too", pattern_bound),
    Test::new(
        "binding: a fenced bind request waits for the reads before it",
        fenced,
    ),
    Test::new(
        "binding: a bind request on a broken queue pair is flushed, and its layout waits on",
        broken,
    ),
    Test::new(
        "binding: a bind request behind one that fails is flushed, and its layout waits on",
        behind_a_failure,
    ),
    Test::new(
        "binding: a region of a staged layout cannot be deregistered",
        held,
    ),
    Test::new(
        "binding: a region on which a layout waits cannot be part of another",
        waiting_source,
    ),
];

const STAGE: u32 = sys::IBV_MR_SET_LAYOUT_WITH_POST_WR;

/// The small layout, and another one of as many ranges with its bytes.
fn scene(setup: &Setup) -> anyhow::Result<(Pair, Scene, [Sge; 2], Vec<u8>)> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let other = [scene.regions[1].sge(50..100), scene.regions[0].sge(0..50)];
    let bytes = [
        scene.regions[1].memory.read(50..100),
        scene.regions[0].memory.read(0..50),
    ]
    .concat();
    Ok((pair, scene, other, bytes))
}

fn bind(pair: &Pair, region: &Mr) -> anyhow::Result<()> {
    pair.a.post(&Work::bind(5, region.lkey()))?;
    pair.a.send_cq.wait()?.is(5, sys::IBV_WC_SUCCESS)?;
    Ok(())
}

fn staged(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "before",
    )?;
    bind(&pair, &scene.holder)?;
    same_bytes(&fetch(&pair, &scene.holder, 0, 100)?, &bytes, "after")
}

fn in_order(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    let (first, second) = (pair.region(100, ALL)?, pair.region(100, ALL)?);
    let piece = [scene.holder.piece(0, 100)];
    pair.a.post_all(&[
        Work::write(1, &piece, first.at(0), first.rkey()),
        Work::bind(2, scene.holder.lkey()),
        Work::write(3, &piece, second.at(0), second.rkey()),
    ])?;
    for id in 1..=3 {
        pair.a.send_cq.wait()?.is(id, sys::IBV_WC_SUCCESS)?;
    }
    same_bytes(
        &first.memory.all(),
        &scene.expected(0, 100),
        "what went before",
    )?;
    same_bytes(&second.memory.all(), &bytes, "what went behind")
}

/// The request fails at `a`, and the small layout stands.
fn fails(pair: &Pair, scene: &Scene, work: &Work) -> anyhow::Result<()> {
    pair.a.post(work)?;
    let failed = pair.a.send_cq.wait()?;
    let local = [
        sys::IBV_WC_LOC_QP_OP_ERR,
        sys::IBV_WC_LOC_PROT_ERR,
        sys::IBV_WC_MW_BIND_ERR,
    ];
    anyhow::ensure!(local.contains(&failed.status()), "a completion {failed}");
    pair.a.breaks()?;
    let next = Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
    same_bytes(
        &fetch(&next, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "afterwards",
    )
}

fn nothing_staged(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, ..) = scene(setup)?;
    fails(&pair, &scene, &Work::bind(5, scene.holder.lkey()))
}

fn unknown(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, _) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    fails(&pair, &scene, &Work::bind(5, scene.holder.lkey() ^ 0x5500))
}

fn other_domain(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, _) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    let elsewhere = Pair::in_domain(
        &pair.context.pd()?,
        &Default::default(),
        &Default::default(),
    )?;
    elsewhere.a.post(&Work::bind(5, scene.holder.lkey()))?;
    let failed = elsewhere.a.send_cq.wait()?;
    anyhow::ensure!(failed.status() != sys::IBV_WC_SUCCESS, "it was bound");
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "afterwards",
    )
}

fn once(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, _) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    bind(&pair, &scene.holder)?;
    pair.a.post(&Work::bind(6, scene.holder.lkey()))?;
    let failed = pair.a.send_cq.wait()?;
    anyhow::ensure!(
        failed.status() != sys::IBV_WC_SUCCESS,
        "it was bound a second time"
    );
    Ok(())
}

fn last(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene
        .holder
        .set_layout_with(STAGE, &[scene.ranges[1], scene.ranges[1]])?;
    scene.holder.set_layout_with(STAGE, &other)?;
    bind(&pair, &scene.holder)?;
    same_bytes(&fetch(&pair, &scene.holder, 0, 100)?, &bytes, "the layout")
}

fn refused(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, ..) = scene(setup)?;
    let bad = Sge {
        lkey: 0x7777_7777,
        ..scene.ranges[0]
    };
    anyhow::ensure!(
        scene.holder.set_layout_with(STAGE, &[bad]).is_err(),
        "it was accepted"
    );
    same_bytes(
        &fetch(&pair, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "the layout",
    )
}

fn unsignaled(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    pair.a
        .post(&Work::bind(5, scene.holder.lkey()).unsignaled())?;
    pair.a.send_cq.stays_empty(Duration::from_millis(100))?;
    same_bytes(&fetch(&pair, &scene.holder, 0, 100)?, &bytes, "the layout")
}

fn pattern_bound(setup: &Setup) -> anyhow::Result<()> {
    let (pair, mut scene, ..) = scene(setup)?;
    scene.regions.push(pair.filled(&pattern(8, 100), ALL)?);
    let entry = crate::harness::layout::Entry::new(scene.regions[2].sge(0..1), 1, &[(2, 50)]);
    scene.holder.set_interleaved(STAGE, &[entry])?;
    bind(&pair, &scene.holder)?;
    let wanted: Vec<_> = pattern(8, 100).into_iter().step_by(2).collect();
    ensure_eq!(fetch(&pair, &scene.holder, 0, 50)?, wanted);
    Ok(())
}

fn fenced(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    let source = pair.filled(&pattern(9, 100), ALL)?;
    let (first, second) = (pair.region(100, ALL)?, pair.region(100, ALL)?);
    let whole = || [scene.holder.piece(0, 100)];
    pair.a.post_all(&[
        // Into what the old layout is, and out of there again.
        Work::read(1, &whole(), source.at(0), source.rkey()),
        Work::write(2, &whole(), first.at(0), first.rkey()).fenced(),
        Work::bind(3, scene.holder.lkey()).fenced(),
        Work::write(4, &whole(), second.at(0), second.rkey()).fenced(),
    ])?;
    for id in 1..=4 {
        pair.a.send_cq.wait()?.is(id, sys::IBV_WC_SUCCESS)?;
    }
    same_bytes(&first.memory.all(), &pattern(9, 100), "what was read")?;
    // The new layout has bytes of the old one, which have been overwritten.
    let new = [
        scene.regions[1].memory.read(50..100),
        scene.regions[0].memory.read(0..50),
    ]
    .concat();
    anyhow::ensure!(new != bytes, "the read went past the new layout");
    same_bytes(&second.memory.all(), &new, "what went behind")
}

/// The old layout stands; then the one that waits can be bound on another pair.
fn waits_on(pair: &Pair, scene: &Scene, bytes: &[u8]) -> anyhow::Result<()> {
    let next = Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
    same_bytes(
        &fetch(&next, &scene.holder, 0, 100)?,
        &scene.expected(0, 100),
        "the old layout",
    )?;
    bind(&next, &scene.holder)?;
    same_bytes(&fetch(&next, &scene.holder, 0, 100)?, bytes, "the new one")
}

fn broken(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    pair.a.set_state(sys::IBV_QPS_ERR)?;
    pair.a.post(&Work::bind(5, scene.holder.lkey()))?;
    pair.a.send_cq.flushes([5])?;
    waits_on(&pair, &scene, &bytes)
}

fn behind_a_failure(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    scene.holder.set_layout_with(STAGE, &other)?;
    let plain = pair.region(10, ALL)?;
    pair.a.post_all(&[
        Work::write(1, &[plain.whole()], plain.at(0), plain.rkey() ^ 0x5500),
        Work::bind(2, scene.holder.lkey()),
    ])?;
    let failed = pair.a.send_cq.wait()?;
    failed.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    pair.a.send_cq.flushes([2])?;
    waits_on(&pair, &scene, &bytes)
}

fn held(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, ..) = scene(setup)?;
    let mut waiting = pair.filled(&pattern(3, 100), ALL)?;
    let mut other = pair.filled(&pattern(4, 100), ALL)?;
    let busy = |region: &mut Mr, what: &str| fails_with(region.deregister(), libc::EBUSY, what);
    scene.holder.set_layout_with(STAGE, &[waiting.whole()])?;
    busy(&mut waiting, "a region of the staged layout")?;
    // Another staged layout takes its place.
    scene.holder.set_layout_with(STAGE, &[other.whole()])?;
    waiting.deregister()?;
    busy(&mut other, "a region of the layout that was staged last")?;
    let Scene {
        holder,
        mut regions,
        ..
    } = scene;
    busy(&mut regions[0], "a region of the layout that stands")?;
    bind(&pair, &holder)?;
    regions[0].deregister()?;
    busy(&mut other, "a region of the layout that was bound")?;
    same_bytes(&fetch(&pair, &holder, 0, 100)?, &pattern(4, 100), "it")?;
    drop(holder);
    Ok(other.deregister()?)
}

fn waiting_source(setup: &Setup) -> anyhow::Result<()> {
    let (pair, scene, other, bytes) = scene(setup)?;
    let upper = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let state = || anyhow::Ok((upper.holder.layout()?, upper.holder.rkey()));
    let before = state()?;
    scene.holder.set_layout_with(STAGE, &other)?;
    for flags in [0, STAGE] {
        let refused = upper
            .holder
            .set_layout_with(flags, &[scene.holder.piece(0, 100)]);
        let wanted = Refusal {
            code: sys::IBV_MR_SET_LAYOUT_ERR_INPUT,
            errno: libc::EBUSY,
        };
        ensure_eq!(refused.err(), Some(wanted), "a layout with flags {flags}");
        ensure_eq!(state()?, before, "layout and key after the refusal");
    }
    let own = fetch(&pair, &upper.holder, 0, 100)?;
    same_bytes(&own, &upper.expected(0, 100), "its layout")?;
    // What was refused has no hold on the region.
    bind(&pair, &scene.holder)?;
    upper.holder.set_layout(&[scene.holder.piece(0, 100)])?;
    same_bytes(&fetch(&pair, &upper.holder, 0, 100)?, &bytes, "the new one")
}
