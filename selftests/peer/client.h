/* SPDX-License-Identifier: GPL-2.0 */
#ifndef MRX_PEER_CLIENT_H
#define MRX_PEER_CLIENT_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <rdma/peer_mem.h>

#include "mrx_peer.h"

struct peer_buffer;

/* A client, in any of the three variants. */
struct slot {
	union {
		struct peer_memory_client client;
		struct peer_memory_client_ex ex;
		struct peer_memory_client_private private;
	};
	void *handle;
	invalidate_peer_memory invalidate;
	bool unmaps;
	atomic_long_t asked;
};

extern struct slot slots[MRX_PEER_SLOTS];

/* The callbacks; acquire() is told whose it is. */
int peer_acquire(struct slot *slot, unsigned long addr, size_t size, void *data,
		 const char *name, void **context);
int peer_get_pages(unsigned long addr, size_t size, int write, int force,
		   struct sg_table *sg_head, void *context, u64 core_context);
unsigned long peer_get_page_size(void *context);
int peer_dma_map(struct sg_table *sg_head, void *context, struct device *dma_device,
		 int dmasync, int *nmap);
int peer_dma_unmap(struct sg_table *sg_head, void *context, struct device *dma_device);
void peer_put_pages(struct sg_table *sg_head, void *context);
void peer_release(void *context);

int peer_client_register(const struct mrx_peer_register *how);
int peer_client_unregister(unsigned int slot);
void peer_client_unregister_all(void);
int peer_client_contexts(void);
long peer_client_asked(unsigned int slot);
int peer_client_invalidate(struct peer_buffer *buf, unsigned int how);

#endif /* MRX_PEER_CLIENT_H */
