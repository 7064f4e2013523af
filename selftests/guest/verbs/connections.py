# SPDX-License-Identifier: GPL-2.0
"""Unreliable connections."""

import pyverbs.enums as e
from harness import check, nothing, pair, remote, test, wait


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
