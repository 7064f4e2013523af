/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Peer memory: drivers of other devices offer memory of theirs to RDMA.
 *
 * Binary compatible with the clients that exist. What a client has to do, and
 * may not do, is told in Documentation/peer-memory.md.
 *
 * Exported by ib_mrx.ko.
 */
#ifndef PEER_MEM_H
#define PEER_MEM_H

#include <linux/types.h>

struct device;
struct sg_table;

/* Bytes of a name and of a version, with the byte that ends them. */
#define IB_PEER_MEMORY_NAME_MAX 64
#define IB_PEER_MEMORY_VER_MAX 16

/* core_context is a number here; some clients call it a void pointer. */
#define PEER_MEM_U64_CORE_CONTEXT

/**
 * enum peer_memory_variant - which structure a client registers
 * @PEER_MEM_CLASSIC: struct peer_memory_client
 * @PEER_MEM_EXTENDED: struct peer_memory_client_ex
 * @PEER_MEM_PRIVATE_DATA: struct peer_memory_client_private
 *
 * Stands in the last byte of &peer_memory_client.version.
 */
enum peer_memory_variant {
	PEER_MEM_CLASSIC = 0,
	PEER_MEM_EXTENDED = 1,
	PEER_MEM_PRIVATE_DATA = 2,
};

/**
 * struct peer_memory_client - what a client is and does
 * @name: unique, not empty, and ended by a zero byte
 * @version: text; its last byte is an enum peer_memory_variant
 * @acquire: whether @size bytes at @addr of the current process are the
 *	client's: 1 if so, and then *@client_context stands for the range in
 *	all other calls. @peer_mem_private_data and @peer_mem_name are what the
 *	process has set for its verbs context, or NULL.
 * @get_pages: pin the range. @write is 1, and @force is 1 if the region will
 *	only be read. @sg_head is an empty table that the client may fill here
 *	or in @dma_map. @core_context is what the client invalidates the range
 *	with, or 0 if it cannot. Returns 0 or an errno.
 * @dma_map: make the range reachable for @dma_device, and say in *@nmap how
 *	many entries of the table have a DMA address. Returns 0 or an errno.
 * @dma_unmap: undo @dma_map.
 * @put_pages: undo @get_pages. Frees the table.
 * @get_page_size: bytes of a page of the range, a power of two.
 * @release: undo @acquire. May be NULL.
 *
 * No lock is held during any of these calls, which may sleep.
 */
struct peer_memory_client {
	char name[IB_PEER_MEMORY_NAME_MAX];
	char version[IB_PEER_MEMORY_VER_MAX];
	int (*acquire)(unsigned long addr, size_t size,
		       void *peer_mem_private_data, char *peer_mem_name,
		       void **client_context);
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
			 struct sg_table *sg_head, void *client_context,
			 u64 core_context);
	int (*dma_map)(struct sg_table *sg_head, void *client_context,
		       struct device *dma_device, int dmasync, int *nmap);
	int (*dma_unmap)(struct sg_table *sg_head, void *client_context,
			 struct device *dma_device);
	void (*put_pages)(struct sg_table *sg_head, void *client_context);
	unsigned long (*get_page_size)(void *client_context);
	void (*release)(void *client_context);
};

/**
 * enum peer_memory_flags - properties of an extended client
 * @PEER_MEM_INVALIDATE_UNMAPS: a range that the client invalidates is unmapped
 *	and unpinned by the client itself: neither @dma_unmap nor @put_pages is
 *	called for it any more
 */
enum peer_memory_flags {
	PEER_MEM_INVALIDATE_UNMAPS = 1 << 0,
};

/**
 * struct peer_memory_client_ex - an extended client
 * @client: as for every client, of variant %PEER_MEM_EXTENDED
 * @ex_size: bytes of this structure; 0 for a client that has no @flags
 * @flags: a set of enum peer_memory_flags
 */
struct peer_memory_client_ex {
	struct peer_memory_client client;
	size_t ex_size;
	u32 flags;
};

/**
 * struct peer_memory_client_private - a client with data of verbs contexts
 * @client: as for every client, of variant %PEER_MEM_PRIVATE_DATA
 * @get_context_private_data: the data for @peer_id, which a process has set
 *	for its verbs context; an ERR_PTR() or NULL refuses it
 * @put_context_private_data: the context has gone, or has been set anew
 */
struct peer_memory_client_private {
	struct peer_memory_client client;
	void *(*get_context_private_data)(u64 peer_id);
	void (*put_context_private_data)(void *context);
};

/**
 * typedef invalidate_peer_memory - take a range back
 * @reg_handle: of the client
 * @core_context: what @get_pages was told for the range
 *
 * When this returns, no access to the range is under way and none will happen.
 * Except for %PEER_MEM_INVALIDATE_UNMAPS, @dma_unmap and @put_pages have been
 * called, unless the range was not mapped altogether yet, or somebody else was
 * about to call them: its deregistration, or another call of this function.
 *
 * Context: process; may sleep, and waits for copies that are under way.
 * Return: 0, also if there is no such range.
 */
typedef int (*invalidate_peer_memory)(void *reg_handle, u64 core_context);

/**
 * ib_register_peer_memory_client - offer memory
 * @peer_client: the client, which is copied
 * @invalidate_callback: where to put the function that invalidates ranges of
 *	the client, or NULL if it never takes a range back
 *
 * Context: process, may sleep.
 * Return: a handle, or NULL, and the reason in the log.
 */
void *ib_register_peer_memory_client(const struct peer_memory_client *peer_client,
				     invalidate_peer_memory *invalidate_callback);

/**
 * ib_unregister_peer_memory_client - offer no more
 * @reg_handle: of the client
 *
 * Returns after the last range of the client has been released.
 *
 * Context: process, may sleep, for as long as a process keeps a range.
 */
void ib_unregister_peer_memory_client(void *reg_handle);

#endif /* PEER_MEM_H */
