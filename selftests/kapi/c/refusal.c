// SPDX-License-Identifier: GPL-2.0
/*
 * Layouts that are refused, with the errno that the header names, and change
 * nothing.
 */
#include "kapi.h"

#define DIMENSIONS_TOO_MANY 9
#define KAPI_UNKNOWN_FLAG (1 << 7)
/* The most pieces of a layout, whatever the region was made for. */
#define PIECES_TOO_MANY ((1 << 20) + 1)

/* A region with a layout of two pieces, to be refused another. */
struct victim {
	struct ib_mr *mr;
	struct ib_mr *target;
	u32 key;
	struct ib_sge parts[2];
};

static void set_up(struct kapi *kapi, struct victim *victim)
{
	victim->target = kapi_direct(kapi, SCENE_TARGET);
	UNLESS_FAILED(kapi);
	victim->mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 2);
	UNLESS_FAILED(kapi);
	victim->parts[0] = kapi_part(kapi, SCENE_SOURCE, 200, 16);
	victim->parts[1] = kapi_part(kapi, SCENE_SOURCE, 100, 16);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(victim->mr, 0, 2, victim->parts));
	victim->key = victim->mr->lkey;
}

/* The layout stands, and the keys are what they were. */
static bool is_unchanged(struct kapi *kapi, const struct victim *victim)
{
	struct kapi_move moves[] = {
		{ .from = 200, .to = 0, .length = 16 },
		{ .from = 100, .to = 16, .length = 16 },
	};

	scene_fill(kapi->scene);
	return victim->mr->lkey == victim->key && victim->mr->rkey == victim->key &&
	       kapi_write(kapi, kapi_whole(victim->mr, 32),
			  scene_address(kapi->scene, SCENE_TARGET),
			  victim->target->rkey) == IB_WC_SUCCESS &&
	       kapi_moved(kapi, moves, ARRAY_SIZE(moves));
}

/* Ends the test unless the ranges are refused so. */
#define REFUSES(kapi, victim, error, flags, num, list)				\
	do {									\
		EQUAL(kapi, error, ib_mr_set_layout_sg((victim)->mr, flags, num, list)); \
		CHECK(kapi, is_unchanged(kapi, victim));			\
	} while (0)

/* As above, for an entry. */
#define REFUSES_ENTRY(kapi, victim, error, entry)				\
	do {									\
		EQUAL(kapi, error,						\
		      ib_mr_set_layout_interleaved((victim)->mr, 0, 1, entry));	\
		CHECK(kapi, is_unchanged(kapi, victim));			\
	} while (0)

static void bad_lists(struct kapi *kapi)
{
	struct victim victim;
	struct ib_sge *parts = victim.parts;

	set_up(kapi, &victim);
	UNLESS_FAILED(kapi);
	REFUSES(kapi, &victim, -EINVAL, 0, 0, parts);
	REFUSES(kapi, &victim, -EINVAL, 0, 2, NULL);
	REFUSES(kapi, &victim, -EINVAL, KAPI_UNKNOWN_FLAG, 2, parts);
	REFUSES(kapi, &victim, -EOPNOTSUPP, 0, 3, parts);
	/* refused before the list is looked at */
	REFUSES(kapi, &victim, -EOPNOTSUPP, 0, PIECES_TOO_MANY, parts);
	EQUAL(kapi, -EINVAL, ib_mr_set_layout_interleaved(victim.mr, 0, 1, NULL));
	CHECK(kapi, is_unchanged(kapi, &victim));
}

static void bad_ranges(struct kapi *kapi)
{
	struct victim victim;
	struct ib_sge bad;

	set_up(kapi, &victim);
	UNLESS_FAILED(kapi);

	bad = kapi_part(kapi, SCENE_SOURCE, 0, 0);
	REFUSES(kapi, &victim, -EINVAL, 0, 1, &bad);

	bad = kapi_part_of(kapi, victim.target, SCENE_TARGET, SCENE_BUFFER - 8, 9);
	REFUSES(kapi, &victim, -EFAULT, 0, 1, &bad);
	bad = kapi_part_of(kapi, victim.target, SCENE_TARGET, -1ULL, 1);
	REFUSES(kapi, &victim, -EFAULT, 0, 1, &bad);
	bad.addr = U64_MAX;
	bad.length = 2;
	REFUSES(kapi, &victim, -EFAULT, 0, 1, &bad);
}

static void bad_keys(struct kapi *kapi)
{
	struct victim victim;
	struct ib_sge bad;

	set_up(kapi, &victim);
	UNLESS_FAILED(kapi);

	bad = kapi_part_of(kapi, victim.target, SCENE_TARGET, 0, 8);
	/* the same region, by a key that it does not have */
	bad.lkey ^= 1;
	REFUSES(kapi, &victim, -ENOENT, 0, 1, &bad);
	bad.lkey = 0;
	REFUSES(kapi, &victim, -ENOENT, 0, 1, &bad);
	bad.lkey = ~0U;
	REFUSES(kapi, &victim, -ENOENT, 0, 1, &bad);

	bad = kapi_part(kapi, SCENE_SOURCE, 0, 8);
	bad.lkey = scene_stranger(kapi->scene)->local_dma_lkey;
	REFUSES(kapi, &victim, -EPERM, 0, 1, &bad);

	bad = kapi_whole(victim.mr, 8);
	REFUSES(kapi, &victim, -ELOOP, 0, 1, &bad);
}

static void keys_that_must_stay(struct kapi *kapi)
{
	struct victim victim;

	set_up(kapi, &victim);
	UNLESS_FAILED(kapi);
	REFUSES(kapi, &victim, -ESTALE, IB_MR_LAYOUT_AVOID_INVALIDATION, 1, victim.parts);
	REFUSES(kapi, &victim, -ESTALE,
		IB_MR_LAYOUT_AVOID_INVALIDATION | IB_MR_LAYOUT_WITH_POST_WR, 1, victim.parts);
}

static void bad_entries(struct kapi *kapi)
{
	struct ib_mr_dimension dims[DIMENSIONS_TOO_MANY];
	struct ib_mr_interleaved good, bad;
	struct victim victim;
	unsigned int i;

	set_up(kapi, &victim);
	UNLESS_FAILED(kapi);
	for (i = 0; i < ARRAY_SIZE(dims); i++)
		dims[i] = (struct ib_mr_dimension){ .offset_stride = 64, .datum_count = 2 };
	good = (struct ib_mr_interleaved){
		.addr = scene_address(kapi->scene, SCENE_TARGET),
		.length = 8,
		.lkey = victim.target->lkey,
		.num_repeated = 1,
		.num_dimensions = 1,
		.dims = dims,
	};

	bad = good;
	bad.length = 0;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &bad);
	bad = good;
	bad.num_repeated = 0;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &bad);
	bad = good;
	bad.num_dimensions = 0;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &bad);
	bad = good;
	bad.dims = NULL;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &bad);
	bad = good;
	bad.num_dimensions = DIMENSIONS_TOO_MANY;
	REFUSES_ENTRY(kapi, &victim, -EOPNOTSUPP, &bad);
	bad = good;
	bad.lkey ^= 1;
	REFUSES_ENTRY(kapi, &victim, -ENOENT, &bad);
	bad = good;
	bad.addr += SCENE_BUFFER;
	REFUSES_ENTRY(kapi, &victim, -EFAULT, &bad);

	/* the second datum lies outside, then so far that no number can say where */
	dims[0].offset_stride = SCENE_BUFFER;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &good);
	dims[0].offset_stride = U64_MAX;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &good);
	dims[0].datum_count = U64_MAX;
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &good);
	dims[0] = (struct ib_mr_dimension){ .offset_stride = 64, .datum_count = 0 };
	REFUSES_ENTRY(kapi, &victim, -EINVAL, &good);
}

static void regions_in_use(struct kapi *kapi)
{
	struct ib_sge part;
	struct victim victim;
	struct ib_mr *outer;

	set_up(kapi, &victim);
	UNLESS_FAILED(kapi);
	outer = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	UNLESS_FAILED(kapi);
	part = kapi_whole(victim.mr, 8);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(outer, 0, 1, &part));
	REFUSES(kapi, &victim, -EBUSY, 0, 2, victim.parts);
	REFUSES(kapi, &victim, -EBUSY, IB_MR_LAYOUT_WITH_POST_WR, 2, victim.parts);

	/* and can be given one again when it is not in use any more */
	EQUAL(kapi, 0, kapi_destroy(kapi, outer));
	EQUAL(kapi, 0, ib_mr_set_layout_sg(victim.mr, 0, 2, victim.parts));
	CHECK(kapi, is_unchanged(kapi, &victim));
}

static void nesting_too_deep(struct kapi *kapi)
{
	struct ib_sge part = kapi_part(kapi, SCENE_SOURCE, 0, 8);
	int level, ret = 0;

	/* as deep as it goes, and no deeper */
	for (level = 0; level < KAPI_REGIONS && !ret; level++) {
		struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);

		UNLESS_FAILED(kapi);
		ret = ib_mr_set_layout_sg(mr, 0, 1, &part);
		part = kapi_whole(mr, 8);
	}
	EQUAL(kapi, -EOPNOTSUPP, ret);
	CHECK(kapi, level > 4);
}

const struct kapi_test refusal_tests[] = {
	{ "bad lists are refused", KAPI_EXTENDED, bad_lists },
	{ "bad ranges are refused", KAPI_EXTENDED, bad_ranges },
	{ "bad keys are refused", KAPI_EXTENDED, bad_keys },
	{ "keys that must stay stay", KAPI_EXTENDED, keys_that_must_stay },
	{ "bad entries are refused", KAPI_EXTENDED, bad_entries },
	{ "a region in use keeps its layout", KAPI_EXTENDED, regions_in_use },
	{ "nesting ends somewhere", KAPI_EXTENDED, nesting_too_deep },
	{},
};
