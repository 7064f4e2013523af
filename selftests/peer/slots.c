// SPDX-License-Identifier: GPL-2.0
/*
 * The clients of the test module: each slot can be one, in any of the variants.
 */
#include <linux/err.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "buffer.h"
#include "client.h"

/* guards handles */
static DEFINE_MUTEX(slots_lock);
struct slot slots[MRX_PEER_SLOTS];

/* --- data of verbs contexts: the number that a process says, but for 0 --- */

static atomic_t contexts = ATOMIC_INIT(0);

static void *get_context_private_data(u64 peer_id)
{
	u64 *data;

	if (!peer_id)
		return ERR_PTR(-EACCES);
	data = kmalloc(sizeof(*data), GFP_KERNEL);
	if (data) {
		*data = peer_id;
		atomic_inc(&contexts);
	}
	return data;
}

static void put_context_private_data(void *data)
{
	atomic_dec(&contexts);
	kfree(data);
}

int peer_client_contexts(void)
{
	return atomic_read(&contexts);
}

/* --- clients --- */

/* acquire() is not told which client it is, so each slot has one of its own. */
#define DEFINE_ACQUIRE(n)								\
static int acquire_##n(unsigned long addr, size_t size, void *data, char *name,		\
		       void **context)							\
{											\
	return peer_acquire(&slots[n], addr, size, data, name, context);		\
}
DEFINE_ACQUIRE(0)
DEFINE_ACQUIRE(1)
DEFINE_ACQUIRE(2)
DEFINE_ACQUIRE(3)
DEFINE_ACQUIRE(4)
DEFINE_ACQUIRE(5)
DEFINE_ACQUIRE(6)
DEFINE_ACQUIRE(7)
DEFINE_ACQUIRE(8)
DEFINE_ACQUIRE(9)

static int (*const acquires[MRX_PEER_SLOTS])(unsigned long addr, size_t size, void *data,
					     char *name, void **context) = {
	acquire_0, acquire_1, acquire_2, acquire_3, acquire_4,
	acquire_5, acquire_6, acquire_7, acquire_8, acquire_9,
};

int peer_client_register(const struct mrx_peer_register *how)
{
	struct slot *slot;
	void *handle;
	int ret = 0;

	if (how->slot >= MRX_PEER_SLOTS)
		return -EINVAL;
	slot = &slots[how->slot];
	mutex_lock(&slots_lock);
	if (slot->handle) {
		ret = -EBUSY;
		goto unlock;
	}
	memset(slot, 0, sizeof(*slot));
	memcpy(slot->client.name, how->name, sizeof(slot->client.name));
	memcpy(slot->client.version, how->version, sizeof(slot->client.version));
#define SET(step, member, function) do {				\
	if (!(how->missing & BIT(step)))				\
		slot->client.member = function;				\
} while (0)
	SET(MRX_PEER_ACQUIRE, acquire, acquires[how->slot]);
	SET(MRX_PEER_GET_PAGES, get_pages, peer_get_pages);
	SET(MRX_PEER_DMA_MAP, dma_map, peer_dma_map);
	SET(MRX_PEER_DMA_UNMAP, dma_unmap, peer_dma_unmap);
	SET(MRX_PEER_PUT_PAGES, put_pages, peer_put_pages);
	SET(MRX_PEER_GET_PAGE_SIZE, get_page_size, peer_get_page_size);
	SET(MRX_PEER_RELEASE, release, peer_release);
	if (how->version[IB_PEER_MEMORY_VER_MAX - 1] == PEER_MEM_EXTENDED) {
		slot->ex.ex_size = how->ex_size;
		slot->ex.flags = how->ex_flags;
		slot->unmaps = how->ex_size && how->ex_flags & PEER_MEM_INVALIDATE_UNMAPS;
	}
	if (how->version[IB_PEER_MEMORY_VER_MAX - 1] == PEER_MEM_PRIVATE_DATA) {
		slot->private.get_context_private_data = get_context_private_data;
		slot->private.put_context_private_data = put_context_private_data;
	}
	handle = ib_register_peer_memory_client(&slot->client,
						how->invalidates ? &slot->invalidate : NULL);
	WRITE_ONCE(slot->handle, handle);
	if (!handle)
		ret = -EINVAL;
unlock:
	mutex_unlock(&slots_lock);
	return ret;
}

int peer_client_unregister(unsigned int number)
{
	struct slot *slot;
	void *handle;

	if (number >= MRX_PEER_SLOTS)
		return -EINVAL;
	slot = &slots[number];
	mutex_lock(&slots_lock);
	handle = slot->handle;
	mutex_unlock(&slots_lock);
	if (!handle)
		return -ENOENT;
	/* Without the lock: this waits, and others may register meanwhile. */
	ib_unregister_peer_memory_client(handle);
	mutex_lock(&slots_lock);
	slot->handle = NULL;
	mutex_unlock(&slots_lock);
	return 0;
}

void peer_client_unregister_all(void)
{
	unsigned int i;

	for (i = 0; i < MRX_PEER_SLOTS; i++)
		peer_client_unregister(i);
}

long peer_client_asked(unsigned int number)
{
	return number < MRX_PEER_SLOTS ? atomic_long_read(&slots[number].asked) : -EINVAL;
}
