// SPDX-License-Identifier: GPL-2.0

//! What the readers say of a completion.

use mrx::{
    sys::{self, ibv_qp_type},
    Fields,
};

use super::{stays_empty, wait, Scene, Seen, STANDARD};
use crate::harness::{check::fails_with, ensure_eq, Channel, Context, Cq, Setup, Test, Work};

const IMMEDIATE: u32 = 0x8765_4321;
/// Bytes in front of a datagram.
const GRH: usize = 40;

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
];

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
