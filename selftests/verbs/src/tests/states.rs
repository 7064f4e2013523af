// SPDX-License-Identifier: GPL-2.0

//! The states of a queue pair (IBTA 10.3.1).

use std::time::Duration;

use mrx::sys::{
    self, ibv_qp_attr, IBV_QPS_ERR, IBV_QPS_INIT, IBV_QPS_RESET, IBV_QPS_RTR, IBV_QPS_RTS,
    IBV_QPS_SQD,
};

use crate::harness::{
    check::fails_with, check::same_bytes, ensure_eq, memory::ALL, pattern, Context, Link, Pair, Qp,
    QpOptions, Setup, Test, Work,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "states: a new queue pair is in RESET, and each step is reported",
        steps,
    ),
    Test::new(
        "states: transitions that are not in the diagram fail with EINVAL",
        wrong_steps,
    ),
    Test::new(
        "states: a step with an attribute missing fails with EINVAL",
        missing_attribute,
    ),
    Test::new(
        "states: a step with an attribute too many fails with EINVAL",
        spare_attribute,
    ),
    Test::new(
        "states: a port that does not exist fails with EINVAL",
        wrong_port,
    ),
    Test::new("states: a SEND is refused before RTS", send_too_early),
    Test::new(
        "states: receives posted in INIT are used in RTR",
        receive_in_init,
    ),
    Test::new(
        "states: the error state flushes sends and receives in order",
        flush,
    ),
    Test::new(
        "states: what is posted in the error state is flushed",
        post_in_error,
    ),
    Test::new(
        "states: no transition leads out of the error state but RESET",
        out_of_error,
    ),
    Test::new(
        "states: RESET forgets what was posted, without completions",
        reset_forgets,
    ),
    Test::new(
        "states: a queue pair can be used again after RESET",
        reset_reuse,
    ),
    Test::new(
        "states: a queue pair can be used again after the error state",
        error_reuse,
    ),
    Test::new("states: sends posted in SQD wait for RTS", drained),
    Test::new(
        "states: the attributes that were set can be read",
        attributes,
    ),
    Test::new(
        "states: a queue pair with more than the device has fails with EINVAL",
        too_much,
    ),
];

fn fresh(setup: &Setup) -> anyhow::Result<Qp> {
    let pd = Context::open(setup)?.pd()?;
    Ok(Qp::new(&pd, &QpOptions::default())?)
}

fn steps(setup: &Setup) -> anyhow::Result<()> {
    let qp = fresh(setup)?;
    let link = Link::default();
    ensure_eq!(qp.state()?, IBV_QPS_RESET);
    qp.init(&link)?;
    ensure_eq!(qp.state()?, IBV_QPS_INIT);
    qp.init(&link)?;
    ensure_eq!(qp.state()?, IBV_QPS_INIT);
    qp.ready_to_receive(&link, qp.address())?;
    ensure_eq!(qp.state()?, IBV_QPS_RTR);
    qp.ready_to_send(&link)?;
    ensure_eq!(qp.state()?, IBV_QPS_RTS);
    qp.set_state(IBV_QPS_ERR)?;
    ensure_eq!(qp.state()?, IBV_QPS_ERR);
    qp.set_state(IBV_QPS_RESET)?;
    ensure_eq!(qp.state()?, IBV_QPS_RESET);
    Ok(())
}

fn wrong_steps(setup: &Setup) -> anyhow::Result<()> {
    let qp = fresh(setup)?;
    let link = Link::default();
    let peer = qp.address();
    fails_with(
        qp.ready_to_receive(&link, peer),
        libc::EINVAL,
        "RESET to RTR",
    )?;
    fails_with(qp.ready_to_send(&link), libc::EINVAL, "RESET to RTS")?;
    qp.init(&link)?;
    fails_with(qp.ready_to_send(&link), libc::EINVAL, "INIT to RTS")?;
    qp.ready_to_receive(&link, peer)?;
    fails_with(qp.init(&link), libc::EINVAL, "RTR to INIT")?;
    fails_with(qp.ready_to_receive(&link, peer), libc::EINVAL, "RTR to RTR")?;
    qp.ready_to_send(&link)?;
    fails_with(qp.init(&link), libc::EINVAL, "RTS to INIT")?;
    fails_with(qp.ready_to_receive(&link, peer), libc::EINVAL, "RTS to RTR")?;
    ensure_eq!(qp.state()?, IBV_QPS_RTS);
    Ok(())
}

fn missing_attribute(setup: &Setup) -> anyhow::Result<()> {
    let qp = fresh(setup)?;
    fails_with(
        qp.set_state(IBV_QPS_INIT),
        libc::EINVAL,
        "INIT with nothing else",
    )?;
    qp.init(&Link::default())?;
    fails_with(
        qp.set_state(IBV_QPS_RTR),
        libc::EINVAL,
        "RTR with nothing else",
    )?;
    qp.ready_to_receive(&Link::default(), qp.address())?;
    fails_with(
        qp.set_state(IBV_QPS_RTS),
        libc::EINVAL,
        "RTS with nothing else",
    )
}

fn spare_attribute(setup: &Setup) -> anyhow::Result<()> {
    let qp = fresh(setup)?;
    let mut attr = ibv_qp_attr {
        qp_state: IBV_QPS_INIT,
        port_num: 1,
        ..Default::default()
    };
    let mask = sys::IBV_QP_STATE
        | sys::IBV_QP_PKEY_INDEX
        | sys::IBV_QP_PORT
        | sys::IBV_QP_ACCESS_FLAGS
        | sys::IBV_QP_SQ_PSN;
    fails_with(
        qp.modify(&mut attr, mask),
        libc::EINVAL,
        "INIT with a send PSN",
    )
}

fn wrong_port(setup: &Setup) -> anyhow::Result<()> {
    let qp = fresh(setup)?;
    let mask =
        sys::IBV_QP_STATE | sys::IBV_QP_PKEY_INDEX | sys::IBV_QP_PORT | sys::IBV_QP_ACCESS_FLAGS;
    for port_num in [0, 2, 255] {
        let mut attr = ibv_qp_attr {
            qp_state: IBV_QPS_INIT,
            port_num,
            ..Default::default()
        };
        fails_with(
            qp.modify(&mut attr, mask),
            libc::EINVAL,
            &format!("port {port_num}"),
        )?;
    }
    Ok(())
}

fn send_too_early(setup: &Setup) -> anyhow::Result<()> {
    let send = Work::send(1, &[]);
    let qp = fresh(setup)?;
    fails_with(qp.post(&send), libc::EINVAL, "a SEND in RESET")?;
    qp.init(&Link::default())?;
    fails_with(qp.post(&send), libc::EINVAL, "a SEND in INIT")?;
    qp.ready_to_receive(&Link::default(), qp.address())?;
    fails_with(qp.post(&send), libc::EINVAL, "a SEND in RTR")
}

fn receive_in_init(setup: &Setup) -> anyhow::Result<()> {
    let context = Context::open(setup)?;
    let pd = context.pd()?;
    let link = Link {
        rnr_retries: 0,
        ..Default::default()
    };
    let (a, b) = (
        Qp::new(&pd, &QpOptions::default())?,
        Qp::new(&pd, &QpOptions::default())?,
    );
    a.connect(&link, b.address())?;
    b.init(&link)?;
    b.post_recv(2, &[])?;
    b.ready_to_receive(&link, a.address())?;
    a.post(&Work::send(1, &[]))?;
    a.send_cq.wait()?.ok(1, sys::IBV_WC_SEND)?;
    b.recv_cq.wait()?.ok(2, sys::IBV_WC_RECV)?.bytes(0)?;
    Ok(())
}

fn flush(setup: &Setup) -> anyhow::Result<()> {
    // Whoever waits for the receive wakes up at any moment, and flushes, too.
    for _ in 0..20 {
        flush_once(setup)?;
    }
    Ok(())
}

fn flush_once(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    for id in 0..20 {
        pair.a.post_recv(id, &[region.whole()])?;
    }
    // There is no receive for them.
    let sends: Vec<_> = (0..20)
        .map(|id| Work::send(id, &[region.whole()]))
        .collect();
    pair.a.post_all(&sends)?;
    pair.a.set_state(IBV_QPS_ERR)?;
    pair.a.send_cq.flushes(0..20)?;
    pair.a.recv_cq.flushes(0..20)?;
    pair.a.send_cq.stays_empty(Duration::from_millis(50))?;
    pair.a.recv_cq.stays_empty(Duration::from_millis(50))
}

fn post_in_error(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    pair.a.set_state(IBV_QPS_ERR)?;
    for id in 0..5 {
        pair.a.post(&Work::send(id, &[region.whole()]))?;
    }
    pair.a.send_cq.flushes(0..5)
}

fn out_of_error(setup: &Setup) -> anyhow::Result<()> {
    let qp = fresh(setup)?;
    let link = Link::default();
    qp.init(&link)?;
    qp.set_state(IBV_QPS_ERR)?;
    fails_with(qp.init(&link), libc::EINVAL, "ERR to INIT")?;
    fails_with(
        qp.ready_to_receive(&link, qp.address()),
        libc::EINVAL,
        "ERR to RTR",
    )?;
    fails_with(qp.ready_to_send(&link), libc::EINVAL, "ERR to RTS")?;
    qp.set_state(IBV_QPS_ERR)?;
    qp.set_state(IBV_QPS_RESET)?;
    qp.init(&link)?;
    Ok(())
}

fn reset_forgets(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    let region = pair.region(64, ALL)?;
    pair.a.post_recv(1, &[region.whole()])?;
    pair.a.post(&Work::send(1, &[region.whole()]))?;
    pair.a.send_cq.stays_empty(Duration::from_millis(50))?;
    pair.a.set_state(IBV_QPS_RESET)?;
    pair.a.send_cq.stays_empty(Duration::from_millis(100))?;
    pair.a.recv_cq.stays_empty(Duration::from_millis(50))
}

/// Connects the two again, and sends something both ways.
fn reconnects(pair: &Pair) -> anyhow::Result<()> {
    let link = Link::default();
    for qp in [&pair.a, &pair.b] {
        qp.set_state(IBV_QPS_RESET)?;
    }
    pair.a.connect(&link, pair.b.address())?;
    pair.b.connect(&link, pair.a.address())?;
    for (seed, from, to) in [(1, &pair.a, &pair.b), (2, &pair.b, &pair.a)] {
        let bytes = pattern(seed, 5000);
        let (source, target) = (pair.filled(&bytes, ALL)?, pair.region(5000, ALL)?);
        to.post_recv(11, &[target.whole()])?;
        from.post(&Work::send(10, &[source.whole()]))?;
        from.send_cq.wait()?.ok(10, sys::IBV_WC_SEND)?;
        to.recv_cq.wait()?.ok(11, sys::IBV_WC_RECV)?.bytes(5000)?;
        same_bytes(&target.memory.all(), &bytes, "what came")?;
    }
    Ok(())
}

fn reset_reuse(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    for _ in 0..5 {
        reconnects(&pair)?;
    }
    Ok(())
}

fn error_reuse(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    for _ in 0..5 {
        pair.a.post(&Work::write(1, &[], 0, 0))?;
        pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
        pair.a.set_state(IBV_QPS_ERR)?;
        pair.a.post(&Work::send(2, &[]))?;
        pair.a.send_cq.flushes([2])?;
        pair.b.set_state(IBV_QPS_ERR)?;
        reconnects(&pair)?;
    }
    Ok(())
}

fn drained(setup: &Setup) -> anyhow::Result<()> {
    let pair = Pair::new(setup)?;
    pair.a.post(&Work::write(1, &[], 0, 0))?;
    pair.a.send_cq.wait()?.ok(1, sys::IBV_WC_RDMA_WRITE)?;
    pair.a.set_state(IBV_QPS_SQD)?;
    pair.a.post(&Work::write(2, &[], 0, 0))?;
    pair.a.send_cq.stays_empty(Duration::from_millis(200))?;
    pair.a.set_state(IBV_QPS_RTS)?;
    pair.a.send_cq.wait()?.ok(2, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}

const READABLE: u32 = sys::IBV_QP_STATE
    | sys::IBV_QP_DEST_QPN
    | sys::IBV_QP_TIMEOUT
    | sys::IBV_QP_RETRY_CNT
    | sys::IBV_QP_RNR_RETRY
    | sys::IBV_QP_MIN_RNR_TIMER
    | sys::IBV_QP_ACCESS_FLAGS
    | sys::IBV_QP_PATH_MTU
    | sys::IBV_QP_RQ_PSN
    | sys::IBV_QP_SQ_PSN
    | sys::IBV_QP_PORT;

fn attributes(setup: &Setup) -> anyhow::Result<()> {
    let link = Link {
        access: ALL,
        timeout: 14,
        retries: 5,
        rnr_retries: 3,
        rnr_timer: 12,
    };
    let pair = Pair::linked(setup, &link)?;
    let attr = pair.a.query(READABLE)?;
    ensure_eq!(attr.qp_state, IBV_QPS_RTS);
    ensure_eq!(attr.dest_qp_num, pair.b.number());
    ensure_eq!(attr.timeout, 14);
    ensure_eq!(attr.retry_cnt, 5);
    ensure_eq!(attr.rnr_retry, 3);
    ensure_eq!(attr.min_rnr_timer, 12);
    ensure_eq!(attr.qp_access_flags, ALL);
    ensure_eq!(attr.path_mtu, pair.context.mtu);
    ensure_eq!(attr.rq_psn, pair.b.address().psn);
    ensure_eq!(attr.sq_psn, pair.a.address().psn);
    ensure_eq!(attr.port_num, 1);
    Ok(())
}

fn too_much(setup: &Setup) -> anyhow::Result<()> {
    let pd = Context::open(setup)?.pd()?;
    let usual = QpOptions::default();
    let cases = [
        QpOptions {
            sges: 100_000,
            ..usual.clone()
        },
        QpOptions {
            depth: 100_000_000,
            ..usual.clone()
        },
        QpOptions {
            inline: 100_000_000,
            ..usual.clone()
        },
    ];
    for options in cases {
        let cq = crate::harness::Cq::new(&pd.context, 16)?;
        fails_with(
            Qp::on(&pd, &options, cq.clone(), cq).map(drop),
            libc::EINVAL,
            "too much",
        )?;
    }
    Ok(())
}
