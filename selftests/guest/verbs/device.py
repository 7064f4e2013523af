# SPDX-License-Identifier: GPL-2.0
"""What the device says of itself."""

import pyverbs.enums as e
from pyverbs.device import Context
from harness import DEVICE, check, test


@test
def the_device_promises_what_works():
    attr = Context(name=DEVICE).query_device()
    check("atomics", attr.atomic_caps, e.IBV_ATOMIC_HCA)
    for flag in (e.IBV_DEVICE_MEM_WINDOW, e.IBV_DEVICE_MEM_WINDOW_TYPE_2B, e.IBV_DEVICE_MEM_MGT_EXTENSIONS,
                 e.IBV_DEVICE_SRQ_RESIZE, e.IBV_DEVICE_RC_RNR_NAK_GEN, e.IBV_DEVICE_PORT_ACTIVE_EVENT):
        check(f"flag {flag:#x}", attr.device_cap_flags & flag, flag)


# <rdma/ib_user_verbs.h>; pyverbs does not have them.
FLUSH_GLOBAL, FLUSH_PERSISTENT, ATOMIC_WRITE = 1 << 38, 1 << 39, 1 << 40


@test
def the_device_promises_flush_to_memory_and_no_persistence():
    flags = Context(name=DEVICE).query_device_ex().device_cap_flags_ex
    check("flags", flags & (FLUSH_GLOBAL | FLUSH_PERSISTENT | ATOMIC_WRITE), FLUSH_GLOBAL | ATOMIC_WRITE)
