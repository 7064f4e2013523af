// SPDX-License-Identifier: GPL-2.0
/* Mappings change while transfers run. */
#include "odp_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LEN (2 * MB)
#define SECONDS 4

struct area {
	char *dst;
	volatile int stop;
	int rounds;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Changes that lose nothing: the memory must always be what transfers made of it. */
static void *churn(void *arg)
{
	struct area *area = arg;
	unsigned int seed = 1;

	while (!area->stop) {
		size_t at = rand_r(&seed) % (LEN / PAGE) * PAGE;
		size_t len = (rand_r(&seed) % 64 + 1) * PAGE;

		if (len > LEN - at)
			len = LEN - at;
		switch (rand_r(&seed) % 6) {
		case 0:
			madvise(area->dst + at, len, MADV_PAGEOUT);
			break;
		case 1:
			madvise(area->dst, LEN, 25 /* MADV_COLLAPSE */);
			break;
		case 2:
			mprotect(area->dst + at, len, PROT_READ | PROT_WRITE | PROT_EXEC);
			mprotect(area->dst + at, len, PROT_READ | PROT_WRITE);
			break;
		case 3:
			madvise(area->dst + at, len, MADV_COLD);
			break;
		case 4:
			if (!fork_tied())
				_exit(0);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			break;
		case 5:
			madvise(area->dst + at, len, MADV_FREE);
			/* Whoever frees writes again before relying on it. */
			for (size_t i = 0; i < len; i += PAGE)
				__atomic_fetch_add((uint64_t *)(area->dst + at + i), 0,
						   __ATOMIC_RELAXED);
			break;
		}
		area->rounds++;
		usleep(500);
	}
	while (wait(NULL) > 0)
		;
	return NULL;
}

static void nothing_is_lost(struct pair *pair)
{
	struct area area = { 0 };
	char *base = map(2 * LEN), *src = map(LEN);
	struct ibv_mr *from = reg(pair, src, LEN, REMOTE), *to;
	pthread_t thread;
	double end = now() + SECONDS;
	int rounds = 0;

	area.dst = (char *)(((uintptr_t)base + LEN - 1) & ~(LEN - 1));
	/* Freed memory may come back as zeros, which a test of bytes cannot tell from a loss. */
	memset(area.dst, 0, LEN);
	to = reg(pair, area.dst, LEN, REMOTE | ODP);
	CHECK(from && to);
	pthread_create(&thread, NULL, churn, &area);
	while (now() < end) {
		int status;

		fill(src, LEN, ++rounds);
		status = put(pair, from, src, to, area.dst, LEN);
		if (status) {
			area.stop = 1;
			pthread_join(thread, NULL);
		}
		CHECK_EQ(status, IBV_WC_SUCCESS);
	}
	area.stop = 1;
	pthread_join(thread, NULL);
	fill(src, LEN, 77);
	CHECK_EQ(put(pair, from, src, to, area.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(area.dst, LEN, 77));
	memset(src, 0, LEN);
	CHECK_EQ(get(pair, from, src, to, area.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(src, LEN, 77));
	CHECK(rounds > 2 && area.rounds > 2);
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	munmap(base, 2 * LEN);
	munmap(src, LEN);
}

/* Unmaps and maps again; what is mapped is always zero, unless a transfer wrote after that. */
static void *remap(void *arg)
{
	struct area *area = arg;

	while (!area->stop) {
		char *p = mmap(area->dst, LEN, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		if (p != area->dst)
			break;
		area->rounds++;
		usleep(300);
		if (area->rounds % 4 == 0) {
			munmap(area->dst, LEN);
			usleep(300);
		}
	}
	return NULL;
}

static void stale_pages(struct pair *pair)
{
	struct area area = { .dst = map(LEN) };
	/* A place of its own, since the other thread leaves holes that the kernel might choose. */
	char *src = map(LEN), *other = map(LEN);
	struct ibv_mr *from = reg(pair, src, LEN, REMOTE);
	struct ibv_mr *to = reg(pair, area.dst, LEN, REMOTE | ODP);
	pthread_t thread;
	double end = now() + SECONDS;
	int bad = 0, good = 0;

	CHECK(from && to);
	memset(src, 0xff, LEN);
	pthread_create(&thread, NULL, remap, &area);
	while (now() < end) {
		/* Pages that were just given up come up here, and must not be written to. */
		other = mmap(other, LEN, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | MAP_FIXED, -1, 0);
		if (put(pair, from, src, to, area.dst, LEN)) {
			bad++;
			pair_reset(pair);
		} else {
			good++;
		}
		for (size_t i = 0; i < LEN; i += 512)
			if (other[i])
				area.stop = 2;
		if (area.stop)
			break;
	}
	CHECK_EQ(area.stop, 0);
	area.stop = 1;
	pthread_join(thread, NULL);
	printf("# %d transfers, %d met a hole, %d mappings\n", good + bad, bad, area.rounds);
	CHECK(good > 0);
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	munmap(area.dst, LEN);
	munmap(other, LEN);
	munmap(src, LEN);
}

/* Many processes die in the middle of faults and prefetches. */
static void killed_in_the_middle(struct pair *unused)
{
	(void)unused;
	for (int i = 0; i < 8; i++) {
		pid_t pid = fork_tied();

		if (!pid) {
			char *a = map(16 * MB);
			struct pair *pair;
			struct ibv_mr *mr;

			context = open_device();
			pair = pair_new();
			mr = ibv_reg_mr(pair->pd, i % 2 ? NULL : a, i % 2 ? SIZE_MAX : 16 * MB,
					REMOTE | ODP);
			for (;;) {
				advise_one(mr, 1, 0, a, 16 * MB);
				put(pair, mr, a, mr, a + 8 * MB, 8 * MB);
				madvise(a, 16 * MB, MADV_DONTNEED);
			}
		}
		usleep(150000 + i * 37000);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* For the eye: what paging costs where there is nothing to page. */
static void resident_speed(struct pair *pair, int advice, const char *pages)
{
	size_t len = 64 * MB;
	char *a = map(len), *b = map(len);
	struct ibv_mr *pinned[2], *paged[2];
	double best[2] = { 1e9, 1e9 }, t;

	madvise(a, len, advice);
	madvise(b, len, advice);
	memset(a, 1, len);
	memset(b, 1, len);
	for (int i = 0; i < 2; i++) {
		pinned[i] = reg(pair, i ? b : a, len, REMOTE);
		paged[i] = reg(pair, i ? b : a, len, REMOTE | ODP);
		CHECK(pinned[i] && paged[i]);
		CHECK_EQ(advise_one(paged[i], 1, 1, i ? b : a, len), 0);
	}
	for (int i = 0; i < 20; i++) {
		struct ibv_mr **mr = i % 2 ? paged : pinned;

		t = now();
		CHECK_EQ(put(pair, mr[0], a, mr[1], b, len), IBV_WC_SUCCESS);
		t = now() - t;
		if (t < best[i % 2])
			best[i % 2] = t;
	}
	printf("# 64 MiB resident, %s pages: pinned %.0f MB/s, paged %.0f MB/s, ratio %.3f\n", pages,
	       len / best[0] / 1e6, len / best[1] / 1e6, best[0] / best[1]);
	for (int i = 0; i < 2; i++) {
		ibv_dereg_mr(pinned[i]);
		ibv_dereg_mr(paged[i]);
	}
	munmap(a, len);
	munmap(b, len);
}

static void speed(struct pair *pair)
{
	size_t len = 64 * MB;
	struct ibv_mr *paged[1];
	char *a;
	double t;

	resident_speed(pair, MADV_HUGEPAGE, "huge");
	resident_speed(pair, MADV_NOHUGEPAGE, "small");
	for (int i = 0; i < 4; i++) {
		double populate, prefetch;

		a = map(len);
		t = now();
		madvise(a, len, 23 /* MADV_POPULATE_WRITE */);
		populate = now() - t;
		munmap(a, len);
		a = map(len);
		paged[0] = reg(pair, a, len, REMOTE | ODP);
		t = now();
		CHECK_EQ(advise_one(paged[0], 1, 1, a, len), 0);
		prefetch = now() - t;
		ibv_dereg_mr(paged[0]);
		munmap(a, len);
		printf("# 64 MiB untouched: MADV_POPULATE_WRITE %.1f ms, prefetch %.1f ms, ratio %.3f\n",
		       populate * 1e3, prefetch * 1e3, populate / prefetch);
	}
}

void stress_tests(void)
{
	run_test("nothing is lost while mappings change under traffic", nothing_is_lost);
	run_test("no page is written to after it was given up", stale_pages);
	run_test("processes die in the middle of faults and prefetches", killed_in_the_middle);
	run_test("figures for the eye", speed);
}
