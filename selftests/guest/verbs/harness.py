# SPDX-License-Identifier: GPL-2.0
"""What the tests share: a pair of queue pairs, waiting, and the list of tests."""

import sys
import time

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
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

    def __init__(self, kind=e.IBV_QPT_RC, srq=None, ex=0, access=ALL, ctx=None, rcq=None):
        self.ctx = ctx or Context(name=DEVICE)
        self.pd = PD(self.ctx)
        self.scq = CQ(self.ctx, 64)
        self.rcq = rcq or CQ(self.ctx, 64)
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
