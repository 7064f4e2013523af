// SPDX-License-Identifier: GPL-2.0
/*
 * Indirect regions: what their layouts make of them.
 */
#include <linux/mm.h>

#include "kapi.h"

#define MANY 1000
#define LEVELS 4

/* Status of a write of the first @length bytes of @mr to the start of the target. */
static int write_from(struct kapi *kapi, const struct ib_mr *mr, const struct ib_mr *target,
		      u32 length)
{
	return kapi_write(kapi, kapi_whole(mr, length), scene_address(kapi->scene, SCENE_TARGET),
			  target->rkey);
}

static void gathers(struct kapi *kapi)
{
	struct kapi_move moves[] = {
		{ .from = 9000, .to = 0, .length = 300 },
		{ .from = 17, .to = 300, .length = 1 },
		{ .from = 4000, .to = 301, .length = 5000 },
	};
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_sge pieces[ARRAY_SIZE(moves)];
	struct ib_mr *mr;
	unsigned int i;

	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, ARRAY_SIZE(pieces));
	UNLESS_FAILED(kapi);
	for (i = 0; i < ARRAY_SIZE(pieces); i++)
		pieces[i] = kapi_part(kapi, SCENE_SOURCE, moves[i].from, moves[i].length);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, ARRAY_SIZE(pieces), pieces));
	/* the list is the caller's again */
	memset(pieces, 0xff, sizeof(pieces));

	EQUAL(kapi, IB_WC_SUCCESS, write_from(kapi, mr, target, 5301));
	CHECK(kapi, kapi_moved(kapi, moves, ARRAY_SIZE(moves)));
	EQUAL(kapi, IB_WC_LOC_PROT_ERR, write_from(kapi, mr, target, 5302));
}

static void scatters(struct kapi *kapi)
{
	struct kapi_move moves[] = {
		{ .from = 0, .to = 8192, .length = 100 },
		{ .from = 100, .to = 50, .length = 60 },
	};
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_sge pieces[ARRAY_SIZE(moves)];
	struct ib_mr *mr;
	unsigned int i;

	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, ARRAY_SIZE(pieces));
	UNLESS_FAILED(kapi);
	for (i = 0; i < ARRAY_SIZE(pieces); i++)
		pieces[i] = kapi_part_of(kapi, target, SCENE_TARGET, moves[i].to, moves[i].length);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, ARRAY_SIZE(pieces), pieces));

	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 160), 0, mr->rkey));
	CHECK(kapi, kapi_moved(kapi, moves, ARRAY_SIZE(moves)));
	/* one byte more than there is changes nothing */
	scene_fill(kapi->scene);
	EQUAL(kapi, IB_WC_REM_ACCESS_ERR,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 161), 0, mr->rkey));
	CHECK(kapi, kapi_moved(kapi, NULL, 0));
}

/* Rights are those of the pieces: the region of all memory is for this side only. */
static void grants_what_all_grant(struct kapi *kapi)
{
	struct ib_sge part = kapi_part(kapi, SCENE_TARGET, 0, 64);
	struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);

	UNLESS_FAILED(kapi);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, 1, &part));
	EQUAL(kapi, IB_WC_REM_ACCESS_ERR,
	      kapi_write(kapi, kapi_part(kapi, SCENE_SOURCE, 0, 64), 0, mr->rkey));
	CHECK(kapi, kapi_moved(kapi, NULL, 0));
}

static void has_no_bytes_before(struct kapi *kapi)
{
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_mr *mr;

	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	UNLESS_FAILED(kapi);
	EQUAL(kapi, IB_WC_LOC_PROT_ERR, write_from(kapi, mr, target, 1));
}

/* An entry of @count data of 8 bytes from @offset of the source on, 32 bytes apart. */
static struct ib_mr_interleaved entry_of(struct kapi *kapi, u64 offset, u32 repeat,
					 struct ib_mr_dimension *dim, u64 count)
{
	struct ib_sge part = kapi_part(kapi, SCENE_SOURCE, offset, 8);

	*dim = (struct ib_mr_dimension){ .offset_stride = 32, .datum_count = count };
	return (struct ib_mr_interleaved){
		.addr = part.addr,
		.length = part.length,
		.lkey = part.lkey,
		.num_repeated = repeat,
		.num_dimensions = 1,
		.dims = dim,
	};
}

struct golden {
	u32 repeat_a, count_a;
	u32 repeat_b, count_b;
	const char *order;
};

static void golden_orders(struct kapi *kapi)
{
	static const struct golden orders[] = {
		{ 1, 4, 1, 4, "ABABABAB" },
		{ 2, 4, 2, 4, "AABBAABB" },
		{ 1, 2, 2, 4, "ABBABB" },
		{ 1, 4, 2, 2, "ABBAAA" },
		{ 3, 4, 1, 2, "AAABAB" },
	};
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_mr_dimension dim[2];
	struct kapi_move moves[8];
	struct ib_mr *mr;
	unsigned int i;

	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 2);
	UNLESS_FAILED(kapi);
	for (i = 0; i < ARRAY_SIZE(orders); i++) {
		const struct golden *golden = &orders[i];
		struct ib_mr_interleaved list[] = {
			entry_of(kapi, 0, golden->repeat_a, &dim[0], golden->count_a),
			entry_of(kapi, 4096, golden->repeat_b, &dim[1], golden->count_b),
		};
		u32 next[] = { 0, 4096 };
		unsigned int n, count = strlen(golden->order);

		for (n = 0; n < count; n++) {
			u32 *from = &next[golden->order[n] - 'A'];

			moves[n] = (struct kapi_move){ *from, 8 * n, 8 };
			*from += 32;
		}
		scene_fill(kapi->scene);
		EQUAL(kapi, 0, ib_mr_set_layout_interleaved(mr, 0, 2, list));
		EQUAL(kapi, IB_WC_SUCCESS, write_from(kapi, mr, target, 8 * count));
		CHECK(kapi, kapi_moved(kapi, moves, count));
	}
}

/* A column of 16 numbers of a matrix of rows of 128 bytes. */
static struct ib_mr *column(struct kapi *kapi, enum scene_side side, u64 first)
{
	const struct ib_mr_dimension down = { .offset_stride = 128, .datum_count = 16 };
	struct ib_mr *matrix = kapi_direct(kapi, side);
	struct ib_mr_interleaved list;
	struct ib_mr *mr;
	struct ib_sge part;

	if (!matrix)
		return NULL;
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	if (!mr)
		return NULL;
	part = kapi_part_of(kapi, matrix, side, first, 4);
	list = (struct ib_mr_interleaved){
		.addr = part.addr,
		.length = part.length,
		.lkey = part.lkey,
		.num_repeated = 1,
		.num_dimensions = 1,
		.dims = &down,
	};
	return MADE(kapi, !ib_mr_set_layout_interleaved(mr, 0, 1, &list)) ? mr : NULL;
}

static void column_to_column(struct kapi *kapi, enum scene_op op)
{
	struct scene_step step = { .op = op };
	struct ib_mr *source, *target;
	struct kapi_move moves[16];
	unsigned int i;

	source = column(kapi, SCENE_SOURCE, 12);
	UNLESS_FAILED(kapi);
	target = column(kapi, SCENE_TARGET, 60);
	UNLESS_FAILED(kapi);
	for (i = 0; i < ARRAY_SIZE(moves); i++)
		moves[i] = (struct kapi_move){ 12 + 128 * i, 60 + 128 * i, 4 };
	step.local = kapi_whole(op == SCENE_READ ? target : source, 64);
	step.landing = kapi_whole(target, 64);
	step.rkey = op == SCENE_READ ? source->rkey : target->rkey;
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, step));
	CHECK(kapi, kapi_moved(kapi, moves, ARRAY_SIZE(moves)));
}

static void written_column(struct kapi *kapi)
{
	column_to_column(kapi, SCENE_WRITE);
}

static void read_column(struct kapi *kapi)
{
	column_to_column(kapi, SCENE_READ);
}

static void sent_column(struct kapi *kapi)
{
	column_to_column(kapi, SCENE_SEND);
}

/* Each level leaves out the first byte of the one below it. */
static void nests(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = LEVELS, .to = 0, .length = 100 - LEVELS } };
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_mr *mr, *below = NULL;
	struct ib_sge part;
	u32 level;

	UNLESS_FAILED(kapi);
	for (level = 1; level <= LEVELS; level++) {
		mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
		UNLESS_FAILED(kapi);
		part = kapi_part(kapi, SCENE_SOURCE, 1, 100 - level);
		if (below)
			part = (struct ib_sge){ .addr = 1, .length = 100 - level, .lkey = below->lkey };
		EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, 1, &part));
		below = mr;
	}
	EQUAL(kapi, IB_WC_SUCCESS, write_from(kapi, below, target, 100 - LEVELS));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
}

static void many_pieces(struct kapi *kapi)
{
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_sge *pieces = kvcalloc(MANY, sizeof(*pieces), GFP_KERNEL);
	struct kapi_move *moves = kvcalloc(MANY, sizeof(*moves), GFP_KERNEL);
	struct ib_mr *mr = kapi_create(kapi, IB_MR_REG_INDIRECT, MANY);
	unsigned int i;

	if (!MADE(kapi, pieces && moves && target && mr))
		goto out;
	for (i = 0; i < MANY; i++) {
		moves[i] = (struct kapi_move){ (i * 7919) % MANY * 16, i * 9, 9 };
		pieces[i] = kapi_part(kapi, SCENE_SOURCE, moves[i].from, 9);
	}
	if (MADE(kapi, !ib_mr_set_layout_sg(mr, 0, MANY, pieces)) &&
	    MADE(kapi, write_from(kapi, mr, target, 9 * MANY) == IB_WC_SUCCESS))
		MADE(kapi, kapi_moved(kapi, moves, MANY));
out:
	kvfree(pieces);
	kvfree(moves);
}

static void keeps_or_changes_keys(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = 500, .to = 0, .length = 20 } };
	struct ib_mr *target = kapi_direct(kapi, SCENE_TARGET);
	struct ib_mr *mr;
	struct ib_sge parts[2];
	u32 first, second;

	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 2);
	UNLESS_FAILED(kapi);
	parts[0] = kapi_part(kapi, SCENE_SOURCE, 0, 10);
	parts[1] = kapi_part(kapi, SCENE_SOURCE, 100, 10);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, 2, parts));
	first = mr->lkey;
	CHECK(kapi, mr->rkey == first);

	parts[0].addr++;
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, IB_MR_LAYOUT_AVOID_INVALIDATION, 2, parts));
	CHECK(kapi, mr->lkey == first && mr->rkey == first);

	parts[0] = kapi_part(kapi, SCENE_SOURCE, 500, 20);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, 1, parts));
	second = mr->lkey;
	CHECK(kapi, second != first && mr->rkey == second);

	EQUAL(kapi, IB_WC_SUCCESS, write_from(kapi, mr, target, 20));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
	mr->lkey = first;
	EQUAL(kapi, IB_WC_LOC_PROT_ERR, write_from(kapi, mr, target, 20));
	mr->lkey = second;
}

static void holds_its_pieces(struct kapi *kapi)
{
	struct ib_mr *source = kapi_direct(kapi, SCENE_SOURCE);
	struct ib_mr *inner, *outer;
	struct ib_sge part;
	int users;

	UNLESS_FAILED(kapi);
	inner = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	UNLESS_FAILED(kapi);
	outer = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	UNLESS_FAILED(kapi);
	part = kapi_part_of(kapi, source, SCENE_SOURCE, 0, 64);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(inner, 0, 1, &part));
	part = kapi_whole(inner, 64);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(outer, 0, 1, &part));

	users = scene_users(kapi->scene);
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, source));
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, inner));
	EQUAL(kapi, users, scene_users(kapi->scene));

	EQUAL(kapi, 0, kapi_destroy(kapi, outer));
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, source));
	EQUAL(kapi, 0, kapi_destroy(kapi, inner));
	EQUAL(kapi, 0, kapi_destroy(kapi, source));
	EQUAL(kapi, users - 3, scene_users(kapi->scene));
}

static void a_refused_end_changes_nothing(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = 32, .to = 0, .length = 64 } };
	struct ib_mr *source = kapi_direct(kapi, SCENE_SOURCE);
	struct ib_mr *target, *mr;
	struct ib_sge part;
	u32 lkey, rkey;

	UNLESS_FAILED(kapi);
	target = kapi_direct(kapi, SCENE_TARGET);
	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	UNLESS_FAILED(kapi);
	part = kapi_part_of(kapi, source, SCENE_SOURCE, 32, 64);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, 1, &part));
	lkey = source->lkey;
	rkey = source->rkey;
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, source));
	CHECK(kapi, source->lkey == lkey && source->rkey == rkey);
	/* directly, and through the layout */
	EQUAL(kapi, IB_WC_SUCCESS,
	      kapi_write(kapi, part, scene_address(kapi->scene, SCENE_TARGET), target->rkey));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
	scene_fill(kapi->scene);
	EQUAL(kapi, IB_WC_SUCCESS, write_from(kapi, mr, target, 64));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
}

/* What a request invalidates must not be pieces of something. */
static void keeps_its_pieces_registered(struct kapi *kapi)
{
	struct ib_mr *source = kapi_direct(kapi, SCENE_SOURCE);
	struct ib_mr *mr;
	struct ib_sge part;

	UNLESS_FAILED(kapi);
	mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 1);
	UNLESS_FAILED(kapi);
	part = kapi_part_of(kapi, source, SCENE_SOURCE, 0, 64);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(mr, 0, 1, &part));
	CHECK(kapi, kapi_do(kapi, (struct scene_step){
		.op = SCENE_INVALIDATE,
		.rkey = source->rkey,
	}) > IB_WC_SUCCESS);
}

const struct kapi_test layout_tests[] = {
	{ "ranges are gathered", KAPI_EXTENDED, gathers },
	{ "ranges are scattered to", KAPI_EXTENDED, scatters },
	{ "a region grants what all its pieces grant", KAPI_EXTENDED, grants_what_all_grant },
	{ "a region has no bytes before its layout", KAPI_EXTENDED, has_no_bytes_before },
	{ "entries take turns in the golden orders", KAPI_EXTENDED, golden_orders },
	{ "a column is written to a column", KAPI_EXTENDED, written_column },
	{ "a column is read into a column", KAPI_EXTENDED, read_column },
	{ "a column is sent to a column", KAPI_EXTENDED, sent_column },
	{ "layouts nest", KAPI_EXTENDED, nests },
	{ "a thousand pieces are gathered", KAPI_EXTENDED, many_pieces },
	{ "keys change with the number of pieces", KAPI_EXTENDED, keeps_or_changes_keys },
	{ "a layout holds its pieces", KAPI_EXTENDED, holds_its_pieces },
	{ "an end that is refused changes nothing", KAPI_EXTENDED, a_refused_end_changes_nothing },
	{ "a layout keeps its pieces registered", KAPI_EXTENDED, keeps_its_pieces_registered },
	{},
};
