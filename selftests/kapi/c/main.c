// SPDX-License-Identifier: GPL-2.0
/*
 * Tests, in C, of regions with attributes as kernel modules see them: they use
 * <rdma/ib_mr_ext.h> and what ib_core has. See ../frame.h.
 *
 * The results are in the log, as KTAP.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>

#include "kapi.h"

static const struct kapi_test *const groups[] = {
	direct_tests, layout_tests, refusal_tests, bind_tests, driver_tests,
};

void kapi_fail(struct kapi *kapi, int line, const char *what, long long have)
{
	pr_info("# line %d: %s (%lld)\n", line, what, have);
	kapi->failed = true;
}

int kapi_create_error(struct kapi *kapi, struct ib_mr_init_attr attr)
{
	struct ib_mr *mr = ib_create_mr(scene_domain(kapi->scene), &attr);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	/* NULL would be wrong, and so would a region here */
	return mr ? ib_destroy_mr(mr) : 1;
}

struct ib_mr *kapi_create(struct kapi *kapi, enum ib_mr_reg_type type, int descriptors)
{
	struct ib_mr_init_attr attr = { .reg_type = type, .max_reg_descriptors = descriptors };
	struct ib_mr *mr;

	if (!MADE(kapi, kapi->count < KAPI_REGIONS))
		return NULL;
	mr = ib_create_mr(scene_domain(kapi->scene), &attr);
	if (!MADE(kapi, !IS_ERR_OR_NULL(mr)))
		return NULL;
	kapi->regions[kapi->count++] = mr;
	return mr;
}

int kapi_destroy(struct kapi *kapi, struct ib_mr *mr)
{
	unsigned int i;
	int ret = ib_destroy_mr(mr);

	for (i = 0; i < kapi->count && !ret; i++)
		if (kapi->regions[i] == mr)
			kapi->regions[i] = NULL;
	return ret;
}

int kapi_do(struct kapi *kapi, struct scene_step step)
{
	enum ib_wc_status status = IB_WC_SUCCESS;
	int ret = scene_do(kapi->scene, &step, 1, &status);

	return ret ?: status;
}

struct ib_mr *kapi_direct(struct kapi *kapi, enum scene_side side)
{
	struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_DIRECT, SCENE_BUFFER / PAGE_SIZE);
	struct scene_step step = { .op = SCENE_REGISTER, .mr = mr, .access = ALL_RIGHTS };

	if (!mr)
		return NULL;
	if (!MADE(kapi, !scene_map(kapi->scene, mr, side)))
		return NULL;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	if (!MADE(kapi, kapi_do(kapi, step) == IB_WC_SUCCESS))
		return NULL;
	return mr;
}

struct ib_sge kapi_part(struct kapi *kapi, enum scene_side side, u64 offset, u32 length)
{
	return (struct ib_sge){
		.addr = scene_address(kapi->scene, side) + offset,
		.length = length,
		.lkey = scene_domain(kapi->scene)->local_dma_lkey,
	};
}

struct ib_sge kapi_part_of(struct kapi *kapi, const struct ib_mr *mr, enum scene_side side,
			   u64 offset, u32 length)
{
	struct ib_sge part = kapi_part(kapi, side, offset, length);

	part.lkey = mr->lkey;
	return part;
}

struct ib_sge kapi_whole(const struct ib_mr *mr, u32 length)
{
	return (struct ib_sge){ .addr = 0, .length = length, .lkey = mr->lkey };
}

int kapi_write(struct kapi *kapi, struct ib_sge local, u64 addr, u32 rkey)
{
	return kapi_do(kapi, (struct scene_step){
		.op = SCENE_WRITE,
		.local = local,
		.remote_addr = addr,
		.rkey = rkey,
	});
}

bool kapi_moved(struct kapi *kapi, const struct kapi_move *moves, unsigned int count)
{
	const u8 *from = scene_bytes(kapi->scene, SCENE_SOURCE);
	const u8 *to = scene_bytes(kapi->scene, SCENE_TARGET);
	u8 *due = kzalloc(SCENE_BUFFER, GFP_KERNEL);
	unsigned int i;
	bool same;

	if (!due)
		return false;
	for (i = 0; i < count; i++)
		memcpy(due + moves[i].to, from + moves[i].from, moves[i].length);
	for (i = 0; i < SCENE_BUFFER && due[i] == to[i]; i++)
		;
	same = i == SCENE_BUFFER;
	if (!same)
		pr_info("# byte %u is %#x, not %#x\n", i, to[i], due[i]);
	kfree(due);
	return same;
}

/* Destroys what a test made, layouts before what they consist of. */
static void clean_up(struct kapi *kapi)
{
	while (kapi->count) {
		struct ib_mr *mr = kapi->regions[--kapi->count];

		if (mr && ib_destroy_mr(mr))
			kapi_fail(kapi, __LINE__, "a region cannot be destroyed", kapi->count);
	}
}

static bool run_test(struct ib_device *device, const struct kapi_test *test)
{
	struct kapi kapi = { .scene = scene_open(device) };
	int left;

	if (IS_ERR(kapi.scene)) {
		pr_info("# no scene: %ld\n", PTR_ERR(kapi.scene));
		return false;
	}
	test->run(&kapi);
	clean_up(&kapi);
	/* the queue pairs count */
	left = scene_users(kapi.scene);
	if (left != 2)
		kapi_fail(&kapi, __LINE__, "objects are left in the domain", left);
	scene_close(kapi.scene);
	return !kapi.failed;
}

static int run_tests(struct ib_device *device, enum kapi_kind kind)
{
	const struct kapi_test *test;
	unsigned int group, count = 0, number = 0;

	for (group = 0; group < ARRAY_SIZE(groups); group++)
		for (test = groups[group]; test->name; test++)
			count += !!(test->where & kind);
	pr_info("1..%u\n", count);
	for (group = 0; group < ARRAY_SIZE(groups); group++)
		for (test = groups[group]; test->name; test++)
			if (test->where & kind)
				pr_info("%s %u %s\n", run_test(device, test) ? "ok" : "not ok",
					++number, test->name);
	return 0;
}

static int __init kapi_init(void)
{
	return kapi_run(run_tests);
}

static void __exit kapi_exit(void)
{
}

module_init(kapi_init);
module_exit(kapi_exit);
MODULE_DESCRIPTION("Tests of regions with attributes");
MODULE_LICENSE("GPL");
