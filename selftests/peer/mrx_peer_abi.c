// SPDX-License-Identifier: GPL-2.0
/*
 * A client that was built without the registry's header and does not depend on
 * it: it has structures of its own, a ticket that is a pointer, and finds the
 * two functions at run time. It owns nothing.
 */
#include <linux/module.h>
#include <linux/scatterlist.h>

struct abi_client {
	char name[64];
	char version[16];
	int (*acquire)(unsigned long addr, size_t size, void *peer_mem_private_data,
		       char *peer_mem_name, void **client_context);
	int (*get_pages)(unsigned long addr, size_t size, int write, int force,
			 struct sg_table *sg_head, void *client_context, void *core_context);
	int (*dma_map)(struct sg_table *sg_head, void *client_context,
		       struct device *dma_device, int dmasync, int *nmap);
	int (*dma_unmap)(struct sg_table *sg_head, void *client_context,
			 struct device *dma_device);
	void (*put_pages)(struct sg_table *sg_head, void *client_context);
	unsigned long (*get_page_size)(void *client_context);
	void (*release)(void *client_context);
};

typedef int (*abi_invalidate)(void *reg_handle, void *core_context);

extern void *ib_register_peer_memory_client(const struct abi_client *client,
					    abi_invalidate *invalidate);
extern void ib_unregister_peer_memory_client(void *reg_handle);

static int acquire(unsigned long addr, size_t size, void *data, char *name, void **context)
{
	return 0;
}

static int get_pages(unsigned long addr, size_t size, int write, int force,
		     struct sg_table *sg_head, void *context, void *ticket)
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

static void release(void *context)
{
}

static const struct abi_client client = {
	.name = "mrx_peer_abi",
	.version = "1.0",
	.acquire = acquire,
	.get_pages = get_pages,
	.dma_map = dma_map,
	.dma_unmap = dma_unmap,
	.put_pages = put_pages,
	.get_page_size = get_page_size,
	.release = release,
};

static typeof(ib_unregister_peer_memory_client) *unregister;
static abi_invalidate invalidate;
static void *handle;

static int __init mrx_peer_abi_init(void)
{
	typeof(ib_register_peer_memory_client) *reg;

	reg = symbol_request(ib_register_peer_memory_client);
	if (!reg)
		return -ENOENT;
	unregister = symbol_request(ib_unregister_peer_memory_client);
	if (unregister)
		handle = reg(&client, &invalidate);
	symbol_put(ib_register_peer_memory_client);
	if (!unregister)
		return -ENOENT;
	if (handle && !invalidate(handle, (void *)0x1234))
		return 0;
	symbol_put(ib_unregister_peer_memory_client);
	return -EINVAL;
}

static void __exit mrx_peer_abi_exit(void)
{
	unregister(handle);
	symbol_put(ib_unregister_peer_memory_client);
}

module_init(mrx_peer_abi_init);
module_exit(mrx_peer_abi_exit);
MODULE_DESCRIPTION("Peer-memory client with structures of its own");
MODULE_LICENSE("GPL");
