// SPDX-License-Identifier: GPL-2.0
/* Layouts over regions that are paged on demand. */
#include "odp_test.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mrx_user_ioctl.h>
#include <string.h>
#include <sys/mman.h>

#define LEN (2 * MB)
#define FLUSH IBV_ADVISE_MR_FLAG_FLUSH
#define WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE

static struct ibv_mr *holder(struct pair *pair)
{
	return ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
}

static int set_sg(struct ibv_mr *mr, struct ib_uverbs_sge *list, uint32_t count)
{
	struct layout_list sg = { (uintptr_t)list, count, sizeof(*list) };

	return set_layout(mr, &sg, NULL);
}

static struct ib_uverbs_sge sge(struct ibv_mr *mr, void *addr, uint32_t len)
{
	return (struct ib_uverbs_sge){ .addr = (uintptr_t)addr, .length = len, .lkey = mr->lkey };
}

/* Ranges of a paged and of a pinned region, in turn, with ends inside of pages. */
static void mixed(struct pair *pair)
{
	enum { COUNT = 64, PIECE = 10008 };
	char *paged = map(LEN), *pinned = map(LEN), *flat = map(LEN);
	struct ibv_mr *mp = reg(pair, paged, LEN, REMOTE | ODP);
	struct ibv_mr *mq = reg(pair, pinned, LEN, REMOTE);
	struct ibv_mr *mf = reg(pair, flat, LEN, REMOTE | ODP);
	struct ibv_mr *mr = holder(pair);
	struct ib_uverbs_sge list[COUNT];

	CHECK(mp && mq && mf && mr);
	for (int i = 0; i < COUNT; i++)
		list[i] = sge(i % 2 ? mq : mp, (i % 2 ? pinned : paged) + i * 2 * PIECE, PIECE);
	CHECK_EQ(set_sg(mr, list, COUNT), 0);
	fill(flat, LEN, 1);
	CHECK_EQ(put(pair, mf, flat, mr, 0, COUNT * PIECE), IBV_WC_SUCCESS);
	for (int i = 0; i < COUNT; i++)
		CHECK(!memcmp((char *)(uintptr_t)list[i].addr, flat + i * PIECE, PIECE));
	CHECK(paged[PIECE] == 0);
	memset(flat, 0, LEN);
	CHECK_EQ(get(pair, mf, flat, mr, 0, COUNT * PIECE), IBV_WC_SUCCESS);
	CHECK(is_filled(flat, COUNT * PIECE, 1));
	/* A region that a layout uses stays; its pages do not. */
	CHECK_EQ(ibv_dereg_mr(mp), EBUSY);
	munmap(paged + 10 * PAGE, PAGE);
	CHECK_EQ(put(pair, mf, flat, mr, 0, COUNT * PIECE), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(mr);
	CHECK_EQ(ibv_dereg_mr(mp), 0);
	ibv_dereg_mr(mq);
	ibv_dereg_mr(mf);
	munmap(paged, LEN);
	munmap(pinned, LEN);
	munmap(flat, LEN);
}

/* Every other 8 bytes of a matrix, once more through a layout over the layout. */
static void interleaved_and_nested(struct pair *pair)
{
	enum { ROWS = 512, COLUMNS = 256 };
	uint64_t *matrix = map(LEN), *flat = map(LEN);
	struct ibv_mr *mm = reg(pair, matrix, LEN, REMOTE | ODP);
	struct ibv_mr *mf = reg(pair, flat, LEN, REMOTE | ODP);
	struct ibv_mr *inner = holder(pair), *outer = holder(pair);
	struct mrx_interleaved entry = { .addr = (uintptr_t)matrix, .length = 8, .num_repeated = 1, .num_dimensions = 2 };
	struct mrx_dimension dims[2] = { { 16, COLUMNS }, { 4096, ROWS } };
	struct layout_list list = { (uintptr_t)&entry, 1, sizeof(entry) };
	struct layout_list dim_list = { (uintptr_t)dims, 2, sizeof(dims[0]) };
	struct ib_uverbs_sge halves[2];
	size_t half = ROWS * COLUMNS * 4;

	CHECK(mm && mf && inner && outer);
	entry.lkey = mm->lkey;
	CHECK_EQ(set_layout(inner, &list, &dim_list), 0);
	halves[0] = sge(inner, (void *)half, half);
	halves[1] = sge(inner, 0, half);
	CHECK_EQ(set_sg(outer, halves, 2), 0);
	fill(flat, LEN, 2);
	CHECK_EQ(put(pair, mf, flat, outer, 0, 2 * half), IBV_WC_SUCCESS);
	for (size_t i = 0; i < ROWS * COLUMNS; i++) {
		size_t from = (i * 8 + half) % (2 * half) / 8;
		size_t at = i / COLUMNS * 512 + i % COLUMNS * 2;

		CHECK(matrix[at] == flat[from]);
		CHECK(matrix[at + 1] == 0);
	}
	ibv_dereg_mr(outer);
	ibv_dereg_mr(inner);
	ibv_dereg_mr(mm);
	ibv_dereg_mr(mf);
	munmap(matrix, LEN);
	munmap(flat, LEN);
}

static void advised(struct pair *pair)
{
	char *paged = map(LEN), *pinned = map(LEN);
	struct ibv_mr *mp = reg(pair, paged, LEN, REMOTE | ODP);
	struct ibv_mr *mq = reg(pair, pinned, LEN, REMOTE);
	struct ibv_mr *mr = holder(pair), *none = holder(pair);
	struct ib_uverbs_sge list[16];
	long faults;

	CHECK(mp && mq && mr && none);
	madvise(paged, LEN, MADV_NOHUGEPAGE);
	for (int i = 0; i < 16; i++)
		list[i] = sge(i % 4 ? mp : mq, (i % 4 ? paged : pinned) + i * 2 * PAGE, PAGE);
	CHECK_EQ(set_sg(mr, list, 16), 0);
	CHECK_EQ(set_sg(none, list, 1), 0);
	CHECK_EQ(advise_one(mr, WRITE, FLUSH, 0, 16 * PAGE), 0);
	CHECK_EQ(counter("page_prefetch"), 12);
	faults = counter("page_faults");
	CHECK_EQ(put(pair, mq, pinned, mr, 0, 16 * PAGE), IBV_WC_SUCCESS);
	CHECK_EQ(counter("page_faults"), faults);
	CHECK_EQ(advise_one(mr, WRITE, FLUSH, 0, 16 * PAGE + 1), EFAULT);
	CHECK_EQ(advise_one(none, WRITE, FLUSH, 0, PAGE), EINVAL);
	CHECK_EQ(advise_one(mr, WRITE, 0, 0, 16 * PAGE), 0);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(none);
	ibv_dereg_mr(mp);
	ibv_dereg_mr(mq);
	munmap(paged, LEN);
	munmap(pinned, LEN);
}

void layout_tests(void)
{
	run_test("an SG layout of paged and pinned ranges", mixed);
	run_test("an interleaved layout, and one over it", interleaved_and_nested);
	run_test("advice about a layout prefetches what it maps", advised);
}
