// SPDX-License-Identifier: GPL-2.0

#include <linux/err.h>
#include <linux/if_vlan.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/kernfs.h>
#include <linux/kobject.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/mmap_lock.h>
#include <linux/mmu_notifier.h>
#include <linux/netdevice.h>
#include <linux/ratelimit.h>
#include <linux/scatterlist.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sysfs.h>
#include <linux/userfaultfd_k.h>
#include <linux/version.h>
#include <linux/vmalloc.h>
#include <linux/workqueue.h>
#include <net/addrconf.h>
#include <net/netlink.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>

#include "helpers.h"

/* Exported by ib_core, but declared in a header of its own only. */
void rdma_restrack_add(struct rdma_restrack_entry *res);
void rdma_restrack_new(struct rdma_restrack_entry *res,
		       enum rdma_restrack_type type);
void rdma_restrack_parent_name(struct rdma_restrack_entry *dst,
			       const struct rdma_restrack_entry *parent);

struct ib_umem *mrx_umem_get(struct ib_device *device, unsigned long addr,
			     size_t size, int access)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 3, 0)
	return ib_umem_get_va(device, addr, size, access);
#else
	return ib_umem_get(device, addr, size, access);
#endif
}

/*
 * Zeroed pages for a process to map, which count as memory of its own. It may ask
 * for more than there is, which is nothing for the log.
 */
void *mrx_vmalloc_user(unsigned long size)
{
	return __vmalloc(size, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN);
}

/* remap_vmalloc_range(), which insists on an allocator that does not count them. */
int mrx_map_vmalloc(struct vm_area_struct *vma, void *addr, unsigned long size)
{
	unsigned long done;
	int ret = 0;

	if (vma->vm_end - vma->vm_start > size)
		return -EINVAL;
	for (done = 0; !ret && vma->vm_start + done < vma->vm_end; done += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + done, vmalloc_to_page(addr + done));
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	return ret;
}

void mrx_vfree(const void *addr)
{
	vfree(addr);
}

void mrx_netdev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void mrx_netdev_put(struct net_device *dev)
{
	dev_put(dev);
}

bool mrx_netdev_running(const struct net_device *dev)
{
	return netif_running(dev) && netif_carrier_ok(dev);
}

bool mrx_netdev_up(const struct net_device *dev)
{
	return netif_running(dev);
}

unsigned int mrx_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

void mrx_netdev_eui64(const struct net_device *dev, u8 *eui)
{
	addrconf_addr_eui48(eui, (const char *)dev->dev_addr);
}

bool mrx_netdev_is_vlan(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

const char *mrx_netdev_name(const struct net_device *dev)
{
	return dev->name;
}

struct net_device *mrx_netdev_of_notifier(const void *info)
{
	return netdev_notifier_info_to_dev(info);
}

u32 mrx_core_cap_roce_v2(void)
{
	return RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
}

unsigned int mrx_num_possible_cpus(void)
{
	return num_possible_cpus();
}

int mrx_check_mr_access(struct ib_device *device, unsigned int access)
{
	return ib_check_mr_access(device, access);
}

bool mrx_device_has_gid(struct ib_device *device, const union ib_gid *gid)
{
	const struct ib_gid_attr *attr;

	attr = rdma_find_gid(device, gid, IB_GID_TYPE_ROCE_UDP_ENCAP, NULL);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

/*
 * What makes this module depend on ib_uverbs itself. The functions that it
 * calls are in a support module, which can be there without ib_uverbs.
 */
bool mrx_uverbs_is_there(void)
{
	void (*volatile needed)(struct ib_device *) = rdma_user_mmap_disassociate;

	return needed;
}

bool mrx_device_try_get(struct ib_device *device)
{
	return ib_device_try_get(device);
}

void mrx_track_mr_again(struct ib_mr *mr)
{
	rdma_restrack_new(&mr->res, RDMA_RESTRACK_MR);
	rdma_restrack_parent_name(&mr->res, &mr->pd->res);
	rdma_restrack_add(&mr->res);
}

/*
 * mm_kobj is not exported. Its folder is found by name below kernel_kobj, which
 * is; the node of a sysfs folder holds the folder's object. That object is never
 * removed, so that a reference to it can be taken.
 */
struct kobject *mrx_mm_kobj(void)
{
	struct kernfs_node *node;
	struct kobject *mm;

	node = kernfs_find_and_get(kernel_kobj->sd, "mm");
	if (!node)
		return NULL;
	mm = kobject_get(node->priv);
	kernfs_put(node);
	return mm;
}

void mrx_sysfs_attr_init(struct attribute *attr)
{
	sysfs_attr_init(attr);
}

/*
 * The memory of an entry that has pages, or NULL if it has none that a
 * processor can reach. *io says whether it is memory of a device.
 */
void *mrx_sg_memory(struct scatterlist *sg, bool *io)
{
	struct page *page = sg_page(sg);

	if (!page || is_device_private_page(page))
		return NULL;
	*io = is_pci_p2pdma_page(page);
	return page_address(page) + sg->offset;
}

/*
 * Memory by its physical address: that of the kernel if it is ordinary memory,
 * else a mapping that *mapped says has to be unmapped. EINVAL if it is some of
 * both.
 */
void *mrx_map_physical(u64 addr, size_t len, bool *mapped)
{
	int ram = region_intersects(addr, len, IORESOURCE_SYSTEM_RAM, IORES_DESC_NONE);

	*mapped = ram == REGION_DISJOINT;
	if (ram == REGION_INTERSECTS)
		return phys_to_virt(addr);
	if (!*mapped)
		return ERR_PTR(-EINVAL);
	return (void __force *)ioremap_wc(addr, len) ?: ERR_PTR(-ENOMEM);
}

bool mrx_ratelimit(void)
{
	static DEFINE_RATELIMIT_STATE(state, DEFAULT_RATELIMIT_INTERVAL,
				      DEFAULT_RATELIMIT_BURST);

	return __ratelimit(&state);
}

bool mrx_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

void mrx_cond_resched(void)
{
	cond_resched();
}

bool mrx_pause(void)
{
	cond_resched();
	return !fatal_signal_pending(current);
}

bool mrx_notifier_may_wait(const struct mmu_notifier_range *range)
{
	return mmu_notifier_range_blockable(range);
}

void mrx_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	mmu_interval_set_seq(notifier, seq);
}

bool mrx_interval_read_retry(struct mmu_interval_notifier *notifier, unsigned long seq)
{
	return mmu_interval_read_retry(notifier, seq);
}

int mrx_mmap_read_lock_killable(struct mm_struct *mm)
{
	return mmap_read_lock_killable(mm);
}

static bool is_of_fuse(const struct file *file)
{
	return file && file_inode(file)->i_sb->s_magic == FUSE_SUPER_MAGIC;
}

/* Under mmap_lock. */
bool mrx_pages_come_from_a_program(struct mm_struct *mm, unsigned long start, unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, end)
		if (userfaultfd_armed(vma) || is_of_fuse(vma->vm_file))
			return true;
	return false;
}

/* Under mmap_lock. */
unsigned long mrx_next_mapping(struct mm_struct *mm, unsigned long addr)
{
	struct vm_area_struct *vma = find_vma(mm, addr);

	return vma ? max(addr, vma->vm_start) : ULONG_MAX;
}

void *mrx_page_address(const struct page *page)
{
	return page_address(page);
}

void mrx_put_page(struct page *page)
{
	put_page(page);
}

struct nlattr *mrx_driver_attrs_begin(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

struct nlattr *mrx_stats_begin(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
}

void mrx_stats_end(struct sk_buff *msg, struct nlattr *table)
{
	nla_nest_end(msg, table);
}

void mrx_stats_cancel(struct sk_buff *msg, struct nlattr *table)
{
	nla_nest_cancel(msg, table);
}

struct workqueue_struct *mrx_alloc_unbound_workqueue(const char *name, int max_active)
{
	return alloc_workqueue("%s", WQ_UNBOUND, max_active, name);
}

struct mem_cgroup *mrx_mem_cgroup_of(struct mm_struct *mm)
{
	return get_mem_cgroup_from_mm(mm);
}

struct mem_cgroup *mrx_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

void mrx_mem_cgroup_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

void mrx_local_bh_disable(void)
{
	local_bh_disable();
}

void mrx_local_bh_enable(void)
{
	local_bh_enable();
}

bool mrx_mod_delayed_work(struct workqueue_struct *queue, struct delayed_work *work)
{
	return mod_delayed_work(queue, work, 0);
}

void *mrx_uverbs_attr_obj(const struct uverbs_attr_bundle *attrs, u16 id)
{
	return uverbs_attr_get_obj(attrs, id);
}

struct ib_uobject *mrx_uverbs_attr_uobject(const struct uverbs_attr_bundle *attrs,
					   u16 id)
{
	return uverbs_attr_get_uobject(attrs, id);
}

struct ib_ucontext *mrx_uverbs_context(const struct uverbs_attr_bundle *attrs)
{
	return ib_uverbs_get_ucontext(attrs);
}

bool mrx_uverbs_attr_is_valid(const struct uverbs_attr_bundle *attrs, u16 id)
{
	return uverbs_attr_is_valid(attrs, id);
}

int mrx_uverbs_copy_from(void *to, const struct uverbs_attr_bundle *attrs,
			 u16 id, size_t size)
{
	return _uverbs_copy_from(to, attrs, id, size);
}

int mrx_uverbs_get_const(u64 *to, const struct uverbs_attr_bundle *attrs, u16 id)
{
	return _uverbs_get_const_unsigned(to, attrs, id, U64_MAX, NULL);
}
