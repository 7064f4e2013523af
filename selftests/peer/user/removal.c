// SPDX-License-Identifier: GPL-2.0
/* The device goes while regions of a client are on it. Ends the use of it. */
#include <stdlib.h>

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

const struct test removal_tests[] = {
	{ "the link is removed", test_link_removal },
	{ NULL, NULL },
};
