// SPDX-License-Identifier: GPL-2.0
/* Memory that is taken back again and again, under the hands of those who use it. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define SIZE 65536
#define THREADS 8
#define OLD 0xa5 /* what the client puts into pages that it has taken back */

/* Rounds; a slow machine may do with fewer. */
static unsigned int rounds(void)
{
	const char *n = getenv("MRX_PEER_ROUNDS");

	return n ? atoi(n) : 2000;
}

static struct {
	atomic_uint direct, layout; /* keys, 0 while there is none */
	atomic_bool stop;
	struct peer *peer;
	atomic_ulong good, revoked;
} shared;

/* Writes through whatever region there is. */
static void *writer(void *arg)
{
	unsigned int n = (uintptr_t)arg, i = 0;
	void *host = host_alloc(SIZE);
	struct ibv_mr *mr = ibv_reg_mr(pd, host, SIZE, ALL_ACCESS);
	struct link link;

	link_open(&link);
	memset(host, n + 1, SIZE);
	while (!shared.stop) {
		bool layout = (n + i++) & 1;
		unsigned int key = layout ? shared.layout : shared.direct;
		size_t len = 1 << (8 + i % 8), at = (i * 1000) % (SIZE / 2);
		enum ibv_wc_status status;

		if (!key) {
			sched_yield();
			continue;
		}
		status = transfer(&link, IBV_WR_RDMA_WRITE, sge(host, len, mr),
				  layout ? at : (uintptr_t)shared.peer->addr + at, key);
		if (status == IBV_WC_SUCCESS) {
			shared.good++;
			continue;
		}
		shared.revoked++;
		CHECK(status == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(status));
		link_repair(&link);
	}
	link_close(&link);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	host_free(host, SIZE);
	return NULL;
}

static void check_old(const struct peer *peer, unsigned int round)
{
	const volatile uint64_t *words = peer->addr;
	unsigned int i;

	for (i = 0; i < SIZE / sizeof(*words); i++)
		if (words[i] != 0xa5a5a5a5a5a5a5a5)
			break;
	CHECK(i == SIZE / sizeof(*words), "round %u: a byte arrived at %zu after the memory was "
	      "taken back", round, i * sizeof(*words));
}

static void under_load(int kind)
{
	pthread_t threads[THREADS];
	struct mrx_peer_counters counters;
	unsigned int round, n = rounds();
	struct peer peer;
	uintptr_t i;

	CHECK_EQ(register_kind(0, kind), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	shared.peer = &peer;
	shared.stop = false;
	shared.good = shared.revoked = 0;
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, writer, (void *)i);
	for (round = 0; round < n; round++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, peer.addr, SIZE, ALL_ACCESS);
		struct ibv_mr *layout = empty_region();
		struct ibv_sge piece;

		if (!CHECK(mr, "round %u: %m", round))
			break;
		piece = sge(peer.addr, SIZE, mr);
		CHECK_EQ(set_layout_sg(layout, &piece, 1), 0);
		shared.direct = mr->rkey;
		shared.layout = layout->rkey;
		usleep(round % 4 * 100);
		CHECK_EQ(peer_invalidate(&peer, round & 1 ? MRX_PEER_HOLDING_LOCK : 0), 1);
		memset(peer.addr, OLD, SIZE);
		sched_yield();
		check_old(&peer, round);
		shared.direct = shared.layout = 0;
		CHECK_EQ(ibv_dereg_mr(layout), 0);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		check_old(&peer, round);
	}
	shared.stop = true;
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	counters = peer_counters(&peer);
	printf("# %u rounds, %lu writes arrived, %lu came too late\n", round,
	       (unsigned long)shared.good, (unsigned long)shared.revoked);
	CHECK(shared.good && shared.revoked, "the load was none");
	EXPECT_CALLS(&peer, CALLS(n, n, n, kind == CLASSIC ? n : 0, kind == CLASSIC ? n : 0, n, n));
	CHECK_EQ(counters.invalidations, n);
	CHECK_EQ(counters.active, 0);
	peer_close(&peer);
	unregister_client(0);
}

static void test_classic(void)
{
	under_load(CLASSIC);
}

static void test_unmaps(void)
{
	under_load(UNMAPS);
}

/* --- everything at once --- */

static void *invalidator(void *arg)
{
	while (!shared.stop)
		peer_invalidate(arg, rand() & MRX_PEER_HOLDING_LOCK);
	return NULL;
}

static void *registrar(void *arg)
{
	struct peer *peer = arg;

	while (!shared.stop) {
		struct ibv_mr *mr = ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS);

		if (!mr) {
			CHECK_EQ(errno, EFAULT);
			continue;
		}
		shared.direct = mr->rkey;
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
	return NULL;
}

static void race(int kind)
{
	pthread_t threads[5];
	struct mrx_peer_counters c;
	unsigned int i, n = rounds() / 40 + 1;
	struct peer peer;

	CHECK_EQ(register_kind(0, kind), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	shared.peer = &peer;
	shared.stop = false;
	pthread_create(&threads[0], NULL, writer, (void *)0);
	pthread_create(&threads[1], NULL, invalidator, &peer);
	pthread_create(&threads[2], NULL, invalidator, &peer);
	pthread_create(&threads[3], NULL, registrar, &peer);
	pthread_create(&threads[4], NULL, registrar, &peer);
	for (i = 0; i < n; i++) {
		usleep(10000);
		unregister_client(0);
		CHECK_EQ(register_kind(0, kind), 0);
	}
	shared.stop = true;
	for (i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	c = peer_counters(&peer);
	printf("# %llu ranges, %llu invalidations\n", (unsigned long long)c.calls[MRX_PEER_ACQUIRE],
	       (unsigned long long)c.invalidations);
	CHECK_EQ(c.active, 0);
	CHECK(!c.violations, "%llu violations, first: %s", (unsigned long long)c.violations,
	      c.violation);
	CHECK_EQ(c.calls[MRX_PEER_RELEASE], c.good[MRX_PEER_ACQUIRE]);
	if (kind != UNMAPS) {
		CHECK_EQ(c.calls[MRX_PEER_PUT_PAGES], c.good[MRX_PEER_GET_PAGES]);
		CHECK_EQ(c.calls[MRX_PEER_DMA_UNMAP], c.good[MRX_PEER_DMA_MAP]);
	}
	peer_close(&peer);
	unregister_client(0);
}

static void test_race_classic(void)
{
	race(CLASSIC);
}

static void test_race_unmaps(void)
{
	race(UNMAPS);
}

/* --- two who meet at the end of a range --- */

static struct {
	atomic_uint started, ended; /* rounds */
	atomic_bool company; /* somebody else may be undoing the range */
	atomic_uint elsewhere; /* rounds in which somebody else was */
} meeting;

/* Another while each round, so that the two meet at one moment or another. */
static void dawdle(unsigned int round)
{
	volatile unsigned int i;

	for (i = 0; i < round % 61 * 200; i++)
		;
}

/* Whether dma_unmap and put_pages have been called, and have returned, once a round. */
static bool undone(const struct peer *peer, unsigned int round)
{
	struct mrx_peer_counters c = peer_counters(peer);

	return c.calls[MRX_PEER_DMA_UNMAP] == round && c.calls[MRX_PEER_PUT_PAGES] == round;
}

/* Takes the range of each round back. */
static void *taker(void *arg)
{
	unsigned int round;

	for (round = 1;; round++) {
		while (meeting.started < round) {
			if (shared.stop)
				return NULL;
			sched_yield();
		}
		dawdle(round);
		peer_invalidate(arg, round & 1 ? MRX_PEER_HOLDING_LOCK : 0);
		/* What is left to undo, only somebody else can be about to. */
		if (!undone(arg, round) &&
		    CHECK(meeting.company, "round %u: it was not undone", round))
			meeting.elsewhere++;
		meeting.ended = round;
	}
}

static void wait_for_taker(unsigned int round)
{
	while (meeting.ended < round)
		sched_yield();
}

static void deregister_meanwhile(struct peer *peer, struct ibv_mr *mr, unsigned int round)
{
	meeting.company = true;
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK(undone(peer, round), "round %u: it was not undone", round);
	wait_for_taker(round);
}

static void invalidate_meanwhile(struct peer *peer, struct ibv_mr *mr, unsigned int round)
{
	meeting.company = true;
	peer_invalidate(peer, 0);
	wait_for_taker(round);
	/* one does what the other leaves to it */
	CHECK(undone(peer, round), "round %u: it was not undone", round);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

static void meet(void (*meanwhile)(struct peer *, struct ibv_mr *, unsigned int))
{
	unsigned int round, n = rounds();
	struct peer peer;
	pthread_t thread;

	CHECK_EQ(register_kind(0, CLASSIC), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	shared.stop = false;
	meeting.started = meeting.ended = meeting.elsewhere = 0;
	pthread_create(&thread, NULL, taker, &peer);
	for (round = 1; round <= n; round++) {
		struct ibv_mr *mr = ibv_reg_mr(pd, peer.addr, SIZE, ALL_ACCESS);

		if (!CHECK(mr, "round %u: %m", round))
			break;
		meeting.company = false;
		meeting.started = round;
		dawdle(7 * round);
		meanwhile(&peer, mr, round);
	}
	shared.stop = true;
	pthread_join(thread, NULL);
	printf("# %u rounds, in %u of them somebody else was about to undo the range\n", n,
	       (unsigned int)meeting.elsewhere);
	EXPECT_CALLS(&peer, CALLS(n, n, n, n, n, n, n));
	CHECK_EQ(peer_counters(&peer).active, 0);
	peer_close(&peer);
	unregister_client(0);
}

static void test_meets_deregistration(void)
{
	meet(deregister_meanwhile);
}

static void test_meets_invalidation(void)
{
	meet(invalidate_meanwhile);
}

/* A process that registers, writes and deregisters until it is killed. */
static void be_killed(struct peer *peer)
{
	void *host = host_alloc(SIZE);
	struct ibv_mr *mr, *host_mr;
	struct link link;

	open_device();
	host_mr = ibv_reg_mr(pd, host, SIZE, ALL_ACCESS);
	link_open(&link);
	for (;;) {
		mr = ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS);
		if (!mr)
			continue;
		if (transfer(&link, IBV_WR_RDMA_WRITE, sge(host, SIZE, host_mr),
			     (uintptr_t)peer->addr, mr->rkey) != IBV_WC_SUCCESS)
			link_repair(&link);
		ibv_dereg_mr(mr);
	}
}

static void kill_race(int kind)
{
	unsigned int i, n = rounds() / 40 + 1;
	struct mrx_peer_counters c;
	pthread_t thread;
	struct peer peer;
	pid_t child;

	CHECK_EQ(register_kind(0, kind), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	shared.stop = false;
	pthread_create(&thread, NULL, invalidator, &peer);
	for (i = 0; i < n; i++) {
		unsigned long long before = peer_counters(&peer).calls[MRX_PEER_ACQUIRE];

		child = fork_tied();
		if (!child)
			be_killed(&peer);
		while (peer_counters(&peer).calls[MRX_PEER_ACQUIRE] == before)
			sched_yield();
		usleep(rand() % 20000);
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	shared.stop = true;
	pthread_join(thread, NULL);
	c = peer_counters(&peer);
	printf("# %u processes, %llu ranges, %llu invalidations\n", n,
	       (unsigned long long)c.calls[MRX_PEER_ACQUIRE],
	       (unsigned long long)c.invalidations);
	CHECK_EQ(c.active, 0);
	CHECK(!c.violations, "%llu violations, first: %s", (unsigned long long)c.violations,
	      c.violation);
	CHECK_EQ(c.calls[MRX_PEER_RELEASE], c.good[MRX_PEER_ACQUIRE]);
	peer_close(&peer);
	unregister_client(0);
}

static void test_kill_race(void)
{
	kill_race(CLASSIC);
	kill_race(UNMAPS);
}

const struct test stress_tests[] = {
	{ "8 threads write while memory is taken back", test_classic },
	{ "8 threads write while a client takes memory back that unmaps it", test_unmaps },
	{ "registration, deregistration, invalidation and unregistration race", test_race_classic },
	{ "the same with a client that unmaps what it takes back", test_race_unmaps },
	{ "an invalidation meets a deregistration", test_meets_deregistration },
	{ "an invalidation meets another one", test_meets_invalidation },
	{ "processes are killed while their memory is taken back", test_kill_race },
	{ NULL, NULL },
};
