// SPDX-License-Identifier: GPL-2.0
/*
 * Creating and destroying, and direct regions: on any device.
 */
#include "kapi.h"

#define KAPI_UNKNOWN_TYPE 2
#define KAPI_UNKNOWN_FLAG (1 << 7)

static void carries_bytes(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = 40, .to = 5000, .length = 3000 } };
	u64 target = scene_address(kapi->scene, SCENE_TARGET);
	struct ib_mr *from, *to;

	from = kapi_direct(kapi, SCENE_SOURCE);
	UNLESS_FAILED(kapi);
	to = kapi_direct(kapi, SCENE_TARGET);
	UNLESS_FAILED(kapi);
	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, kapi_part_of(kapi, from, SCENE_SOURCE, 40, 3000), target + 5000,
			 to->rkey));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
}

static void is_filled_again(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = 0, .to = 0, .length = 64 } };
	struct scene_step step = { .op = SCENE_INVALIDATE };
	struct ib_mr *mr = kapi_direct(kapi, SCENE_SOURCE);
	u64 target = scene_address(kapi->scene, SCENE_TARGET);

	UNLESS_FAILED(kapi);
	step.rkey = mr->rkey;
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, step));

	step = (struct scene_step){ .op = SCENE_REGISTER, .mr = mr, .access = ALL_RIGHTS };
	EQUAL(kapi, 0, scene_map(kapi->scene, mr, SCENE_TARGET));
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, step));
	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 64), target, mr->rkey));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
}

/* What was seen of the region before its pages were taken back is out of date. */
static void keeps_its_key(struct kapi *kapi)
{
	struct kapi_move moves[] = {
		{ .from = 0, .to = 0, .length = 64 },
		{ .from = 100, .to = 200, .length = 64 },
	};
	struct ib_mr *mr = kapi_direct(kapi, SCENE_TARGET);
	u64 target = scene_address(kapi->scene, SCENE_TARGET);
	struct scene_step again = { .op = SCENE_REGISTER, .mr = mr, .access = ALL_RIGHTS };
	struct scene_step back = { .op = SCENE_INVALIDATE };

	UNLESS_FAILED(kapi);
	back.rkey = mr->rkey;
	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 64), target, mr->rkey));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, back));
	EQUAL(kapi, 0, scene_map(kapi->scene, mr, SCENE_TARGET));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, again));
	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 100, 64), target + 200, mr->rkey));
	CHECK(kapi, kapi_moved(kapi, moves, 2));
}

static void is_counted(struct kapi *kapi)
{
	int before = scene_users(kapi->scene);
	struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_DIRECT, 1);

	UNLESS_FAILED(kapi);
	CHECK(kapi, mr->pd == scene_domain(kapi->scene));
	EQUAL(kapi, before + 1, scene_users(kapi->scene));
	EQUAL(kapi, 0, kapi_destroy(kapi, mr));
	EQUAL(kapi, before, scene_users(kapi->scene));
}

static void bad_attributes(struct kapi *kapi)
{
	const struct ib_mr_init_attr bad[] = {
		{ .reg_type = KAPI_UNKNOWN_TYPE, .max_reg_descriptors = 1 },
		{ .reg_type = IB_MR_REG_DIRECT, .max_reg_descriptors = 0 },
		{ .reg_type = IB_MR_REG_DIRECT, .max_reg_descriptors = -1 },
		{ .reg_type = IB_MR_REG_DIRECT, .max_reg_descriptors = INT_MIN },
		{ .reg_type = IB_MR_REG_INDIRECT, .max_reg_descriptors = 0 },
		{ .reg_type = IB_MR_REG_INDIRECT, .max_reg_descriptors = -1 },
		{ .reg_type = IB_MR_REG_DIRECT, .max_reg_descriptors = 1,
		  .flags = KAPI_UNKNOWN_FLAG },
		{ .reg_type = IB_MR_REG_DIRECT, .max_reg_descriptors = 1,
		  .flags = IB_MR_SIGNATURE_EN | KAPI_UNKNOWN_FLAG },
	};
	int before = scene_users(kapi->scene);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EQUAL(kapi, -EINVAL, kapi_create_error(kapi, bad[i]));
		EQUAL(kapi, before, scene_users(kapi->scene));
	}
}

static void above_the_limit(struct kapi *kapi)
{
	struct ib_device *device = scene_domain(kapi->scene)->device;
	struct ib_mr_init_attr attr = { .reg_type = IB_MR_REG_DIRECT };
	int most = device->attrs.max_fast_reg_page_list_len;
	int before = scene_users(kapi->scene);

	attr.max_reg_descriptors = most;
	EQUAL(kapi, 0, kapi_create_error(kapi, attr));
	attr.max_reg_descriptors = most + 1;
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));
	attr.max_reg_descriptors = INT_MAX;
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));

	attr.reg_type = IB_MR_REG_INDIRECT;
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));
	EQUAL(kapi, before, scene_users(kapi->scene));
}

static void no_fallback(struct kapi *kapi)
{
	struct ib_mr_init_attr attr = { .max_reg_descriptors = 1 };
	int before = scene_users(kapi->scene);

	attr.reg_type = IB_MR_REG_INDIRECT;
	EQUAL(kapi, -EOPNOTSUPP, kapi_create_error(kapi, attr));
	attr.flags = IB_MR_SIGNATURE_EN;
	EQUAL(kapi, -EOPNOTSUPP, kapi_create_error(kapi, attr));
	EQUAL(kapi, before, scene_users(kapi->scene));
}

static void nothing_to_make_it_with(struct kapi *kapi)
{
	struct ib_mr_init_attr attr = {
		.reg_type = IB_MR_REG_DIRECT,
		.max_reg_descriptors = 1,
		.flags = IB_MR_SIGNATURE_EN,
	};
	int before = scene_users(kapi->scene);

	CHECK(kapi, !scene_domain(kapi->scene)->device->ops.alloc_mr_integrity);
	EQUAL(kapi, -ENOSYS, kapi_create_error(kapi, attr));
	EQUAL(kapi, before, scene_users(kapi->scene));
}

static void no_layouts(struct kapi *kapi)
{
	const struct ib_mr_dimension row = { .offset_stride = 16, .datum_count = 2 };
	struct ib_mr *mr = kapi_direct(kapi, SCENE_TARGET);
	u64 target = scene_address(kapi->scene, SCENE_TARGET);
	struct kapi_move moves[] = { { .from = 0, .to = 8, .length = 100 } };
	struct ib_mr_interleaved entry;
	struct ib_sge part;
	u32 lkey, rkey;

	UNLESS_FAILED(kapi);
	lkey = mr->lkey;
	rkey = mr->rkey;
	part = kapi_part(kapi, SCENE_SOURCE, 0, 16);
	entry = (struct ib_mr_interleaved){
		.addr = part.addr,
		.length = 8,
		.lkey = part.lkey,
		.num_repeated = 1,
		.num_dimensions = 1,
		.dims = &row,
	};
	EQUAL(kapi, -EOPNOTSUPP, ib_mr_set_layout_sg(mr, 0, 1, &part));
	EQUAL(kapi, -EOPNOTSUPP, ib_mr_set_layout_interleaved(mr, 0, 1, &entry));
	CHECK(kapi, mr->lkey == lkey && mr->rkey == rkey);
	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 100), target + 8, mr->rkey));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
}

static void no_signatures(struct kapi *kapi)
{
	struct ib_mr_init_attr attr = { .max_reg_descriptors = 1, .flags = IB_MR_SIGNATURE_EN };
	int before = scene_users(kapi->scene);

	attr.reg_type = IB_MR_REG_DIRECT;
	EQUAL(kapi, -EOPNOTSUPP, kapi_create_error(kapi, attr));
	attr.reg_type = IB_MR_REG_INDIRECT;
	EQUAL(kapi, -EOPNOTSUPP, kapi_create_error(kapi, attr));
	EQUAL(kapi, before, scene_users(kapi->scene));
}

static void a_destroyed_key_is_void(struct kapi *kapi)
{
	struct ib_mr *mr = kapi_direct(kapi, SCENE_TARGET);
	u64 target = scene_address(kapi->scene, SCENE_TARGET);
	u32 rkey;

	UNLESS_FAILED(kapi);
	rkey = mr->rkey;
	EQUAL(kapi, 0, kapi_destroy(kapi, mr));
	EQUAL(kapi, IB_WC_REM_ACCESS_ERR,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 64), target, rkey));
	CHECK(kapi, kapi_moved(kapi, NULL, 0));
}

const struct kapi_test direct_tests[] = {
	{ "a direct region carries the bytes of a write", KAPI_ANY, carries_bytes },
	{ "a direct region is filled again", KAPI_ANY, is_filled_again },
	{ "a direct region keeps its key when it is filled again", KAPI_ANY, keeps_its_key },
	{ "a domain counts its regions", KAPI_ANY, is_counted },
	{ "bad attributes are refused", KAPI_ANY, bad_attributes },
	{ "the key of a destroyed region is void", KAPI_ANY, a_destroyed_key_is_void },
	{ "more descriptors than the device has are refused", KAPI_EXTENDED, above_the_limit },
	{ "signatures are not available", KAPI_EXTENDED, no_signatures },
	{ "an indirect region is not available", KAPI_PLAIN, no_fallback },
	{ "a layout is not available", KAPI_PLAIN, no_layouts },
	{ "there is nothing to make a region with signatures with", KAPI_PLAIN,
	  nothing_to_make_it_with },
	{},
};
