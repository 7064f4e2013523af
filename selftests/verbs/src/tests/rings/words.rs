// SPDX-License-Identifier: GPL-2.0

//! One word of a ring has a value that is none.

use mrx::sys;

use super::victim::{domain, Victim, EDGES};
use crate::harness::{
    check::same_bytes,
    pattern,
    rings::{self, dma, recv, ring_doorbell, send, Ring, Shape},
    Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "rings: a request that is written by hand is executed",
        by_hand,
    ),
    Test::new(
        "rings: a receive that is changed by hand is used as it is then",
        receive_by_hand,
    ),
    Test::new("rings: a request with four billion pieces", huge_count),
    Test::new("rings: a request of four billion bytes", huge_length),
    Test::new("rings: inline data of four billion bytes", huge_inline),
    Test::new(
        "rings: a request whose pieces and length do not agree",
        disagreeing,
    ),
    Test::new(
        "rings: a request with every opcode from 0 to 300",
        every_opcode,
    )
    .seconds(90),
    Test::new(
        "rings: a request that only the kernel may post fails at home",
        of_the_kernel,
    ),
    Test::new("rings: a request in every state", every_state),
    Test::new("rings: a producer index far ahead or behind", producer),
    Test::new("rings: a consumer index far ahead or behind", consumer),
    Test::new("rings: another element size and index mask", head),
    Test::new("rings: a receive with four billion pieces", huge_receive),
    Test::new(
        "rings: a receive ring with a producer index far ahead",
        receive_producer,
    ),
    Test::new(
        "rings: a completion ring with a consumer index anywhere",
        completion_consumer,
    ),
];

/// Writes a request to element 0 of the send ring, as a provider would, with
/// some words changed, and lets the kernel see it.
fn post_by_hand(victim: &Victim, changes: &[(usize, u32)]) -> anyhow::Result<()> {
    let (ring, shape) = victim.send;
    let element = ring.element(shape, 0);
    let (address, target) = (victim.region.at(0), victim.region.at(1000));
    let words = [
        (send::OPCODE, sys::IBV_WR_RDMA_WRITE),
        (send::FLAGS, sys::IBV_SEND_SIGNALED),
        (send::TARGET, target as u32),
        (send::TARGET + 4, (target >> 32) as u32),
        (send::TARGET + 8, victim.region.rkey()),
        (send::DMA + dma::LENGTH, 64),
        (send::DMA + dma::RESIDUE, 64),
        (send::DMA + dma::COUNT, 1),
        (send::DMA + dma::ADDR, address as u32),
        (send::DMA + dma::ADDR + 4, (address >> 32) as u32),
        (send::DMA + dma::SGE_LENGTH, 64),
        (send::DMA + dma::LKEY, victim.region.lkey()),
    ];
    for (at, value) in words.iter().chain(changes) {
        ring.set_word(element + at, *value);
    }
    ring.set_word(rings::PRODUCER, 1);
    Ok(ring_doorbell(&victim.qp)?)
}

fn with_element(
    setup: &Setup,
    cases: impl IntoIterator<Item = Vec<(usize, u32)>>,
) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    for case in cases {
        let victim = Victim::new(&pd)?;
        post_by_hand(&victim, &case)?;
        victim
            .end(&pd)
            .map_err(|error| error.context(format!("words {case:x?}")))?;
    }
    Ok(())
}

/// Shows that the other tests reach the kernel at all.
fn by_hand(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    let victim = Victim::new(&pd)?;
    post_by_hand(&victim, &[])?;
    victim.qp.send_cq.wait()?.ok(0, sys::IBV_WC_RDMA_WRITE)?;
    let wanted = pattern(1, 1 << 16);
    same_bytes(
        &victim.region.memory.read(1000..1064),
        &wanted[..64],
        "the target",
    )?;
    victim.end(&pd)
}

fn receive_by_hand(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    let victim = Victim::new(&pd)?;
    let (ring, shape) = victim.receive;
    let place = victim.region.at(5000);
    let at = ring.element(shape, 0) + recv::DMA + dma::ADDR;
    ring.set_word(at, place as u32);
    ring.set_word(at + 4, (place >> 32) as u32);
    victim
        .peer
        .post(&Work::send(5, &[victim.region.sge(0..500)]))?;
    victim
        .qp
        .recv_cq
        .wait()?
        .ok(100, sys::IBV_WC_RECV)?
        .bytes(500)?;
    let wanted = pattern(1, 1 << 16);
    same_bytes(
        &victim.region.memory.read(5000..5500),
        &wanted[..500],
        "the new place",
    )?;
    victim.end(&pd)
}

fn each(
    at: usize,
    values: impl IntoIterator<Item = u32>,
) -> impl Iterator<Item = Vec<(usize, u32)>> {
    values.into_iter().map(move |value| vec![(at, value)])
}

fn huge_count(setup: &Setup) -> anyhow::Result<()> {
    with_element(setup, each(send::DMA + dma::COUNT, EDGES))
}

fn huge_length(setup: &Setup) -> anyhow::Result<()> {
    let lengths = EDGES.map(|value| {
        vec![
            (send::DMA + dma::LENGTH, value),
            (send::DMA + dma::RESIDUE, value),
            (send::DMA + dma::SGE_LENGTH, value),
        ]
    });
    with_element(setup, lengths)
}

fn huge_inline(setup: &Setup) -> anyhow::Result<()> {
    let lengths = EDGES.map(|value| {
        vec![
            (send::FLAGS, sys::IBV_SEND_SIGNALED | sys::IBV_SEND_INLINE),
            (send::DMA + dma::LENGTH, value),
            (send::DMA + dma::RESIDUE, value),
            (send::DMA + dma::OFFSET, value),
        ]
    });
    with_element(setup, lengths)
}

fn disagreeing(setup: &Setup) -> anyhow::Result<()> {
    let places = [
        dma::LENGTH,
        dma::RESIDUE,
        dma::CURRENT,
        dma::OFFSET,
        dma::SGE_LENGTH,
        dma::LKEY,
    ];
    with_element(
        setup,
        places
            .into_iter()
            .flat_map(|place| each(send::DMA + place, EDGES)),
    )
}

fn every_opcode(setup: &Setup) -> anyhow::Result<()> {
    let opcodes = (0..40).chain([255, 256, 300]).chain(EDGES);
    with_element(setup, each(send::OPCODE, opcodes))
}

/// What registers pages, and reads with an invalidation, as consumers in the
/// kernel may.
fn of_the_kernel(setup: &Setup) -> anyhow::Result<()> {
    const REG_MR: u32 = 0x20;
    const READ_WITH_INVALIDATE: u32 = 0x100;
    let pd = domain(setup)?;
    for opcode in [REG_MR, READ_WITH_INVALIDATE] {
        let victim = Victim::new(&pd)?;
        post_by_hand(&victim, &[(send::OPCODE, opcode)])?;
        let completion = victim.qp.send_cq.wait()?;
        completion.is(0, sys::IBV_WC_LOC_QP_OP_ERR)?;
        victim.end(&pd)?;
    }
    Ok(())
}

fn every_state(setup: &Setup) -> anyhow::Result<()> {
    let states = each(send::STATE, (0..8).chain(EDGES));
    with_element(setup, states.chain(each(send::STATUS, EDGES)))
}

/// Sets a word of a ring's head to everything that is remarkable.
fn with_head(
    setup: &Setup,
    ring_of: impl Fn(&Victim) -> Vec<(Ring, Shape)>,
    at: usize,
) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    for value in EDGES.into_iter().chain([62, 63, 64, 65]) {
        let victim = Victim::new(&pd)?;
        victim.post_some();
        for (ring, _) in ring_of(&victim) {
            ring.set_word(at, value);
        }
        let _ = ring_doorbell(&victim.qp);
        victim
            .end(&pd)
            .map_err(|error| error.context(format!("value {value:#x}")))?;
    }
    Ok(())
}

fn producer(setup: &Setup) -> anyhow::Result<()> {
    with_head(setup, |victim| vec![victim.send], rings::PRODUCER)
}

fn consumer(setup: &Setup) -> anyhow::Result<()> {
    with_head(setup, |victim| vec![victim.send], rings::CONSUMER)
}

fn head(setup: &Setup) -> anyhow::Result<()> {
    let all = |victim: &Victim| {
        let mut rings = victim.completions.clone();
        rings.extend([victim.send, victim.receive]);
        rings
    };
    with_head(setup, all, rings::ELEMENT_SIZE)?;
    with_head(setup, all, rings::INDEX_MASK)
}

fn huge_receive(setup: &Setup) -> anyhow::Result<()> {
    let pd = domain(setup)?;
    for place in [
        dma::COUNT,
        dma::LENGTH,
        dma::RESIDUE,
        dma::CURRENT,
        dma::OFFSET,
        dma::SGE_LENGTH,
    ] {
        for value in EDGES {
            let victim = Victim::new(&pd)?;
            let (ring, shape) = victim.receive;
            ring.set_word(ring.element(shape, 0) + recv::DMA + place, value);
            victim
                .peer
                .post(&Work::send(5, &[victim.region.sge(0..500)]))?;
            victim.end(&pd)?;
        }
    }
    Ok(())
}

fn receive_producer(setup: &Setup) -> anyhow::Result<()> {
    with_head(setup, |victim| vec![victim.receive], rings::PRODUCER)?;
    with_head(setup, |victim| vec![victim.receive], rings::CONSUMER)
}

fn completion_consumer(setup: &Setup) -> anyhow::Result<()> {
    with_head(setup, |victim| victim.completions.clone(), rings::CONSUMER)?;
    with_head(setup, |victim| victim.completions.clone(), rings::PRODUCER)
}
