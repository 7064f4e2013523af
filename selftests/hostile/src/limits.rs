// SPDX-License-Identifier: GPL-2.0

//! What the device says that it can have at most, it can have, and no more; and
//! what a process makes it use counts as the process's.

use std::{fs, io, path::PathBuf, rc::Rc};

use anyhow::Context as _;
use mrx::sys;
use mrx_selftest_verbs::harness::{
    check::{fails_with, pointer, status},
    memory::ALL,
    peer::{hear, tell, Peer},
    resources::{come_back_to, count},
    until, Context, Cq, Link, Memory, Mr, Pair, Pd, Qp, QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new("limits: requests and pieces of a queue pair", queue_pair),
    Test::new("limits: entries of a completion queue", completion_queue),
    Test::new(
        "limits: receives and pieces of a shared queue",
        shared_queue,
    ),
    Test::new("limits: memberships of multicast groups", memberships).seconds(90),
    Test::new(
        "limits: pinned memory counts against RLIMIT_MEMLOCK until it is let go",
        pinned,
    ),
    Test::new(
        "limits: rings count as memory of the process until they are destroyed",
        rings_count,
    ),
    Test::new(
        "limits: who makes queues until there is no memory left harms nobody else",
        no_memory_left,
    )
    .seconds(120),
    Test::new(
        "limits: queue pairs that wait for ever leave others their turn",
        turns,
    )
    .seconds(120),
];

const MIB: u64 = 1 << 20;

fn domain(setup: &Setup) -> anyhow::Result<Rc<Pd>> {
    Ok(Context::open(setup)?.pd()?)
}

fn attributes(context: &Context) -> anyhow::Result<sys::ibv_device_attr> {
    let mut attr = sys::ibv_device_attr::default();
    // SAFETY: the context is open.
    status(unsafe { sys::ibv_query_device(context.raw, &mut attr) })?;
    Ok(attr)
}

fn queue_pair(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    let attr = attributes(&pd.context)?;
    let (depth, sges) = (attr.max_qp_wr as u32, attr.max_sge as u32);
    let usual = QpOptions {
        depth: 16,
        ..Default::default()
    };
    // Twice: what was destroyed is there again.
    for _ in 0..2 {
        let deep = QpOptions {
            depth,
            sges: 1,
            ..usual.clone()
        };
        let make = |options: &QpOptions| -> io::Result<Qp> {
            let entries = Cq::new(&pd.context, 16)?;
            Qp::on(&pd, options, entries.clone(), entries)
        };
        make(&deep).context("as many requests as there may be")?;
        let deeper = QpOptions {
            depth: depth + 1,
            ..deep
        };
        fails_with(make(&deeper), libc::EINVAL, "one request more")?;
        let wide = QpOptions {
            sges,
            ..usual.clone()
        };
        make(&wide).context("as many pieces as there may be")?;
        let wider = QpOptions {
            sges: sges + 1,
            ..usual.clone()
        };
        fails_with(make(&wider), libc::EINVAL, "one piece more")?;
    }
    Ok(())
}

fn completion_queue(setup: &Setup) -> anyhow::Result<()> {
    let context = Context::open(setup)?;
    let most = attributes(&context)?.max_cqe as u32;
    for _ in 0..2 {
        Cq::new(&context, most).context("as many entries as there may be")?;
        fails_with(Cq::new(&context, most + 1), libc::EINVAL, "one entry more")?;
    }
    Ok(())
}

fn shared_queue(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    let attr = attributes(&pd.context)?;
    let make = |max_wr: i32, max_sge: i32| -> io::Result<()> {
        let mut init = sys::ibv_srq_init_attr::default();
        (init.attr.max_wr, init.attr.max_sge) = (max_wr as u32, max_sge as u32);
        // SAFETY: the domain is live; what was made is destroyed.
        unsafe {
            let srq = pointer(sys::ibv_create_srq(pd.raw, &mut init))?;
            status(sys::ibv_destroy_srq(srq))
        }
    };
    let (receives, pieces) = (attr.max_srq_wr, attr.max_srq_sge);
    for _ in 0..2 {
        make(receives, 1).context("as many receives as there may be")?;
        fails_with(make(receives + 1, 1), libc::EINVAL, "one receive more")?;
        make(1, pieces).context("as many pieces as there may be")?;
        fails_with(make(1, pieces + 1), libc::EINVAL, "one piece more")?;
    }
    Ok(())
}

fn memberships(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    let most = attributes(&pd.context)?.max_total_mcast_qp_attach as u32;
    let options = QpOptions {
        kind: sys::IBV_QPT_UD,
        ..Default::default()
    };
    let qp = Qp::new(&pd, &options)?;
    qp.init(&Link::default())?;
    let group = |number: u32| {
        let mut gid = sys::ibv_gid::default();
        let mut raw = [0; 16];
        raw[..2].copy_from_slice(&[0xff, 0x0e]);
        raw[12..].copy_from_slice(&number.to_be_bytes());
        gid.raw = raw;
        gid
    };
    // SAFETY: the queue pair is live.
    let attach = |number| status(unsafe { sys::ibv_attach_mcast(qp.raw, &group(number), 0) });
    // SAFETY: as above.
    let detach = |number| status(unsafe { sys::ibv_detach_mcast(qp.raw, &group(number), 0) });
    for _ in 0..2 {
        for number in 0..most {
            attach(number).with_context(|| format!("membership {number} of {most}"))?;
        }
        fails_with(attach(most), libc::ENOMEM, "one membership more")?;
        for number in 0..most {
            detach(number).with_context(|| format!("leaving group {number}"))?;
        }
    }
    Ok(())
}

/// Kilobytes that the kernel counts as pinned by this process.
fn pinned_now() -> anyhow::Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find(|line| line.starts_with("VmPin:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(word.context("VmPin in /proc/self/status")?.parse()?)
}

fn pinned(setup: &Setup) -> anyhow::Result<()> {
    const NOBODY: u32 = 65534;
    let limit = libc::rlimit {
        rlim_cur: MIB,
        rlim_max: MIB,
    };
    // SAFETY: requests to the kernel about this process, which is one test. Who
    // may lock as much as they like is not counted, so it becomes somebody else.
    unsafe {
        status(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit))?;
        status(libc::setresgid(NOBODY, NOBODY, NOBODY))?;
        status(libc::setresuid(NOBODY, NOBODY, NOBODY))?;
    }
    let pd = domain(setup)?;
    let memory = Memory::new(2 * MIB as usize)?;
    let half = MIB as usize / 2;
    for _ in 0..2 {
        let one = Mr::over(&pd, &memory, 0..half, ALL).context("half of the limit")?;
        anyhow::ensure!(
            pinned_now()? == 512,
            "VmPin is {} kB, not 512",
            pinned_now()?
        );
        let other = Mr::over(&pd, &memory, half..2 * half, ALL).context("all of the limit")?;
        let more = Mr::over(&pd, &memory, 2 * half..2 * half + 1, ALL);
        fails_with(more, libc::ENOMEM, "a page more")?;
        // What is paged on demand is not pinned.
        let on_demand = ALL | sys::IBV_ACCESS_ON_DEMAND;
        drop(Mr::over(&pd, &memory, 0..4 * half, on_demand).context("a region that is paged")?);
        drop(one);
        let again = Mr::over(&pd, &memory, 2 * half..3 * half, ALL);
        drop(again.context("what was let go, again")?);
        drop(other);
        anyhow::ensure!(pinned_now()? == 0, "VmPin stays at {} kB", pinned_now()?);
    }
    Ok(())
}

/// A memory control group.
struct Group(PathBuf);

impl Group {
    fn new() -> anyhow::Result<Self> {
        let top = PathBuf::from("/sys/fs/cgroup");
        let control = top.join("cgroup.subtree_control");
        fs::write(control, "+memory").context("the memory controller")?;
        let path = top.join(format!("mrx-hostile-{}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    fn join(&self) -> anyhow::Result<()> {
        Ok(fs::write(self.0.join("cgroup.procs"), "0")?)
    }

    fn limit(&self, bytes: u64) -> anyhow::Result<()> {
        Ok(fs::write(self.0.join("memory.max"), bytes.to_string())?)
    }

    fn used(&self) -> anyhow::Result<u64> {
        let text = fs::read_to_string(self.0.join("memory.current"))?;
        Ok(text.trim().parse()?)
    }

    /// Fails unless the use comes down to this. What is let go is counted late.
    fn comes_down_to(&self, most: u64) -> anyhow::Result<()> {
        let down = until(std::time::Duration::from_secs(20), || {
            self.used().is_ok_and(|used| used <= most).then_some(())
        });
        let used = self.used()?;
        anyhow::ensure!(down.is_some(), "{used} bytes stay in use, not {most}");
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            println!("{} stays: {error}", self.0.display());
        }
    }
}

fn rings_count(setup: &Setup) -> anyhow::Result<()> {
    /// Entries of 64 bytes: 4 MiB, in the next power of two.
    const ENTRIES: u32 = (1 << 16) - 1;
    const QUEUES: u64 = 8;
    const RINGS: u64 = QUEUES * 4 * MIB;
    let group = Group::new()?;
    let mut peer = Peer::start(|mut stream| {
        group.join()?;
        let context = Context::open(setup)?;
        tell(&mut stream, 0)?;
        hear(&mut stream)?;
        let queues: Vec<_> = (0..QUEUES)
            .map(|_| Cq::new(&context, ENTRIES))
            .collect::<Result<_, _>>()?;
        tell(&mut stream, 0)?;
        hear(&mut stream)?;
        drop(queues);
        tell(&mut stream, 0)?;
        hear(&mut stream)?;
        Ok(())
    })?;
    hear(&mut peer.stream)?;
    let before = group.used()?;
    tell(&mut peer.stream, 0)?;
    hear(&mut peer.stream)?;
    let counted = group.used()?.saturating_sub(before);
    anyhow::ensure!(
        counted >= RINGS,
        "{counted} bytes count, and rings have {RINGS}"
    );
    tell(&mut peer.stream, 0)?;
    hear(&mut peer.stream)?;
    group.comes_down_to(before + MIB)?;
    tell(&mut peer.stream, 0)?;
    peer.finish()
}

fn no_memory_left(setup: &Setup) -> anyhow::Result<()> {
    let before = count(&setup.device)?;
    let group = Group::new()?;
    group.limit(48 * MIB)?;
    let mut peer = Peer::start(|mut stream| {
        group.join()?;
        let pd = domain(setup)?;
        tell(&mut stream, 0)?;
        for _ in 0..2 {
            let mut made = Vec::new();
            let refused = loop {
                match Qp::new(&pd, &QpOptions::default()) {
                    Ok(qp) => made.push(qp),
                    Err(error) => break error,
                }
            };
            fails_with::<()>(Err(refused), libc::ENOMEM, "a queue pair too many")?;
            tell(&mut stream, made.len() as u64)?;
        }
        Ok(())
    })?;
    hear(&mut peer.stream)?;
    // The kernel may have ended the process rather than refuse: both will do.
    let mut status = 0;
    // SAFETY: a child of ours, and the status may be written.
    unsafe { libc::waitpid(peer.process, &mut status, 0) };
    let ended = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
    let finished = libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
    anyhow::ensure!(ended || finished, "the process failed ({status:#x})");
    come_back_to(&setup.device, &before)?;
    group.comes_down_to(MIB)?;
    // Nobody else notices.
    let pd = domain(setup)?;
    Qp::new(&pd, &QpOptions::default())?;
    Ok(())
}

/// More queue pairs than the kernel's queue has places, each of which asks itself
/// for ever whether it has a receive.
fn turns(setup: &Setup) -> anyhow::Result<()> {
    const WAITING: usize = 2100;
    let pd = domain(setup)?;
    let entries = Cq::new(&pd.context, 64)?;
    let options = QpOptions {
        depth: 1,
        sges: 1,
        inline: 0,
        ..Default::default()
    };
    let link = Link {
        rnr_retries: 7,
        rnr_timer: 1,
        ..Default::default()
    };
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let qp = Qp::on(&pd, &options, entries.clone(), entries.clone())?;
        qp.connect(&link, qp.address())?;
        qp.post(&Work::send(1, &[]))?;
        waiting.push(qp);
    }
    // One of somebody else has to wait once, too.
    let pair = Pair::new(setup)?;
    pair.a.post(&Work::send(1, &[]))?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    pair.b.post_recv(2, &[])?;
    let patience = std::time::Duration::from_secs(60);
    pair.a
        .send_cq
        .wait_at_most(patience)?
        .ok(1, sys::IBV_WC_SEND)?;
    Ok(())
}
