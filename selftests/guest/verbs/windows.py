# SPDX-License-Identifier: GPL-2.0
"""Memory windows."""

import errno
import time

import pyverbs.enums as e
from pyverbs.cq import CQEX, CqInitAttrEx, PollCqAttr
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from harness import DEVICE, WAIT, Failure, Side, check, fails, pair, remote, test, wait


MW_OPS = (e.IBV_QP_EX_WITH_BIND_MW | e.IBV_QP_EX_WITH_LOCAL_INV | e.IBV_QP_EX_WITH_SEND_WITH_INV
          | e.IBV_QP_EX_WITH_SEND | e.IBV_QP_EX_WITH_RDMA_WRITE)
MW_ACCESS = e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ


def window(side, kind=e.IBV_MW_TYPE_2):
    """A window that is gone before the region that it may be bound to."""
    mw = MW(side.pd, kind)
    side.windows.append(mw)
    return mw


def bind(side, mw, rkey, offset, length, access=MW_ACCESS, status=e.IBV_WC_SUCCESS):
    side.qp.wr_start()
    side.qp.wr_id, side.qp.wr_flags = 3, e.IBV_SEND_SIGNALED
    side.qp.wr_bind_mw(mw, rkey, MWBindInfo(side.mr, side.mr.buf + offset, length, access))
    side.qp.wr_complete()
    return wait(side.scq, status)


def next_key(rkey):
    return rkey & 0xFFFFFF00 | (rkey + 1) & 0xFF


@test
def a_window_of_type_2_opens_its_part_of_a_region_and_no_more():
    a, b = pair(ex=MW_OPS)
    mw = window(b)
    rkey = next_key(mw.rkey)
    check("opcode", bind(b, mw, rkey, 1024, 128).opcode, e.IBV_WC_BIND_MW)
    a.mr.write(b"w" * 64, 64)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 1024, rkey))
    wait(a.scq)
    check("bytes", b.mr.read(64, 1024), b"w" * 64)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 1024 + 128 - 32, rkey))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def a_window_of_type_2_serves_the_queue_pair_that_bound_it():
    a, b = pair(ex=MW_OPS)
    c, d = pair(ex=MW_OPS)
    mw = window(b)
    rkey = next_key(mw.rkey)
    bind(b, mw, rkey, 0, 128)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, rkey))
    wait(a.scq)
    c.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, rkey))
    wait(c.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def invalidating_a_window_takes_its_key_back():
    a, b = pair(ex=MW_OPS)
    mw = window(b)
    rkey = next_key(mw.rkey)
    bind(b, mw, rkey, 0, 128)
    b.qp.wr_start()
    b.qp.wr_id, b.qp.wr_flags = 4, e.IBV_SEND_SIGNALED
    b.qp.wr_local_inv(rkey)
    b.qp.wr_complete()
    check("opcode", wait(b.scq).opcode, e.IBV_WC_LOCAL_INV)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, rkey))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def a_send_with_invalidate_takes_the_receivers_window_back():
    a, b = pair(ex=MW_OPS)
    mw = window(b)
    rkey = next_key(mw.rkey)
    bind(b, mw, rkey, 0, 128)
    b.recv()
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 4, e.IBV_SEND_SIGNALED
    a.qp.wr_send_inv(rkey)
    a.qp.wr_set_sge(a.sge())
    a.qp.wr_complete()
    wait(a.scq)
    wc = wait(b.rcq)
    check("flags", wc.wc_flags & e.IBV_WC_WITH_INV, e.IBV_WC_WITH_INV)
    check("key", wc.imm_data, rkey)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, rkey))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def an_extended_queue_names_the_key_that_a_send_took_back():
    ctx = Context(name=DEVICE)
    queue = CQEX(ctx, CqInitAttrEx(cqe=16, wc_flags=e.IBV_WC_EX_WITH_IMM | e.IBV_WC_EX_WITH_BYTE_LEN))
    a, b = Side(ctx=ctx, ex=MW_OPS), Side(ctx=ctx, ex=MW_OPS, rcq=queue)
    a.connect(b)
    b.connect(a)
    mw = window(b)
    rkey = next_key(mw.rkey)
    bind(b, mw, rkey, 0, 128)
    b.recv()
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 4, e.IBV_SEND_SIGNALED
    a.qp.wr_send_inv(rkey)
    a.qp.wr_set_sge(a.sge(48))
    a.qp.wr_complete()
    wait(a.scq)
    end = time.time() + WAIT
    while queue.start_poll(PollCqAttr()) != 0:
        if time.time() > end:
            raise Failure("no completion")
    try:
        check("status", queue.status, e.IBV_WC_SUCCESS)
        check("wr_id", queue.wr_id, 9)
        check("opcode", queue.read_opcode(), e.IBV_WC_RECV)
        check("flags", queue.read_wc_flags(), e.IBV_WC_WITH_INV)
        check("length", queue.read_byte_len(), 48)
        # ibv_wc_read_invalidated_rkey is this reader, too.
        check("key", queue.read_imm_data(), rkey)
    finally:
        queue.end_poll()


@test
def a_window_of_type_2_cannot_be_bound_twice():
    _, b = pair(ex=MW_OPS)
    mw = window(b)
    rkey = next_key(mw.rkey)
    bind(b, mw, rkey, 0, 128)
    bind(b, mw, next_key(rkey), 0, 128, status=e.IBV_WC_MW_BIND_ERR)


@test
def a_window_needs_a_region_with_bind_access():
    _, b = pair(ex=MW_OPS)
    b.mr = MR(b.pd, 4096, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
    mw = window(b)
    bind(b, mw, next_key(mw.rkey), 0, 128, status=e.IBV_WC_MW_BIND_ERR)


@test
def a_region_with_a_bound_window_is_not_deregistered():
    _, b = pair(ex=MW_OPS)
    mw = window(b)
    bind(b, mw, next_key(mw.rkey), 0, 128)
    fails(errno.EBUSY, b.mr.close)
    mw.close()
    b.mr.close()


@test
def a_window_of_type_1_is_bound_again_and_again():
    a, b = pair()
    mw = window(b, e.IBV_MW_TYPE_1)
    keys = []
    for offset in (0, 512):
        b.qp.bind_mw(mw, MWBind(MWBindInfo(b.mr, b.mr.buf + offset, 128, MW_ACCESS), e.IBV_SEND_SIGNALED))
        wait(b.scq)
        keys.append(mw.rkey)
        a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, offset, mw.rkey))
        wait(a.scq)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, keys[0]))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)
