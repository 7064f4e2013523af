/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C that Rust cannot call as it stands: inline functions and macros.
 */
#ifndef MRX_HELPERS_H
#define MRX_HELPERS_H

#include <linux/types.h>

struct attribute;
struct delayed_work;
struct ib_device;
union ib_gid;
struct ib_mr;
struct ib_ucontext;
struct ib_umem;
struct ib_uobject;
struct kobject;
struct mm_struct;
struct mmu_interval_notifier;
struct mmu_notifier_range;
struct net_device;
struct nlattr;
struct page;
struct scatterlist;
struct sk_buff;
struct uverbs_attr;
struct uverbs_attr_bundle;
struct vm_area_struct;
struct workqueue_struct;

struct ib_umem *mrx_umem_get(struct ib_device *device, unsigned long addr,
			     size_t size, int access);

void *mrx_vmalloc_user(unsigned long size);
int mrx_map_vmalloc(struct vm_area_struct *vma, void *addr, unsigned long size);
void mrx_vfree(const void *addr);

void mrx_netdev_hold(struct net_device *dev);
void mrx_netdev_put(struct net_device *dev);
bool mrx_netdev_running(const struct net_device *dev);
bool mrx_netdev_up(const struct net_device *dev);
unsigned int mrx_netdev_mtu(const struct net_device *dev);
void mrx_netdev_eui64(const struct net_device *dev, u8 *eui);
bool mrx_netdev_is_vlan(const struct net_device *dev);
const char *mrx_netdev_name(const struct net_device *dev);
struct net_device *mrx_netdev_of_notifier(const void *info);

u32 mrx_core_cap_roce_v2(void);
unsigned int mrx_num_possible_cpus(void);
int mrx_check_mr_access(struct ib_device *device, unsigned int access);
bool mrx_device_has_gid(struct ib_device *device, const union ib_gid *gid);
bool mrx_uverbs_is_there(void);
bool mrx_device_try_get(struct ib_device *device);

void mrx_track_mr_again(struct ib_mr *mr);

struct kobject *mrx_mm_kobj(void);
void mrx_sysfs_attr_init(struct attribute *attr);

void *mrx_sg_memory(struct scatterlist *sg, bool *io);
void *mrx_map_physical(u64 addr, size_t len, bool *mapped);

bool mrx_ratelimit(void);
bool mrx_fatal_signal_pending(void);
void mrx_cond_resched(void);
bool mrx_pause(void);
void mrx_local_bh_disable(void);
void mrx_local_bh_enable(void);
bool mrx_mod_delayed_work(struct workqueue_struct *queue, struct delayed_work *work);

bool mrx_notifier_may_wait(const struct mmu_notifier_range *range);
void mrx_interval_set_seq(struct mmu_interval_notifier *notifier, unsigned long seq);
bool mrx_interval_read_retry(struct mmu_interval_notifier *notifier, unsigned long seq);
int mrx_mmap_read_lock_killable(struct mm_struct *mm);
bool mrx_pages_come_from_a_program(struct mm_struct *mm, unsigned long start, unsigned long end);
unsigned long mrx_next_mapping(struct mm_struct *mm, unsigned long addr);
void mrx_trace_page_fault(unsigned long addr, unsigned long pages, bool write, long result);
void mrx_trace_page_prefetch(unsigned long addr, unsigned long pages, bool write, long result);
void mrx_trace_page_invalidate(unsigned long start, unsigned long end, unsigned long given_up);
void *mrx_page_address(const struct page *page);
void mrx_put_page(struct page *page);

struct nlattr *mrx_driver_attrs_begin(struct sk_buff *msg);
struct nlattr *mrx_stats_begin(struct sk_buff *msg);
void mrx_stats_end(struct sk_buff *msg, struct nlattr *table);
void mrx_stats_cancel(struct sk_buff *msg, struct nlattr *table);

struct workqueue_struct *mrx_alloc_unbound_workqueue(const char *name, int max_active);

struct mem_cgroup *mrx_mem_cgroup_of(struct mm_struct *mm);
struct mem_cgroup *mrx_set_active_memcg(struct mem_cgroup *memcg);
void mrx_mem_cgroup_put(struct mem_cgroup *memcg);

void *mrx_uverbs_attr_obj(const struct uverbs_attr_bundle *attrs, u16 id);
struct ib_uobject *mrx_uverbs_attr_uobject(const struct uverbs_attr_bundle *attrs,
					   u16 id);
struct ib_ucontext *mrx_uverbs_context(const struct uverbs_attr_bundle *attrs);
bool mrx_uverbs_attr_is_valid(const struct uverbs_attr_bundle *attrs, u16 id);
int mrx_uverbs_copy_from(void *to, const struct uverbs_attr_bundle *attrs,
			 u16 id, size_t size);
int mrx_uverbs_get_const(u64 *to, const struct uverbs_attr_bundle *attrs, u16 id);

#endif /* MRX_HELPERS_H */
