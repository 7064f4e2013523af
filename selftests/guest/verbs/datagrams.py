# SPDX-License-Identifier: GPL-2.0
"""Datagrams."""

import struct

import pyverbs.enums as e
from pyverbs.addr import AH
from harness import GRH, QKEY, check, nothing, pair, path, test, wait


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
