// SPDX-License-Identifier: GPL-2.0

//! Memory windows, and the regions that they are bound to.

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, Context as _};
use mrx::sys;

use crate::harness::{
    check::fails_with, lent::Lent, memory::ALL, window::Mw, Mr, Pair, Qp, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "windows: a bound window keeps its region from being deregistered",
        keeps,
    ),
    Test::new(
        "windows: a window that ends while it is bound leaves its region free",
        ends_while_bound,
    )
    .seconds(60),
];

const LEN: usize = 100;

/// How long the rounds may take together.
const ENOUGH: Duration = Duration::from_secs(10);

/// A region to which windows can be bound, a window, and the request to bind it.
fn scene(pair: &Pair) -> anyhow::Result<(Mr, Mw, Work)> {
    let region = pair.region(LEN, ALL | sys::IBV_ACCESS_MW_BIND)?;
    let window = Mw::new(&pair.pd, sys::IBV_MW_TYPE_2)?;
    let bind = Work::bind_mw(1, &window, &region, 0..LEN, sys::IBV_ACCESS_REMOTE_READ);
    Ok((region, window, bind))
}

fn keeps(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let (mut region, mut window, bind) = scene(&pair)?;
    pair.a.post(&bind)?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_BIND_MW)?;
    fails_with(region.deregister(), libc::EBUSY, "with a bound window")?;
    window.deallocate()?;
    Ok(region.deregister()?)
}

/// A layout that takes a while to be set, in which nobody else gets at what the
/// regions of the domain are used for.
struct Long {
    holder: Mr,
    ranges: Vec<Sge>,
    _sources: [Mr; 2],
}

impl Long {
    fn new(pair: &Pair) -> anyhow::Result<Self> {
        let sources = [pair.region(1, ALL)?, pair.region(1, ALL)?];
        let in_turn = sources.iter().map(Mr::whole);
        Ok(Self {
            holder: Mr::empty(&pair.pd, ALL | sys::IBV_ACCESS_ZERO_BASED)?,
            ranges: in_turn.collect::<Vec<_>>().repeat(65_536 / 2),
            _sources: sources,
        })
    }

    /// Sets it, and says how long that took.
    fn set(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        self.holder.set_layout(&self.ranges)?;
        Ok(began.elapsed())
    }
}

/// Binds the window and ends it at the same time, a moment after the layout has
/// begun to be set. Says how long that took.
fn race(
    long: &Long,
    (qp, bind): (&Qp, &Work),
    window: &mut Mw,
    moment: Duration,
) -> anyhow::Result<Duration> {
    let (binding, ending) = (Lent((qp, bind)), Lent(window));
    let (begin, together) = (&Barrier::new(3), &Barrier::new(2));
    let wait = move || {
        begin.wait();
        thread::sleep(moment);
        together.wait();
    };
    thread::scope(|scope| {
        let binding = scope.spawn(move || {
            let (qp, bind) = binding.take();
            wait();
            qp.post(bind)
        });
        let ending = scope.spawn(move || {
            let window = ending.take();
            wait();
            window.deallocate()
        });
        begin.wait();
        let took = long.set();
        for thread in [binding, ending] {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        took
    })
}

/// Whether the window was bound. If not, the queue pair is broken.
fn was_bound(pair: &Pair) -> anyhow::Result<bool> {
    let completion = pair.a.send_cq.wait()?;
    if completion.status() == sys::IBV_WC_SUCCESS {
        return Ok(true);
    }
    completion.is(1, sys::IBV_WC_MW_BIND_ERR)?;
    Ok(false)
}

fn ends_while_bound(setup: &Setup) -> anyhow::Result<()> {
    let mut pair = Pair::new(setup)?;
    pair.context.layout_caps()?;
    let long = Long::new(&pair)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let (end, mut took) = (Instant::now() + ENOUGH, long.set()?);
    for round in 0..setup.rounds.unwrap_or(200) {
        let (mut region, mut window, bind) = scene(&pair)?;
        let moment = took.mul_f64(random.f64());
        took = race(&long, (&pair.a, &bind), &mut window, moment)?;
        if !was_bound(&pair)? {
            pair = Pair::in_domain(&pair.pd, &Default::default(), &Default::default())?;
        }
        region
            .deregister()
            .with_context(|| format!("the region of round {round}"))?;
        if Instant::now() > end {
            break;
        }
    }
    Ok(())
}
