# SPDX-License-Identifier: GPL-2.0
"""Shared receive queues and completion queues."""

import errno

import pyverbs.enums as e
from pyverbs.device import Context
from pyverbs.qp import QPAttr
from pyverbs.srq import SrqAttr
from harness import DEVICE, Failure, Side, check, fails, nothing, pair, remote, test, wait


@test
def a_shared_queue_tells_once_that_its_limit_is_reached():
    ctx = Context(name=DEVICE)
    a, b = Side(ctx=ctx), Side(ctx=ctx, srq=16)
    a.connect(b)
    b.connect(a)
    for _ in range(4):
        b.recv()
    b.srq.modify(SrqAttr(srq_limit=3), e.IBV_SRQ_LIMIT)
    for _ in range(2):
        a.send()
        wait(a.scq)
        wait(b.rcq)
    event = ctx.get_async_event()
    check("event", event.event_type, e.IBV_EVENT_SRQ_LIMIT_REACHED)
    event.ack()
    check("limit", b.srq.query().srq_limit, 0)


@test
def a_shared_queue_keeps_its_receives_when_it_is_resized():
    ctx = Context(name=DEVICE)
    a, b = Side(ctx=ctx), Side(ctx=ctx, srq=8)
    a.connect(b)
    b.connect(a)
    for i in range(5):
        b.recv(wr_id=100 + i)
    b.srq.modify(SrqAttr(max_wr=64), e.IBV_SRQ_MAX_WR)
    if b.srq.query().max_wr < 64:
        raise Failure("it did not grow")
    b.recv(wr_id=105)
    for i in range(6):
        a.send()
        wait(a.scq)
        check("receive", wait(b.rcq).wr_id, 100 + i)


@test
def a_queue_pair_in_error_says_that_no_more_of_the_shared_queue_comes():
    ctx = Context(name=DEVICE)
    a, b = Side(ctx=ctx), Side(ctx=ctx, srq=8)
    a.connect(b)
    b.connect(a)
    b.recv()
    b.qp.modify(QPAttr(qp_state=e.IBV_QPS_ERR), e.IBV_QP_STATE)
    event = ctx.get_async_event()
    check("event", event.event_type, e.IBV_EVENT_QP_LAST_WQE_REACHED)
    event.ack()
    nothing(b.rcq)


@test
def a_completion_queue_keeps_what_it_has_when_it_is_resized():
    a, b = pair()
    for i in range(5):
        a.send(e.IBV_WR_RDMA_WRITE, wr_id=i, setup=remote(b))
    a.scq.resize(200)
    for i in range(5):
        check("completion", wait(a.scq).wr_id, i)
    a.send(e.IBV_WR_RDMA_WRITE, wr_id=5, setup=remote(b))
    check("completion", wait(a.scq).wr_id, 5)


@test
def a_completion_queue_keeps_a_thousand_completions_when_it_is_resized():
    a, b = pair()
    a.scq.resize(2000)
    for i in range(1000):
        a.send(e.IBV_WR_RDMA_WRITE, wr_id=i, setup=remote(b))
    fails(errno.EINVAL, a.scq.resize, 500)
    a.scq.resize(1500)
    for i in range(1000):
        check("completion", wait(a.scq).wr_id, i)
    nothing(a.scq)
