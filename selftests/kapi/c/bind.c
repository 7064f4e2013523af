// SPDX-License-Identifier: GPL-2.0
/*
 * Layouts that wait for a work request.
 */
#include "kapi.h"

#define WAITING IB_MR_LAYOUT_WITH_POST_WR

/* A region with a layout of one piece, and another that waits. */
struct staged {
	struct ib_mr *mr;
	struct ib_mr *target;
	struct ib_mr *old;
};

static struct ib_sge new_part(struct kapi *kapi)
{
	return kapi_part(kapi, SCENE_SOURCE, 2000, 32);
}

static void set_up(struct kapi *kapi, struct staged *staged)
{
	struct ib_sge part;

	staged->target = kapi_direct(kapi, SCENE_TARGET);
	UNLESS_FAILED(kapi);
	staged->old = kapi_direct(kapi, SCENE_SOURCE);
	UNLESS_FAILED(kapi);
	staged->mr = kapi_create(kapi, IB_MR_REG_INDIRECT, 2);
	UNLESS_FAILED(kapi);
	part = kapi_part_of(kapi, staged->old, SCENE_SOURCE, 1000, 32);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(staged->mr, 0, 1, &part));
	part = new_part(kapi);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(staged->mr, WAITING, 1, &part));
}

static struct scene_step write_to(struct kapi *kapi, const struct staged *staged, u64 offset)
{
	return (struct scene_step){
		.op = SCENE_WRITE,
		.local = kapi_whole(staged->mr, 32),
		.remote_addr = scene_address(kapi->scene, SCENE_TARGET) + offset,
		.rkey = staged->target->rkey,
	};
}

static struct scene_step bind(const struct staged *staged)
{
	return (struct scene_step){ .op = SCENE_BIND, .local = kapi_whole(staged->mr, 0) };
}

static void in_order(struct kapi *kapi)
{
	struct kapi_move moves[] = {
		{ .from = 1000, .to = 0, .length = 32 },
		{ .from = 2000, .to = 64, .length = 32 },
	};
	enum ib_wc_status status[3] = { };
	struct scene_step steps[3];
	struct staged staged;
	unsigned int i;

	set_up(kapi, &staged);
	UNLESS_FAILED(kapi);
	steps[0] = write_to(kapi, &staged, 0);
	steps[1] = bind(&staged);
	steps[2] = write_to(kapi, &staged, 64);
	EQUAL(kapi, 0, scene_do(kapi->scene, steps, 3, status));
	for (i = 0; i < ARRAY_SIZE(status); i++)
		EQUAL(kapi, IB_WC_SUCCESS, status[i]);
	CHECK(kapi, kapi_moved(kapi, moves, ARRAY_SIZE(moves)));
}

static void behind_a_fence(struct kapi *kapi)
{
	/* what the read brought lies under the old layout, and is written from there */
	struct kapi_move moves[] = {
		{ .from = 3000, .to = 0, .length = 32 },
		{ .from = 2000, .to = 64, .length = 32 },
	};
	enum ib_wc_status status[4] = { };
	struct scene_step steps[4];
	struct staged staged;
	u8 due[32];
	unsigned int i;

	set_up(kapi, &staged);
	UNLESS_FAILED(kapi);
	memcpy(due, scene_bytes(kapi->scene, SCENE_SOURCE) + 3000, sizeof(due));
	steps[0] = (struct scene_step){
		.op = SCENE_READ,
		.local = kapi_whole(staged.mr, 32),
		.remote_addr = scene_address(kapi->scene, SCENE_SOURCE) + 3000,
		.rkey = staged.old->rkey,
	};
	steps[1] = write_to(kapi, &staged, 0);
	steps[1].fenced = true;
	steps[2] = bind(&staged);
	steps[2].fenced = true;
	steps[3] = write_to(kapi, &staged, 64);
	EQUAL(kapi, 0, scene_do(kapi->scene, steps, 4, status));
	for (i = 0; i < ARRAY_SIZE(status); i++)
		EQUAL(kapi, IB_WC_SUCCESS, status[i]);
	CHECK(kapi, !memcmp(due, scene_bytes(kapi->scene, SCENE_SOURCE) + 1000, sizeof(due)));
	CHECK(kapi, kapi_moved(kapi, moves, ARRAY_SIZE(moves)));
}

static void nothing_waits(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = 2000, .to = 0, .length = 32 } };
	struct staged staged;

	set_up(kapi, &staged);
	UNLESS_FAILED(kapi);
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, bind(&staged)));
	EQUAL(kapi, IB_WC_MW_BIND_ERR, kapi_do(kapi, bind(&staged)));
	/* the layout that stands goes on standing */
	EQUAL(kapi, 0, scene_connect(kapi->scene));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, write_to(kapi, &staged, 0)));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
}

static void on_a_broken_queue(struct kapi *kapi)
{
	struct kapi_move before[] = { { .from = 1000, .to = 0, .length = 32 } };
	struct kapi_move after[] = { { .from = 2000, .to = 0, .length = 32 } };
	struct staged staged;

	set_up(kapi, &staged);
	UNLESS_FAILED(kapi);
	EQUAL(kapi, 0, scene_break(kapi->scene));
	EQUAL(kapi, IB_WC_WR_FLUSH_ERR, kapi_do(kapi, bind(&staged)));

	/* the old layout stands, and the new one waits still */
	EQUAL(kapi, 0, scene_connect(kapi->scene));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, write_to(kapi, &staged, 0)));
	CHECK(kapi, kapi_moved(kapi, before, 1));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, bind(&staged)));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, write_to(kapi, &staged, 0)));
	CHECK(kapi, kapi_moved(kapi, after, 1));
}

static void holds_old_and_new(struct kapi *kapi)
{
	struct staged staged;
	struct ib_sge part;

	set_up(kapi, &staged);
	UNLESS_FAILED(kapi);
	/* the new one is to consist of the target */
	part = kapi_part_of(kapi, staged.target, SCENE_TARGET, 0, 32);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(staged.mr, WAITING, 1, &part));
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, staged.old));
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, staged.target));

	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, bind(&staged)));
	EQUAL(kapi, 0, kapi_destroy(kapi, staged.old));
	EQUAL(kapi, -EBUSY, kapi_destroy(kapi, staged.target));
	/* a layout that waits is given up with its region */
	part = new_part(kapi);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(staged.mr, WAITING, 1, &part));
	EQUAL(kapi, 0, kapi_destroy(kapi, staged.mr));
	EQUAL(kapi, 0, kapi_destroy(kapi, staged.target));
}

static void brings_its_key(struct kapi *kapi)
{
	struct kapi_move moves[] = { { .from = 2000, .to = 0, .length = 32 } };
	struct ib_sge parts[2];
	struct staged staged;
	u32 old;

	set_up(kapi, &staged);
	UNLESS_FAILED(kapi);
	old = staged.mr->lkey;
	parts[0] = kapi_part(kapi, SCENE_SOURCE, 2000, 16);
	parts[1] = kapi_part(kapi, SCENE_SOURCE, 2016, 16);
	EQUAL(kapi, 0, ib_mr_set_layout_sg(staged.mr, WAITING, 2, parts));
	CHECK(kapi, staged.mr->lkey != old);

	/* the new key is not valid before, the old one not after */
	EQUAL(kapi, IB_WC_LOC_PROT_ERR, kapi_do(kapi, write_to(kapi, &staged, 0)));
	EQUAL(kapi, 0, scene_connect(kapi->scene));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, bind(&staged)));
	EQUAL(kapi, IB_WC_SUCCESS, kapi_do(kapi, write_to(kapi, &staged, 0)));
	CHECK(kapi, kapi_moved(kapi, moves, 1));
	staged.mr->lkey = old;
	EQUAL(kapi, IB_WC_LOC_PROT_ERR, kapi_do(kapi, write_to(kapi, &staged, 0)));
}

const struct kapi_test bind_tests[] = {
	{ "a waiting layout stands from its request on", KAPI_EXTENDED, in_order },
	{ "a waiting layout stands behind a fence", KAPI_EXTENDED, behind_a_fence },
	{ "a request finds nothing waiting", KAPI_EXTENDED, nothing_waits },
	{ "a layout goes on waiting when its queue breaks", KAPI_EXTENDED, on_a_broken_queue },
	{ "a waiting layout holds its pieces", KAPI_EXTENDED, holds_old_and_new },
	{ "a waiting layout brings its key", KAPI_EXTENDED, brings_its_key },
	{},
};
