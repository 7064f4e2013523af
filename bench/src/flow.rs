// SPDX-License-Identifier: GPL-2.0

//! How things are timed.

use std::time::{Duration, Instant};

use mrx_demo::verbs::{QueuePair, Work};

/// Every measurement is made so often, and the best counts: other load makes
/// things slower, never faster.
const ROUNDS: u32 = 9;

/// Slow things are measured at least so often, once their time is over.
const LEAST: usize = 3;

/// How far the measuring of one value has come.
struct Rounds {
    time: Duration,
    started: Instant,
    rates: Vec<f64>,
}

impl Rounds {
    fn new(time: Duration) -> Self {
        Self {
            time,
            started: Instant::now(),
            rates: Vec::new(),
        }
    }

    /// The time for each round.
    fn each(&self) -> Duration {
        self.time / ROUNDS
    }

    /// Whether it is enough.
    fn over(&self) -> bool {
        let count = self.rates.len();
        count >= ROUNDS as usize || (count >= LEAST && self.started.elapsed() > self.time)
    }

    fn best(self) -> f64 {
        self.rates.into_iter().fold(0.0, f64::max)
    }
}

/// The middle one; of an even number, the lower of the two.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values
        .get(values.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(f64::NAN)
}

/// How often in a second `run` can be done.
pub fn rate(time: Duration, mut run: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    // The first one finds nothing in the caches.
    run()?;
    let mut rounds = Rounds::new(time);
    while !rounds.over() {
        let started = Instant::now();
        let mut count = 0_u32;
        while count == 0 || started.elapsed() < rounds.each() {
            run()?;
            count += 1;
        }
        rounds
            .rates
            .push(f64::from(count) / started.elapsed().as_secs_f64());
    }
    Ok(rounds.best())
}

/// The seconds that `run` itself says it took, in the middle of several calls.
pub fn seconds(
    time: Duration,
    mut run: impl FnMut() -> anyhow::Result<Duration>,
) -> anyhow::Result<f64> {
    run()?;
    let started = Instant::now();
    let mut samples = Vec::new();
    while samples.len() < LEAST || started.elapsed() < time {
        samples.push(run()?.as_secs_f64());
    }
    Ok(median(samples))
}

/// How a stream of work is posted.
#[derive(Clone, Copy)]
pub struct Flow {
    /// Work requests that may be on their way.
    pub window: usize,
    /// Work requests in one call.
    pub list: usize,
}

impl Flow {
    /// One work request in a call, and as many on their way as is usual for
    /// their size.
    pub fn of_size(bytes: usize) -> Self {
        Self {
            window: if bytes < 1 << 20 { 64 } else { 4 },
            list: 1,
        }
    }

    /// How many of `works` are done in a second, posted again and again and on
    /// each queue pair in turn. The queue pairs share one completion queue.
    /// `credit` says how many may be posted since it was first asked.
    pub fn rate(
        self,
        time: Duration,
        qps: &[QueuePair],
        works: &mut [Work],
        credit: impl Fn() -> u64,
    ) -> anyhow::Result<f64> {
        let mut posted = 0_u64;
        let mut rounds = Rounds::new(time);
        self.round(rounds.each(), qps, works, &mut posted, &credit)?;
        while !rounds.over() {
            let started = Instant::now();
            let before = posted;
            self.round(rounds.each(), qps, works, &mut posted, &credit)?;
            rounds
                .rates
                .push((posted - before) as f64 / started.elapsed().as_secs_f64());
        }
        Ok(rounds.best())
    }

    fn round(
        self,
        time: Duration,
        qps: &[QueuePair],
        works: &mut [Work],
        posted: &mut u64,
        credit: &impl Fn() -> u64,
    ) -> anyhow::Result<()> {
        let started = Instant::now();
        let (mut next_qp, mut next_work, mut under_way) = (0, 0, 0_usize);
        while started.elapsed() < time {
            while under_way + self.list <= self.window && *posted + self.list as u64 <= credit() {
                qps[next_qp].post_all(&mut works[next_work..next_work + self.list])?;
                next_qp = (next_qp + 1) % qps.len();
                next_work += self.list;
                if next_work + self.list > works.len() {
                    next_work = 0;
                }
                under_way += self.list;
                *posted += self.list as u64;
            }
            if under_way == 0 {
                std::thread::yield_now();
                continue;
            }
            under_way = under_way.saturating_sub(qps[0].sent.wait()?);
        }
        qps[0].sent.wait_for(under_way)
    }

    /// Posts all of `works` once, and waits for them.
    pub fn once(self, qp: &QueuePair, works: &mut [Work]) -> anyhow::Result<()> {
        let mut under_way = 0_usize;
        for part in works.chunks_mut(self.list) {
            while under_way + part.len() > self.window {
                under_way = under_way.saturating_sub(qp.sent.wait()?);
            }
            qp.post_all(part)?;
            under_way += part.len();
        }
        qp.sent.wait_for(under_way)
    }
}

/// No limit to what may be posted.
pub fn unlimited() -> u64 {
    u64::MAX
}
