// SPDX-License-Identifier: GPL-2.0
/* Memory that its client takes back, at any moment. */
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define SIZE 65536

static void with_kind(int kind, void (*f)(struct peer *, int kind))
{
	struct peer peer;

	CHECK_EQ(register_kind(0, kind), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	f(&peer, kind);
	CHECK_EQ(peer_counters(&peer).active, 0);
	CHECK_EQ(peer_counters(&peer).violations, 0);
	peer_close(&peer);
	unregister_client(0);
}

/* classic clients, and those that unmap what they take back */
static void with_both(void (*f)(struct peer *, int kind))
{
	with_kind(CLASSIC, f);
	with_kind(UNMAPS, f);
}

static struct ibv_mr *reg(struct peer *peer)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS);

	CHECK(mr, "ibv_reg_mr: %m");
	return mr;
}

/* dma_unmap and put_pages are called for classic clients only */
#define UNDONE (kind == CLASSIC)

static void no_access(struct peer *peer, int kind)
{
	struct ibv_mr *mr = reg(peer), *layout = empty_region(), *host_mr;
	void *host = host_alloc(SIZE);
	struct ibv_sge piece;
	struct link link;

	host_mr = ibv_reg_mr(pd, host, SIZE, ALL_ACCESS);
	piece = sge(peer->addr + 10, 1000, mr);
	CHECK_EQ(set_layout_sg(layout, &piece, 1), 0);
	link_open(&link);
	fill(host, SIZE, 1);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_WRITE, sge(host, SIZE, host_mr),
			  (uintptr_t)peer->addr, mr->rkey), IBV_WC_SUCCESS);

	CHECK_EQ(peer_invalidate(peer, 0), 1);
	EXPECT_CALLS(peer, CALLS(1, 1, 1, UNDONE, UNDONE, 1, 0));
	memset(peer->addr, 0x5a, SIZE);

	/* as the target, as the source, through a layout */
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_WRITE, sge(host, 100, host_mr),
			  (uintptr_t)peer->addr, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	link_repair(&link);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_READ, sge(host, 100, host_mr),
			  (uintptr_t)peer->addr, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	link_repair(&link);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_WRITE, sge(peer->addr, 100, mr),
			  (uintptr_t)host, host_mr->rkey), IBV_WC_LOC_PROT_ERR);
	link_repair(&link);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_WRITE, sge(host, 100, host_mr), 0, layout->rkey),
		 IBV_WC_REM_ACCESS_ERR);
	link_repair(&link);
	CHECK_EQ(((uint8_t *)peer->addr)[0], 0x5a);
	CHECK_EQ(((uint8_t *)peer->addr)[10], 0x5a);
	filled(host, SIZE, 1, 0);

	/* the region stays until it is deregistered, by the rules of all regions */
	CHECK_EQ(ibv_dereg_mr(mr), EBUSY);
	CHECK_EQ(ibv_dereg_mr(layout), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, CALLS(1, 1, 1, UNDONE, UNDONE, 1, 1));
	CHECK_EQ(ibv_dereg_mr(host_mr), 0);
	link_close(&link);
	host_free(host, SIZE);
}

static void test_no_access(void)
{
	with_both(no_access);
}

static void odd_ways(struct peer *peer, int kind)
{
	struct ibv_mr *mr = reg(peer);

	CHECK_EQ(peer_invalidate(peer, MRX_PEER_GARBAGE), 0);
	EXPECT_CALLS(peer, CALLS(1, 1, 1, 0, 0, 1, 0));
	CHECK_EQ(peer_invalidate(peer, MRX_PEER_TWICE | MRX_PEER_HOLDING_LOCK), 1);
	EXPECT_CALLS(peer, CALLS(1, 1, 1, UNDONE, UNDONE, 1, 0));
	CHECK_EQ(peer_invalidate(peer, 0), 1);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(peer_invalidate(peer, 0), 0);
	CHECK_EQ(peer_invalidate(peer, MRX_PEER_FINISHED), 0);
	EXPECT_CALLS(peer, CALLS(1, 1, 1, UNDONE, UNDONE, 1, 1));

	/* the next region has a ticket of its own */
	mr = reg(peer);
	CHECK_EQ(peer_invalidate(peer, MRX_PEER_HOLDING_LOCK), 1);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, CALLS(2, 2, 2, 2 * UNDONE, 2 * UNDONE, 2, 2));
}

static void test_odd_ways(void)
{
	with_both(odd_ways);
}

/* A region of a client that never asked to take memory back is not taken back. */
static void fixed(struct peer *peer, int kind)
{
	struct ibv_mr *mr = reg(peer);

	CHECK_EQ(peer_counters(peer).ticket, 0);
	CHECK_EQ(peer_invalidate(peer, 0), 0);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, ALL_ONCE);
	(void)kind;
}

static void test_fixed(void)
{
	with_kind(FIXED, fixed);
}

/* --- from inside of callbacks --- */

static void inside(struct peer *peer, int kind)
{
	struct mrx_peer_fault fault = { NO_FAULT };
	struct ibv_mr *mr;

	/* before the region exists: it comes into being not at all */
	fault.invalidate = MRX_PEER_GET_PAGES;
	peer_fault(peer, fault);
	CHECK(!ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS));
	CHECK_EQ(errno, EFAULT);
	EXPECT_CALLS(peer, CALLS(1, 1, 0, 0, UNDONE, 0, 1));

	fault.invalidate = MRX_PEER_GET_PAGE_SIZE;
	peer_fault(peer, fault);
	CHECK(!ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS));
	EXPECT_CALLS(peer, CALLS(2, 2, 0, 0, 2 * UNDONE, 1, 2));

	fault.invalidate = MRX_PEER_DMA_MAP;
	peer_fault(peer, fault);
	CHECK(!ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS));
	EXPECT_CALLS(peer, CALLS(3, 3, 1, UNDONE, 3 * UNDONE, 2, 3));

	/* while the region ends */
	fault.invalidate = MRX_PEER_DMA_UNMAP;
	peer_fault(peer, fault);
	mr = reg(peer);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, CALLS(4, 4, 2, 1 + UNDONE, 4 * UNDONE, 3, 4));

	fault.invalidate = MRX_PEER_PUT_PAGES;
	peer_fault(peer, fault);
	mr = reg(peer);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, CALLS(5, 5, 3, 2 + UNDONE, 1 + 4 * UNDONE, 4, 5));

	fault.invalidate = MRX_PEER_RELEASE;
	peer_fault(peer, fault);
	mr = reg(peer);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, CALLS(6, 6, 4, 3 + UNDONE, 2 + 4 * UNDONE, 5, 6));
	CHECK_EQ(peer_counters(peer).invalidations, 6);
}

static void test_inside(void)
{
	with_both(inside);
}

/* --- while something else goes on --- */

static void *register_later(void *arg)
{
	struct peer *peer = arg;

	return ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS);
}

static void *invalidate_holding_lock(void *arg)
{
	peer_invalidate(arg, MRX_PEER_HOLDING_LOCK);
	return NULL;
}

static void *invalidate_plainly(void *arg)
{
	peer_invalidate(arg, 0);
	return NULL;
}

static void *deregister(void *arg)
{
	CHECK_EQ(ibv_dereg_mr(arg), 0);
	return NULL;
}

static struct mrx_peer_fault slow(int step)
{
	return (struct mrx_peer_fault){ NO_FAULT, .delay = step, .delay_ms = 100 };
}

static void pause_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

/* Waits until a thread that registers is inside of get_pages, or of dma_map. */
static void wait_for_step(struct peer *peer, const struct mrx_peer_counters *before, int step)
{
	struct mrx_peer_counters now;

	do {
		usleep(1000);
		now = peer_counters(peer);
	} while (step == MRX_PEER_GET_PAGES ? now.ticket == before->ticket :
		 now.calls[MRX_PEER_GET_PAGE_SIZE] == before->calls[MRX_PEER_GET_PAGE_SIZE]);
}

static void during_registration(struct peer *peer, int kind)
{
	static const int steps[] = { MRX_PEER_GET_PAGES, MRX_PEER_DMA_MAP };
	unsigned int i, dma = 0;
	pthread_t thread;
	void *mr;

	for (i = 0; i < 2; i++) {
		struct mrx_peer_fault fault = slow(steps[i]);
		struct mrx_peer_counters before = peer_counters(peer);

		fault.delay_ms = 500;
		peer_fault(peer, fault);
		pthread_create(&thread, NULL, register_later, peer);
		wait_for_step(peer, &before, steps[i]);
		pause_ms(20);
		/* returns while the other thread is still inside of the callback */
		CHECK_EQ(peer_invalidate(peer, MRX_PEER_HOLDING_LOCK), 1);
		CHECK_EQ(peer_counters(peer).calls[MRX_PEER_RELEASE], i);
		pthread_join(thread, &mr);
		if (!CHECK(!mr, "it was registered"))
			ibv_dereg_mr(mr);
		dma += i;
		EXPECT_CALLS(peer, CALLS(i + 1, i + 1, dma, dma * UNDONE, (i + 1) * UNDONE, dma,
					 i + 1));
	}
}

static void test_during_registration(void)
{
	with_both(during_registration);
}

/* The callback takes the lock that the one who invalidates holds. */
static void during_deregistration(struct peer *peer, int kind)
{
	struct ibv_mr *mr;
	pthread_t a, b;
	int i;

	for (i = 0; i < 3; i++) {
		peer_fault(peer, slow(i == 0 ? MRX_PEER_DMA_UNMAP : i == 1 ? MRX_PEER_PUT_PAGES :
				      MRX_PEER_RELEASE));
		mr = reg(peer);
		pthread_create(&a, NULL, deregister, mr);
		pause_ms(50);
		pthread_create(&b, NULL, invalidate_holding_lock, peer);
		pthread_join(b, NULL);
		pthread_join(a, NULL);
		CHECK_EQ(peer_counters(peer).calls[MRX_PEER_RELEASE], i + 1);
		CHECK_EQ(peer_counters(peer).calls[MRX_PEER_DMA_UNMAP], i + 1);
	}
	(void)kind;
}

static void test_during_deregistration(void)
{
	with_both(during_deregistration);
}

/* Deregistration comes while the invalidation unmaps: the release comes after. */
static void deregistration_during(struct peer *peer, int kind)
{
	struct ibv_mr *mr;
	pthread_t a;
	int i;

	for (i = 0; i < 2; i++) {
		peer_fault(peer, slow(i ? MRX_PEER_PUT_PAGES : MRX_PEER_DMA_UNMAP));
		mr = reg(peer);
		pthread_create(&a, NULL, i ? invalidate_holding_lock : invalidate_plainly, peer);
		pause_ms(50);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		EXPECT_CALLS(peer, CALLS(i + 1, i + 1, i + 1, i + 1, i + 1, i + 1, i + 1));
		pthread_join(a, NULL);
	}
	(void)kind;
}

static void test_deregistration_during(void)
{
	with_kind(CLASSIC, deregistration_during);
}

static void *unregister_later(void *arg)
{
	unregister_client(0);
	return arg;
}

static void test_unregistration(void)
{
	pthread_t unregister, invalidate;
	struct ibv_mr *mr, *late;
	struct peer peer;
	int kind;

	for (kind = CLASSIC; kind <= FIXED; kind++) {
		CHECK_EQ(register_kind(0, kind), 0);
		CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
		peer_fault(&peer, slow(MRX_PEER_PUT_PAGES));
		mr = reg(&peer);
		pthread_create(&unregister, NULL, unregister_later, NULL);
		pause_ms(200);
		/* it waits, and asks the client no more */
		late = ibv_reg_mr(pd, peer.addr, SIZE, ALL_ACCESS);
		if (CHECK(!late, "it was registered"))
			CHECK_EQ(errno, EFAULT);
		else
			ibv_dereg_mr(late);
		CHECK_EQ(asked(0), 1);
		/* and the region works, and can be taken back */
		pthread_create(&invalidate, NULL, invalidate_holding_lock, &peer);
		pause_ms(20);
		CHECK_EQ(register_kind(1, kind), 0);
		unregister_client(1);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		pthread_join(invalidate, NULL);
		pthread_join(unregister, NULL);
		EXPECT_CALLS(&peer, CALLS(1, 1, 1, kind != UNMAPS, kind != UNMAPS, 1, 1));
		peer_close(&peer);
	}
}

/* A process dies with regions that nobody deregisters, and one that was taken back. */
static void kill_process(struct peer *peer, int kind)
{
	int ready[2], status;
	struct ibv_mr *mr;
	struct ibv_sge piece;
	pid_t child;
	char byte = 0;

	need(!pipe(ready), "pipe");
	child = fork_tied();
	if (!child) {
		open_device();
		reg(peer);
		peer_invalidate(peer, 0);
		mr = reg(peer);
		piece = sge(peer->addr, 1000, mr);
		if (set_layout_sg(empty_region(), &piece, 1))
			byte = 1;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		pause();
	}
	need(read(ready[0], &byte, 1) == 1, "the child");
	CHECK_EQ(byte, 0);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	close(ready[0]);
	close(ready[1]);
	EXPECT_CALLS(peer, CALLS(2, 2, 2, 1 + UNDONE, 1 + UNDONE, 2, 2));
}

static void test_kill(void)
{
	with_both(kill_process);
}

const struct test revoke_tests[] = {
	{ "after an invalidation nothing reaches the memory", test_no_access },
	{ "twice, too late, with a lock held, and with garbage", test_odd_ways },
	{ "memory of a client that did not ask for it is never taken back", test_fixed },
	{ "an invalidation from inside of each callback", test_inside },
	{ "an invalidation while the region is registered", test_during_registration },
	{ "an invalidation while the region is deregistered", test_during_deregistration },
	{ "a deregistration while the region is invalidated", test_deregistration_during },
	{ "an unregistration waits for regions, and for nothing else", test_unregistration },
	{ "a process is killed", test_kill },
	{ NULL, NULL },
};
