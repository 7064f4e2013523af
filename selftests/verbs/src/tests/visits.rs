// SPDX-License-Identifier: GPL-2.0

//! What the other side does here ends when this side says so.

use std::{thread, time::Duration};

use anyhow::anyhow;
use mrx::sys;

use crate::harness::{
    layout::Entry, lent::Lent, memory::ALL, until, Link, Mr, Pair, Qp, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "visits: a WRITE changes nothing any more when its target is destroyed",
        destroyed,
    ),
    Test::new(
        "visits: a WRITE changes nothing any more when its target is in the error state",
        broken,
    ),
    Test::new(
        "visits: a WRITE changes nothing any more when its target is reset",
        reset,
    ),
];

/// Memory that is written to over and over.
const LEN: usize = 1 << 20;
/// How often, by one request.
const TIMES: u64 = 1024;
const WRITTEN: u8 = 0xaa;
const AFTERWARDS: u8 = 0x55;

/// All of `region`, over and over.
fn repeated(pair: &Pair, region: &Mr) -> anyhow::Result<Mr> {
    let holder = Mr::empty(&pair.pd, ALL | sys::IBV_ACCESS_ZERO_BASED)?;
    holder.set_interleaved(0, &[Entry::new(region.whole(), 1, &[(0, TIMES)])])?;
    Ok(holder)
}

/// Has a long WRITE begin and `end` its target; then the memory is the target's own again.
fn ends(setup: &Setup, end: impl Fn(&mut Qp) -> std::io::Result<()>) -> anyhow::Result<()> {
    let link = Link {
        timeout: 10,
        retries: 1,
        ..Default::default()
    };
    let pair = Pair::linked(setup, &link)?;
    pair.context.layout_caps()?;
    let source = pair.filled(&[WRITTEN; LEN], ALL)?;
    let target = pair.region(LEN, ALL)?;
    let (from, to) = (repeated(&pair, &source)?, repeated(&pair, &target)?);
    let all = sys::ibv_sge {
        addr: 0,
        length: (LEN as u64 * TIMES) as u32,
        lkey: from.lkey(),
    };
    let write = Work::write(1, &[all], 0, to.rkey());
    let Pair { a, mut b, .. } = pair;
    thread::scope(|scope| {
        let poster = Lent((&a, &write));
        let poster = scope.spawn(move || {
            let (qp, write) = poster.take();
            qp.post(write)
        });
        let begun = until(Duration::from_secs(10), || {
            (target.memory.read(0..1) == [WRITTEN]).then_some(())
        });
        end(&mut b)?;
        target.memory.write(0, &[AFTERWARDS; LEN]);
        thread::sleep(Duration::from_millis(50));
        anyhow::ensure!(begun.is_some(), "the WRITE does not begin");
        anyhow::ensure!(
            target.memory.all() == [AFTERWARDS; LEN],
            "the target was written to when it had ended"
        );
        poster
            .join()
            .map_err(|_| anyhow!("the poster panicked"))??;
        anyhow::Ok(())
    })?;
    a.send_cq.wait()?.is(1, sys::IBV_WC_RETRY_EXC_ERR).map(drop)
}

fn destroyed(setup: &Setup) -> anyhow::Result<()> {
    ends(setup, Qp::destroy)
}

fn broken(setup: &Setup) -> anyhow::Result<()> {
    ends(setup, |qp| qp.set_state(sys::IBV_QPS_ERR))
}

fn reset(setup: &Setup) -> anyhow::Result<()> {
    ends(setup, |qp| qp.set_state(sys::IBV_QPS_RESET))
}
