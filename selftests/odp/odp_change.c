// SPDX-License-Identifier: GPL-2.0
/* What happens to a region when the mappings of its process change. */
#include "odp_test.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A source that is pinned and a paged region that a test changes. */
#define LEN (2 * MB)
struct both {
	char *src, *dst;
	struct ibv_mr *from, *to;
};

static bool start(struct both *t, struct pair *pair)
{
	t->src = map(LEN);
	t->dst = map(LEN);
	t->from = reg(pair, t->src, LEN, REMOTE);
	t->to = reg(pair, t->dst, LEN, REMOTE | ODP);
	fill(t->src, LEN, 1);
	if (!t->from || !t->to)
		return false;
	/* All pages are known from here on. */
	return !put(pair, t->from, t->src, t->to, t->dst, LEN) && is_filled(t->dst, LEN, 1);
}

static void stop(struct both *t)
{
	ibv_dereg_mr(t->from);
	ibv_dereg_mr(t->to);
	munmap(t->src, LEN);
	munmap(t->dst, LEN);
}

static void unmap(struct pair *pair)
{
	struct both t;
	char *again;

	CHECK(start(&t, pair));
	munmap(t.dst, LEN);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	/* Other memory at the same place belongs to the region again. */
	again = mmap(t.dst, LEN, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(again == t.dst);
	fill(t.src, LEN, 2);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 2));
	CHECK(counter("page_invalidations") >= (long)(LEN / PAGE));
	stop(&t);
}

static void protect(struct pair *pair)
{
	struct both t;

	CHECK(start(&t, pair));
	CHECK_EQ(mprotect(t.dst, LEN, PROT_READ), 0);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(mprotect(t.dst, LEN, PROT_NONE), 0);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(mprotect(t.dst, LEN, PROT_READ | PROT_WRITE), 0);
	CHECK(is_filled(t.dst, LEN, 1));
	fill(t.src, LEN, 3);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 3));
	stop(&t);
}

static void dont_need(struct pair *pair)
{
	struct both t;
	static const char zero[PAGE];

	CHECK(start(&t, pair));
	CHECK_EQ(madvise(t.dst, LEN, MADV_DONTNEED), 0);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	for (size_t i = 0; i < LEN; i += PAGE)
		CHECK(!memcmp(t.src + i, zero, PAGE));
	/* What was read is the page of zeros, and is not what is written to. */
	fill(t.src, LEN, 4);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 4));
	/* Pages that may be dropped are not when they are written to afterwards. */
	CHECK_EQ(madvise(t.dst, LEN, MADV_FREE), 0);
	fill(t.src, LEN, 5);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	madvise(t.dst, LEN, MADV_PAGEOUT);
	CHECK(is_filled(t.dst, LEN, 5));
	stop(&t);
}

static void move(struct pair *pair)
{
	struct both t;
	char *to;

	CHECK(start(&t, pair));
	to = mremap(t.dst, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, map(LEN));
	CHECK(to != MAP_FAILED && to != t.dst);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	CHECK(is_filled(to, LEN, 1));
	munmap(to, LEN);
	stop(&t);
}

/* Runs fn in a child and says whether it returned true. */
static int child_says(bool (*fn)(const char *), const char *arg, int *go, int *answer)
{
	pid_t pid;

	if (pipe(go) || pipe(answer))
		return -1;
	pid = fork_tied();
	if (!pid) {
		char byte;

		if (read(go[0], &byte, 1) != 1)
			_exit(2);
		byte = fn(arg);
		if (write(answer[1], &byte, 1) != 1)
			_exit(2);
		_exit(0);
	}
	return pid;
}

static bool has_first(const char *dst)
{
	return is_filled(dst, LEN, 1);
}

static bool overwrites(const char *dst)
{
	fill((char *)dst, LEN, 66);
	return true;
}

static bool ask(int *go, int *answer, pid_t pid)
{
	char byte = 1;
	int status;

	if (write(go[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1)
		byte = 0;
	waitpid(pid, &status, 0);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(answer[i]);
	}
	return byte;
}

static void fork_parent(struct pair *pair)
{
	struct both t;
	int go[2], answer[2];
	pid_t pid;

	CHECK(start(&t, pair));
	/* The parent's memory is written to by transfers; the child keeps what it had. */
	pid = child_says(has_first, t.dst, go, answer);
	CHECK(pid > 0);
	fill(t.src, LEN, 6);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 6));
	CHECK(ask(go, answer, pid));
	stop(&t);
}

static void fork_child(struct pair *pair)
{
	struct both t;
	int go[2], answer[2];
	pid_t pid;

	CHECK(start(&t, pair));
	pid = child_says(overwrites, t.dst, go, answer);
	CHECK(pid > 0);
	CHECK(ask(go, answer, pid));
	memset(t.src, 0, LEN);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.src, LEN, 1));
	fill(t.src, LEN, 7);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 7));
	stop(&t);
}

static bool has_swap(void)
{
	FILE *f = fopen("/proc/swaps", "r");
	char line[256];
	int lines = 0;

	while (f && fgets(line, sizeof(line), f))
		lines++;
	if (f)
		fclose(f);
	return lines > 1;
}

static void swap_out(struct pair *pair)
{
	struct both t;
	unsigned char there[LEN / PAGE];
	size_t gone = 0;

	if (!has_swap()) {
		skip("no swap");
		return;
	}
	CHECK(start(&t, pair));
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(madvise(t.dst, LEN, MADV_PAGEOUT), 0);
		CHECK_EQ(mincore(t.dst, LEN, there), 0);
		for (size_t i = 0; i < LEN / PAGE; i++)
			gone += !(there[i] & 1);
		memset(t.src, 0, LEN);
		CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
		CHECK(is_filled(t.src, LEN, round + 1));
		/* What is written through the region must be what comes back from swap. */
		fill(t.src, LEN, round + 2);
		CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	}
	CHECK(gone > 0);
	CHECK_EQ(madvise(t.dst, LEN, MADV_PAGEOUT), 0);
	CHECK(is_filled(t.dst, LEN, 4));
	stop(&t);
}

static void huge_pages(struct pair *pair)
{
	char *area = map(4 * LEN), *dst = (char *)(((uintptr_t)area + LEN - 1) & ~(LEN - 1));
	char *src = map(LEN);
	struct ibv_mr *from = reg(pair, src, LEN, REMOTE), *to;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
		skip("this kernel has no huge pages");
		ibv_dereg_mr(from);
		return;
	}
	madvise(dst, LEN, MADV_NOHUGEPAGE);
	to = reg(pair, dst, LEN, REMOTE | ODP);
	CHECK(from && to);
	for (int round = 0; round < 4; round++) {
		fill(src, LEN, round);
		CHECK_EQ(put(pair, from, src, to, dst, LEN), IBV_WC_SUCCESS);
		if (round % 2) {
			/* Split it: a part of it goes. */
			CHECK_EQ(madvise(dst + LEN / 2, PAGE, MADV_DONTNEED), 0);
			CHECK(is_filled(dst, LEN / 2, round));
		} else {
			CHECK_EQ(madvise(dst, LEN, MADV_HUGEPAGE), 0);
			CHECK_EQ(madvise(dst, LEN, 25 /* MADV_COLLAPSE */), 0);
			CHECK(is_filled(dst, LEN, round));
		}
		fill(src, LEN, round + 10);
		CHECK_EQ(put(pair, from, src, to, dst, LEN), IBV_WC_SUCCESS);
		CHECK(is_filled(dst, LEN, round + 10));
	}
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	munmap(area, 4 * LEN);
	munmap(src, LEN);
}

void change_tests(void)
{
	run_test("munmap ends access, and a new mapping brings it back", unmap);
	run_test("mprotect holds for transfers", protect);
	run_test("madvise DONTNEED and FREE", dont_need);
	run_test("mremap takes the pages along", move);
	run_test("transfers into a parent's memory leave its child's alone", fork_parent);
	run_test("what a child writes is not seen by transfers", fork_child);
	run_test("pages come back from swap as transfers left them", swap_out);
	run_test("huge pages come together and apart", huge_pages);
}
