#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""verbs DEVICE: verbs that no stock program uses, through pyverbs.

One behaviour a test, named as a sentence. Prints KTAP.
"""

import os
import signal
import sys
import traceback

# Each of them adds its tests to the list.
import atomics  # noqa: F401
import windows  # noqa: F401
import queues  # noqa: F401
import connections  # noqa: F401
import datagrams  # noqa: F401
import regions  # noqa: F401
import device  # noqa: F401
from harness import SIDES, TESTS, Failure

# Seconds. Where memory fails, Linux loses events, which are waited for for ever.
LIMIT = 60 * int(os.environ.get("MRX_PATIENCE", "1"))


def too_late(*_):
    raise Failure(f"not done after {LIMIT} s")


def main():
    signal.signal(signal.SIGALRM, too_late)
    print("KTAP version 1")
    print(f"1..{len(TESTS)}")
    bad = 0
    for number, f in enumerate(TESTS, 1):
        name = f.__name__.replace("_", " ")
        signal.alarm(LIMIT)
        try:
            f()
            print(f"ok {number} {name}", flush=True)
        except Exception:
            bad += 1
            for line in traceback.format_exc().splitlines()[-4:]:
                print(f"# {line}")
            print(f"not ok {number} {name}", flush=True)
        signal.alarm(0)
        for side in SIDES:
            side.close()
        SIDES.clear()
    return 1 if bad else 0


sys.exit(main())
