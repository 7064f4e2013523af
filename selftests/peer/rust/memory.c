// SPDX-License-Identifier: GPL-2.0
/* The memory of the client in Rust is that of the client in C. */
#include "../buffer.c"
#include "memory.h"

struct peer_buffer *peer_memory_new(void *state)
{
	struct peer_buffer *buf = kzalloc(sizeof(*buf), GFP_KERNEL);

	if (!buf)
		return NULL;
	kref_init(&buf->ref);
	buf->state = state;
	return buf;
}

/* What the client remembers of the buffer that an area maps, or NULL. */
void *peer_memory_state(struct vm_area_struct *vma)
{
	struct peer_buffer *buf = peer_buffer_of_vma(vma);

	return buf ? buf->state : NULL;
}

int peer_memory_alloc(struct peer_buffer *buf, const struct mrx_peer_alloc *alloc)
{
	return peer_buffer_alloc(buf, alloc);
}

void peer_memory_put(struct peer_buffer *buf)
{
	peer_buffer_put(buf);
}

int peer_memory_mmap(struct peer_buffer *buf, struct vm_area_struct *vma)
{
	return peer_buffer_mmap(buf, vma);
}

u64 peer_memory_phys(struct peer_buffer *buf, unsigned long page)
{
	return peer_buffer_phys(buf, page);
}

struct page *peer_memory_page(struct peer_buffer *buf, unsigned long page)
{
	return buf->pages[page];
}

unsigned long peer_memory_pgoff(struct vm_area_struct *vma)
{
	return vma->vm_pgoff;
}
