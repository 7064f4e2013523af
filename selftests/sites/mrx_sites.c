// SPDX-License-Identifier: GPL-2.0
/*
 * mrx_sites: which allocation sites of a module were reached, and which of them
 * failed. It watches the functions in which the kernel decides whether an
 * allocation shall fail, all of which fault injection goes through. A site is the
 * innermost address on the stack that is of the module, with the one around it,
 * which tells the users of a helper apart.
 *
 * "start" and "end" are the range of the module's code; offsets are printed from
 * its beginning, so that they stay when the module is loaded again. In debugfs:
 *
 *   mrx_sites   a line "KIND INNER OUTER REACHED FAILED" for each site; anything
 *               that is written to it forgets them
 */

#include <linux/debugfs.h>
#include <linux/hash.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/stacktrace.h>

#define SLOTS 4096 /* a power of two */
#define DEPTH 64

static unsigned long start, end;
module_param(start, ulong, 0600);
MODULE_PARM_DESC(start, "where the code of the watched module begins");
module_param(end, ulong, 0600);
MODULE_PARM_DESC(end, "where it ends");

static struct site {
	atomic64_t key; /* 0: not in use */
	atomic_t reached;
	atomic_t failed;
} sites[SLOTS];

static atomic_t lost;

/* The kind is of four bits, each address of thirty. */
#define KEY(kind, inner, outer) ((u64)(kind) << 60 | (u64)(inner) << 30 | (outer))
#define INNER(key) ((unsigned int)((key) >> 30) & GENMASK(29, 0))
#define OUTER(key) ((unsigned int)(key) & GENMASK(29, 0))

static const struct {
	const char *name;
	const char *function;
} kinds[] = {
	{ "slab", "should_failslab" },
	{ "page", "should_fail_alloc_page" },
	{ "copy", "should_fail_usercopy" },
};

static struct site *find(u64 key)
{
	unsigned int i = hash_64(key, 32), tries;

	for (tries = 0; tries < SLOTS; tries++) {
		struct site *site = &sites[(i + tries) % SLOTS];
		s64 old = atomic64_cmpxchg(&site->key, 0, key);

		if (!old || old == key)
			return site;
	}
	atomic_inc(&lost);
	return NULL;
}

static int kind_of(struct kretprobe_instance *instance);

static int entered(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	unsigned long entries[DEPTH], inner = 0, outer = 0, from = READ_ONCE(start), to = READ_ONCE(end);
	struct site **site = (void *)instance->data;
	unsigned int i, count;

	if (!from)
		return 1;
	count = stack_trace_save(entries, DEPTH, 0);
	for (i = 0; i < count; i++) {
		if (entries[i] < from || entries[i] >= to)
			continue;
		if (inner) {
			outer = entries[i] - from;
			break;
		}
		inner = entries[i] - from;
	}
	if (!inner)
		return 1;
	*site = find(KEY(kind_of(instance) + 1, inner, outer));
	if (!*site)
		return 1;
	atomic_inc(&(*site)->reached);
	return 0;
}

static int returned(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct site **site = (void *)instance->data;

	/* of a bool, the rest of the register says nothing; errors have a low byte */
	if (regs_return_value(regs) & 0xff)
		atomic_inc(&(*site)->failed);
	return 0;
}

static struct kretprobe probes[ARRAY_SIZE(kinds)];

static int kind_of(struct kretprobe_instance *instance)
{
	return get_kretprobe(instance) - probes;
}

static int show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < SLOTS; i++) {
		u64 key = atomic64_read(&sites[i].key);

		if (key)
			seq_printf(file, "%s %#x %#x %u %u\n", kinds[(key >> 60) - 1].name, INNER(key),
				   OUTER(key), atomic_read(&sites[i].reached),
				   atomic_read(&sites[i].failed));
	}
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (probes[i].nmissed)
			seq_printf(file, "# %s: %d missed\n", kinds[i].name, probes[i].nmissed);
	if (atomic_read(&lost))
		seq_printf(file, "# %d lost: the table is full\n", atomic_read(&lost));
	return 0;
}

static int open(struct inode *inode, struct file *file)
{
	return single_open(file, show, NULL);
}

static ssize_t forget(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	int i;

	for (i = 0; i < SLOTS; i++) {
		atomic64_set(&sites[i].key, 0);
		atomic_set(&sites[i].reached, 0);
		atomic_set(&sites[i].failed, 0);
	}
	return len;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = open,
	.read = seq_read,
	.write = forget,
	.llseek = seq_lseek,
	.release = single_release,
};

static struct dentry *file;

static int __init sites_init(void)
{
	int i, error;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		probes[i].kp.symbol_name = kinds[i].function;
		probes[i].entry_handler = entered;
		probes[i].handler = returned;
		probes[i].data_size = sizeof(struct site *);
		probes[i].maxactive = 64;
		error = register_kretprobe(&probes[i]);
		if (error) {
			pr_err("mrx_sites: %s: %d\n", kinds[i].function, error);
			while (i--)
				unregister_kretprobe(&probes[i]);
			return error;
		}
	}
	file = debugfs_create_file("mrx_sites", 0600, NULL, NULL, &operations);
	return 0;
}

static void __exit sites_exit(void)
{
	int i;

	debugfs_remove(file);
	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		unregister_kretprobe(&probes[i]);
}

module_init(sites_init);
module_exit(sites_exit);
MODULE_DESCRIPTION("Where a module asks for memory, and where it was refused");
MODULE_LICENSE("GPL");
