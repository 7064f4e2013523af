// SPDX-License-Identifier: GPL-2.0

//! Processes that end with everything live.

use std::{os::unix::net::UnixStream, time::Duration};

use mrx::sys;

use crate::harness::{
    check::Skipped,
    memory::ALL,
    peer::{exchange, hear, tell, Peer},
    resources::{come_back_to, count},
    Context, Link, Mr, Pair, Qp, QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("exit: a process killed in traffic leaves no object", killed),
    Test::new(
        "exit: a process killed in traffic through layouts leaves no object",
        killed_with_layouts,
    ),
    Test::new(
        "exit: a process that ends with requests waiting leaves no object",
        waiting,
    ),
    Test::new(
        "exit: 20 processes killed at any moment leave no object",
        any_moment,
    )
    .seconds(90),
    Test::new(
        "exit: the peer of a killed process sees its requests fail",
        survivor,
    ),
];

/// Starts a process that runs `body`, which tells when it is busy; kills it
/// some time after, and sees what the device counts.
fn kill_while(
    setup: &Setup,
    after: Duration,
    body: impl FnOnce(&mut UnixStream) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let before = count(&setup.device)?;
    let mut peer = Peer::start(|mut stream| body(&mut stream))?;
    hear(&mut peer.stream)?;
    std::thread::sleep(after);
    peer.kill()?;
    come_back_to(&setup.device, &before)
}

/// Traffic in both directions for ever, with always some requests under way.
fn busy(
    pair: &Pair,
    near: &Mr,
    far: &Mr,
    len: usize,
    stream: &mut UnixStream,
) -> anyhow::Result<()> {
    let piece = |region: &Mr| crate::harness::Sge {
        addr: region.at(0),
        length: len as u32,
        lkey: region.lkey(),
    };
    let post = |from: &Qp, to: &Qp| -> anyhow::Result<()> {
        to.post_recv(1, &[piece(far)])?;
        from.post_all(&[
            Work::write(1, &[piece(near)], far.at(0), far.rkey()),
            Work::read(2, &[piece(near)], far.at(0), far.rkey()),
            Work::send(3, &[piece(near)]),
        ])?;
        Ok(())
    };
    for _ in 0..8 {
        post(&pair.a, &pair.b)?;
        post(&pair.b, &pair.a)?;
    }
    tell(stream, 0)?;
    loop {
        for (from, to) in [(&pair.a, &pair.b), (&pair.b, &pair.a)] {
            for completion in from.send_cq.wait_for(3)? {
                completion.is(completion.id(), sys::IBV_WC_SUCCESS)?;
            }
            to.recv_cq.wait()?;
            post(from, to)?;
        }
    }
}

fn killed(setup: &Setup) -> anyhow::Result<()> {
    kill_while(setup, Duration::from_millis(200), |stream| {
        let pair = Pair::new(setup)?;
        let (near, far) = (pair.region(100_000, ALL)?, pair.region(100_000, ALL)?);
        busy(&pair, &near, &far, 100_000, stream)
    })
}

fn killed_with_layouts(setup: &Setup) -> anyhow::Result<()> {
    // In a process of its own, as this one shall not have opened the device.
    let asked = Peer::start(|mut stream| {
        let caps = Context::open(setup)?.layout_caps();
        tell(&mut stream, caps.is_ok().into())
    })?;
    let can = hear(&mut asked.stream.try_clone()?)?;
    asked.finish()?;
    if can == 0 {
        return Err(Skipped("the device has no layouts".into()).into());
    }
    kill_while(setup, Duration::from_millis(200), |stream| {
        let pair = Pair::new(setup)?;
        let regions = (0..10)
            .map(|_| pair.region(20_000, ALL))
            .collect::<std::io::Result<Vec<_>>>()?;
        let ranges: Vec<_> = (0..1000)
            .map(|n| regions[n % 10].sge(n / 10 * 200..n / 10 * 200 + 100))
            .collect();
        let lower = Mr::empty(&pair.pd, ALL | sys::IBV_ACCESS_ZERO_BASED)?;
        lower.set_layout(&ranges)?;
        let (near, far) = (
            Mr::indirect(&pair.pd, 2, ALL)?,
            Mr::empty(&pair.pd, ALL | sys::IBV_ACCESS_ZERO_BASED)?,
        );
        let halves = [lower.piece(50_000, 50_000), lower.piece(0, 50_000)];
        near.set_layout(&halves)?;
        far.set_layout(&halves)?;
        // One more that waits for its bind request; a device may lack that.
        let _ = far.set_layout_with(sys::IBV_MR_SET_LAYOUT_WITH_POST_WR, &halves);
        busy(&pair, &near, &far, 100_000, stream)
    })
}

fn waiting(setup: &Setup) -> anyhow::Result<()> {
    let before = count(&setup.device)?;
    let peer = Peer::start(|_| {
        let pair = Pair::new(setup)?;
        let region = pair.region(1000, ALL)?;
        for id in 0..50 {
            // Nobody posts a receive for them, and nobody sends to the others.
            pair.a.post(&Work::send(id, &[region.whole()]))?;
            pair.a.post_recv(id, &[region.whole()])?;
        }
        // The end of the process, without a destructor.
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) }
    })?;
    peer.finish()?;
    come_back_to(&setup.device, &before)
}

fn any_moment(setup: &Setup) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(setup.seed);
    let before = count(&setup.device)?;
    for _ in 0..20 {
        let mut peer = Peer::start(|mut stream| {
            tell(&mut stream, 0)?;
            loop {
                let pair = Pair::new(setup)?;
                let (near, far) = (pair.region(50_000, ALL)?, pair.region(50_000, ALL)?);
                for id in 0..20 {
                    pair.b.post_recv(id, &[far.whole()])?;
                    pair.a.post(&Work::send(id, &[near.whole()]))?;
                }
            }
        })?;
        hear(&mut peer.stream)?;
        std::thread::sleep(Duration::from_micros(random.u64(0..60_000)));
        peer.kill()?;
    }
    come_back_to(&setup.device, &before)
}

fn survivor(setup: &Setup) -> anyhow::Result<()> {
    let link = Link {
        timeout: 12,
        retries: 3,
        rnr_retries: 7,
        ..Default::default()
    };
    let mut peer = Peer::start(|mut stream| {
        let pd = Context::open(setup)?.pd()?;
        let qp = Qp::new(&pd, &QpOptions::default())?;
        qp.connect(&link, exchange(&mut stream, &qp)?)?;
        tell(&mut stream, 0)?;
        // Until it is killed.
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    })?;
    let pd = Context::open(setup)?.pd()?;
    let qp = Qp::new(&pd, &QpOptions::default())?;
    let mut stream = peer.stream.try_clone()?;
    qp.connect(&link, exchange(&mut stream, &qp)?)?;
    hear(&mut peer.stream)?;
    // The peer is there, and not ready.
    qp.post_all(&[Work::send(1, &[]), Work::send(2, &[])])?;
    qp.send_cq.stays_empty(Duration::from_millis(100))?;
    peer.kill()?;
    qp.send_cq.wait()?.is(1, sys::IBV_WC_RETRY_EXC_ERR)?;
    qp.send_cq.flushes([2])
}
