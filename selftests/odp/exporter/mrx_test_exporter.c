// SPDX-License-Identifier: GPL-2.0
/*
 * A dma-buf exporter for self-tests: moves and revokes its buffers whenever a
 * test says so. A place that a buffer was moved from is overwritten before it
 * is freed, so that whoever still reads there is found out.
 */
#include <linux/delay.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/iosys-map.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "mrx_test_exporter.h"

#define MAX_SIZE (64UL << 20)
#define POISON 0x5a
#define SLOW_MS 200

/* "place" and "revoked" change under the reservation lock. */
struct buffer {
	void *place;
	size_t size;
	u32 flags;
	bool revoked;
	int vmaps; /* now */
	u32 maps, moves;
	atomic_t begins, ends, attachments;
};

static int attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct buffer *buffer = dmabuf->priv;

	atomic_inc(&buffer->attachments);
	return 0;
}

static void detach(struct dma_buf *dmabuf, struct dma_buf_attachment *attachment)
{
	struct buffer *buffer = dmabuf->priv;

	atomic_dec(&buffer->attachments);
}

static struct sg_table *map_dma(struct dma_buf_attachment *attachment, enum dma_data_direction dir)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void unmap_dma(struct dma_buf_attachment *attachment, struct sg_table *table,
		      enum dma_data_direction dir)
{
}

static int begin_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct buffer *buffer = dmabuf->priv;
	bool revoked;

	/* As exporters wait for their device. */
	if (buffer->flags & MRX_TEST_SLOW && msleep_interruptible(SLOW_MS))
		return -ERESTARTSYS;
	dma_resv_lock(dmabuf->resv, NULL);
	revoked = buffer->revoked;
	dma_resv_unlock(dmabuf->resv);
	if (revoked)
		return -ENODEV;
	atomic_inc(&buffer->begins);
	return 0;
}

static int end_access(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct buffer *buffer = dmabuf->priv;

	/* Exporters may take the lock here, so that importers must not stand in its way. */
	dma_resv_lock(dmabuf->resv, NULL);
	atomic_inc(&buffer->ends);
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static int vmap_buffer(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct buffer *buffer = dmabuf->priv;

	buffer->maps++;
	buffer->vmaps++;
	if (buffer->flags & MRX_TEST_IOMEM)
		iosys_map_set_vaddr_iomem(map, (void __iomem *)buffer->place);
	else
		iosys_map_set_vaddr(map, buffer->place);
	return 0;
}

static void vunmap_buffer(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct buffer *buffer = dmabuf->priv;

	buffer->vmaps--;
}

static int mmap_buffer(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct buffer *buffer = dmabuf->priv;

	/* Of the place where it is now; tests look again after a move. */
	return remap_vmalloc_range(vma, buffer->place, vma->vm_pgoff);
}

static void release(struct dma_buf *dmabuf)
{
	struct buffer *buffer = dmabuf->priv;

	WARN_ON(buffer->vmaps || atomic_read(&buffer->attachments));
	WARN_ON(atomic_read(&buffer->begins) != atomic_read(&buffer->ends));
	vfree(buffer->place);
	kfree(buffer);
}

#define COMMON_OPS                                                         \
	.attach = attach, .detach = detach, .map_dma_buf = map_dma,        \
	.unmap_dma_buf = unmap_dma, .begin_cpu_access = begin_access,      \
	.end_cpu_access = end_access, .mmap = mmap_buffer, .release = release

static const struct dma_buf_ops ops = {
	COMMON_OPS,
	.vmap = vmap_buffer,
	.vunmap = vunmap_buffer,
};

static const struct dma_buf_ops no_cpu_ops = { COMMON_OPS };

static long create(struct mrx_test_buffer __user *arg)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct mrx_test_buffer request;
	struct buffer *buffer;
	struct dma_buf *dmabuf;
	int fd;

	if (copy_from_user(&request, arg, sizeof(request)))
		return -EFAULT;
	if (!request.size || request.size > MAX_SIZE || request.size & ~PAGE_MASK)
		return -EINVAL;
	/* There the functions for memory of a device reach nothing but emulated devices. */
	if (request.flags & MRX_TEST_IOMEM && IS_ENABLED(CONFIG_INDIRECT_IOMEM))
		return -EOPNOTSUPP;
	buffer = kzalloc(sizeof(*buffer), GFP_KERNEL);
	if (!buffer)
		return -ENOMEM;
	buffer->size = request.size;
	buffer->flags = request.flags;
	buffer->place = vmalloc_user(buffer->size);
	if (!buffer->place) {
		kfree(buffer);
		return -ENOMEM;
	}
	info.ops = request.flags & MRX_TEST_NO_CPU ? &no_cpu_ops : &ops;
	info.size = buffer->size;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = buffer;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf)) {
		vfree(buffer->place);
		kfree(buffer);
		return PTR_ERR(dmabuf);
	}
	fd = dma_buf_fd(dmabuf, O_CLOEXEC);
	if (fd < 0) {
		dma_buf_put(dmabuf);
		return fd;
	}
	return put_user(fd, &arg->fd);
}

static long move_buffer(struct dma_buf *dmabuf)
{
	struct buffer *buffer = dmabuf->priv;
	void *to = vmalloc_user(buffer->size);

	if (!to)
		return -ENOMEM;
	dma_resv_lock(dmabuf->resv, NULL);
	dma_buf_invalidate_mappings(dmabuf);
	if (WARN_ON(buffer->vmaps)) {
		swap(to, buffer->place);
	} else {
		memcpy(to, buffer->place, buffer->size);
		swap(to, buffer->place);
		memset(to, POISON, buffer->size);
	}
	buffer->moves++;
	dma_resv_unlock(dmabuf->resv);
	vfree(to);
	return 0;
}

static long revoke(struct dma_buf *dmabuf)
{
	struct buffer *buffer = dmabuf->priv;

	dma_resv_lock(dmabuf->resv, NULL);
	buffer->revoked = true;
	dma_buf_invalidate_mappings(dmabuf);
	WARN_ON(buffer->vmaps);
	memset(buffer->place, POISON, buffer->size);
	dma_resv_unlock(dmabuf->resv);
	return 0;
}

static long state(struct dma_buf *dmabuf, struct mrx_test_state __user *arg, u32 fd)
{
	struct buffer *buffer = dmabuf->priv;
	struct mrx_test_state answer = {
		.fd = fd,
		.maps = buffer->maps,
		.begins = atomic_read(&buffer->begins),
		.ends = atomic_read(&buffer->ends),
		.moves = buffer->moves,
		.attachments = atomic_read(&buffer->attachments),
	};

	return copy_to_user(arg, &answer, sizeof(answer)) ? -EFAULT : 0;
}

static long exporter_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct dma_buf *dmabuf;
	long ret;
	u32 fd;

	if (cmd == MRX_TEST_CREATE)
		return create((void __user *)arg);
	/* The file descriptor is the first member of what the others take. */
	if (get_user(fd, (u32 __user *)arg))
		return -EFAULT;
	dmabuf = dma_buf_get(fd);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	if (dmabuf->ops != &ops && dmabuf->ops != &no_cpu_ops)
		ret = -EINVAL;
	else if (cmd == MRX_TEST_MOVE)
		ret = move_buffer(dmabuf);
	else if (cmd == MRX_TEST_REVOKE)
		ret = revoke(dmabuf);
	else if (cmd == MRX_TEST_STATE)
		ret = state(dmabuf, (void __user *)arg, fd);
	else
		ret = -ENOTTY;
	dma_buf_put(dmabuf);
	return ret;
}

static const struct file_operations exporter_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = exporter_ioctl,
};

static struct miscdevice exporter = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mrx_test_exporter",
	.mode = 0600,
	.fops = &exporter_fops,
};
module_misc_device(exporter);

MODULE_DESCRIPTION("dma-buf exporter for the self-tests of mrx");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("DMA_BUF");
