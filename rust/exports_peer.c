// SPDX-License-Identifier: GPL-2.0
/*
 * The symbols of the peer-memory registry, in the flavour that the build asks
 * for (MRX_PEER_EXPORT, see Documentation/peer-memory.md).
 */
#include <linux/export.h>
#include <rdma/peer_mem.h>

#ifdef MRX_PEER_EXPORT_PLAIN
EXPORT_SYMBOL(ib_register_peer_memory_client);
EXPORT_SYMBOL(ib_unregister_peer_memory_client);
#else
EXPORT_SYMBOL_GPL(ib_register_peer_memory_client);
EXPORT_SYMBOL_GPL(ib_unregister_peer_memory_client);
#endif
