# SPDX-License-Identifier: GPL-2.0
"""Regions."""

import ctypes
import os
import struct

import pyverbs.enums as e
from pyverbs.mr import MR
from pyverbs.pd import PD
from harness import ALL, check, pair, remote, test, wait


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
