// SPDX-License-Identifier: GPL-2.0

//! Two processes whose queue pairs flood each other with right and wrong
//! requests, break, and connect again, until somebody kills them.

use std::{io, os::unix::net::UnixStream, rc::Rc, time::Duration};

use anyhow::Context as _;
use fastrand::Rng;
use mrx::sys;

use crate::harness::{
    cq::Completion,
    memory::ALL,
    peer::{exchange, hear, tell, Peer},
    resources::{come_back_to, count},
    Address, Context, Link, Memory, Mr, Qp, QpOptions, Setup, Sge, Test, Work,
};

pub const TESTS: &[Test] = &[Test::new(
    "flood: two processes that flood each other with errors, killed 200 times, leave no object",
    killed,
)
.seconds(300)];

const ROUNDS: u32 = 200;
/// Rounds after which the device must have no more objects than before.
const LOOK: u32 = 20;
/// The longest time between the start of the flood and the first kill, and
/// between the two kills.
const LONGEST: u64 = 40_000;

/// Bytes of each region.
const LEN: usize = 16 * 1024;
const DEPTH: u32 = 64;
/// One of so many requests has a certain fault.
const RARE: u32 = 100;
/// No key of this device.
const NO_KEY: u32 = 0xdead_be00;

/// Breaks soon, since that is what it is for.
fn link() -> Link {
    Link {
        timeout: 8,
        retries: 1,
        rnr_retries: 1,
        ..Default::default()
    }
}

/// How often each status came, in memory of both processes and the parent; each
/// process has a half for itself.
struct Tally {
    memory: Rc<Memory>,
    half: usize,
}

/// More than there are statuses.
const STATUSES: usize = 32;

impl Tally {
    fn new() -> io::Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        Ok(Self {
            memory: Memory::mapped(2 * 8 * STATUSES, rights, libc::MAP_SHARED)?,
            half: 0,
        })
    }

    fn half(&self, half: usize) -> Self {
        Self {
            memory: self.memory.clone(),
            half,
        }
    }

    fn at(&self, half: usize, status: sys::ibv_wc_status) -> (usize, u64) {
        let at = 8 * (half * STATUSES + (status as usize).min(STATUSES - 1));
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.memory.read(at..at + 8));
        (at, u64::from_ne_bytes(bytes))
    }

    fn count(&self, completion: &Completion) {
        let (at, old) = self.at(self.half, completion.status());
        self.memory.write(at, &(old + 1).to_ne_bytes());
    }

    fn sum(&self, status: sys::ibv_wc_status) -> u64 {
        self.at(0, status).1 + self.at(1, status).1
    }
}

/// One of the two processes.
struct Side {
    qp: Qp,
    region: Mr,
    read_only: Mr,
    peer: Address,
    far: (u64, u32),
    random: Rng,
    tally: Tally,
}

impl Side {
    fn new(
        setup: &Setup,
        seed: u64,
        tally: Tally,
        stream: &mut UnixStream,
    ) -> anyhow::Result<Self> {
        let pd = Context::open(setup)?.pd()?;
        let options = QpOptions {
            depth: DEPTH,
            sges: 4,
            ..Default::default()
        };
        let qp = Qp::new(&pd, &options)?;
        let region = Mr::new(&pd, LEN, ALL)?;
        let read_only = Mr::new(&pd, LEN, 0)?;
        let peer = exchange(stream, &qp)?;
        tell(stream, region.at(0))?;
        tell(stream, region.rkey().into())?;
        let far = (hear(stream)?, hear(stream)? as u32);
        let side = Self {
            qp,
            region,
            read_only,
            peer,
            far,
            random: Rng::with_seed(seed),
            tally,
        };
        side.connect();
        Ok(side)
    }

    /// Connects. The peer may flood already, and break it on the way: then the next step finds a
    /// queue pair that is not ready, and begins anew.
    fn connect(&self) {
        let _broken = self.qp.connect(&link(), self.peer);
    }

    /// A piece of a region, mostly.
    fn piece(&mut self) -> Sge {
        let len = self.random.usize(0..LEN / 2);
        let at = self.random.usize(0..LEN / 2);
        let mut sge = self.region.sge(at..at + len);
        match self.random.u32(0..RARE) {
            0 => sge.lkey = NO_KEY,
            1 => sge.addr += LEN as u64,
            2 => sge.addr = 0u64.wrapping_sub(8),
            3 => sge = self.read_only.sge(at..at + len),
            _ => {}
        }
        sge
    }

    fn request(&mut self, id: u64) -> Work {
        let piece = [self.piece()];
        let (mut addr, mut rkey) = self.far;
        addr += self.random.u64(0..LEN as u64 / 2);
        match self.random.u32(0..RARE) {
            0 => rkey ^= 1,
            1 => addr += LEN as u64,
            2 => addr = 0u64.wrapping_sub(100),
            _ => {}
        }
        let word = Sge {
            length: 8,
            ..piece[0]
        };
        let work = match self.random.u32(0..7) {
            0 => Work::send(id, &piece),
            1 => Work::send_with_imm(id, &piece, 1),
            2 => Work::write(id, &piece, addr, rkey),
            3 => Work::write_with_imm(id, &piece, addr, rkey, 1),
            4 => Work::read(id, &piece, addr, rkey),
            // Misaligned ones come about by themselves.
            5 => Work::fetch_add(id, word, addr & !7, rkey, 1),
            _ => Work::compare_swap(id, word, (addr & !7, rkey), 0, 1),
        };
        if self.random.bool() {
            work.unsignaled()
        } else {
            work
        }
    }

    /// Takes all completions; whether one of them tells of an error.
    fn drain(&self) -> anyhow::Result<bool> {
        let mut broken = false;
        for cq in [&self.qp.send_cq, &self.qp.recv_cq] {
            while let Some(completion) = cq.poll()? {
                self.tally.count(&completion);
                broken |= completion.status() != sys::IBV_WC_SUCCESS;
            }
        }
        Ok(broken)
    }

    /// One handful of requests in each direction. Fails only where the device is
    /// gone.
    fn step(&mut self) -> anyhow::Result<()> {
        for id in 0..self.random.u64(0..6) {
            let piece = self.piece();
            let _full = self.qp.post_recv(id, &[piece]);
        }
        let works: Vec<_> = (0..self.random.u64(1..8))
            .map(|id| self.request(id))
            .collect();
        match self.qp.post_all(&works) {
            Err(error) if !is_full(&error) => return Err(error).context("post"),
            _ => {}
        }
        let broken = self.drain()? || self.qp.state()? != sys::IBV_QPS_RTS;
        if broken || self.random.u32(0..200) == 0 {
            self.qp.set_state(sys::IBV_QPS_RESET).context("reset")?;
            self.drain()?;
            self.connect();
        }
        Ok(())
    }
}

/// The queue has no place for it, or the queue pair takes nothing any more.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::EINVAL))
}

/// Starts two processes that flood each other, and waits until both do.
fn start(setup: &Setup, random: &mut Rng, tally: &Tally) -> anyhow::Result<[Peer; 2]> {
    let (one, other) = UnixStream::pair()?;
    let mut make = |half: usize, mut way: UnixStream| {
        let (seed, tally) = (random.u64(..), tally.half(half));
        Peer::start(move |mut parent| {
            let mut side = Side::new(setup, seed, tally, &mut way)?;
            tell(&mut parent, 0)?;
            loop {
                side.step()?;
            }
        })
    };
    let mut both = [make(0, one)?, make(1, other)?];
    for peer in &mut both {
        hear(&mut peer.stream)?;
    }
    Ok(both)
}

fn killed(setup: &Setup) -> anyhow::Result<()> {
    let mut random = Rng::with_seed(setup.seed);
    let tally = Tally::new()?;
    let before = count(&setup.device)?;
    for round in 1..=setup.rounds.unwrap_or(ROUNDS) {
        let [one, other] = start(setup, &mut random, &tally)?;
        let mut pause = || std::thread::sleep(Duration::from_micros(random.u64(0..LONGEST)));
        pause();
        one.strike();
        // Now and then both at the same moment.
        if round % 3 != 0 {
            pause();
        }
        other.strike();
        one.kill().and(other.kill())?;
        if round % LOOK == 0 {
            come_back_to(&setup.device, &before).with_context(|| format!("after round {round}"))?;
        }
    }
    come_back_to(&setup.device, &before)?;
    for status in [
        sys::IBV_WC_SUCCESS,
        sys::IBV_WC_LOC_PROT_ERR,
        sys::IBV_WC_WR_FLUSH_ERR,
        sys::IBV_WC_REM_ACCESS_ERR,
        sys::IBV_WC_REM_INV_REQ_ERR,
        sys::IBV_WC_RETRY_EXC_ERR,
        sys::IBV_WC_RNR_RETRY_EXC_ERR,
    ] {
        let name = crate::harness::cq::status_name(status);
        println!("{}: {name}", tally.sum(status));
        anyhow::ensure!(tally.sum(status) > 0, "no request ended so: {name}");
    }
    Ok(())
}

/// Floods until both processes have ended, which they do only when they are
/// killed or the device is gone.
pub fn run(setup: &Setup) -> anyhow::Result<()> {
    let mut random = Rng::with_seed(setup.seed);
    let tally = Tally::new()?;
    let both = start(setup, &mut random, &tally)?;
    println!("flood: seed {}", setup.seed);
    for peer in both {
        let process = peer.process;
        let outcome = peer.finish();
        println!("flood: process {process} ended: {outcome:?}");
    }
    Ok(())
}
