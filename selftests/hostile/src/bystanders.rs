// SPDX-License-Identifier: GPL-2.0

//! Two processes that use the device as they should, all the while. Their bytes
//! must stay right, nothing around them may change, and they must get on.

use std::{
    ffi::CStr,
    os::unix::net::UnixStream,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use anyhow::Context as _;
use mrx::sys;
use mrx_selftest_verbs::harness::{
    check::same_bytes,
    memory::ALL,
    pattern,
    peer::{exchange, hear, tell, Peer},
    Context, Link, Memory, Mr, Pd, Qp, QpOptions, Setup, Work,
};

/// Bytes of a message, and of the memory on each side of it.
const MESSAGE: usize = 9000;
const AROUND: usize = 2 * 4096;
/// Between two messages: the processor is for those who are hostile.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a message may take on a machine where others do what they can.
const PATIENCE: Duration = Duration::from_secs(60);

/// A region with memory around it that is not registered.
struct Place {
    region: Mr,
    memory: Rc<Memory>,
    around: Vec<u8>,
}

impl Place {
    fn new(pd: &Rc<Pd>, seed: u64) -> anyhow::Result<Self> {
        let memory = Memory::new(2 * AROUND + MESSAGE)?;
        let around = pattern(seed, AROUND);
        memory.write(0, &around);
        memory.write(AROUND + MESSAGE, &around);
        let region = Mr::over(pd, &memory, AROUND..AROUND + MESSAGE, ALL)?;
        Ok(Self {
            region,
            memory,
            around,
        })
    }

    fn whole(&self) -> sys::ibv_sge {
        self.region.sge(0..MESSAGE)
    }

    fn fill(&self, bytes: &[u8]) {
        self.memory.write(AROUND, bytes);
    }

    fn holds(&self, bytes: &[u8], what: &str) -> anyhow::Result<()> {
        same_bytes(&self.memory.read(AROUND..AROUND + MESSAGE), bytes, what)?;
        same_bytes(
            &self.memory.read(0..AROUND),
            &self.around,
            "memory before a region",
        )?;
        let behind = self.memory.read(AROUND + MESSAGE..2 * AROUND + MESSAGE);
        same_bytes(&behind, &self.around, "memory behind a region")
    }
}

/// A message from one bystander to the other, and a WRITE of as many bytes.
struct Side {
    qp: Qp,
    out: Place,
    message: Place,
    target: Place,
    far: (u64, u32),
}

impl Side {
    fn new(setup: &Setup, stream: &mut UnixStream) -> anyhow::Result<Self> {
        let pd = Context::open(setup)?.pd()?;
        let qp = Qp::new(&pd, &QpOptions::default())?;
        let (out, message, target) = (
            Place::new(&pd, 1)?,
            Place::new(&pd, 2)?,
            Place::new(&pd, 3)?,
        );
        let far = exchange(stream, &qp)?;
        tell(stream, target.region.at(0))?;
        tell(stream, target.region.rkey().into())?;
        let there = (hear(stream)?, hear(stream)? as u32);
        qp.connect(&Link::default(), far)?;
        qp.post_recv(1, &[message.whole()])?;
        tell(stream, 0)?;
        hear(stream)?;
        Ok(Self {
            qp,
            out,
            message,
            target,
            far: there,
        })
    }

    fn say(&self, round: u64) -> anyhow::Result<()> {
        self.out.fill(&pattern(round, MESSAGE));
        let (address, key) = self.far;
        self.qp.post_all(&[
            Work::write(2, &[self.out.whole()], address, key),
            Work::send(3, &[self.out.whole()]),
        ])?;
        for (id, opcode) in [(2, sys::IBV_WC_RDMA_WRITE), (3, sys::IBV_WC_SEND)] {
            self.qp.send_cq.wait_at_most(PATIENCE)?.ok(id, opcode)?;
        }
        Ok(())
    }

    fn listen(&self, round: u64) -> anyhow::Result<()> {
        let came = self.qp.recv_cq.wait_at_most(PATIENCE)?;
        came.ok(1, sys::IBV_WC_RECV)?.bytes(MESSAGE)?;
        let wanted = pattern(round, MESSAGE);
        self.message.holds(&wanted, "a message")?;
        self.target.holds(&wanted, "what was written")?;
        self.qp.post_recv(1, &[self.message.whole()])?;
        Ok(())
    }
}

fn name_process(name: &CStr) {
    // SAFETY: a name that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Starts the bystanders. They go on until `stop` is not 0, and count messages.
pub fn start(
    setup: &Setup,
    stop: &'static AtomicU64,
    messages: &'static AtomicU64,
) -> anyhow::Result<Peer> {
    Peer::start(|_| {
        name_process(c"bystander");
        let asking = Peer::start(|mut stream| {
            let side = Side::new(setup, &mut stream)?;
            for round in 0.. {
                side.say(2 * round).context("the first bystander")?;
                side.listen(2 * round + 1).context("the first bystander")?;
                let last = stop.load(Relaxed) != 0;
                tell(&mut stream, last.into())?;
                messages.fetch_add(2, Relaxed);
                std::thread::sleep(PAUSE);
                if last {
                    break;
                }
            }
            Ok(())
        })?;
        let mut stream = asking.stream.try_clone()?;
        let side = Side::new(setup, &mut stream)?;
        for round in 0.. {
            side.listen(2 * round).context("the second bystander")?;
            side.say(2 * round + 1).context("the second bystander")?;
            if hear(&mut stream)? != 0 {
                break;
            }
        }
        asking.finish()
    })
}
