/* SPDX-License-Identifier: GPL-2.0 */
/* What the client in Rust needs of C: a buffer, and what tests say. */
#ifndef MRX_PEER_MEMORY_H
#define MRX_PEER_MEMORY_H

#include <linux/scatterlist.h>
#include <rdma/peer_mem.h>

#include "../mrx_peer.h"

struct peer_buffer;
struct vm_area_struct;
struct page;

struct peer_buffer *peer_memory_new(void *state);
void *peer_memory_state(struct vm_area_struct *vma);
int peer_memory_alloc(struct peer_buffer *buf, const struct mrx_peer_alloc *alloc);
void peer_memory_put(struct peer_buffer *buf);
int peer_memory_mmap(struct peer_buffer *buf, struct vm_area_struct *vma);
u64 peer_memory_phys(struct peer_buffer *buf, unsigned long page);
struct page *peer_memory_page(struct peer_buffer *buf, unsigned long page);
unsigned long peer_memory_pgoff(struct vm_area_struct *vma);

#endif /* MRX_PEER_MEMORY_H */
