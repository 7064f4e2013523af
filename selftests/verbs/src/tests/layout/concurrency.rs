// SPDX-License-Identifier: GPL-2.0

//! Layouts that are set while requests go through the region.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use mrx::{
    ffi,
    sys::{self, ibv_mr},
};

use super::scene::{fetch, pair, ZERO_BASED};
use crate::harness::{check::same_bytes, memory::ALL, Mr, Pair, Setup, Sge, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new(
        "concurrency: a READ gives the old layout or the new one, never a mix",
        read_whole,
    )
    .seconds(60),
    Test::new(
        "concurrency: a WRITE goes to the old layout or to the new one, never to both",
        write_whole,
    )
    .seconds(60),
    Test::new(
        "concurrency: a key that is given up gives the old layout or an access error",
        key_given_up,
    )
    .seconds(60),
];

/// Bytes of each layout: several mebibytes of copying would go on for a while.
const LEN: usize = 256 << 10;
const PIECE: usize = LEN / 64;

/// As many requests as must have seen each layout.
const SEEN: usize = 10;

/// A region for a thread that sets layouts on it, while its owner uses its keys
/// only as copies.
struct Setter(*mut ibv_mr);

// SAFETY: the owner of the region waits for the thread before it uses the
// region in any other way.
unsafe impl Send for Setter {}

impl Setter {
    fn set(&self, ranges: &[Sge]) -> anyhow::Result<()> {
        let list = ranges.as_ptr().cast_mut();
        // SAFETY: the region is live, and the call only reads the list.
        match unsafe { ffi::ibv_mr_set_layout_sg(self.0, 0, ranges.len() as i32, list) } {
            0 => Ok(()),
            code => anyhow::bail!("a layout was refused with code {code}"),
        }
    }
}

/// All of a region, in pieces from its end to its start.
fn backwards(region: &Mr) -> Vec<Sge> {
    (0..LEN / PIECE)
        .rev()
        .map(|n| region.sge(n * PIECE..(n + 1) * PIECE))
        .collect()
}

/// Runs `work` while another thread sets the two layouts on `holder` in turn.
fn while_set(
    holder: &Mr,
    layouts: [Vec<Sge>; 2],
    work: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let done = AtomicBool::new(false);
    let setter = Setter(holder.raw);
    std::thread::scope(|scope| {
        let done = &done;
        let thread = scope.spawn(move || {
            let setter = setter;
            while !done.load(Ordering::Relaxed) {
                for layout in &layouts {
                    setter.set(layout)?;
                    std::thread::yield_now();
                }
            }
            anyhow::Ok(())
        });
        let outcome = work();
        done.store(true, Ordering::Relaxed);
        let set = thread.join();
        outcome?;
        set.map_err(|_| anyhow::anyhow!("the other thread panicked"))?
    })
}

/// Calls `once`, which says which of the layouts a request has seen, until each
/// was seen often.
fn until_both_seen(mut once: impl FnMut(u8) -> anyhow::Result<usize>) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(40);
    let mut seen = [0; 2];
    let mut rounds = (0..=u8::MAX).cycle();
    while seen.iter().any(|&count| count < SEEN) {
        anyhow::ensure!(Instant::now() < end, "the layouts were seen {seen:?} times");
        let round = rounds.next().unwrap_or_default();
        seen[once(round)?] += 1;
    }
    Ok(())
}

fn read_whole(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let sources = [
        pair.filled(&[0xaa; LEN], ALL)?,
        pair.filled(&[0x55; LEN], ALL)?,
    ];
    let layouts = [backwards(&sources[0]), backwards(&sources[1])];
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    holder.set_layout(&layouts[0])?;
    let rkey = holder.rkey();
    let target = pair.region(LEN, ALL)?;
    while_set(&holder, layouts, || {
        until_both_seen(|_| {
            pair.a.post(&Work::read(1, &[target.whole()], 0, rkey))?;
            pair.a.send_cq.wait()?.is(1, sys::IBV_WC_SUCCESS)?;
            let found = target.memory.all();
            same_bytes(&found, &vec![found[0]; LEN], "one layout")?;
            Ok(usize::from(found[0] == 0x55))
        })
    })?;
    same_key(&holder, rkey)
}

fn same_key(holder: &Mr, rkey: u32) -> anyhow::Result<()> {
    anyhow::ensure!(holder.rkey() == rkey, "the key has changed");
    Ok(())
}

fn write_whole(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let targets = [pair.region(LEN, ALL)?, pair.region(LEN, ALL)?];
    let layouts = [backwards(&targets[0]), backwards(&targets[1])];
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    holder.set_layout(&layouts[0])?;
    let rkey = holder.rkey();
    let source = pair.region(LEN, ALL)?;
    let mut last = [0u8; 2];
    while_set(&holder, layouts, || {
        until_both_seen(|round| {
            // Neither of what the targets hold.
            let fill = (1..=3).map(|n| round.wrapping_add(n));
            let fill = fill.into_iter().find(|n| !last.contains(n)).unwrap_or(0);
            source.memory.write(0, &vec![fill; LEN]);
            pair.a.post(&Work::write(1, &[source.whole()], 0, rkey))?;
            pair.a.send_cq.wait()?.is(1, sys::IBV_WC_SUCCESS)?;
            let hit = usize::from(targets[1].memory.read(0..1)[0] == fill);
            last[hit] = fill;
            for (target, last) in targets.iter().zip(last) {
                same_bytes(&target.memory.all(), &vec![last; LEN], "a target")?;
            }
            Ok(hit)
        })
    })?;
    same_key(&holder, rkey)
}

fn key_given_up(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let (old, new) = (
        pair.filled(&[0xaa; LEN], ALL)?,
        pair.filled(&[0x55; LEN], ALL)?,
    );
    let (old_layout, new_layout) = (backwards(&old), vec![new.whole()]);
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let target = pair.region(LEN, ALL)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    for _ in 0..20 {
        let pair = Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
        holder.set_layout(&old_layout)?;
        let rkey = holder.rkey();
        let setter = Setter(holder.raw);
        let wait = Duration::from_micros(random.u64(0..3000));
        let new_layout = &new_layout;
        std::thread::scope(|scope| {
            let thread = scope.spawn(move || {
                let setter = setter;
                std::thread::sleep(wait);
                setter.set(new_layout)
            });
            let outcome = read_until_refused(&pair, &target, rkey);
            let set = thread.join();
            outcome?;
            set.map_err(|_| anyhow::anyhow!("the other thread panicked"))?
        })?;
        let next = Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
        same_bytes(&fetch(&next, &holder, 0, LEN)?, &[0x55; LEN], "the new key")?;
    }
    Ok(())
}

/// READs by a key that somebody gives up meanwhile: each gives the old bytes, but
/// for the last one, which is refused.
fn read_until_refused(pair: &Pair, target: &Mr, rkey: u32) -> anyhow::Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        target.memory.write(0, &[0; LEN]);
        pair.a.post(&Work::read(1, &[target.whole()], 0, rkey))?;
        let read = pair.a.send_cq.wait()?;
        if read.status() != sys::IBV_WC_SUCCESS {
            read.is(1, sys::IBV_WC_REM_ACCESS_ERR)?;
            return Ok(());
        }
        same_bytes(&target.memory.all(), &[0xaa; LEN], "the old key")?;
        anyhow::ensure!(Instant::now() < end, "the old key works still");
    }
}
