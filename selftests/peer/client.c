// SPDX-License-Identifier: GPL-2.0
/*
 * A peer-memory client in C, as an author of one would write it, but for two
 * things: it counts and checks each callback, and misbehaves when told to.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/pfn.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <rdma/peer_mem.h>

#include "buffer.h"
#include "client.h"

/* A range that the registry has acquired: the client_context. */
struct peer_range {
	struct list_head entry; /* of the buffer's list */
	struct kref ref;
	struct peer_buffer *buf;
	struct slot *slot;
	unsigned long offset; /* of the range in the buffer */
	size_t size;
	unsigned long addr;
	u64 ticket;
	bool got, mapped, dma_pages;
	bool leaving; /* the client, which unmaps itself, takes it back: it may be released */
	bool revoked; /* the client itself has unmapped and unpinned it */
	struct sg_table table; /* to free it when it is revoked */
};

/* --- counting and checking --- */

static void violate(struct peer_buffer *buf, const char *what)
{
	spin_lock(&buf->stat_lock);
	if (!buf->stat.violations++)
		strscpy(buf->stat.violation, what);
	spin_unlock(&buf->stat_lock);
	pr_err("mrx_peer_c: %s\n", what);
}

static void count(struct peer_buffer *buf, enum mrx_peer_step step, bool good)
{
	spin_lock(&buf->stat_lock);
	buf->stat.calls[step]++;
	buf->stat.good[step] += good;
	spin_unlock(&buf->stat_lock);
}

/*
 * The lock of the buffer, which whoever invalidates may hold already: a client
 * has to know that it is called back by a call of its own.
 */
static void lock_buffer(struct peer_buffer *buf)
{
	if (READ_ONCE(buf->holder) != current)
		mutex_lock(&buf->lock);
}

static void unlock_buffer(struct peer_buffer *buf)
{
	if (READ_ONCE(buf->holder) != current)
		mutex_unlock(&buf->lock);
}

static void free_range(struct kref *ref)
{
	struct peer_range *range = container_of(ref, struct peer_range, ref);

	peer_buffer_put(range->buf);
	kfree(range);
}

/*
 * Takes a range back. A client of the kind that unmaps itself gives the pages up
 * here; whatever the registry calls for them later finds them given up.
 */
static void invalidate(struct peer_range *range)
{
	struct slot *slot = range->slot;
	void *handle = READ_ONCE(slot->handle);

	/* The first ranges may come before the registration has returned its handle. */
	if (!slot->invalidate || !handle)
		return;
	if (slot->unmaps)
		WRITE_ONCE(range->leaving, true);
	slot->invalidate(handle, range->ticket);
	spin_lock(&range->buf->stat_lock);
	range->buf->stat.invalidations++;
	spin_unlock(&range->buf->stat_lock);
	if (slot->unmaps) {
		lock_buffer(range->buf);
		range->revoked = true;
		sg_free_table(&range->table);
		memset(&range->table, 0, sizeof(range->table));
		unlock_buffer(range->buf);
	}
}

/* What the test asked for at this step. Returns an errno to fail with. */
static int misbehave(struct peer_range *range, struct peer_buffer *buf, enum mrx_peer_step step)
{
	const struct mrx_peer_fault *fault = &buf->fault;

	if (fault->delay == step && fault->delay_ms)
		msleep(fault->delay_ms);
	if (fault->invalidate == step && range)
		invalidate(range);
	return fault->fail == step ? fault->error : 0;
}

/* --- the callbacks --- */

int peer_acquire(struct slot *slot, unsigned long addr, size_t size, void *data,
		   const char *name, void **context)
{
	struct peer_buffer *buf;
	unsigned long offset;
	struct peer_range *range;

	atomic_long_inc(&slot->asked);
	buf = peer_buffer_of(addr, size, &offset);
	if (!buf)
		return 0;
	if (!(buf->owners & BIT(slot - slots))) {
		peer_buffer_put(buf);
		return 0;
	}
	range = kzalloc(sizeof(*range), GFP_KERNEL);
	if (!range || misbehave(NULL, buf, MRX_PEER_ACQUIRE)) {
		count(buf, MRX_PEER_ACQUIRE, false);
		peer_buffer_put(buf);
		kfree(range);
		return 0;
	}
	spin_lock(&buf->stat_lock);
	buf->stat.private_id = data ? *(u64 *)data : 0;
	strscpy(buf->stat.private_name, name ?: "");
	spin_unlock(&buf->stat_lock);
	kref_init(&range->ref);
	range->buf = buf; /* with the reference */
	range->slot = slot;
	range->addr = addr;
	range->offset = offset;
	range->size = size;
	lock_buffer(buf);
	list_add_tail(&range->entry, &buf->ranges);
	unlock_buffer(buf);
	count(buf, MRX_PEER_ACQUIRE, true);
	spin_lock(&buf->stat_lock);
	buf->stat.active++;
	spin_unlock(&buf->stat_lock);
	*context = range;
	return 1;
}

int peer_get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *sg_head, void *context, u64 core_context)
{
	struct peer_range *range = context;
	struct peer_buffer *buf = range->buf;
	int ret;

	if (range->got || range->mapped || addr != range->addr || size != range->size)
		violate(buf, "get_pages: not of a range that was acquired");
	if (!core_context != !range->slot->invalidate)
		violate(buf, "get_pages: a ticket where none is due, or none");
	range->ticket = core_context;
	spin_lock(&buf->stat_lock);
	buf->stat.write = write;
	buf->stat.force = force;
	buf->stat.ticket = core_context;
	spin_unlock(&buf->stat_lock);
	ret = misbehave(range, buf, MRX_PEER_GET_PAGES);
	range->got = !ret;
	count(buf, MRX_PEER_GET_PAGES, !ret);
	return ret;
}

unsigned long peer_get_page_size(void *context)
{
	struct peer_range *range = context;

	if (!range->got)
		violate(range->buf, "get_page_size: nothing is pinned");
	misbehave(range, range->buf, MRX_PEER_GET_PAGE_SIZE);
	count(range->buf, MRX_PEER_GET_PAGE_SIZE, true);
	return range->buf->fault.page_size ?: PAGE_SIZE;
}

/* Fills the table with the pages of the range, or with the addresses of them. */
static int fill_table(struct peer_range *range, struct sg_table *table, struct device *device)
{
	struct peer_buffer *buf = range->buf;
	bool has_pages = buf->flavour == MRX_PEER_CONTIGUOUS || buf->flavour == MRX_PEER_SCATTERED;
	bool at_address = buf->fault.table == MRX_PEER_TABLE_AT_ADDRESS;
	unsigned long first = range->offset >> PAGE_SHIFT, i, n;
	struct scatterlist *sg;
	int ret;

	n = PFN_UP(range->offset + range->size) - first;
	if (buf->fault.table == MRX_PEER_TABLE_SHORT)
		n--;
	if (buf->fault.table == MRX_PEER_TABLE_OVERSIZED)
		n = buf->npages - first;
	if (buf->fault.table == MRX_PEER_TABLE_EMPTY || !n)
		return 0;
	ret = sg_alloc_table(table, n, GFP_KERNEL);
	if (ret)
		return ret;
	for_each_sg(table->sgl, sg, n, i) {
		phys_addr_t phys = peer_buffer_phys(buf, first + i);
		unsigned int skip = at_address && !i ? offset_in_page(range->offset) : 0;

		if (has_pages) {
			sg_set_page(sg, pfn_to_page(PHYS_PFN(phys)), PAGE_SIZE - skip, skip);
			continue;
		}
		sg_set_page(sg, NULL, PAGE_SIZE - skip, skip);
		sg_dma_address(sg) = buf->bar ?
			dma_map_resource(device, phys, PAGE_SIZE, DMA_BIDIRECTIONAL, 0) : phys;
		if (buf->bar && dma_mapping_error(device, sg_dma_address(sg)))
			return -EIO;
		sg_dma_address(sg) += skip;
		sg_dma_len(sg) = PAGE_SIZE - skip;
	}
	if (!has_pages)
		return n;
	ret = dma_map_sg(device, table->sgl, n, DMA_BIDIRECTIONAL);
	range->dma_pages = ret > 0;
	return ret ?: -EIO;
}

int peer_dma_map(struct sg_table *sg_head, void *context, struct device *dma_device,
		   int dmasync, int *nmap)
{
	struct peer_range *range = context;
	struct peer_buffer *buf = range->buf;
	int ret;

	if (!range->got || range->mapped)
		violate(buf, "dma_map: not pinned, or mapped already");
	spin_lock(&buf->stat_lock);
	strscpy(buf->stat.device, dma_device ? dev_name(dma_device) : "");
	spin_unlock(&buf->stat_lock);
	ret = misbehave(range, buf, MRX_PEER_DMA_MAP);
	if (!ret) {
		ret = fill_table(range, sg_head, dma_device);
		if (ret >= 0) {
			*nmap = ret;
			ret = 0;
		}
	}
	if (!ret && buf->fault.table == MRX_PEER_TABLE_NMAP_NEGATIVE)
		*nmap = -1;
	if (!ret && buf->fault.table == MRX_PEER_TABLE_NMAP_HUGE)
		*nmap = INT_MAX;
	lock_buffer(buf);
	if (range->revoked)
		sg_free_table(sg_head);
	else
		range->table = *sg_head;
	unlock_buffer(buf);
	range->mapped = !ret;
	count(buf, MRX_PEER_DMA_MAP, !ret);
	return ret;
}

int peer_dma_unmap(struct sg_table *sg_head, void *context, struct device *dma_device)
{
	struct peer_range *range = context;
	struct peer_buffer *buf = range->buf;
	bool late = READ_ONCE(range->revoked);
	int ret;

	ret = misbehave(range, buf, MRX_PEER_DMA_UNMAP);
	lock_buffer(buf);
	if (late) {
		spin_lock(&buf->stat_lock);
		buf->stat.late++;
		spin_unlock(&buf->stat_lock);
	} else if (!range->mapped) {
		violate(buf, "dma_unmap: not mapped");
	} else if (range->dma_pages && !range->revoked) {
		dma_unmap_sg(dma_device, sg_head->sgl, sg_head->orig_nents, DMA_BIDIRECTIONAL);
	}
	range->mapped = false;
	unlock_buffer(buf);
	count(buf, MRX_PEER_DMA_UNMAP, !ret);
	return ret;
}

void peer_put_pages(struct sg_table *sg_head, void *context)
{
	struct peer_range *range = context;
	struct peer_buffer *buf = range->buf;
	bool late = READ_ONCE(range->revoked);

	misbehave(range, buf, MRX_PEER_PUT_PAGES);
	lock_buffer(buf);
	if (late) {
		spin_lock(&buf->stat_lock);
		buf->stat.late++;
		spin_unlock(&buf->stat_lock);
	} else if (!range->got || range->mapped) {
		violate(buf, "put_pages: not pinned, or mapped still");
	} else if (!range->revoked) {
		sg_free_table(sg_head);
		memset(&range->table, 0, sizeof(range->table));
	}
	range->got = false;
	unlock_buffer(buf);
	count(buf, MRX_PEER_PUT_PAGES, true);
}

void peer_release(void *context)
{
	struct peer_range *range = context;
	struct peer_buffer *buf = range->buf;

	peer_buffer_get(buf);
	misbehave(range, buf, MRX_PEER_RELEASE);
	if ((range->got || range->mapped) && !READ_ONCE(range->leaving))
		violate(buf, "release: pinned or mapped still");
	lock_buffer(buf);
	list_del(&range->entry);
	unlock_buffer(buf);
	count(buf, MRX_PEER_RELEASE, true);
	spin_lock(&buf->stat_lock);
	buf->stat.active--;
	spin_unlock(&buf->stat_lock);
	kref_put(&range->ref, free_range);
	peer_buffer_put(buf);
}

/* Takes back all ranges of a buffer that there are now. */
int peer_client_invalidate(struct peer_buffer *buf, unsigned int how)
{
	bool locked = how & MRX_PEER_HOLDING_LOCK;
	struct peer_range **ranges, *range;
	unsigned int n = 0, i;

	if (how & (MRX_PEER_GARBAGE | MRX_PEER_FINISHED)) {
		struct slot *slot = &slots[__ffs(buf->owners)];
		const u64 garbage[] = { 0, 1, U32_MAX, S64_MAX, U64_MAX, (unsigned long)buf };
		int ret = 0;

		if (how & MRX_PEER_FINISHED)
			ret = slot->invalidate(slot->handle, buf->stat.ticket);
		for (i = 0; how & MRX_PEER_GARBAGE && i < ARRAY_SIZE(garbage); i++) {
			ret |= slot->invalidate(slot->handle, garbage[i]);
			ret |= slot->invalidate(NULL, garbage[i]);
			ret |= slot->invalidate(buf, garbage[i]);
		}
		return ret;
	}
	mutex_lock(&buf->lock);
	list_for_each_entry(range, &buf->ranges, entry)
		n++;
	ranges = kvcalloc(n + 1, sizeof(*ranges), GFP_KERNEL);
	i = 0;
	if (ranges)
		list_for_each_entry(range, &buf->ranges, entry) {
			/* no ticket, no invalidation */
			if (!range->ticket || !kref_get_unless_zero(&range->ref))
				continue;
			ranges[i++] = range;
		}
	if (locked)
		WRITE_ONCE(buf->holder, current);
	else
		mutex_unlock(&buf->lock);
	n = i;
	for (i = 0; i < n; i++) {
		invalidate(ranges[i]);
		if (how & MRX_PEER_TWICE)
			invalidate(ranges[i]);
	}
	if (locked) {
		WRITE_ONCE(buf->holder, NULL);
		mutex_unlock(&buf->lock);
	}
	for (i = 0; i < n; i++)
		kref_put(&ranges[i]->ref, free_range);
	kvfree(ranges);
	return n;
}
