// SPDX-License-Identifier: GPL-2.0
/*
 * Operations that a driver registers for its device. The module does so for a
 * device whose driver has not, as that driver would.
 */
#include "kapi.h"

/* What the operations were called with. */
static struct {
	unsigned int created, sg, interleaved;
	struct ib_mr_init_attr attr;
	u32 flags, num;
	u64 addr;
	u32 stride;
} seen;

static struct ib_mr *driver_create(struct ib_pd *pd, const struct ib_mr_init_attr *attr)
{
	seen.created++;
	seen.attr = *attr;
	if (attr->max_reg_descriptors > 64)
		return ERR_PTR(-EINVAL);
	return ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, attr->max_reg_descriptors);
}

static int driver_set_sg(struct ib_mr *mr, u32 flags, u32 num, const struct ib_sge *list)
{
	seen.sg++;
	seen.flags = flags;
	seen.num = num;
	seen.addr = list[num - 1].addr;
	if (num > 4)
		return -ENOSPC;
	mr->lkey++;
	return 0;
}

static int driver_set_interleaved(struct ib_mr *mr, u32 flags, u32 num,
				  const struct ib_mr_interleaved *list)
{
	seen.interleaved++;
	seen.flags = flags;
	seen.num = num;
	seen.stride = list[num - 1].dims[0].offset_stride;
	return 0;
}

static const struct ib_mr_ext_ops driver_ops = {
	.create_mr = driver_create,
	.set_layout_sg = driver_set_sg,
	.set_layout_interleaved = driver_set_interleaved,
};

static const struct ib_mr_ext_ops creating_ops = { .create_mr = driver_create };
static const struct ib_mr_ext_ops empty_ops = { .set_layout_sg = driver_set_sg };

static struct ib_device *device_of(struct kapi *kapi)
{
	return scene_domain(kapi->scene)->device;
}

/* With operations registered: what is registered is taken back whatever fails. */
static void with(struct kapi *kapi, const struct ib_mr_ext_ops *ops,
		 void (*run)(struct kapi *kapi))
{
	memset(&seen, 0, sizeof(seen));
	EQUAL(kapi, 0, ib_register_mr_ext(device_of(kapi), ops));
	run(kapi);
	ib_unregister_mr_ext(device_of(kapi));
}

static void create_both_kinds(struct kapi *kapi)
{
	struct ib_mr *mr;

	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 3);
	UNLESS_FAILED(kapi);
	EQUAL(kapi, 1, seen.created);
	EQUAL(kapi, IB_MR_REG_INDIRECT, seen.attr.reg_type);
	EQUAL(kapi, 3, seen.attr.max_reg_descriptors);
	EQUAL(kapi, 0, seen.attr.flags);
	EQUAL(kapi, 0, kapi_destroy(kapi, mr));

	kapi_create(kapi, IB_MR_REG_DIRECT, 5);
	UNLESS_FAILED(kapi);
	EQUAL(kapi, 2, seen.created);
	EQUAL(kapi, IB_MR_REG_DIRECT, seen.attr.reg_type);
	EQUAL(kapi, 5, seen.attr.max_reg_descriptors);
}

static void operations_create(struct kapi *kapi)
{
	with(kapi, &driver_ops, create_both_kinds);
}

static void create_wrongly(struct kapi *kapi)
{
	struct ib_mr_init_attr attr = { .reg_type = IB_MR_REG_INDIRECT };

	/* what no driver has to check does not reach one */
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));
	attr.max_reg_descriptors = 1;
	attr.flags = ~0U;
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));
	attr.flags = 0;
	attr.reg_type = 7;
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));
	EQUAL(kapi, 0, seen.created);

	/* what it has to does, and so do flags that there are */
	attr = (struct ib_mr_init_attr){
		.reg_type = IB_MR_REG_DIRECT,
		.max_reg_descriptors = 65,
		.flags = IB_MR_SIGNATURE_EN,
	};
	EQUAL(kapi, -EINVAL, kapi_create_error(kapi, attr));
	EQUAL(kapi, 1, seen.created);
	EQUAL(kapi, IB_MR_SIGNATURE_EN, seen.attr.flags);
}

static void operations_see_checked_attributes(struct kapi *kapi)
{
	with(kapi, &driver_ops, create_wrongly);
}

static void set_layouts(struct kapi *kapi)
{
	const struct ib_mr_dimension dim = { .offset_stride = 48, .datum_count = 2 };
	const struct ib_mr_interleaved entry = {
		.num_repeated = 1,
		.num_dimensions = 1,
		.dims = &dim,
	};
	struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 5);
	struct ib_sge list[5] = { [2].addr = 0x1234 };
	u32 lkey;

	UNLESS_FAILED(kapi);
	lkey = mr->lkey;
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, IB_MR_LAYOUT_WITH_POST_WR, 3, list));
	EQUAL(kapi, 1, seen.sg);
	EQUAL(kapi, IB_MR_LAYOUT_WITH_POST_WR, seen.flags);
	EQUAL(kapi, 3, seen.num);
	EQUAL(kapi, 0x1234, seen.addr);
	CHECK(kapi, mr->lkey == lkey + 1);
	mr->lkey = lkey;

	EQUAL(kapi, -ENOSPC, ib_mr_set_layout_sg(mr, 0, 5, list));
	EQUAL(kapi, 2, seen.sg);

	EQUAL(kapi, 0, ib_mr_set_layout_interleaved(mr, IB_MR_LAYOUT_AVOID_INVALIDATION, 1,
						    &entry));
	EQUAL(kapi, 1, seen.interleaved);
	EQUAL(kapi, IB_MR_LAYOUT_AVOID_INVALIDATION, seen.flags);
	EQUAL(kapi, 48, seen.stride);

	/* never an empty list, none at all, or a flag that there is not */
	EQUAL(kapi, -EINVAL, ib_mr_set_layout_sg(mr, 0, 0, list));
	EQUAL(kapi, -EINVAL, ib_mr_set_layout_sg(mr, 0, 1, NULL));
	EQUAL(kapi, -EINVAL, ib_mr_set_layout_interleaved(mr, 1 << 7, 1, &entry));
	EQUAL(kapi, 2, seen.sg);
	EQUAL(kapi, 1, seen.interleaved);
}

static void operations_set_layouts(struct kapi *kapi)
{
	with(kapi, &driver_ops, set_layouts);
}

static void set_no_layouts(struct kapi *kapi)
{
	const struct ib_mr_interleaved entry = { .num_repeated = 1 };
	struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	struct ib_sge part = { };

	UNLESS_FAILED(kapi);
	EQUAL(kapi, -EOPNOTSUPP, ib_mr_set_layout_sg(mr, 0, 1, &part));
	EQUAL(kapi, -EOPNOTSUPP, ib_mr_set_layout_interleaved(mr, 0, 1, &entry));
}

static void operations_without_layouts(struct kapi *kapi)
{
	with(kapi, &creating_ops, set_no_layouts);
}

static void register_again(struct kapi *kapi)
{
	EQUAL(kapi, -EEXIST, ib_register_mr_ext(device_of(kapi), &driver_ops));
	EQUAL(kapi, -EEXIST, ib_register_mr_ext(device_of(kapi), &creating_ops));
}

static void once_only(struct kapi *kapi)
{
	struct ib_mr_init_attr attr = {
		.reg_type = IB_MR_REG_INDIRECT,
		.max_reg_descriptors = 1,
	};

	with(kapi, &creating_ops, register_again);
	UNLESS_FAILED(kapi);
	/* the device is as it was */
	EQUAL(kapi, -EOPNOTSUPP, kapi_create_error(kapi, attr));
	EQUAL(kapi, 0, seen.created);
	/* and what is taken away twice does no harm */
	ib_unregister_mr_ext(device_of(kapi));
	ib_unregister_mr_ext(NULL);
	with(kapi, &driver_ops, create_both_kinds);
}

static void bad_operations(struct kapi *kapi)
{
	EQUAL(kapi, -EINVAL, ib_register_mr_ext(device_of(kapi), &empty_ops));
	EQUAL(kapi, -EINVAL, ib_register_mr_ext(device_of(kapi), NULL));
	EQUAL(kapi, -EINVAL, ib_register_mr_ext(NULL, &driver_ops));
}

static void takes_no_others(struct kapi *kapi)
{
	memset(&seen, 0, sizeof(seen));
	EQUAL(kapi, -EEXIST, ib_register_mr_ext(device_of(kapi), &driver_ops));
	kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	EQUAL(kapi, 0, seen.created);
}

const struct kapi_test driver_tests[] = {
	{ "operations make regions", KAPI_PLAIN, operations_create },
	{ "operations see checked attributes only", KAPI_PLAIN, operations_see_checked_attributes },
	{ "operations set layouts", KAPI_PLAIN, operations_set_layouts },
	{ "operations need not set layouts", KAPI_PLAIN, operations_without_layouts },
	{ "a device has operations once", KAPI_PLAIN, once_only },
	{ "operations that make nothing are refused", KAPI_ANY, bad_operations },
	{ "a device with operations takes no others", KAPI_EXTENDED, takes_no_others },
	{},
};
