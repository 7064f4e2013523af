// SPDX-License-Identifier: GPL-2.0
/*
 * A client that says of itself that its licence is not compatible with the GPL.
 * It owns nothing.
 */
#include <linux/module.h>
#include <linux/scatterlist.h>
#include <rdma/peer_mem.h>

static int acquire(unsigned long addr, size_t size, void *data, char *name, void **context)
{
	return 0;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *sg_head, void *context, u64 core_context)
{
	return -EINVAL;
}

static int dma_map(struct sg_table *sg_head, void *context, struct device *dma_device,
		   int dmasync, int *nmap)
{
	return -EINVAL;
}

static int dma_unmap(struct sg_table *sg_head, void *context, struct device *dma_device)
{
	return 0;
}

static void put_pages(struct sg_table *sg_head, void *context)
{
}

static unsigned long get_page_size(void *context)
{
	return PAGE_SIZE;
}

static const struct peer_memory_client client = {
	.name = "mrx_peer_plain",
	.version = "1.0",
	.acquire = acquire,
	.get_pages = get_pages,
	.dma_map = dma_map,
	.dma_unmap = dma_unmap,
	.put_pages = put_pages,
	.get_page_size = get_page_size,
};

static void *handle;

static int __init mrx_peer_plain_init(void)
{
	handle = ib_register_peer_memory_client(&client, NULL);
	return handle ? 0 : -EINVAL;
}

static void __exit mrx_peer_plain_exit(void)
{
	ib_unregister_peer_memory_client(handle);
}

module_init(mrx_peer_plain_init);
module_exit(mrx_peer_plain_exit);
MODULE_DESCRIPTION("Peer-memory client of another licence");
MODULE_LICENSE("Proprietary");
