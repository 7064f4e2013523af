// SPDX-License-Identifier: GPL-2.0
/* Regions that get other memory, or other rights, while they exist. */
#include "test.h"

#define SIZE 65536

/* What a region is made of, how it is known to have its bytes, and for whom. */
struct side {
	struct peer peer;
	void *host, *host2;
	struct ibv_mr *host_mr;
	struct link link;
};

static void open_side(struct side *side)
{
	CHECK_EQ(register_kind(0, CLASSIC), 0);
	CHECK_EQ(peer_open(&side->peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	side->host = host_alloc(SIZE);
	side->host2 = host_alloc(SIZE);
	side->host_mr = ibv_reg_mr(pd, side->host, SIZE, ALL_ACCESS);
	need(side->host_mr, "ibv_reg_mr");
	link_open(&side->link);
}

static void close_side(struct side *side)
{
	link_close(&side->link);
	CHECK_EQ(ibv_dereg_mr(side->host_mr), 0);
	host_free(side->host, SIZE);
	host_free(side->host2, SIZE);
	CHECK_EQ(peer_counters(&side->peer).active, 0);
	CHECK_EQ(peer_counters(&side->peer).violations, 0);
	peer_close(&side->peer);
	unregister_client(0);
}

/* Writes through the region, and looks for the bytes where they belong. */
static void expect_bytes_at(struct side *side, const struct ibv_mr *mr, void *at,
			    unsigned int seed)
{
	fill(side->host, 1000, seed);
	CHECK_EQ(transfer(&side->link, IBV_WR_RDMA_WRITE, sge(side->host, 1000, side->host_mr),
			  (uintptr_t)at, mr->rkey), IBV_WC_SUCCESS);
	filled(at, 1000, seed, 0);
}

static void test_memory(void)
{
	struct side side;
	struct ibv_mr *mr;
	void *peer;

	open_side(&side);
	peer = side.peer.addr;
	mr = ibv_reg_mr(pd, side.host2, SIZE, ALL_ACCESS);
	need(mr, "ibv_reg_mr");

	/* from host memory to the client's */
	CHECK_EQ(change_memory(mr, peer, SIZE), 0);
	EXPECT_CALLS(&side.peer, CALLS(1, 1, 1, 0, 0, 1, 0));
	expect_bytes_at(&side, mr, peer, 1);
	/* to another part of it: the new one is acquired before the old one is released */
	CHECK_EQ(change_memory(mr, peer + 8192, 8192), 0);
	EXPECT_CALLS(&side.peer, CALLS(2, 2, 2, 1, 1, 2, 1));
	expect_bytes_at(&side, mr, peer + 8192, 2);
	/* what is taken back can be changed for something else */
	CHECK_EQ(peer_invalidate(&side.peer, 0), 1);
	EXPECT_CALLS(&side.peer, CALLS(2, 2, 2, 2, 2, 2, 1));
	CHECK_EQ(change_memory(mr, side.host2, SIZE), 0);
	EXPECT_CALLS(&side.peer, CALLS(2, 2, 2, 2, 2, 2, 2));
	expect_bytes_at(&side, mr, side.host2, 3);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	close_side(&side);
}

static void test_refusals(void)
{
	struct mrx_peer_fault fault = { NO_FAULT, .fail = MRX_PEER_DMA_MAP, .error = -ENOSPC };
	struct side side;
	struct ibv_mr *mr;
	void *peer;

	open_side(&side);
	peer = side.peer.addr;
	mr = ibv_reg_mr(pd, peer, SIZE, ALL_ACCESS);
	need(mr, "ibv_reg_mr");

	CHECK_EQ(change_access(mr, IBV_ACCESS_LOCAL_WRITE), EOPNOTSUPP);
	expect_bytes_at(&side, mr, peer, 1);
	peer_fault(&side.peer, fault);
	CHECK_EQ(change_memory(mr, peer + 4096, 4096), ENOSPC);
	EXPECT_CALLS(&side.peer, CALLS(2, 2, 2, 0, 1, 2, 1));
	expect_bytes_at(&side, mr, peer, 2);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(&side.peer, CALLS(2, 2, 2, 1, 2, 2, 2));
	close_side(&side);
}

const struct test change_tests[] = {
	{ "a region changes between memory of the client and of the process", test_memory },
	{ "a change that is refused leaves the region as it was", test_refusals },
	{ NULL, NULL },
};
