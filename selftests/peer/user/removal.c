// SPDX-License-Identifier: GPL-2.0
/* The device goes, or the client, while regions of the client exist. Ends the use of it. */
#include <stdlib.h>
#include <unistd.h>

#include "test.h"

#define SIZE 65536

static void test_link_removal(void)
{
	struct peer kinds[3];
	int kind;

	for (kind = CLASSIC; kind <= FIXED; kind++) {
		CHECK_EQ(register_kind(kind, kind), 0);
		CHECK_EQ(peer_open(&kinds[kind], MRX_PEER_SCATTERED, SIZE, 1 << kind), 0);
		CHECK(ibv_reg_mr(pd, kinds[kind].addr, SIZE, ALL_ACCESS), "ibv_reg_mr: %m");
	}
	/* one more of each, which is taken back before */
	for (kind = CLASSIC; kind <= UNMAPS; kind++) {
		CHECK_EQ(peer_invalidate(&kinds[kind], 0), 1);
		CHECK(ibv_reg_mr(pd, kinds[kind].addr, SIZE, ALL_ACCESS), "ibv_reg_mr: %m");
	}
	CHECK_EQ(system("rdma link delete rxe_mrx0"), 0);
	EXPECT_CALLS(&kinds[CLASSIC], CALLS(2, 2, 2, 2, 2, 2, 2));
	EXPECT_CALLS(&kinds[UNMAPS], CALLS(2, 2, 2, 1, 1, 2, 2));
	EXPECT_CALLS(&kinds[FIXED], ALL_ONCE);
	for (kind = CLASSIC; kind <= FIXED; kind++) {
		CHECK_EQ(peer_counters(&kinds[kind]).active, 0);
		unregister_client(kind);
		peer_close(&kinds[kind]);
	}
}

static bool is_loaded(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/module/mrx_peer_%s", client);
	return !access(path, F_OK);
}

/*
 * The client is unloaded while a region is all that is left of its memory: the
 * process has neither the mapping nor the file any more.
 */
static void test_unloading(void)
{
	struct ibv_mr *mr, *host_mr;
	void *host = host_alloc(SIZE);
	struct peer peer;
	struct link link;
	char command[64];
	unsigned int i;
	uint64_t addr;

	host_mr = ibv_reg_mr(pd, host, SIZE, ALL_ACCESS);
	need(host_mr, "ibv_reg_mr");
	link_open(&link);
	CHECK_EQ(register_kind(0, CLASSIC), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	mr = ibv_reg_mr(pd, peer.addr, SIZE, ALL_ACCESS);
	need(mr, "ibv_reg_mr");
	addr = (uintptr_t)peer.addr;
	peer_close(&peer);
	close_client();

	snprintf(command, sizeof(command), "rmmod mrx_peer_%s &", client);
	CHECK_EQ(system(command), 0);
	usleep(500 * 1000);
	CHECK(is_loaded(), "it went while there was a region");
	/* the region works to its end */
	fill(host, SIZE, 1);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_WRITE, sge(host, SIZE, host_mr), addr, mr->rkey),
		 IBV_WC_SUCCESS);
	memset(host, 0, SIZE);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_READ, sge(host, SIZE, host_mr), addr, mr->rkey),
		 IBV_WC_SUCCESS);
	filled(host, SIZE, 1, 0);
	CHECK(is_loaded(), "it went while there was a region");
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	for (i = 0; i < 200 && is_loaded(); i++)
		usleep(50 * 1000);
	CHECK(!is_loaded(), "it does not go");
	CHECK_EQ(ibv_dereg_mr(host_mr), 0);
	link_close(&link);
	host_free(host, SIZE);
}

const struct test outliving_tests[] = {
	{ "a client that is unloaded waits for its regions", test_unloading },
	{ NULL, NULL },
};

const struct test removal_tests[] = {
	{ "the link is removed", test_link_removal },
	{ NULL, NULL },
};
