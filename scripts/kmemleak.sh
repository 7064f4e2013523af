#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# In a guest with the debug kernel: looks for memory of the kernel that nothing
# points to any more. Prints the objects, and fails if there are any.
#
# An object counts as leaked when it is older than five seconds, one scan found
# nothing that points to it, and the next one the same and that its bytes had not
# changed. The stacks of processes that ended are kept for the next ones, and are
# looked at as well, so before each scan several processes at a time have to write
# over them; and what only waits for its end, such as what RCU frees, gets the time
# for it.

set -euo pipefail

KMEMLEAK=/sys/kernel/debug/kmemleak
SCANS=4

sleep 6
for ((scan = 0; scan < SCANS; scan++)); do
	for _ in {1..8}; do (sleep 0.3; exec find /proc/self/ -maxdepth 1 >/dev/null) & done
	wait
	echo scan >$KMEMLEAK
done
leaks=$(cat $KMEMLEAK)
[ -n "$leaks" ] || exit 0
echo "$leaks"
exit 1
