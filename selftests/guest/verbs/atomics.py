# SPDX-License-Identifier: GPL-2.0
"""Atomic operations, ATOMIC_WRITE and FLUSH."""

import errno
import struct

import pyverbs.enums as e
from pyverbs.mr import MR
from harness import ALL, check, fails, pair, test, wait


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


@test
def a_flush_into_persistence_is_refused_since_no_memory_has_it():
    a, b = pair(ex=e.IBV_QP_EX_WITH_FLUSH, access=ALL | e.IBV_ACCESS_FLUSH_GLOBAL)
    fails(errno.EOPNOTSUPP, MR, b.pd, 4096, ALL | e.IBV_ACCESS_FLUSH_PERSISTENT)
    a.qp.wr_start()
    a.qp.wr_id, a.qp.wr_flags = 2, e.IBV_SEND_SIGNALED
    a.qp.wr_flush(b.mr.rkey, b.mr.buf, 64, e.IBV_FLUSH_PERSISTENT, e.IBV_FLUSH_RANGE)
    a.qp.wr_complete()
    wait(a.scq, e.IBV_WC_REM_ACCESS_ERR)
