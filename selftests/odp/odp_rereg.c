// SPDX-License-Identifier: GPL-2.0
/* Regions that are registered anew. */
#include "odp_test.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN (1 * MB)

static int rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access)
{
	struct raw_mr raw = { mr->handle, mr->lkey, mr->rkey };
	int ret = rereg_raw(mr->pd, &raw, flags, pd, addr, len, access);

	mr->lkey = raw.lkey;
	mr->rkey = raw.rkey;
	if (!ret && pd)
		mr->pd = pd;
	return ret;
}

static void paged(struct pair *pair)
{
	char *a = map(LEN), *b = map(LEN), *c = map(LEN);
	struct ibv_mr *from = reg(pair, a, LEN, REMOTE), *mr = reg(pair, b, LEN, LOCAL | ODP);
	struct pair *other = pair_new();
	struct ibv_mr *elsewhere;
	long faults;

	CHECK(from && mr);
	fill(a, LEN, 1);
	CHECK_EQ(put(pair, from, a, mr, b, LEN), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	/* Other rights; what has been found is still known. */
	CHECK_EQ(advise_one(mr, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, b,
			    LEN), 0);
	CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE | ODP), 0);
	faults = counter("page_faults");
	CHECK_EQ(put(pair, from, a, mr, b, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(counter("page_faults"), faults);
	CHECK(is_filled(b, LEN, 1));
	/* Paged memory does not become pinned in place. */
	CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE), EOPNOTSUPP);
	/* Other memory, and everything at once. */
	fill(a, LEN, 2);
	CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, c, LEN, 0), 0);
	CHECK_EQ(put(pair, from, a, mr, c, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(c, LEN, 2) && is_filled(b, LEN, 1));
	CHECK_EQ(madvise(c, LEN, MADV_DONTNEED), 0);
	CHECK_EQ(get(pair, from, a, mr, c, LEN), IBV_WC_SUCCESS);
	CHECK(!a[0] && !memcmp(a, a + 1, LEN - 1));
	CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_PD, other->pd, NULL, 0, 0), 0);
	elsewhere = reg(other, a, LEN, REMOTE);
	CHECK(elsewhere);
	CHECK_EQ(put(pair, from, a, mr, c, LEN), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	fill(a, LEN, 3);
	CHECK_EQ(put(other, elsewhere, a, mr, c, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(c, LEN, 3));
	CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION |
		       IBV_REREG_MR_CHANGE_ACCESS, pair->pd, b, LEN, REMOTE), 0);
	/* It is pinned now, for which there is no advice. */
	CHECK_EQ(advise_one(mr, 0, IBV_ADVISE_MR_FLAG_FLUSH, b, LEN), EINVAL);
	CHECK_EQ(put(pair, from, a, mr, b, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(b, LEN, 3));
	CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE | ODP), EOPNOTSUPP);
	ibv_dereg_mr(from);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(elsewhere);
	pair_free(other);
	munmap(a, LEN);
	munmap(b, LEN);
	munmap(c, LEN);
}

/* Advice that has been given goes on, if at all, with nothing of the old region. */
static void advised(struct pair *pair)
{
	for (int i = 0; i < 20; i++) {
		char *a = map(16 * MB);
		struct ibv_mr *mr = reg(pair, a, 16 * MB, LOCAL | ODP);

		CHECK(mr);
		CHECK_EQ(advise_one(mr, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, a, 16 * MB), 0);
		CHECK_EQ(rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE | ODP), 0);
		CHECK_EQ(put(pair, mr, a, mr, a + 8 * MB, 8 * MB), IBV_WC_SUCCESS);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		munmap(a, 16 * MB);
	}
}

/* A region of a buffer can get other rights, another domain, or memory of the process. */
static void of_a_buffer(struct pair *pair)
{
	int fd = exported(LEN, 0);
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *from = reg(pair, a, LEN, REMOTE);
	struct pair *other = pair_new();
	struct raw_mr mr;

	if (fd < 0) {
		no_exporter();
		return;
	}
	CHECK(from);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, fd, LOCAL, &mr), 0);
	fill(a, LEN, 4);
	CHECK_EQ(put(pair, from, a, &mr, 0, LEN), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(rereg_raw(pair->pd, &mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE), 0);
	CHECK_EQ(put(pair, from, a, &mr, 0, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(rereg_raw(pair->pd, &mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE | ODP),
		 EOPNOTSUPP);
	CHECK_EQ(rereg_raw(pair->pd, &mr, IBV_REREG_MR_CHANGE_PD, other->pd, NULL, 0, 0), 0);
	CHECK_EQ(put(pair, from, a, &mr, 0, LEN), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(rdma(other, IBV_WR_RDMA_WRITE, mr.lkey, 0, mr.rkey, LEN / 2, LEN / 2),
		 IBV_WC_SUCCESS);
	CHECK_EQ(rereg_raw(pair->pd, &mr, IBV_REREG_MR_CHANGE_PD, pair->pd, NULL, 0, 0), 0);
	memset(a, 0, LEN);
	CHECK_EQ(get(pair, from, a, &mr, 0, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(a, LEN / 2, 4) && !memcmp(a, a + LEN / 2, LEN / 2));
	/* With memory of the process in its place the buffer is let go of. */
	CHECK_EQ(attachments(fd), 1);
	CHECK_EQ(rereg_raw(pair->pd, &mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, b, LEN, 0), 0);
	CHECK_EQ(attachments(fd), 0);
	CHECK_EQ(put(pair, from, a, &mr, b, LEN), IBV_WC_SUCCESS);
	CHECK(!memcmp(a, b, LEN));
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	ibv_dereg_mr(from);
	pair_free(other);
	close(fd);
	munmap(a, LEN);
	munmap(b, LEN);
}

void rereg_tests(void)
{
	run_test("a paged region gets other rights, memory, domain", paged);
	run_test("a paged region is registered anew while it is advised", advised);
	run_test("a region of a buffer gets other rights, domain, memory", of_a_buffer);
}
