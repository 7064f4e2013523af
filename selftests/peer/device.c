// SPDX-License-Identifier: GPL-2.0
/*
 * The device file of the C client: a buffer for each open file, to map, and to
 * tell how the client is to treat it.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "buffer.h"
#include "client.h"

static int device_open(struct inode *inode, struct file *file)
{
	struct peer_buffer *buf = kzalloc(sizeof(*buf), GFP_KERNEL);

	if (!buf)
		return -ENOMEM;
	kref_init(&buf->ref);
	mutex_init(&buf->lock);
	spin_lock_init(&buf->stat_lock);
	INIT_LIST_HEAD(&buf->ranges);
	buf->fault.fail = MRX_PEER_NO_STEP;
	buf->fault.delay = MRX_PEER_NO_STEP;
	buf->fault.invalidate = MRX_PEER_NO_STEP;
	file->private_data = buf;
	return 0;
}

static int device_release(struct inode *inode, struct file *file)
{
	peer_buffer_put(file->private_data);
	return 0;
}

static int device_mmap(struct file *file, struct vm_area_struct *vma)
{
	return peer_buffer_mmap(file->private_data, vma);
}

static long device_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct peer_buffer *buf = file->private_data;
	void __user *user = (void __user *)arg;
	struct mrx_peer_counters *counters;
	struct mrx_peer_register how;
	struct mrx_peer_alloc alloc;
	long ret;

	switch (cmd) {
	case MRX_PEER_IOC_REGISTER:
		if (copy_from_user(&how, user, sizeof(how)))
			return -EFAULT;
		return peer_client_register(&how);
	case MRX_PEER_IOC_UNREGISTER:
		return peer_client_unregister(arg);
	case MRX_PEER_IOC_PRIVATE:
		return peer_client_contexts();
	case MRX_PEER_IOC_ASKED:
		return peer_client_asked(arg);
	case MRX_PEER_IOC_ALLOC:
		if (copy_from_user(&alloc, user, sizeof(alloc)))
			return -EFAULT;
		return peer_buffer_alloc(buf, &alloc);
	case MRX_PEER_IOC_FAULT:
		return copy_from_user(&buf->fault, user, sizeof(buf->fault)) ? -EFAULT : 0;
	case MRX_PEER_IOC_INVALIDATE:
		return buf->owners ? peer_client_invalidate(buf, arg) : -EINVAL;
	case MRX_PEER_IOC_COUNTERS:
		counters = kmalloc(sizeof(*counters), GFP_KERNEL);
		if (!counters)
			return -ENOMEM;
		spin_lock(&buf->stat_lock);
		*counters = buf->stat;
		spin_unlock(&buf->stat_lock);
		ret = copy_to_user(user, counters, sizeof(*counters)) ? -EFAULT : 0;
		kfree(counters);
		return ret;
	default:
		return -ENOTTY;
	}
}

static const struct file_operations device_fops = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.mmap = device_mmap,
	.unlocked_ioctl = device_ioctl,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "mrx_peer_c",
	.fops = &device_fops,
	.mode = 0666,
};

static int __init mrx_peer_c_init(void)
{
	return misc_register(&device);
}

static void __exit mrx_peer_c_exit(void)
{
	misc_deregister(&device);
	peer_client_unregister_all();
}

module_init(mrx_peer_c_init);
module_exit(mrx_peer_c_exit);
MODULE_DESCRIPTION("Reference peer-memory client in C");
MODULE_LICENSE("GPL");
