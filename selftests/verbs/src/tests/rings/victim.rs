// SPDX-License-Identifier: GPL-2.0

//! A queue pair to be ill-treated.

use std::{rc::Rc, time::Duration};

use mrx::sys;

use crate::harness::{
    check::same_bytes,
    memory::ALL,
    pattern,
    rings::{self, ring_doorbell, Ring, Shape},
    skip, Cq, Link, Memory, Mr, Pair, Pd, Qp, QpOptions, Setup, Work,
};

/// Values that are at the edge of something.
pub const EDGES: [u32; 14] = [
    0,
    1,
    2,
    15,
    16,
    17,
    127,
    128,
    129,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
];

/// A queue pair whose rings are known, with a healthy peer, and memory that
/// nothing may touch.
pub struct Victim {
    pub qp: Qp,
    pub peer: Qp,
    pub region: Mr,
    canary: Rc<Memory>,
    pub send: (Ring, Shape),
    pub receive: (Ring, Shape),
    pub completions: Vec<(Ring, Shape)>,
}

impl Victim {
    pub fn new(pd: &Rc<Pd>) -> anyhow::Result<Self> {
        let options = QpOptions {
            depth: 64,
            ..Default::default()
        };
        let make = || Ok((Cq::new(&pd.context, 128)?, Cq::new(&pd.context, 128)?));
        let ((send_cq, recv_cq), completions) = Ring::of(make)?;
        let (qp, found) = Ring::of(|| Ok(Qp::on(pd, &options, send_cq, recv_cq)?))?;
        let (canary, region) = (
            Memory::new(1 << 16)?,
            Mr::filled(pd, &pattern(1, 1 << 16), ALL)?,
        );
        canary.write(0, &pattern(2, 1 << 16));
        let peer = Qp::new(pd, &QpOptions::default())?;
        let link = Link {
            timeout: 10,
            retries: 1,
            rnr_retries: 1,
            ..Default::default()
        };
        qp.init(&link)?;
        // Only one of the two rings has a request then.
        qp.post_recv(100, &[region.sge(0..1000)])?;
        let receives = |ring: &Ring| ring.word(rings::PRODUCER) == 1;
        let (receive, send) = match found.as_slice() {
            [one, other] if receives(one) && !receives(other) => (*one, *other),
            [one, other] if receives(other) && !receives(one) => (*other, *one),
            _ => return skip(format!("the rings cannot be told apart: {found:?}")),
        };
        qp.ready_to_receive(&link, peer.address())?;
        qp.ready_to_send(&link)?;
        peer.connect(&link, qp.address())?;
        for id in 0..4 {
            peer.post_recv(id, &[region.sge(0..1000)])?;
        }
        let shaped = |ring: Ring| (ring, ring.shape());
        let completions = completions.into_iter().map(shaped).collect();
        let (send, receive) = (shaped(send), shaped(receive));
        Ok(Self {
            qp,
            peer,
            region,
            canary,
            send,
            receive,
            completions,
        })
    }

    /// Posts good requests with the library, whose elements are then changed.
    /// A failure is none here: the ring may already be broken.
    pub fn post_some(&self) {
        let piece = [self.region.sge(0..100), self.region.sge(200..300)];
        let works = [
            Work::write(1, &piece, self.region.at(1000), self.region.rkey()),
            Work::read(2, &piece, self.region.at(1000), self.region.rkey()),
            Work::send(3, &piece),
        ];
        let _ = self.qp.post_all(&works);
        let _ = self.qp.post_recv(4, &piece);
    }

    /// Ends it, and shows that nothing else came to harm.
    pub fn end(self, pd: &Rc<Pd>) -> anyhow::Result<()> {
        // Time for the kernel to stumble.
        let _ = ring_doorbell(&self.qp);
        let _ = self.peer.post(&Work::send(5, &[self.region.sge(0..64)]));
        std::thread::sleep(Duration::from_millis(2));
        self.qp.set_state(sys::IBV_QPS_ERR)?;
        same_bytes(
            &self.canary.all(),
            &pattern(2, 1 << 16),
            "memory that is no region",
        )?;
        drop(self);
        works(pd)
    }
}

/// A fresh pair of queue pairs carries a message.
fn works(pd: &Rc<Pd>) -> anyhow::Result<()> {
    let pair = Pair::in_domain(pd, &QpOptions::default(), &Link::default())?;
    let bytes = pattern(3, 9000);
    let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(9000, ALL)?);
    pair.b.post_recv(2, &[target.whole()])?;
    pair.a.post(&Work::send(1, &[source.whole()]))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    pair.b
        .recv_cq
        .wait()?
        .ok(2, sys::IBV_WC_RECV)?
        .bytes(9000)?;
    same_bytes(&target.memory.all(), &bytes, "a message of a fresh pair")
}

pub fn domain(setup: &Setup) -> anyhow::Result<Rc<Pd>> {
    Ok(crate::harness::Context::open(setup)?.pd()?)
}
