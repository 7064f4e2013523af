// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of the clients: contiguous pages, scattered pages, or the memory of a
 * PCI device.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/pci.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "buffer.h"

/* ivshmem-plain of QEMU, whose third BAR is memory */
#define IVSHMEM_VENDOR 0x1af4
#define IVSHMEM_DEVICE 0x1110
#define IVSHMEM_BAR 2

/* Buffers in the BAR are taken from its start again once there are none. */
static DEFINE_MUTEX(bar_lock);
static size_t bar_next;
static unsigned int bar_users;

static int bar_alloc(struct peer_buffer *buf)
{
	struct pci_dev *pdev = pci_get_device(IVSHMEM_VENDOR, IVSHMEM_DEVICE, NULL);
	int ret;

	if (!pdev)
		return -ENODEV;
	ret = pci_enable_device_mem(pdev);
	if (ret)
		goto put;
	mutex_lock(&bar_lock);
	if (!bar_users)
		bar_next = 0;
	if (buf->size > pci_resource_len(pdev, IVSHMEM_BAR) - bar_next) {
		ret = -ENOSPC;
	} else {
		buf->bar = pci_resource_start(pdev, IVSHMEM_BAR) + bar_next;
		bar_next += buf->size;
		bar_users++;
	}
	mutex_unlock(&bar_lock);
put:
	pci_dev_put(pdev);
	return ret;
}

static void swap_pages(struct page **pages, unsigned long n)
{
	unsigned long i;

	/* What the allocator gives in a row is often contiguous. */
	for (i = 0; i + 1 < n; i += 2)
		swap(pages[i], pages[n - 1 - i]);
}

static int pages_alloc(struct peer_buffer *buf)
{
	bool together = buf->flavour != MRX_PEER_SCATTERED;
	unsigned long i;
	char *start = NULL;

	buf->pages = kvcalloc(buf->npages, sizeof(*buf->pages), GFP_KERNEL);
	if (!buf->pages)
		return -ENOMEM;
	if (together) {
		start = alloc_pages_exact(buf->size, GFP_KERNEL | __GFP_ZERO);
		if (!start)
			return -ENOMEM;
	}
	for (i = 0; i < buf->npages; i++) {
		buf->pages[i] = together ? virt_to_page(start + i * PAGE_SIZE) :
					   alloc_page(GFP_KERNEL | __GFP_ZERO);
		if (!buf->pages[i])
			return -ENOMEM;
	}
	if (!together)
		swap_pages(buf->pages, buf->npages);
	return 0;
}

int peer_buffer_alloc(struct peer_buffer *buf, const struct mrx_peer_alloc *alloc)
{
	if (buf->size)
		return -EBUSY;
	if (!alloc->size || alloc->size > SZ_64M)
		return -EINVAL;
	/* There an address without a page is one of an emulated device, and of nothing else. */
	if (alloc->flavour == MRX_PEER_PAGELESS && IS_ENABLED(CONFIG_INDIRECT_IOMEM))
		return -ENODEV;
	buf->flavour = alloc->flavour;
	buf->size = PAGE_ALIGN(alloc->size);
	buf->owners = alloc->owners;
	buf->npages = buf->size / PAGE_SIZE;
	return buf->flavour == MRX_PEER_BAR ? bar_alloc(buf) : pages_alloc(buf);
}

void peer_buffer_get(struct peer_buffer *buf)
{
	kref_get(&buf->ref);
}

static void free_buffer(struct kref *ref)
{
	struct peer_buffer *buf = container_of(ref, struct peer_buffer, ref);
	unsigned long i;

	if (buf->bar) {
		mutex_lock(&bar_lock);
		bar_users--;
		mutex_unlock(&bar_lock);
	}
	if (buf->pages && buf->flavour != MRX_PEER_SCATTERED) {
		if (buf->pages[0])
			free_pages_exact(page_address(buf->pages[0]), buf->size);
	} else if (buf->pages) {
		for (i = 0; i < buf->npages; i++)
			if (buf->pages[i])
				__free_page(buf->pages[i]);
	}
	kvfree(buf->pages);
	kfree(buf);
}

void peer_buffer_put(struct peer_buffer *buf)
{
	kref_put(&buf->ref, free_buffer);
}

phys_addr_t peer_buffer_phys(struct peer_buffer *buf, unsigned long page)
{
	return buf->bar ? buf->bar + page * PAGE_SIZE : page_to_phys(buf->pages[page]);
}

static void vma_open(struct vm_area_struct *vma)
{
	peer_buffer_get(vma->vm_private_data);
}

static void vma_close(struct vm_area_struct *vma)
{
	peer_buffer_put(vma->vm_private_data);
}

static const struct vm_operations_struct vm_ops = {
	.open = vma_open,
	.close = vma_close,
};

int peer_buffer_mmap(struct peer_buffer *buf, struct vm_area_struct *vma)
{
	unsigned long page = vma->vm_pgoff, n = vma_pages(vma), i;
	int ret;

	if (page > buf->npages || n > buf->npages - page)
		return -EINVAL;
	if (buf->bar)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	for (i = 0; i < n; i++) {
		ret = remap_pfn_range(vma, vma->vm_start + i * PAGE_SIZE,
				      PHYS_PFN(peer_buffer_phys(buf, page + i)),
				      PAGE_SIZE, vma->vm_page_prot);
		if (ret)
			return ret;
	}
	vma->vm_private_data = buf;
	vma->vm_ops = &vm_ops;
	peer_buffer_get(buf);
	return 0;
}

/* The buffer that an area maps, or NULL. */
struct peer_buffer *peer_buffer_of_vma(struct vm_area_struct *vma)
{
	return vma->vm_ops == &vm_ops ? vma->vm_private_data : NULL;
}

/*
 * The buffer that the process has mapped at an address, with a reference to it,
 * and where in the buffer the address is.
 */
struct peer_buffer *peer_buffer_of(unsigned long addr, size_t size, unsigned long *offset)
{
	struct peer_buffer *buf = NULL;
	struct vm_area_struct *vma;

	if (!current->mm)
		return NULL;
	mmap_read_lock(current->mm);
	vma = vma_lookup(current->mm, addr);
	if (vma && size <= vma->vm_end - addr)
		buf = peer_buffer_of_vma(vma);
	if (buf) {
		peer_buffer_get(buf);
		*offset = (vma->vm_pgoff << PAGE_SHIFT) + (addr - vma->vm_start);
	}
	mmap_read_unlock(current->mm);
	return buf;
}
