// SPDX-License-Identifier: GPL-2.0

//! Two processes with connected queue pairs: this one measures, the other one
//! has memory to reach, and receives or echoes when it is told to.

use std::{rc::Rc, sync::atomic::AtomicU64, sync::atomic::Ordering::SeqCst, thread};

use anyhow::Context as _;
use mrx_demo::{
    process::{Peer, Stream},
    verbs::{Completions, Depths, Device, Memory, QueuePair, Region, Work},
};

/// Room of each queue.
pub const DEPTHS: Depths = Depths {
    send: 256,
    receive: 128,
};

/// What this process tells the other to do.
const END: u64 = 0;
const RECEIVE: u64 = 1;
const ECHO: u64 = 2;

/// What the two have.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Queue pairs on each side.
    pub queues: usize,
    /// Bytes of memory on each side.
    pub bytes: usize,
}

/// Words that both processes see.
#[derive(Clone)]
struct Board(Rc<Memory>);

impl Board {
    fn word(&self, at: usize) -> &AtomicU64 {
        let word = self.0.start().wrapping_add(64 * at).cast();
        // SAFETY: aligned, inside the page, and only ever used as an atomic.
        unsafe { AtomicU64::from_ptr(word) }
    }

    /// Not zero: what was begun shall end.
    fn stop(&self) -> &AtomicU64 {
        self.word(0)
    }

    /// Receives that were posted since the start.
    fn posted(&self) -> &AtomicU64 {
        self.word(1)
    }
}

/// Keeps this process on one processor. Two processes that poll would else share
/// one now and then, and measure the scheduler.
fn stay_on(cpu: usize) {
    // SAFETY: plain bits. Where there is no such processor, nothing changes.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// Lets this process run everywhere.
pub fn roam() {
    // SAFETY: plain bits. The kernel leaves out what is not there.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in 0..libc::CPU_SETSIZE as usize {
            libc::CPU_SET(cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

/// A second process that is not connected yet. All of them are started before
/// any device is opened, since verbs objects do not survive a fork.
pub struct Waiting {
    peer: Peer,
    board: Board,
    device: String,
    shape: Shape,
}

impl Waiting {
    /// Starts the process.
    pub fn start(device: &str, shape: Shape) -> anyhow::Result<Self> {
        let board = Board(Memory::shared(4096)?);
        stay_on(0);
        let peer = Peer::start(|stream| {
            stay_on(1);
            Helper::new(device, shape, board.clone(), stream)?.serve()
        })?;
        Ok(Self {
            peer,
            board,
            device: device.to_owned(),
            shape,
        })
    }

    /// Opens the device here, and connects.
    pub fn connect(self) -> anyhow::Result<Link> {
        let Self {
            mut peer,
            board,
            device,
            shape,
        } = self;
        let own = Own::new(&device, shape, &mut peer.stream)
            .with_context(|| format!("set up {device}"))?;
        let remote = Remote {
            start: peer.stream.hear()?,
            key: peer.stream.hear()? as u32,
        };
        Ok(Link {
            own,
            remote,
            board,
            peer,
        })
    }
}

/// What each of the two processes has.
pub struct Own {
    /// The queue pairs, which share their completion queues.
    pub qps: Vec<QueuePair>,
    /// The memory, registered.
    pub region: Region,
    /// The memory.
    pub memory: Rc<Memory>,
}

impl Own {
    fn new(device: &str, shape: Shape, stream: &mut Stream) -> anyhow::Result<Self> {
        let device = Device::open(device)?;
        let memory = Memory::new(shape.bytes)?;
        let region = Region::over(&device, &memory).context("register memory")?;
        let sent = Completions::new(&device, DEPTHS.send * shape.queues as u32)?;
        let received = Completions::new(&device, DEPTHS.receive * shape.queues as u32)?;
        let make = |_| QueuePair::on(DEPTHS, &sent, &received);
        let qps: Vec<_> = (0..shape.queues).map(make).collect::<Result<_, _>>()?;
        for qp in &qps {
            stream.connect(qp)?;
        }
        Ok(Self {
            qps,
            region,
            memory,
        })
    }
}

/// The other process's memory.
#[derive(Clone, Copy)]
pub struct Remote {
    /// Where it starts, there.
    pub start: u64,
    /// The key to it.
    pub key: u32,
}

/// This process's end.
pub struct Link {
    /// What is here.
    pub own: Own,
    /// What is there.
    pub remote: Remote,
    board: Board,
    peer: Peer,
}

impl Link {
    /// Id of the other process.
    pub fn peer(&self) -> i32 {
        self.peer.id()
    }

    /// How many receives were posted since the start.
    pub fn credit(&self) -> u64 {
        self.board.posted().load(SeqCst)
    }

    /// While `body` runs, the other process posts a receive for each that
    /// completes.
    pub fn while_receiving<T>(
        &mut self,
        body: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.during(RECEIVE, body)
    }

    /// While `body` runs, the other process answers each message.
    pub fn while_echoing<T>(
        &mut self,
        body: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.during(ECHO, body)
    }

    fn during<T>(
        &mut self,
        what: u64,
        body: impl FnOnce(&Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.board.stop().store(0, SeqCst);
        self.peer.stream.tell(what)?;
        let answer = body(self);
        self.board.stop().store(1, SeqCst);
        self.peer.stream.hear()?;
        answer
    }

    /// Ends the other process.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.peer.stream.tell(END)?;
        drop(self.own);
        self.peer.finish()
    }
}

/// The other process.
struct Helper {
    own: Own,
    board: Board,
    stream: Stream,
}

impl Helper {
    fn new(device: &str, shape: Shape, board: Board, mut stream: Stream) -> anyhow::Result<Self> {
        let own = Own::new(device, shape, &mut stream)?;
        let this = Self { own, board, stream };
        this.post_receives(DEPTHS.receive as usize)?;
        Ok(this)
    }

    fn first(&self) -> &QueuePair {
        &self.own.qps[0]
    }

    fn post_receives(&self, count: usize) -> anyhow::Result<()> {
        let whole = self.own.region.range(0, self.own.memory.size());
        self.first().post_receives(whole, count)?;
        self.board.posted().fetch_add(count as u64, SeqCst);
        Ok(())
    }

    fn serve(mut self) -> anyhow::Result<()> {
        self.stream.tell(self.own.region.start())?;
        self.stream.tell(self.own.region.rkey().into())?;
        loop {
            match self.stream.hear()? {
                RECEIVE => self.until_stopped(|this, count| this.post_receives(count))?,
                ECHO => self.until_stopped(Self::echo)?,
                _ => return Ok(()),
            }
            self.stream.tell(0)?;
        }
    }

    fn echo(&self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            self.post_receives(1)?;
            self.first()
                .post(&mut Work::send(self.own.region.range(0, 8)))?;
            self.first().sent.wait_for(1)?;
        }
        Ok(())
    }

    fn until_stopped(
        &self,
        on_received: impl Fn(&Self, usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut idle = 0_u32;
        loop {
            match self.first().received.take()? {
                0 if self.board.stop().load(SeqCst) != 0 => return Ok(()),
                0 => {
                    idle = idle.wrapping_add(1);
                    if idle % 64 == 0 {
                        thread::yield_now();
                    }
                }
                count => on_received(self, count)?,
            }
        }
    }
}

/// Two connected queue pairs in one process.
pub struct Loop {
    /// The device.
    pub device: Rc<Device>,
    /// The one that posts.
    pub qp: QueuePair,
    _other: QueuePair,
}

impl Loop {
    /// Opens a device and connects two queue pairs.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let device = Device::open(name)?;
        let (qp, other) = (
            QueuePair::new(&device, DEPTHS)?,
            QueuePair::new(&device, DEPTHS)?,
        );
        qp.connect(other.address())?;
        other.connect(qp.address())?;
        Ok(Self {
            device,
            qp,
            _other: other,
        })
    }

    /// Memory and a region over it.
    pub fn region(&self, bytes: usize) -> anyhow::Result<(Rc<Memory>, Region)> {
        let memory = Memory::new(bytes)?;
        let region = Region::over(&self.device, &memory).context("register memory")?;
        Ok((memory, region))
    }
}
