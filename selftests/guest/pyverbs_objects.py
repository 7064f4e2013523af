#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes, uses and destroys objects of a device through pyverbs.

Usage: pyverbs_objects.py DEVICE GID_INDEX
"""

import sys

from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ, CompChannel
from pyverbs.device import Context, get_device_list
from pyverbs.enums import (
    IBV_ACCESS_LOCAL_WRITE,
    IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE,
    IBV_QPT_RC,
    IBV_SEND_SIGNALED,
    IBV_WC_SUCCESS,
    IBV_WR_RDMA_WRITE,
)
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE
PORT = 1


def connected(queue_pair, other, gid, gid_index):
    """Brings a queue pair into the state in which it sends to the other."""
    route = GlobalRoute(dgid=gid, sgid_index=gid_index)
    attr = QPAttr(port_num=PORT)
    attr.qp_access_flags = ACCESS
    attr.dest_qp_num = other.qp_num
    attr.ah_attr = AHAttr(port_num=PORT, is_global=1, gr=route)
    attr.max_rd_atomic = 1
    attr.max_dest_rd_atomic = 1
    attr.min_rnr_timer = 12
    attr.path_mtu = 3
    attr.timeout = 14
    attr.retry_cnt = 7
    attr.rnr_retry = 7
    queue_pair.to_rts(attr)


def main():
    name, gid_index = sys.argv[1], int(sys.argv[2])
    assert name.encode() in [device.name for device in get_device_list()]

    with Context(name=name) as context:
        assert context.query_port(PORT).state == 4, "the port is not active"
        assert context.query_device().max_qp > 0
        gid = context.query_gid(PORT, gid_index)

        pd = PD(context)
        source = MR(pd, 8192, ACCESS)
        target = MR(pd, 8192, ACCESS)
        assert source.lkey != target.lkey
        source.write("x" * 4096 + "y" * 4096, 8192)

        channel = CompChannel(context)
        cq = CQ(context, 16, None, channel, 0)
        cap = QPCap(max_send_wr=8, max_recv_wr=8, max_send_sge=2, max_recv_sge=2)
        init = QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=cap)
        one, two = QP(pd, init), QP(pd, init)
        connected(one, two, gid, gid_index)
        connected(two, one, gid, gid_index)

        sges = [SGE(source.buf, 100, source.lkey), SGE(source.buf + 4090, 12, source.lkey)]
        request = SendWR(
            wr_id=77,
            opcode=IBV_WR_RDMA_WRITE,
            num_sge=2,
            sg=sges,
            send_flags=IBV_SEND_SIGNALED,
        )
        request.set_wr_rdma(target.rkey, target.buf + 8)
        cq.req_notify()
        one.post_send(request)
        channel.get_cq_event(cq)
        cq.ack_events(1)
        count, completions = cq.poll()
        assert count == 1 and completions[0].wr_id == 77
        assert completions[0].status == IBV_WC_SUCCESS, completions[0]
        assert target.read(112, 8) == b"x" * 106 + b"y" * 6

        try:
            MR(pd, 4096, 1 << 30)
        except PyverbsRDMAError:
            pass
        else:
            raise AssertionError("an unknown access flag was accepted")

        for thing in (one, two, cq, channel, source, target, pd):
            thing.close()


main()
