#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Removes the cache folder.

. "$(dirname "$0")/lib.sh"

case $MRX_CACHE in
*/mrx) ;;
*) die "$MRX_CACHE does not look like a cache folder of mrx: remove it by hand" ;;
esac
say "Remove $MRX_CACHE"
rm -rf --one-file-system "$MRX_CACHE"
