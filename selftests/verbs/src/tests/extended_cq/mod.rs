// SPDX-License-Identifier: GPL-2.0

//! Completion queues that are polled in batches, field by field.

mod batches;
mod events;
mod readers;

use std::{io, rc::Rc, time::Duration};

use anyhow::Context as _;
use mrx::{
    sys::{self, ibv_qp_type, ibv_wc_opcode, ibv_wc_status},
    Completion, ExtendedCq,
};

use crate::harness::{
    cq::DEADLINE, ensure_eq, memory::ALL, qp::QKEY, until, Ah, Channel, Context, Cq, Link, Mr, Qp,
    QpOptions, Setup, Test, Work,
};

pub fn all() -> Vec<Test> {
    [readers::TESTS, batches::TESTS, events::TESTS].concat()
}

/// All that the library of rxe has.
const STANDARD: u32 = sys::IBV_WC_STANDARD_FLAGS;
const SILENCE: Duration = Duration::from_millis(100);

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
    cq.batch()?
        .next_poll()?
        .map(|it| Seen::new(&it))
        .transpose()
}

/// The next completion, or a failure when none comes in time.
fn wait(cq: &Cq) -> anyhow::Result<Seen> {
    let mut batches = cq.batches();
    until(DEADLINE, || next(&mut batches).transpose()).context("no completion in time")?
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
    let mut batch = cq.batch()?;
    while ids.len() < most {
        let Some(completion) = batch.next_poll()? else {
            break;
        };
        ensure_eq!(completion.status(), sys::IBV_WC_SUCCESS);
        ids.push(completion.wr_id());
    }
    Ok(ids)
}
