// SPDX-License-Identifier: GPL-2.0
/*
 * offence: commits one offence when it is loaded, chosen by the parameter
 * "which", for the detector that has to notice it. Never built by default and
 * of no use but to selftests/offence/run, which expects the report.
 */

#include <linux/delay.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

#include "offence.h"

static char *which = "";
module_param(which, charp, 0);
MODULE_PARM_DESC(which, "the offence to commit");

/* Values that the compiler cannot know. */
static int forty = 40;
module_param(forty, int, 0);

/* ---- memory: KASAN */

static noinline int offence_use_after_free(void)
{
	u64 *object = kmalloc_array(8, sizeof(*object), GFP_KERNEL);

	if (!object)
		return -ENOMEM;
	kfree(object);
	return READ_ONCE(object[1]) == 1;
}

static noinline int offence_out_of_bounds(void)
{
	u8 *object = kmalloc(forty, GFP_KERNEL);
	u8 beyond;

	if (!object)
		return -ENOMEM;
	beyond = READ_ONCE(object[forty]);
	kfree(object);
	return beyond == 1;
}

static noinline int offence_vmalloc_out_of_bounds(void)
{
	u8 *object = vmalloc(PAGE_SIZE - forty);
	u8 beyond;

	if (!object)
		return -ENOMEM;
	beyond = READ_ONCE(object[PAGE_SIZE - 1]);
	vfree(object);
	return beyond == 1;
}

/* ---- memory: kmemleak */

static noinline int offence_leak(void)
{
	int i;

	/* several, since an old pointer may stay in a register or a stack */
	for (i = 0; i < 8; i++)
		if (!kmalloc(1000 + i, GFP_KERNEL))
			return -ENOMEM;
	return 0;
}

/* ---- a cache of objects with one that was not freed: SLUB */

static noinline int offence_cache(void)
{
	struct kmem_cache *cache = kmem_cache_create("offence", 200, 0, 0, NULL);
	void *object;

	if (!cache)
		return -ENOMEM;
	object = kmem_cache_alloc(cache, GFP_KERNEL);
	kmem_cache_destroy(cache);
	return object ? 0 : -ENOMEM;
}

/* ---- locks and contexts */

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);

static noinline int offence_lock_inversion(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
	return 0;
}

static DEFINE_SPINLOCK(spin);

static noinline int offence_sleep_in_atomic(void)
{
	void *object;

	spin_lock(&spin);
	object = kmalloc(forty, GFP_KERNEL);
	spin_unlock(&spin);
	kfree(object);
	return 0;
}

static int __rcu *protected_value;

static noinline int offence_rcu(void)
{
	return rcu_dereference(protected_value) != NULL;
}

/* ---- undefined behaviour: UBSAN */

static noinline int offence_shift(void)
{
	return 1 << forty;
}

struct three {
	int element[3];
	int next[3];
};

static struct three three;

static noinline int offence_bounds(void)
{
	/*
	 * Inside the object, so nothing for KASAN, but outside of the array; and not
	 * just behind it, of which one may take the address.
	 */
	return READ_ONCE(three.element[forty - 36]);
}

/* ---- broken structures */

static noinline int offence_list(void)
{
	LIST_HEAD(list);
	struct list_head entry;

	list_add(&entry, &list);
	list.next = &list;
	list_del(&entry);
	return 0;
}

static noinline int offence_refcount(void)
{
	refcount_t count = REFCOUNT_INIT(1);

	if (refcount_dec_and_test(&count))
		refcount_inc(&count);
	return 0;
}

/* ---- Rust */

static noinline int offence_rust_kasan(void)
{
	return offence_rust_use_after_free();
}

static noinline int offence_rust_arithmetic(void)
{
	return offence_rust_overflow(-1UL);
}

static noinline int offence_rust_forgets(void)
{
	return offence_rust_leak();
}

static const struct {
	const char *name;
	int (*commit)(void);
} offences[] = {
	{ "use_after_free", offence_use_after_free },
	{ "out_of_bounds", offence_out_of_bounds },
	{ "vmalloc_out_of_bounds", offence_vmalloc_out_of_bounds },
	{ "leak", offence_leak },
	{ "cache", offence_cache },
	{ "lock_inversion", offence_lock_inversion },
	{ "sleep_in_atomic", offence_sleep_in_atomic },
	{ "rcu", offence_rcu },
	{ "shift", offence_shift },
	{ "bounds", offence_bounds },
	{ "list", offence_list },
	{ "refcount", offence_refcount },
	{ "rust_use_after_free", offence_rust_kasan },
	{ "rust_overflow", offence_rust_arithmetic },
	{ "rust_leak", offence_rust_forgets },
};

static int __init offence_init(void)
{
	int i, result;

	for (i = 0; i < ARRAY_SIZE(offences); i++) {
		if (strcmp(which, offences[i].name))
			continue;
		result = offences[i].commit();
		pr_info("%s is done: %d\n", which, result);
		return 0;
	}
	return -EINVAL;
}

static void __exit offence_exit(void)
{
}

module_init(offence_init);
module_exit(offence_exit);
MODULE_DESCRIPTION("Offences for the tests of the kernel's detectors");
MODULE_LICENSE("GPL");
