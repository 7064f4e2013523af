#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""verbs.py DEVICE: verbs that no stock program uses, through pyverbs.

One behaviour a test, named as a sentence. Prints KTAP.
"""

import ctypes
import errno
import os
import struct
import sys
import time
import traceback

import pyverbs.enums as e
from pyverbs.addr import AH, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

DEVICE = sys.argv[1]
GID_INDEX = 1
QKEY = 0x11111111
GRH = 40
ALL = (
    e.IBV_ACCESS_LOCAL_WRITE
    | e.IBV_ACCESS_REMOTE_WRITE
    | e.IBV_ACCESS_REMOTE_READ
    | e.IBV_ACCESS_REMOTE_ATOMIC
    | e.IBV_ACCESS_MW_BIND
)
WAIT = 20

TESTS = []
# Those of the running test.
SIDES = []


def test(f):
    TESTS.append(f)
    return f


class Failure(Exception):
    pass


def check(what, got, wanted):
    if got != wanted:
        raise Failure(f"{what}: {got!r} instead of {wanted!r}")


class Side:
    """A queue pair with what it needs."""

    def __init__(self, kind=e.IBV_QPT_RC, srq=None, ex=0, access=ALL, ctx=None):
        self.ctx = ctx or Context(name=DEVICE)
        self.pd = PD(self.ctx)
        self.scq = CQ(self.ctx, 64)
        self.rcq = CQ(self.ctx, 64)
        self.srq = None
        if srq:
            self.srq = SRQ(self.pd, SrqInitAttr(SrqAttr(max_wr=srq, max_sge=1)))
        cap = QPCap(max_send_wr=32, max_recv_wr=32, max_send_sge=4, max_recv_sge=4, max_inline_data=128)
        common = dict(qp_type=kind, scq=self.scq, rcq=self.rcq, srq=self.srq, cap=cap, sq_sig_all=1)
        if ex:
            init = QPInitAttrEx(pd=self.pd, send_ops_flags=ex,
                                comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, **common)
            self.qp = QPEx(self.ctx, init)
        else:
            self.qp = QP(self.pd, QPInitAttr(**common))
        self.mr = MR(self.pd, 8192, access)
        self.windows = []
        SIDES.append(self)

    def close(self):
        for mw in self.windows:
            mw.close()

    def connect(self, other):
        attr = QPAttr(port_num=1)
        attr.qp_access_flags = ALL | e.IBV_ACCESS_FLUSH_GLOBAL
        if self.qp.qp_type in (e.IBV_QPT_RC, e.IBV_QPT_UC):
            attr.dest_qp_num = other.qp.qp_num
            attr.path_mtu = e.IBV_MTU_1024
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 8
            attr.min_rnr_timer = 1
            attr.timeout = 8
            attr.retry_cnt = 2
            attr.rnr_retry = 3
            attr.ah_attr = path(self.ctx)
        else:
            attr.qkey = QKEY
        self.qp.to_rts(attr)

    def sge(self, length=64, offset=0):
        return SGE(self.mr.buf + offset, length, self.mr.lkey)

    def send(self, opcode=e.IBV_WR_SEND, length=64, offset=0, flags=0, wr_id=7, setup=None, imm=0):
        wr = SendWR(wr_id=wr_id, opcode=opcode, num_sge=1, sg=[self.sge(length, offset)],
                    send_flags=flags | e.IBV_SEND_SIGNALED, imm_data=imm)
        if setup:
            setup(wr)
        self.qp.post_send(wr)

    def recv(self, length=64, offset=0, wr_id=9):
        wr = RecvWR(wr_id=wr_id, num_sge=1, sg=[self.sge(length, offset)])
        (self.srq or self.qp).post_recv(wr)


def path(ctx, gid_index=GID_INDEX):
    gid = ctx.query_gid(1, gid_index)
    return AHAttr(gr=GlobalRoute(dgid=gid, sgid_index=gid_index, hop_limit=64), is_global=1, port_num=1)


def wait(cq, status=e.IBV_WC_SUCCESS):
    end = time.time() + WAIT
    while time.time() < end:
        n, wcs = cq.poll(1)
        if n:
            check("status", wcs[0].status, status)
            return wcs[0]
    raise Failure("no completion")


def nothing(cq, seconds=0.3):
    time.sleep(seconds)
    check("completions", cq.poll(1)[0], 0)


def pair(kind=e.IBV_QPT_RC, **more):
    ctx = Context(name=DEVICE)
    a, b = Side(kind, ctx=ctx, **more), Side(kind, ctx=ctx, **more)
    a.connect(b)
    b.connect(a)
    return a, b


def fails(code, f, *args, **more):
    try:
        f(*args, **more)
    except PyverbsRDMAError as error:
        check("errno", error.error_code, code)
        return
    raise Failure("it worked")


def remote(side, offset=0, rkey=None):
    return lambda wr: wr.set_wr_rdma(side.mr.rkey if rkey is None else rkey, side.mr.buf + offset)


# --- atomic operations ------------------------------------------------------


@test
def compare_and_swap_returns_what_was_there_and_swaps_only_if_equal():
    a, b = pair()
    b.mr.write(struct.pack("<Q", 5), 8)
    for compare, left in ((5, 77), (5, 77)):
        a.send(e.IBV_WR_ATOMIC_CMP_AND_SWP, length=8,
               setup=lambda wr: wr.set_wr_atomic(b.mr.rkey, b.mr.buf, compare, 77))
        wc = wait(a.scq)
        check("opcode", wc.opcode, e.IBV_WC_COMP_SWAP)
        check("word", struct.unpack("<Q", b.mr.read(8, 0))[0], left)
    check("found", struct.unpack("<Q", a.mr.read(8, 0))[0], 77)


@test
def fetch_and_add_adds_and_returns_what_was_there():
    a, b = pair()
    b.mr.write(struct.pack("<Q", 2**64 - 1), 8)
    a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, length=8, setup=lambda wr: wr.set_wr_atomic(b.mr.rkey, b.mr.buf, 3, 0))
    check("opcode", wait(a.scq).opcode, e.IBV_WC_FETCH_ADD)
    check("found", struct.unpack("<Q", a.mr.read(8, 0))[0], 2**64 - 1)
    check("word", struct.unpack("<Q", b.mr.read(8, 0))[0], 2)


@test
def an_atomic_operation_on_a_misaligned_word_is_an_invalid_request():
    a, b = pair(ex=e.IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 1, e.IBV_SEND_SIGNALED
    # The library checks addresses only of requests that are posted the other way.
    a.qp.wr_atomic_fetch_add(b.mr.rkey, b.mr.buf + 4, 1)
    a.qp.wr_set_sge(a.sge(8))
    a.qp.wr_complete()
    wait(a.scq, e.IBV_WC_REM_INV_REQ_ERR)


@test
def an_atomic_operation_without_the_right_is_an_access_error():
    a, b = pair()
    b.mr = MR(b.pd, 64, e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE)
    a.send(e.IBV_WR_ATOMIC_FETCH_AND_ADD, length=8, setup=lambda wr: wr.set_wr_atomic(b.mr.rkey, b.mr.buf, 3, 0))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def an_atomic_write_puts_eight_bytes_and_flush_completes():
    ops = e.IBV_QP_EX_WITH_ATOMIC_WRITE | e.IBV_QP_EX_WITH_FLUSH | e.IBV_QP_EX_WITH_RDMA_WRITE
    a, b = pair(ex=ops, access=ALL | e.IBV_ACCESS_FLUSH_GLOBAL)
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 1, e.IBV_SEND_SIGNALED
    a.qp.wr_atomic_write(b.mr.rkey, b.mr.buf + 8, b"ATOMICWR")
    a.qp.wr_id, a.qp.wr_flags = 2, e.IBV_SEND_SIGNALED
    a.qp.wr_flush(b.mr.rkey, b.mr.buf, 64, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
    a.qp.wr_id, a.qp.wr_flags = 3, e.IBV_SEND_SIGNALED
    a.qp.wr_flush(b.mr.rkey, 0, 0, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_MR)
    a.qp.wr_complete()
    check("opcode", wait(a.scq).opcode, e.IBV_WC_ATOMIC_WRITE)
    check("bytes", b.mr.read(8, 8), b"ATOMICWR")
    check("opcode", wait(a.scq).opcode, e.IBV_WC_FLUSH)
    check("opcode", wait(a.scq).opcode, e.IBV_WC_FLUSH)


@test
def a_flush_outside_of_the_region_is_an_access_error():
    a, b = pair(ex=e.IBV_QP_EX_WITH_FLUSH, access=ALL | e.IBV_ACCESS_FLUSH_GLOBAL)
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 2, e.IBV_SEND_SIGNALED
    a.qp.wr_flush(b.mr.rkey, b.mr.buf + 8192 - 32, 64, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
    a.qp.wr_complete()
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def a_flush_without_the_right_is_an_access_error():
    a, b = pair(ex=e.IBV_QP_EX_WITH_FLUSH)
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 2, e.IBV_SEND_SIGNALED
    a.qp.wr_flush(b.mr.rkey, b.mr.buf, 64, e.IBV_FLUSH_GLOBAL, e.IBV_FLUSH_RANGE)
    a.qp.wr_complete()
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


# --- memory windows ---------------------------------------------------------

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
    check("key", wc.imm_data & 0xFFFFFFFF in (rkey, struct.unpack(">I", struct.pack("<I", rkey))[0]), True)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, rkey))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


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


# --- shared receive queues ---------------------------------------------------


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


# --- unreliable connections --------------------------------------------------


@test
def an_unreliable_message_without_a_receive_is_lost_and_its_sender_not_told():
    a, b = pair(e.IBV_QPT_UC)
    a.send()
    wait(a.scq)
    b.recv()
    nothing(b.rcq)
    a.send()
    wait(a.scq)
    wait(b.rcq)


@test
def an_unreliable_write_that_is_refused_breaks_nobody():
    a, b = pair(e.IBV_QPT_UC)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 0, b.mr.rkey ^ 0x1))
    wait(a.scq)
    a.mr.write(b"x" * 64, 64)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, 256))
    wait(a.scq)
    check("bytes", b.mr.read(64, 256), b"x" * 64)


@test
def an_unreliable_connection_has_no_reads():
    a, b = pair(e.IBV_QPT_UC)
    a.send(e.IBV_WR_RDMA_READ, setup=remote(b))
    wait(a.scq, e.IBV_WC_LOC_QP_OP_ERR)


# --- datagrams ----------------------------------------------------------------


def to(side, ah, qkey=QKEY):
    return lambda wr: wr.set_wr_ud(ah, side.qp.qp_num, qkey)


@test
def a_datagram_arrives_behind_the_header_of_its_network():
    for gid_index, version in ((1, 4), (2, 6)):
        a, b = pair(e.IBV_QPT_UD)
        ah = AH(a.pd, attr=path(a.ctx, gid_index))
        a.mr.write(b"datagram", 8)
        b.recv(GRH + 64)
        a.send(e.IBV_WR_SEND_WITH_IMM, length=8, setup=to(b, ah), imm=0x1234)
        wait(a.scq)
        wc = wait(b.rcq)
        check("length", wc.byte_len, GRH + 8)
        check("source", wc.src_qp, a.qp.qp_num)
        check("flags", wc.wc_flags & (e.IBV_WC_GRH | e.IBV_WC_WITH_IMM), e.IBV_WC_GRH | e.IBV_WC_WITH_IMM)
        check("payload", b.mr.read(8, GRH), b"datagram")
        header = b.mr.read(GRH, 0)
        check("version", (header[20] if version == 4 else header[0]) >> 4, version)
        if version == 4:
            words = struct.unpack(">10H", header[20:])
            total = sum(words)
            check("checksum", (total & 0xFFFF) + (total >> 16), 0xFFFF)
            check("addresses", header[32:], bytes([10, 9, 0, 1] * 2))


@test
def a_datagram_with_a_wrong_key_is_lost():
    a, b = pair(e.IBV_QPT_UD)
    ah = AH(a.pd, attr=path(a.ctx))
    b.recv(GRH + 64)
    a.send(setup=to(b, ah, QKEY + 1))
    wait(a.scq)
    nothing(b.rcq)
    a.send(setup=to(b, ah))
    wait(a.scq)
    wait(b.rcq)


@test
def a_datagram_to_nobody_is_lost():
    a, b = pair(e.IBV_QPT_UD)
    ah = AH(a.pd, attr=path(a.ctx))
    number = b.qp.qp_num
    b.qp.close()
    a.send(setup=lambda wr: wr.set_wr_ud(ah, number, QKEY))
    wait(a.scq)
    a.send(setup=lambda wr: wr.set_wr_ud(ah, 1 << 23, QKEY))
    wait(a.scq)


@test
def a_datagram_that_does_not_fit_is_lost_and_the_receive_stays():
    a, b = pair(e.IBV_QPT_UD)
    ah = AH(a.pd, attr=path(a.ctx))
    b.recv(GRH + 16)
    a.send(length=64, setup=to(b, ah))
    wait(a.scq)
    nothing(b.rcq)
    a.send(length=16, setup=to(b, ah))
    wait(a.scq)
    check("length", wait(b.rcq).byte_len, GRH + 16)


@test
def an_address_handle_of_another_domain_is_a_local_error():
    a, b = pair(e.IBV_QPT_UD)
    ah = AH(b.pd, attr=path(b.ctx))
    a.send(setup=to(b, ah))
    wait(a.scq, e.IBV_WC_LOC_QP_OP_ERR)


# --- regions and completion queues ---------------------------------------------


REREG_MR = 11  # IB_USER_VERBS_CMD_REREG_MR


def rereg(side, flags, pd=None, memory=None, access=0):
    """The provider library lacks the call, so this is the command itself. Returns the new key."""
    start = memory.buf if memory else 0
    length = memory.length if memory else 0
    response = ctypes.create_string_buffer(8)
    body = struct.pack("<QIIQQQII", ctypes.addressof(response), side.mr.handle, flags, start, length, start,
                       pd.handle if pd else 0, access)
    words = (8 + len(body)) // 4
    os.write(side.ctx.cmd_fd, struct.pack("<IHH", REREG_MR, words, 2) + body)
    return struct.unpack("<II", response.raw)[1]


@test
def a_region_can_get_other_rights():
    a, b = pair()
    rkey = rereg(b, e.IBV_REREG_MR_CHANGE_ACCESS, access=e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_READ)
    a.send(e.IBV_WR_RDMA_READ, setup=remote(b, rkey=rkey))
    wait(a.scq)
    a.send(e.IBV_WR_RDMA_WRITE, setup=remote(b, rkey=rkey))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)


@test
def a_region_can_get_another_domain():
    a, b = pair()
    other = PD(b.ctx)
    rkey = rereg(b, e.IBV_REREG_MR_CHANGE_PD, pd=other)
    a.send(e.IBV_WR_RDMA_READ, setup=remote(b, rkey=rkey))
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)
    b.mr.close()
    other.close()


@test
def a_region_can_get_other_memory():
    a, b = pair()
    memory = MR(b.pd, 8192, ALL)
    memory.write(b"other" * 4, 20)
    rkey = rereg(b, e.IBV_REREG_MR_CHANGE_TRANSLATION, memory=memory)
    a.send(e.IBV_WR_RDMA_READ, length=20, setup=lambda wr: wr.set_wr_rdma(rkey, memory.buf))
    wait(a.scq)
    check("bytes", a.mr.read(20, 0), b"other" * 4)


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
def the_device_promises_what_works():
    attr = Context(name=DEVICE).query_device()
    check("atomics", attr.atomic_caps, e.IBV_ATOMIC_HCA)
    for flag in (e.IBV_DEVICE_MEM_WINDOW, e.IBV_DEVICE_MEM_WINDOW_TYPE_2B, e.IBV_DEVICE_MEM_MGT_EXTENSIONS,
                 e.IBV_DEVICE_SRQ_RESIZE, e.IBV_DEVICE_RC_RNR_NAK_GEN, e.IBV_DEVICE_PORT_ACTIVE_EVENT):
        check(f"flag {flag:#x}", attr.device_cap_flags & flag, flag)


def main():
    print("KTAP version 1")
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, f in enumerate(TESTS, 1):
        name = f.__name__.replace("_", " ")
        try:
            f()
            print(f"ok {number} {name}", flush=True)
        except Exception:
            bad += 1
            for line in traceback.format_exc().splitlines()[-4:]:
                print(f"# {line}")
            print(f"not ok {number} {name}", flush=True)
        for side in SIDES:
            side.close()
        SIDES.clear()
    return 1 if bad else 0


sys.exit(main())
