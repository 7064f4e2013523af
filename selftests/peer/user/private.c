// SPDX-License-Identifier: GPL-2.0
/* Data that a client keeps for verbs contexts. */
#include "test.h"

#define SIZE 65536

static int register_private(unsigned int slot)
{
	struct mrx_peer_register how = { .slot = slot, .version = "1.0" };

	snprintf(how.name, sizeof(how.name), "mrx_private");
	how.version[15] = 2;
	return register_client(how);
}

/* What the client was told when it was asked last. */
static void expect_told(struct peer *peer, uint64_t id)
{
	struct mrx_peer_counters counters = peer_counters(peer);

	CHECK_EQ(counters.private_id, id);
	CHECK(!strcmp(counters.private_name, id ? "mrx_private" : ""), "%s",
	      counters.private_name);
}

static void expect_private(struct ibv_pd *domain, struct peer *peer, uint64_t id)
{
	struct ibv_mr *mr = ibv_reg_mr(domain, peer->addr, SIZE, ALL_ACCESS);

	if (!CHECK(mr, "ibv_reg_mr: %m"))
		return;
	expect_told(peer, id);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
}

/* The same of a region of host memory that gets the client's instead. */
static void expect_private_later(struct ibv_pd *domain, struct peer *peer, uint64_t id)
{
	void *host = host_alloc(SIZE);
	struct ibv_mr *mr = ibv_reg_mr(domain, host, SIZE, ALL_ACCESS);

	if (CHECK(mr, "ibv_reg_mr: %m")) {
		CHECK_EQ(change_memory(mr, peer->addr, SIZE), 0);
		expect_told(peer, id);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
	}
	host_free(host, SIZE);
}

static void test_private_data(void)
{
	static const char name[64] = "mrx_private", other[64] = "mrx_c_1", nobody[64] = "nobody";
	char endless[64];
	struct ibv_context *second;
	struct ibv_pd *domain;
	struct peer peer;

	memset(endless, 'x', sizeof(endless));
	CHECK_EQ(register_private(0), 0);
	CHECK_EQ(register_kind(1, CLASSIC), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 3), 0);
	second = ibv_open_device(context->device);
	need(second, "ibv_open_device");
	domain = ibv_alloc_pd(second);
	need(domain, "ibv_alloc_pd");

	expect_private(domain, &peer, 0);
	CHECK_EQ(set_peer_context(second, nobody, 7), ENOENT);
	CHECK_EQ(set_peer_context(second, endless, 7), EINVAL);
	CHECK_EQ(set_peer_context(second, other, 7), EOPNOTSUPP);
	CHECK_EQ(set_peer_context(second, name, 0), EACCES);
	CHECK_EQ(contexts(), 0);
	expect_private(domain, &peer, 0);

	CHECK_EQ(set_peer_context(second, name, 7), 0);
	CHECK_EQ(contexts(), 1);
	expect_private(domain, &peer, 7);
	/* it is of this context only, and can be set anew */
	expect_private(pd, &peer, 0);
	CHECK_EQ(set_peer_context(second, name, 8), 0);
	CHECK_EQ(contexts(), 1);
	expect_private(domain, &peer, 8);
	/* what is refused changes nothing */
	CHECK_EQ(set_peer_context(second, name, 0), EACCES);
	expect_private(domain, &peer, 8);
	expect_private_later(pd, &peer, 0);
	expect_private_later(domain, &peer, 8);

	CHECK_EQ(ibv_dealloc_pd(domain), 0);
	CHECK_EQ(ibv_close_device(second), 0);
	CHECK_EQ(contexts(), 0);
	peer_close(&peer);
	unregister_client(0);
	unregister_client(1);
}

const struct test private_tests[] = {
	{ "a context bears the data that its client keeps for it", test_private_data },
	{ NULL, NULL },
};
