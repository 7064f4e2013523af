// SPDX-License-Identifier: GPL-2.0

//! Atomic operations.

use mrx::sys;

use crate::harness::{ensure_eq, memory::ALL, Mr, Pair, Setup, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new(
        "atomics: FETCH_AND_ADD adds and returns the value before",
        fetch_add,
    ),
    Test::new(
        "atomics: COMPARE_AND_SWAP swaps only on a match and returns the value before",
        compare_swap,
    ),
    Test::new("atomics: a misaligned atomic is refused", misaligned),
    Test::new(
        "atomics: an atomic needs the remote atomic right",
        without_right,
    ),
    Test::new(
        "atomics: 400 FETCH_AND_ADDs from two sides lose no step",
        contended,
    ),
];

fn value(region: &Mr) -> u64 {
    u64::from_ne_bytes(region.memory.read(0..8).try_into().unwrap_or_default())
}

fn fetch_add(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let target = pair.filled(&(u64::MAX - 1).to_ne_bytes(), ALL)?;
    let before = pair.region(8, ALL)?;
    pair.a.post(&Work::fetch_add(
        1,
        before.whole(),
        target.at(0),
        target.rkey(),
        5,
    ))?;
    pair.a
        .send_cq
        .wait()?
        .ok(1, sys::IBV_WC_FETCH_ADD)?
        .bytes(8)?;
    ensure_eq!(value(&before), u64::MAX - 1);
    ensure_eq!(value(&target), 3_u64);
    Ok(())
}

fn compare_swap(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let target = pair.filled(&77_u64.to_ne_bytes(), ALL)?;
    let before = pair.region(8, ALL)?;
    let at = (target.at(0), target.rkey());
    pair.a
        .post(&Work::compare_swap(1, before.whole(), at, 76, 1))?;
    pair.a
        .send_cq
        .wait()?
        .ok(1, sys::IBV_WC_COMP_SWAP)?
        .bytes(8)?;
    ensure_eq!(
        (value(&before), value(&target)),
        (77_u64, 77_u64),
        "a mismatch"
    );
    pair.a
        .post(&Work::compare_swap(2, before.whole(), at, 77, 1))?;
    pair.a
        .send_cq
        .wait()?
        .ok(2, sys::IBV_WC_COMP_SWAP)?
        .bytes(8)?;
    ensure_eq!((value(&before), value(&target)), (77_u64, 1_u64), "a match");
    Ok(())
}

fn misaligned(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (target, before) = (pair.region(16, ALL)?, pair.region(8, ALL)?);
    let work = Work::fetch_add(1, before.whole(), target.at(4), target.rkey(), 5);
    match pair.a.post(&work) {
        // The provider library has seen it.
        Err(error) => ensure_eq!(error.raw_os_error(), Some(libc::EINVAL)),
        Ok(()) => {
            pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_INV_REQ_ERR)?;
        }
    }
    ensure_eq!(target.memory.all(), vec![0; 16]);
    Ok(())
}

fn without_right(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let target = pair.region(8, ALL & !sys::IBV_ACCESS_REMOTE_ATOMIC)?;
    let before = pair.region(8, ALL)?;
    pair.a.post(&Work::fetch_add(
        1,
        before.whole(),
        target.at(0),
        target.rkey(),
        5,
    ))?;
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
    ensure_eq!(value(&target), 0_u64);
    Ok(())
}

fn contended(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (target, before) = (pair.region(8, ALL)?, pair.region(8, ALL)?);
    let add = Work::fetch_add(1, before.whole(), target.at(0), target.rkey(), 1);
    for _ in 0..4 {
        for qp in [&pair.a, &pair.b] {
            qp.post_all(&vec![add.clone(); 50])?;
        }
        for qp in [&pair.a, &pair.b] {
            for completion in qp.send_cq.wait_for(50)? {
                completion.ok(1, sys::IBV_WC_FETCH_ADD)?;
            }
        }
    }
    ensure_eq!(value(&target), 400_u64);
    Ok(())
}
