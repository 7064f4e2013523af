// SPDX-License-Identifier: GPL-2.0

//! Completion queues that are polled in batches, field by field.

use std::{io, os::unix::net::UnixStream, rc::Rc, time::Duration};

use anyhow::Context as _;
use mrx::{
    sys::{self, ibv_qp_type, ibv_wc_opcode, ibv_wc_status},
    Completion, ExtendedCq, Fields,
};

use crate::harness::{
    check::fails_with,
    ensure_eq,
    memory::ALL,
    peer::{exchange, hear, tell, Peer},
    qp::QKEY,
    until, Ah, Channel, Context, Cq, Link, Mr, Qp, QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "extended CQ: every reader tells the truth on a reliable connection",
        |setup| truth(setup, sys::IBV_QPT_RC),
    ),
    Test::new(
        "extended CQ: every reader tells the truth on an unreliable connection",
        |setup| truth(setup, sys::IBV_QPT_UC),
    ),
    Test::new(
        "extended CQ: every reader tells the truth on datagrams",
        |setup| truth(setup, sys::IBV_QPT_UD),
    ),
    Test::new(
        "extended CQ: a WRITE with immediate tells its receiver bytes and immediate",
        write_with_immediate,
    ),
    Test::new(
        "extended CQ: READ and atomic operations have their opcodes",
        opcodes,
    ),
    Test::new(
        "extended CQ: a refused request and the flushed ones tell their status",
        refused,
    ),
    Test::new(
        "extended CQ: a receiver that breaks tells its status",
        broken_receiver,
    ),
    Test::new(
        "extended CQ: what was not asked for cannot be read",
        not_asked_for,
    ),
    Test::new("extended CQ: each field can be had alone", fields_alone),
    Test::new(
        "extended CQ: a field that the library of rxe lacks is refused",
        unsupported,
    ),
    Test::new(
        "extended CQ: an empty queue has no batch, and the same as ENOENT",
        empty,
    ),
    Test::new(
        "extended CQ: a batch ends with ENOENT and another one begins",
        end_of_batch,
    ),
    Test::new(
        "extended CQ: a batch goes through completions in order",
        in_order,
    ),
    Test::new(
        "extended CQ: a batch that ends early leaves the rest",
        early_end,
    ),
    Test::new(
        "extended CQ: a batch that is forgotten ends with the next",
        forgotten,
    ),
    Test::new("extended CQ: a panic within a batch ends it", panicking),
    Test::new(
        "extended CQ: batches and ibv_poll_cq take turns",
        take_turns,
    ),
    Test::new(
        "extended CQ: an armed queue reports its next completion",
        events,
    ),
    Test::new(
        "extended CQ: a queue armed for solicited completions reports an error",
        error_event,
    ),
    Test::new(
        "extended CQ: a batch that is read while requests come misses none",
        traffic,
    ),
];

/// All that the library of rxe has.
const STANDARD: u32 = sys::IBV_WC_STANDARD_FLAGS;
const SOON: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(100);
const IMMEDIATE: u32 = 0x8765_4321;
/// Bytes in front of a datagram.
const GRH: usize = 40;

/// Two connected queue pairs, each with two queues of these fields, all of which
/// report to one channel.
struct Scene {
    a: Qp,
    b: Qp,
    region: Mr,
    kind: ibv_qp_type,
    ah: Ah,
    channel: Rc<Channel>,
}

impl Scene {
    fn new(setup: &Setup, kind: ibv_qp_type, fields: u32) -> anyhow::Result<Self> {
        let context = Context::open(setup)?;
        let pd = context.pd()?;
        let options = QpOptions {
            kind,
            ..Default::default()
        };
        let channel = Channel::new(&context)?;
        let make = || -> io::Result<Qp> {
            let cq = || Cq::extended(&channel, 256, fields);
            let (send_cq, recv_cq) = (cq()?, cq()?);
            Qp::on(&pd, &options, send_cq, recv_cq)
        };
        let (a, b) = (make()?, make()?);
        a.connect(&Link::default(), b.address())?;
        b.connect(&Link::default(), a.address())?;
        Ok(Self {
            a,
            b,
            region: Mr::new(&pd, 4096, ALL)?,
            kind,
            ah: Ah::new(&pd, context.gid)?,
            channel,
        })
    }

    fn is_datagram(&self) -> bool {
        self.kind == sys::IBV_QPT_UD
    }

    /// Posts a request of `a`.
    fn post(&self, work: Work) -> anyhow::Result<()> {
        let work = match self.is_datagram() {
            true => work.to(&self.ah, self.b.number(), QKEY),
            false => work,
        };
        self.a.post(&work)?;
        Ok(())
    }

    /// `count` WRITEs of `a`, with these identifiers.
    fn writes(&self, ids: std::ops::Range<u64>) -> anyhow::Result<()> {
        for id in ids {
            let (addr, rkey) = (self.region.at(0), self.region.rkey());
            self.post(Work::write(id, &[self.region.sge(8..16)], addr, rkey))?;
        }
        Ok(())
    }
}

/// A completion, as its readers had it.
#[derive(Debug, PartialEq)]
struct Seen {
    id: u64,
    status: ibv_wc_status,
    opcode: ibv_wc_opcode,
    flags: u32,
    byte_len: Option<u32>,
    immediate: Option<u32>,
    qp_num: Option<u32>,
    src_qp: Option<u32>,
    slid: Option<u32>,
    sl: Option<u8>,
    path_bits: Option<u8>,
    vendor_err: u32,
}

impl Seen {
    fn new(it: &Completion<'_>) -> anyhow::Result<Self> {
        Ok(Self {
            id: it.wr_id(),
            status: it.status(),
            opcode: it.opcode().context("a reader of the opcode")?,
            flags: it.wc_flags().context("a reader of the flags")?,
            byte_len: it.byte_len(),
            immediate: it.immediate(),
            qp_num: it.qp_num(),
            src_qp: it.src_qp(),
            slid: it.slid(),
            sl: it.sl(),
            path_bits: it.dlid_path_bits(),
            vendor_err: it.vendor_err().context("a reader of the vendor's error")?,
        })
    }
}

/// The next completion, in a batch of its own.
fn next(cq: &mut ExtendedCq<'_>) -> anyhow::Result<Option<Seen>> {
    let Some(mut batch) = cq.start_poll()? else {
        return Ok(None);
    };
    let first = batch.next_poll()?.context("an empty batch")?;
    Seen::new(&first).map(Some)
}

/// The next completion, or a failure when none comes in time.
fn wait(cq: &Cq) -> anyhow::Result<Seen> {
    let mut batches = cq.batches();
    until(crate::harness::cq::DEADLINE, || {
        next(&mut batches).transpose()
    })
    .context("no completion in time")?
}

fn stays_empty(cq: &Cq) -> anyhow::Result<()> {
    let mut batches = cq.batches();
    match until(SILENCE, || next(&mut batches).transpose()).transpose()? {
        None => Ok(()),
        Some(seen) => anyhow::bail!("an unexpected completion: {seen:?}"),
    }
}

/// The identifiers of the next completions, in one batch, at most so many.
fn batch_of(cq: &mut ExtendedCq<'_>, most: usize) -> anyhow::Result<Vec<u64>> {
    let mut ids = Vec::new();
    if let Some(mut batch) = cq.start_poll()? {
        while ids.len() < most {
            let Some(completion) = batch.next_poll()? else {
                break;
            };
            ensure_eq!(completion.status(), sys::IBV_WC_SUCCESS);
            ids.push(completion.wr_id());
        }
    }
    Ok(ids)
}

fn truth(setup: &Setup, kind: ibv_qp_type) -> anyhow::Result<()> {
    let scene = Scene::new(setup, kind, STANDARD)?;
    let front = if scene.is_datagram() { GRH } else { 0 };
    let header = if scene.is_datagram() {
        sys::IBV_WC_GRH
    } else {
        0
    };
    for (len, immediate) in [(100, None), (0, Some(IMMEDIATE)), (1000, Some(1))] {
        let piece = [scene.region.sge(2000..2000 + len)];
        scene.b.post_recv(22, &[scene.region.sge(0..1900)])?;
        scene.post(match immediate {
            None => Work::send(11, &piece),
            Some(value) => Work::send_with_imm(11, &piece, value),
        })?;
        let sent = wait(&scene.a.send_cq)?;
        ensure_eq!(sent.id, 11);
        ensure_eq!(sent.status, sys::IBV_WC_SUCCESS);
        ensure_eq!(sent.opcode, sys::IBV_WC_SEND);
        ensure_eq!(sent.qp_num, Some(scene.a.number()));
        ensure_eq!(sent.immediate, None);
        let has_immediate = immediate.map_or(0, |_| sys::IBV_WC_WITH_IMM);
        let received = wait(&scene.b.recv_cq)?;
        let wanted = Seen {
            id: 22,
            status: sys::IBV_WC_SUCCESS,
            opcode: sys::IBV_WC_RECV,
            flags: header | has_immediate,
            byte_len: Some((front + len) as u32),
            immediate,
            qp_num: Some(scene.b.number()),
            src_qp: Some(scene.a.number()),
            // Ethernet has no local identifiers, and this one no priorities.
            slid: Some(0),
            sl: Some(0),
            path_bits: Some(0),
            vendor_err: 0,
        };
        ensure_eq!(received, wanted);
    }
    stays_empty(&scene.a.send_cq)?;
    stays_empty(&scene.b.recv_cq)
}

fn write_with_immediate(setup: &Setup) -> anyhow::Result<()> {
    for kind in [sys::IBV_QPT_RC, sys::IBV_QPT_UC] {
        let scene = Scene::new(setup, kind, STANDARD)?;
        let region = &scene.region;
        scene.b.post_recv(2, &[])?;
        let piece = [region.sge(100..400)];
        let (addr, rkey) = (region.at(1000), region.rkey());
        scene.post(Work::write_with_imm(1, &piece, addr, rkey, IMMEDIATE))?;
        ensure_eq!(wait(&scene.a.send_cq)?.opcode, sys::IBV_WC_RDMA_WRITE);
        let received = wait(&scene.b.recv_cq)?;
        ensure_eq!(received.id, 2);
        ensure_eq!(received.opcode, sys::IBV_WC_RECV_RDMA_WITH_IMM);
        ensure_eq!(received.byte_len, Some(300));
        ensure_eq!(received.immediate, Some(IMMEDIATE));
    }
    Ok(())
}

fn opcodes(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let region = &scene.region;
    let (addr, rkey) = (region.at(1024), region.rkey());
    let (piece, word) = ([region.sge(0..64)], region.sge(0..8));
    let cases = [
        (Work::read(1, &piece, addr, rkey), sys::IBV_WC_RDMA_READ, 64),
        (
            Work::fetch_add(2, word, addr, rkey, 1),
            sys::IBV_WC_FETCH_ADD,
            8,
        ),
        (
            Work::compare_swap(3, word, (addr, rkey), 1, 2),
            sys::IBV_WC_COMP_SWAP,
            8,
        ),
    ];
    for (id, (work, opcode, bytes)) in (1..).zip(cases) {
        scene.post(work)?;
        let seen = wait(&scene.a.send_cq)?;
        ensure_eq!(seen.id, id);
        ensure_eq!(seen.status, sys::IBV_WC_SUCCESS);
        ensure_eq!(seen.opcode, opcode);
        ensure_eq!(seen.byte_len, Some(bytes));
    }
    Ok(())
}

fn refused(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let region = &scene.region;
    let piece = [region.sge(0..64)];
    scene.a.post_recv(7, &[region.whole()])?;
    scene.a.post_all(&[
        Work::write(1, &piece, region.at(4096 - 63), region.rkey()),
        Work::write(2, &piece, region.at(0), region.rkey()),
        Work::send(3, &[]),
    ])?;
    let first = wait(&scene.a.send_cq)?;
    ensure_eq!(first.id, 1);
    ensure_eq!(first.status, sys::IBV_WC_REM_ACCESS_ERR);
    ensure_eq!(first.qp_num, Some(scene.a.number()));
    for id in [2, 3] {
        let flushed = wait(&scene.a.send_cq)?;
        ensure_eq!(flushed.id, id);
        ensure_eq!(flushed.status, sys::IBV_WC_WR_FLUSH_ERR);
        ensure_eq!(flushed.qp_num, Some(scene.a.number()));
    }
    let receive = wait(&scene.a.recv_cq)?;
    ensure_eq!(receive.id, 7);
    ensure_eq!(receive.status, sys::IBV_WC_WR_FLUSH_ERR);
    ensure_eq!(receive.qp_num, Some(scene.a.number()));
    Ok(())
}

fn broken_receiver(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let region = &scene.region;
    scene.b.post_recv(5, &[region.sge(0..10)])?;
    scene.b.post_recv(6, &[region.sge(0..10)])?;
    scene.post(Work::send(1, &[region.sge(100..200)]))?;
    let sent = wait(&scene.a.send_cq)?;
    ensure_eq!(sent.status, sys::IBV_WC_REM_INV_REQ_ERR);
    let received = wait(&scene.b.recv_cq)?;
    ensure_eq!(received.id, 5);
    ensure_eq!(received.status, sys::IBV_WC_LOC_LEN_ERR);
    let flushed = wait(&scene.b.recv_cq)?;
    ensure_eq!(flushed.id, 6);
    ensure_eq!(flushed.status, sys::IBV_WC_WR_FLUSH_ERR);
    Ok(())
}

fn not_asked_for(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, 0)?;
    scene.b.post_recv(2, &[scene.region.whole()])?;
    scene.post(Work::send_with_imm(1, &[scene.region.sge(0..8)], IMMEDIATE))?;
    let received = wait(&scene.b.recv_cq)?;
    ensure_eq!(received.id, 2);
    ensure_eq!(received.status, sys::IBV_WC_SUCCESS);
    ensure_eq!(received.opcode, sys::IBV_WC_RECV);
    ensure_eq!(received.flags, sys::IBV_WC_WITH_IMM);
    ensure_eq!(received.byte_len, None);
    ensure_eq!(received.immediate, None);
    ensure_eq!(received.qp_num, None);
    ensure_eq!(received.src_qp, None);
    ensure_eq!(received.slid, None);
    ensure_eq!(received.sl, None);
    ensure_eq!(received.path_bits, None);
    Ok(())
}

fn fields_alone(setup: &Setup) -> anyhow::Result<()> {
    for field in Fields::all().iter() {
        let scene = Scene::new(setup, sys::IBV_QPT_UD, field.bits())?;
        scene.b.post_recv(2, &[scene.region.sge(0..100)])?;
        let piece = [scene.region.sge(200..208)];
        scene.post(Work::send_with_imm(1, &piece, IMMEDIATE))?;
        let seen = wait(&scene.b.recv_cq)?;
        let has = |one: Fields| field == one;
        ensure_eq!(seen.byte_len.is_some(), has(Fields::BYTE_LEN), "{field:?}");
        ensure_eq!(seen.immediate.is_some(), has(Fields::IMM), "{field:?}");
        ensure_eq!(seen.qp_num.is_some(), has(Fields::QP_NUM), "{field:?}");
        ensure_eq!(seen.src_qp.is_some(), has(Fields::SRC_QP), "{field:?}");
        ensure_eq!(seen.slid.is_some(), has(Fields::SLID), "{field:?}");
        ensure_eq!(seen.sl.is_some(), has(Fields::SL), "{field:?}");
        ensure_eq!(
            seen.path_bits.is_some(),
            has(Fields::DLID_PATH_BITS),
            "{field:?}"
        );
    }
    Ok(())
}

fn unsupported(setup: &Setup) -> anyhow::Result<()> {
    let channel = Channel::new(&Context::open(setup)?)?;
    for field in [
        sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
        sys::IBV_WC_EX_WITH_CVLAN,
        sys::IBV_WC_EX_WITH_FLOW_TAG,
        sys::IBV_WC_EX_WITH_TM_INFO,
        sys::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    ] {
        let made = Cq::extended(&channel, 16, STANDARD | field);
        fails_with(made, libc::EOPNOTSUPP, &format!("field {field:#x}"))?;
    }
    Ok(())
}

/// The calls of libibverbs, without the guard.
mod raw {
    use super::*;

    fn queue(cq: &Cq) -> *mut sys::ibv_cq_ex {
        cq.raw.cast()
    }

    pub fn start(cq: &Cq) -> i32 {
        let mut attr = sys::ibv_poll_cq_attr::default();
        // SAFETY: the queue is live and was made by ibv_create_cq_ex.
        unsafe { (*queue(cq)).start_poll.expect("it is there")(queue(cq), &mut attr) }
    }

    pub fn next(cq: &Cq) -> i32 {
        // SAFETY: as above.
        unsafe { (*queue(cq)).next_poll.expect("it is there")(queue(cq)) }
    }

    pub fn end(cq: &Cq) {
        // SAFETY: as above.
        unsafe { (*queue(cq)).end_poll.expect("it is there")(queue(cq)) }
    }

    pub fn id(cq: &Cq) -> u64 {
        // SAFETY: as above.
        unsafe { (*queue(cq)).wr_id }
    }
}

fn empty(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let cq = &scene.a.send_cq;
    anyhow::ensure!(
        cq.batches().start_poll()?.is_none(),
        "an empty queue has a batch"
    );
    // A failed start needs no end, so that another one works.
    for _ in 0..3 {
        ensure_eq!(raw::start(cq), libc::ENOENT);
    }
    Ok(())
}

fn end_of_batch(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let cq = &scene.a.send_cq;
    for round in [0, 10, 20] {
        scene.writes(round..round + 3)?;
        ensure_eq!(raw::start(cq), 0);
        ensure_eq!(raw::id(cq), round);
        for id in [round + 1, round + 2] {
            ensure_eq!(raw::next(cq), 0);
            ensure_eq!(raw::id(cq), id);
        }
        ensure_eq!(raw::next(cq), libc::ENOENT);
        raw::end(cq);
    }
    scene.writes(30..32)?;
    ensure_eq!(raw::start(cq), 0);
    raw::end(cq);
    ensure_eq!(raw::start(cq), 0);
    ensure_eq!(raw::id(cq), 31);
    raw::end(cq);
    ensure_eq!(raw::start(cq), libc::ENOENT);
    Ok(())
}

fn in_order(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    for round in 0..5 {
        let ids = round * 100..(round + 1) * 100;
        scene.writes(ids.clone())?;
        ensure_eq!(batch_of(&mut cq, usize::MAX)?, ids.collect::<Vec<_>>());
    }
    ensure_eq!(batch_of(&mut cq, 1)?, []);
    Ok(())
}

fn early_end(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    scene.writes(0..10)?;
    ensure_eq!(batch_of(&mut cq, 3)?, [0, 1, 2]);
    ensure_eq!(batch_of(&mut cq, 1)?, [3]);
    scene.writes(10..12)?;
    ensure_eq!(batch_of(&mut cq, 100)?, (4..12).collect::<Vec<_>>());
    Ok(())
}

fn forgotten(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let mut cq = scene.a.send_cq.batches();
    scene.writes(0..3)?;
    let mut batch = cq.start_poll()?.context("no batch")?;
    ensure_eq!(batch.next_poll()?.map(|it| it.wr_id()), Some(0));
    std::mem::forget(batch);
    ensure_eq!(batch_of(&mut cq, 100)?, [1, 2]);
    Ok(())
}

fn panicking(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    scene.writes(0..3)?;
    let mut cq = scene.a.send_cq.batches();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _batch = cq.start_poll();
        std::panic::resume_unwind(Box::new(()));
    }));
    anyhow::ensure!(outcome.is_err(), "it did not panic");
    ensure_eq!(batch_of(&mut cq, 100)?, [1, 2]);
    Ok(())
}

fn take_turns(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let cq = &scene.a.send_cq;
    scene.writes(0..6)?;
    for id in [0, 2, 4] {
        ensure_eq!(wait(cq)?.id, id);
        let other = cq.wait()?;
        other.ok(id + 1, sys::IBV_WC_RDMA_WRITE)?;
        ensure_eq!(other.0.qp_num, scene.a.number());
        ensure_eq!(other.0.pkey_index, 0);
    }
    stays_empty(cq)
}

fn events(setup: &Setup) -> anyhow::Result<()> {
    for kind in [sys::IBV_QPT_RC, sys::IBV_QPT_UC, sys::IBV_QPT_UD] {
        let scene = Scene::new(setup, kind, STANDARD)?;
        for round in 0..3 {
            scene.b.recv_cq.arm(false)?;
            scene.b.post_recv(round, &[scene.region.sge(0..100)])?;
            scene.post(Work::send(9, &[scene.region.sge(200..208)]))?;
            anyhow::ensure!(scene.channel.event(SOON)?, "no event");
            ensure_eq!(wait(&scene.b.recv_cq)?.id, round);
            ensure_eq!(wait(&scene.a.send_cq)?.id, 9);
        }
        anyhow::ensure!(!scene.channel.event(SILENCE)?, "one event too many");
    }
    Ok(())
}

fn error_event(setup: &Setup) -> anyhow::Result<()> {
    let scene = Scene::new(setup, sys::IBV_QPT_RC, STANDARD)?;
    let region = &scene.region;
    scene.a.send_cq.arm(true)?;
    scene.writes(0..1)?;
    anyhow::ensure!(!scene.channel.event(SILENCE)?, "an event for a success");
    let (piece, addr) = ([region.sge(0..8)], region.at(4096));
    scene.post(Work::write(1, &piece, addr, region.rkey()))?;
    anyhow::ensure!(scene.channel.event(SOON)?, "no event");
    ensure_eq!(wait(&scene.a.send_cq)?.id, 0);
    ensure_eq!(wait(&scene.a.send_cq)?.status, sys::IBV_WC_REM_ACCESS_ERR);
    Ok(())
}

fn traffic(setup: &Setup) -> anyhow::Result<()> {
    const COUNT: u64 = 2000;
    let mut peer = Peer::start(|stream| {
        let mut side = Side::new(setup, stream)?;
        for id in 0..COUNT {
            side.qp.post(&Work::send(id, &[side.region.sge(0..8)]))?;
            ensure_eq!(wait(&side.qp.send_cq)?.id, id);
        }
        hear(&mut side.stream).map(drop)
    })?;
    let side = Side::new(setup, peer.stream.try_clone()?)?;
    let mut cq = side.qp.recv_cq.batches();
    let mut due = 0;
    while due < COUNT {
        let ids = until(crate::harness::cq::DEADLINE, || {
            let ids = batch_of(&mut cq, usize::MAX);
            ids.map(|ids| (!ids.is_empty()).then_some(ids)).transpose()
        });
        let ids = ids.with_context(|| format!("completion {due} does not come"))??;
        for id in ids {
            ensure_eq!(id, due);
            due += 1;
            side.qp.post_recv(id + DEPTH, &[side.region.whole()])?;
        }
    }
    tell(&mut peer.stream, 0)?;
    peer.finish()
}

/// Receives that are posted in the test with two processes.
const DEPTH: u64 = 64;

/// One of two processes, with receives posted.
struct Side {
    qp: Qp,
    region: Mr,
    stream: UnixStream,
}

impl Side {
    fn new(setup: &Setup, mut stream: UnixStream) -> anyhow::Result<Self> {
        let context = Context::open(setup)?;
        let pd = context.pd()?;
        let channel = Channel::new(&context)?;
        let cq = || Cq::extended(&channel, 256, STANDARD);
        let qp = Qp::on(&pd, &QpOptions::default(), cq()?, cq()?)?;
        let region = Mr::new(&pd, 64, ALL)?;
        qp.init(&Link::default())?;
        for id in 0..DEPTH {
            qp.post_recv(id, &[region.whole()])?;
        }
        let peer = exchange(&mut stream, &qp)?;
        qp.ready_to_receive(&Link::default(), peer)?;
        qp.ready_to_send(&Link::default())?;
        Ok(Self { qp, region, stream })
    }
}
