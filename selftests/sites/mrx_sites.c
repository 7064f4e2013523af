// SPDX-License-Identifier: GPL-2.0
/*
 * mrx_sites: which allocation sites of a module were reached, and which of them
 * failed. It watches the functions in which the kernel decides whether an
 * allocation shall fail, all of which fault injection goes through. A site is the
 * innermost address on the stack that is of the module, with the one around it,
 * which tells the users of a helper apart.
 *
 * It can also see to it that every site fails: while "refusals" is not zero, a site
 * that has failed less often than that is refused whenever it is reached, in
 * whatever context. What may not fail (__GFP_NOFAIL) is no site, and neither is what
 * an interrupt does on top of the module's stack.
 *
 * The module of the name "module" is watched from when it is loaded, again and
 * again; offsets are from the beginning of its code, so that they stay the same. In
 * debugfs:
 *
 *   mrx_sites   a line "KIND INNER OUTER REACHED FAILED" for each site, where an
 *               offset with a + is in the code that is gone after loading; anything
 *               that is written to it forgets them
 */

#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/hash.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/seq_file.h>
#include <linux/stacktrace.h>

#define SLOTS 4096 /* a power of two */
#define DEPTH 64

static char watched[MODULE_NAME_LEN];
module_param_string(module, watched, sizeof(watched), 0400);
MODULE_PARM_DESC(module, "the name of the module to watch");

static unsigned int refusals;
module_param(refusals, uint, 0600);
MODULE_PARM_DESC(refusals, "how often each site is refused before it is granted anything");

/* The code of the watched module, and the part of it that only loading needs. */
static struct code {
	unsigned long start, end;
} code, init_code;

static struct site {
	atomic64_t key; /* 0: not in use */
	atomic_t reached;
	atomic_t failed;
} sites[SLOTS];

static atomic_t lost;

/* The kind is of four bits, each place in the code of thirty. */
#define PLACE_BITS 30
#define KEY(kind, inner, outer) ((u64)(kind) << 2 * PLACE_BITS | (u64)(inner) << PLACE_BITS | (outer))
#define INNER(key) ((u32)((key) >> PLACE_BITS) & GENMASK_U32(PLACE_BITS - 1, 0))
#define OUTER(key) ((u32)(key) & GENMASK_U32(PLACE_BITS - 1, 0))
#define OF_INIT BIT_U32(PLACE_BITS - 1)
#define OFFSET(place) ((place) & ~OF_INIT)
#define MARK(place) ((place) & OF_INIT ? "+" : "")

#define NO_FLAGS -1

static const struct kind {
	const char *name;
	const char *function;
	int flags; /* which argument they are */
	unsigned long refusal;
} kinds[] = {
	{ "slab", "should_failslab", 1, -ENOMEM },
	{ "page", "should_fail_alloc_page", 0, true },
	{ "copy", "should_fail_usercopy", NO_FLAGS, true },
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

static bool is_in(const struct code *code, unsigned long addr)
{
	return addr >= READ_ONCE(code->start) && addr < READ_ONCE(code->end);
}

/* Where an address is in the code of the module; 0 if it is elsewhere. */
static unsigned int place_of(unsigned long addr)
{
	if (is_in(&code, addr))
		return addr - code.start;
	if (is_in(&init_code, addr))
		return OF_INIT | (addr - init_code.start);
	return 0;
}

static struct kretprobe probes[ARRAY_SIZE(kinds)];

static unsigned int kind_of(struct kretprobe_instance *instance)
{
	return get_kretprobe(instance) - probes;
}

static int entered(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	unsigned long entries[DEPTH];
	unsigned int i, count, inner = 0, outer = 0, number = kind_of(instance);
	const struct kind *kind = &kinds[number];
	struct site **site = (void *)instance->data;

	if (!READ_ONCE(code.end))
		return 1;
	if (kind->flags != NO_FLAGS && regs_get_kernel_argument(regs, kind->flags) & __GFP_NOFAIL)
		return 1;
	count = stack_trace_save(entries, DEPTH, 0);
	for (i = 0; i < count && !outer; i++) {
		unsigned int place = place_of(entries[i]);

		if (inner)
			outer = place;
		else
			inner = place;
	}
	if (!inner)
		return 1;
	*site = find(KEY(number + 1, inner, outer));
	return !*site;
}

static int returned(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct site *site = *(struct site **)instance->data;
	/* of a bool, the rest of the register says nothing; errors have a low byte */
	bool fails = regs_return_value(regs) & 0xff;

	/* what was entered was told through a trap, which counts as an interrupt itself */
	if (!in_task())
		return 0;
	atomic_inc(&site->reached);
	if (!fails && atomic_read(&site->failed) < READ_ONCE(refusals)) {
		regs_set_return_value(regs, kinds[kind_of(instance)].refusal);
		fails = true;
	}
	if (fails)
		atomic_inc(&site->failed);
	return 0;
}

static int told(struct notifier_block *notifier, unsigned long state, void *data)
{
	const struct module *module = data;
	const struct module_memory *memory = module->mem;

	if (strcmp(module->name, watched))
		return NOTIFY_DONE;
	switch (state) {
	case MODULE_STATE_COMING:
		init_code.start = (unsigned long)memory[MOD_INIT_TEXT].base;
		WRITE_ONCE(init_code.end, init_code.start + memory[MOD_INIT_TEXT].size);
		code.start = (unsigned long)memory[MOD_TEXT].base;
		WRITE_ONCE(code.end, code.start + memory[MOD_TEXT].size);
		break;
	case MODULE_STATE_GOING:
		WRITE_ONCE(code.end, 0);
		fallthrough;
	case MODULE_STATE_LIVE:
		WRITE_ONCE(init_code.end, 0);
		break;
	}
	return NOTIFY_OK;
}

static struct notifier_block notifier = { .notifier_call = told };

static int show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < SLOTS; i++) {
		u64 key = atomic64_read(&sites[i].key);

		if (atomic_read(&sites[i].reached))
			seq_printf(file, "%s %s%#x %s%#x %u %u\n",
				   kinds[(key >> 2 * PLACE_BITS) - 1].name, MARK(INNER(key)),
				   OFFSET(INNER(key)), MARK(OUTER(key)), OFFSET(OUTER(key)),
				   atomic_read(&sites[i].reached), atomic_read(&sites[i].failed));
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

static void unregister_probes(unsigned int count)
{
	while (count--)
		unregister_kretprobe(&probes[count]);
}

static int __init sites_init(void)
{
	unsigned int i;
	int error;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		probes[i].kp.symbol_name = kinds[i].function;
		probes[i].entry_handler = entered;
		probes[i].handler = returned;
		probes[i].data_size = sizeof(struct site *);
		probes[i].maxactive = 64;
		error = register_kretprobe(&probes[i]);
		if (error) {
			pr_err("mrx_sites: %s: %d\n", kinds[i].function, error);
			unregister_probes(i);
			return error;
		}
	}
	error = register_module_notifier(&notifier);
	if (error) {
		unregister_probes(ARRAY_SIZE(kinds));
		return error;
	}
	file = debugfs_create_file("mrx_sites", 0600, NULL, NULL, &operations);
	return 0;
}

static void __exit sites_exit(void)
{
	debugfs_remove(file);
	unregister_module_notifier(&notifier);
	unregister_probes(ARRAY_SIZE(kinds));
}

module_init(sites_init);
module_exit(sites_exit);
MODULE_DESCRIPTION("Where a module asks for memory, and where it is refused");
MODULE_LICENSE("GPL");
