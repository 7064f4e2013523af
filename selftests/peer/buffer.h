/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory of a client that a process reaches by mmap only, and that has no
 * pages as far as the kernel's own pinning goes.
 */
#ifndef MRX_PEER_BUFFER_H
#define MRX_PEER_BUFFER_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>

#include "mrx_peer.h"

struct peer_buffer {
	struct kref ref;
	enum mrx_peer_flavour flavour;
	size_t size;
	u32 owners;
	void *state; /* of the client in Rust */
	struct page **pages; /* of the flavours that have some */
	unsigned long npages;
	phys_addr_t bar; /* of the flavour that is device memory */

	/* guards ranges; taken by the callbacks */
	struct mutex lock;
	struct task_struct *holder; /* invalidates with the lock held */
	struct list_head ranges;

	struct mrx_peer_fault fault;
	/* guards what follows */
	spinlock_t stat_lock;
	struct mrx_peer_counters stat;
};

int peer_buffer_alloc(struct peer_buffer *buf, const struct mrx_peer_alloc *alloc);
void peer_buffer_get(struct peer_buffer *buf);
void peer_buffer_put(struct peer_buffer *buf);
int peer_buffer_mmap(struct peer_buffer *buf, struct vm_area_struct *vma);
struct peer_buffer *peer_buffer_of_vma(struct vm_area_struct *vma);
struct peer_buffer *peer_buffer_of(unsigned long addr, size_t size, unsigned long *offset);
phys_addr_t peer_buffer_phys(struct peer_buffer *buf, unsigned long page);

#endif /* MRX_PEER_BUFFER_H */
