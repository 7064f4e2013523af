// SPDX-License-Identifier: GPL-2.0

//! Batches: where they begin, and how they end.

use mrx::{sys, ExtendedCq};

use super::{batch_of, stays_empty, wait, Scene, STANDARD};
use crate::harness::{ensure_eq, Cq, Setup, Test};

pub const TESTS: &[Test] = &[
    Test::new(
        "extended CQ: an empty queue has no batch, and the same as ENOENT",
        empty,
    ),
    Test::new(
        "extended CQ: a batch ends with ENOENT and another one begins",
        end_of_batch,
    ),
    Test::new(
        "extended CQ: a batch goes through completions in order",
        in_order,
    ),
    Test::new(
        "extended CQ: a batch that ends early leaves the rest",
        early_end,
    ),
    Test::new(
        "extended CQ: a batch that nobody reads takes nothing",
        unread,
    ),
    Test::new(
        "extended CQ: a batch that is forgotten ends with the next",
        forgotten,
    ),
    Test::new(
        "extended CQ: a batch that is forgotten ends in its own thread only",
        forgotten_elsewhere,
    ),
    Test::new("extended CQ: a panic within a batch ends it", panicking),
    Test::new(
        "extended CQ: batches and ibv_poll_cq take turns",
        take_turns,
    ),
];

/// The calls of libibverbs, without the guard.
mod raw {
    use super::*;

    fn queue(cq: &Cq) -> *mut sys::ibv_cq_ex {
        cq.raw.cast()
    }

    pub fn start(cq: &Cq) -> i32 {
        let mut attr = sys::ibv_poll_cq_attr::default();
        // SAFETY: the queue is live and was made by ibv_create_cq_ex.
        unsafe { (*queue(cq)).start_poll.expect("it is there")(queue(cq), &mut attr) }
    }

    pub fn next(cq: &Cq) -> i32 {
        // SAFETY: as above.
        unsafe { (*queue(cq)).next_poll.expect("it is there")(queue(cq)) }
    }

    pub fn end(cq: &Cq) {
        // SAFETY: as above.
        unsafe { (*queue(cq)).end_poll.expect("it is there")(queue(cq)) }
    }

    pub fn id(cq: &Cq) -> u64 {
        // SAFETY: as above.
        unsafe { (*queue(cq)).wr_id }
    }
}

fn empty(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let cq = &scene.a.send_cq;
    anyhow::ensure!(
        cq.batches().batch()?.next_poll()?.is_none(),
        "an empty queue has a completion"
    );
    // A failed start needs no end, so that another one works.
    for _ in 0..3 {
        ensure_eq!(raw::start(cq), libc::ENOENT);
    }
    Ok(())
}

fn end_of_batch(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let cq = &scene.a.send_cq;
    for round in [0, 10, 20] {
        scene.writes(round..round + 3)?;
        ensure_eq!(raw::start(cq), 0);
        ensure_eq!(raw::id(cq), round);
        for id in [round + 1, round + 2] {
            ensure_eq!(raw::next(cq), 0);
            ensure_eq!(raw::id(cq), id);
        }
        ensure_eq!(raw::next(cq), libc::ENOENT);
        raw::end(cq);
    }
    scene.writes(30..32)?;
    ensure_eq!(raw::start(cq), 0);
    raw::end(cq);
    ensure_eq!(raw::start(cq), 0);
    ensure_eq!(raw::id(cq), 31);
    raw::end(cq);
    ensure_eq!(raw::start(cq), libc::ENOENT);
    Ok(())
}

fn in_order(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    for round in 0..5 {
        let ids = round * 100..(round + 1) * 100;
        scene.writes(ids.clone())?;
        ensure_eq!(batch_of(&mut cq, usize::MAX)?, ids.collect::<Vec<_>>());
    }
    ensure_eq!(batch_of(&mut cq, 1)?, []);
    Ok(())
}

fn early_end(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    scene.writes(0..10)?;
    ensure_eq!(batch_of(&mut cq, 3)?, [0, 1, 2]);
    ensure_eq!(batch_of(&mut cq, 1)?, [3]);
    scene.writes(10..12)?;
    ensure_eq!(batch_of(&mut cq, 100)?, (4..12).collect::<Vec<_>>());
    Ok(())
}

fn unread(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    scene.writes(0..3)?;
    for _ in 0..3 {
        drop(cq.batch()?);
    }
    ensure_eq!(batch_of(&mut cq, 100)?, [0, 1, 2]);
    Ok(())
}

/// Begins a batch, takes a completion and never ends it.
fn forget_one(cq: &mut ExtendedCq<'_>) -> anyhow::Result<Option<u64>> {
    let mut batch = cq.batch()?;
    let id = batch.next_poll()?.map(|it| it.wr_id());
    std::mem::forget(batch);
    Ok(id)
}

fn forgotten(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    scene.writes(0..3)?;
    ensure_eq!(forget_one(&mut cq)?, Some(0));
    ensure_eq!(batch_of(&mut cq, 100)?, [1, 2]);
    Ok(())
}

fn forgotten_elsewhere(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    scene.writes(0..3)?;
    ensure_eq!(forget_one(&mut cq)?, Some(0));
    let refused = std::thread::scope(|scope| {
        let other = scope.spawn(|| cq.batch().map(drop));
        other.join().expect("it does not panic")
    });
    ensure_eq!(
        refused.err().and_then(|it| it.raw_os_error()),
        Some(libc::EDEADLK)
    );
    ensure_eq!(batch_of(&mut cq, 100)?, [1, 2]);
    Ok(())
}

fn panicking(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    scene.writes(0..3)?;
    let mut cq = scene.a.send_cq.batches();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut batch = cq.batch().expect("no batch was forgotten");
        let _first = batch.next_poll();
        std::panic::resume_unwind(Box::new(()));
    }));
    anyhow::ensure!(outcome.is_err(), "it did not panic");
    ensure_eq!(batch_of(&mut cq, 100)?, [1, 2]);
    Ok(())
}

fn take_turns(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let cq = &scene.a.send_cq;
    scene.writes(0..6)?;
    for id in [0, 2, 4] {
        ensure_eq!(wait(cq)?.id, id);
        let other = cq.wait()?;
        other.ok(id + 1, sys::IBV_WC_RDMA_WRITE)?;
        ensure_eq!(other.0.qp_num, scene.a.number());
        ensure_eq!(other.0.pkey_index, 0);
    }
    stays_empty(cq)
}
