// SPDX-License-Identifier: GPL-2.0
/* Who is asked, in which order, and how often. */
#include <fcntl.h>
#include <unistd.h>

#include "test.h"

#define SIZE 65536

/* --- the calls for a range --- */

static void with_peer(int kind, void (*f)(struct peer *))
{
	struct peer peer;

	CHECK_EQ(register_kind(0, kind), 0);
	CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
	f(&peer);
	CHECK_EQ(peer_counters(&peer).active, 0);
	peer_close(&peer);
	unregister_client(0);
}

static void register_and_deregister(struct peer *peer)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS);
	struct mrx_peer_counters counters;

	if (!CHECK(mr, "ibv_reg_mr: %m"))
		return;
	EXPECT_CALLS(peer, CALLS(1, 1, 1, 0, 0, 1, 0));
	counters = peer_counters(peer);
	CHECK_EQ(counters.write, 1);
	CHECK_EQ(counters.force, 0);
	CHECK(!strcmp(counters.device, "rxe_mrx0"), "device %s", counters.device);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, ALL_ONCE);

	mr = ibv_reg_mr(pd, peer->addr, SIZE, IBV_ACCESS_REMOTE_READ);
	CHECK(mr, "ibv_reg_mr to read: %m");
	CHECK_EQ(peer_counters(peer).write, 1);
	CHECK_EQ(peer_counters(peer).force, 1);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, CALLS(2, 2, 2, 2, 2, 2, 2));
}

static void test_success(void)
{
	with_peer(CLASSIC, register_and_deregister);
	with_peer(UNMAPS, register_and_deregister);
	with_peer(FIXED, register_and_deregister);
}

static void expect_failure(struct mrx_peer_fault fault, int error,
			   const unsigned int calls[MRX_PEER_STEPS])
{
	struct ibv_mr *mr;
	struct peer peer;
	int kind;

	for (kind = CLASSIC; kind <= FIXED; kind++) {
		CHECK_EQ(register_kind(0, kind), 0);
		CHECK_EQ(peer_open(&peer, MRX_PEER_SCATTERED, SIZE, 1), 0);
		peer_fault(&peer, fault);
		errno = 0;
		mr = ibv_reg_mr(pd, peer.addr + 100, SIZE - 5000, ALL_ACCESS);
		CHECK(!mr, "it was registered");
		CHECK_EQ(errno, error);
		expect_calls(&peer, calls);
		CHECK_EQ(peer_counters(&peer).active, 0);
		if (mr)
			ibv_dereg_mr(mr);
		peer_close(&peer);
		unregister_client(0);
	}
}
#define EXPECT_FAILURE(fault, error, ...) \
	expect_failure(fault, error, (const unsigned int[MRX_PEER_STEPS]){ __VA_ARGS__ })

static struct mrx_peer_fault failing(int step, int error)
{
	return (struct mrx_peer_fault){ NO_FAULT, .fail = step, .error = error };
}

static void fail_dma_unmap(struct peer *peer)
{
	struct ibv_mr *mr;

	peer_fault(peer, failing(MRX_PEER_DMA_UNMAP, -EIO));
	mr = ibv_reg_mr(pd, peer->addr, SIZE, ALL_ACCESS);
	CHECK(mr, "ibv_reg_mr: %m");
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	EXPECT_CALLS(peer, ALL_ONCE);
}

static void test_each_step_fails(void)
{
	EXPECT_FAILURE(failing(MRX_PEER_ACQUIRE, -EIO), EFAULT, CALLS(1, 0, 0, 0, 0, 0, 0));
	EXPECT_FAILURE(failing(MRX_PEER_GET_PAGES, -ENOSPC), ENOSPC, CALLS(1, 1, 0, 0, 0, 0, 1));
	EXPECT_FAILURE(failing(MRX_PEER_GET_PAGES, 7), EINVAL, CALLS(1, 1, 0, 0, 0, 0, 1));
	EXPECT_FAILURE(failing(MRX_PEER_GET_PAGES, -100000), EINVAL, CALLS(1, 1, 0, 0, 0, 0, 1));
	EXPECT_FAILURE(failing(MRX_PEER_DMA_MAP, -ENOMEM), ENOMEM, CALLS(1, 1, 1, 0, 1, 1, 1));
	with_peer(CLASSIC, fail_dma_unmap);
	with_peer(UNMAPS, fail_dma_unmap);
}

static void test_page_sizes(void)
{
	static const uint64_t sizes[] = { 3, 3000, 4097, UINT64_MAX, (1ULL << 63) + 1 };
	unsigned int i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		EXPECT_FAILURE(((struct mrx_peer_fault){ NO_FAULT, .page_size = sizes[i] }), EINVAL,
			       CALLS(1, 1, 0, 0, 1, 1, 1));
	/* a power of two, and far too large for where the pages are */
	EXPECT_FAILURE(((struct mrx_peer_fault){ NO_FAULT, .page_size = 1ULL << 63 }), EINVAL,
		       CALLS(1, 1, 1, 1, 1, 1, 1));
}

static void register_part(struct peer *peer)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, peer->addr + 100, 9000, ALL_ACCESS);
	struct ibv_mr *other = ibv_reg_mr(pd, peer->addr + 32768, 9000, ALL_ACCESS);
	struct link link;

	if (!CHECK(mr && other, "ibv_reg_mr: %m"))
		return;
	link_open(&link);
	fill(peer->addr + 32768, 9000, 9);
	CHECK_EQ(transfer(&link, IBV_WR_RDMA_WRITE, sge(peer->addr + 32768, 9000, other),
			  (uintptr_t)peer->addr + 100, mr->rkey), IBV_WC_SUCCESS);
	filled(peer->addr + 100, 9000, 9, 0);
	link_close(&link);
	CHECK_EQ(ibv_dereg_mr(mr), 0);
	CHECK_EQ(ibv_dereg_mr(other), 0);
	EXPECT_CALLS(peer, CALLS(2, 2, 2, 2, 2, 2, 2));
}

static void oversized(struct peer *peer)
{
	peer_fault(peer, (struct mrx_peer_fault){ NO_FAULT, .table = MRX_PEER_TABLE_OVERSIZED });
	register_part(peer);
}

static void at_address(struct peer *peer)
{
	peer_fault(peer, (struct mrx_peer_fault){ NO_FAULT, .table = MRX_PEER_TABLE_AT_ADDRESS });
	register_part(peer);
}

static void test_tables(void)
{
	static const enum mrx_peer_table bad[] = {
		MRX_PEER_TABLE_EMPTY, MRX_PEER_TABLE_SHORT, MRX_PEER_TABLE_NMAP_NEGATIVE,
		MRX_PEER_TABLE_NMAP_HUGE,
	};
	unsigned int i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		EXPECT_FAILURE(((struct mrx_peer_fault){ NO_FAULT, .table = bad[i] }), EINVAL,
			       CALLS(1, 1, 1, 1, 1, 1, 1));
	with_peer(CLASSIC, oversized);
	with_peer(CLASSIC, at_address);
}

/* --- who is asked --- */

static void test_order(void)
{
	struct ibv_mr *mr, *host_mr;
	void *host = host_alloc(SIZE);
	unsigned int n, i, owner;
	struct peer peer;

	for (n = 2; n <= MRX_PEER_SLOTS; n += MRX_PEER_SLOTS - 2) {
		for (i = 0; i < n; i++)
			CHECK_EQ(register_kind(i, CLASSIC), 0);
		/* the first of those who say yes is the owner, and the rest is not asked */
		for (owner = 0; owner < n; owner++) {
			long before = asked(n - 1);

			CHECK_EQ(peer_open(&peer, MRX_PEER_CONTIGUOUS, SIZE, ~0u << owner), 0);
			mr = ibv_reg_mr(pd, peer.addr, SIZE, ALL_ACCESS);
			CHECK(mr, "ibv_reg_mr: %m");
			EXPECT_CALLS(&peer, CALLS(1, 1, 1, 0, 0, 1, 0));
			CHECK_EQ(asked(owner), 1);
			CHECK_EQ(asked(n - 1) - before, owner == n - 1);
			CHECK_EQ(ibv_dereg_mr(mr), 0);
			EXPECT_CALLS(&peer, ALL_ONCE);
			peer_close(&peer);
		}
		/* a host buffer asks nobody */
		host_mr = ibv_reg_mr(pd, host, SIZE, ALL_ACCESS);
		CHECK(host_mr, "ibv_reg_mr: %m");
		CHECK_EQ(asked(0), n);
		CHECK_EQ(ibv_dereg_mr(host_mr), 0);
		/* what nobody owns everybody is asked for */
		CHECK_EQ(peer_open(&peer, MRX_PEER_CONTIGUOUS, SIZE, 0), 0);
		CHECK(!ibv_reg_mr(pd, peer.addr, SIZE, ALL_ACCESS));
		CHECK_EQ(errno, EFAULT);
		CHECK_EQ(asked(0), n + 1);
		CHECK_EQ(asked(n - 1), 2);
		/* one byte more than the client has */
		peer_close(&peer);
		CHECK_EQ(peer_open(&peer, MRX_PEER_CONTIGUOUS, SIZE, 1), 0);
		CHECK(!ibv_reg_mr(pd, peer.addr, SIZE + 1, ALL_ACCESS));
		CHECK_EQ(errno, EFAULT);
		peer_close(&peer);
		for (i = 0; i < n; i++)
			unregister_client(i);
	}
	host_free(host, SIZE);
}

/* --- sysfs --- */

static void expect_file(const char *file, const char *content)
{
	char path[128], is[64] = "";
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/kernel/mm/memory_peers/mrx_%s_0/%s", client, file);
	fd = open(path, O_RDONLY);
	if (!CHECK(fd >= 0, "%s: %m", path))
		return;
	n = read(fd, is, sizeof(is) - 1);
	close(fd);
	if (n > 0 && is[n - 1] == '\n')
		is[n - 1] = 0;
	CHECK(!strcmp(is, content), "%s is %s, not %s", file, is, content);
}

static void read_counters(struct peer *peer)
{
	struct ibv_mr *a = ibv_reg_mr(pd, peer->addr, 8192, ALL_ACCESS);
	struct ibv_mr *b = ibv_reg_mr(pd, peer->addr + 4000, 4200, ALL_ACCESS);

	CHECK(a && b, "ibv_reg_mr: %m");
	expect_file("version", "1.0");
	expect_file("num_alloc_mrs", "2");
	expect_file("num_dealloc_mrs", "0");
	expect_file("num_reg_pages", "5");
	expect_file("num_dereg_pages", "0");
	expect_file("num_reg_bytes", "12392");
	expect_file("num_dereg_bytes", "0");
	expect_file("num_free_callbacks", "0");
	CHECK_EQ(ibv_dereg_mr(a), 0);
	expect_file("num_dealloc_mrs", "1");
	expect_file("num_dereg_pages", "2");
	expect_file("num_dereg_bytes", "8192");
	CHECK_EQ(peer_invalidate(peer, 0), 1);
	expect_file("num_free_callbacks", "1");
	expect_file("num_dereg_pages", "5");
	expect_file("num_dereg_bytes", "12392");
	expect_file("num_dealloc_mrs", "1");
	CHECK_EQ(ibv_dereg_mr(b), 0);
	expect_file("num_dealloc_mrs", "2");
	expect_file("num_reg_pages", "5");
}

static void test_sysfs(void)
{
	char name[32];

	with_peer(CLASSIC, read_counters);
	with_peer(UNMAPS, read_counters);
	snprintf(name, sizeof(name), "mrx_%s_0", client);
	CHECK(!has_folder(name));
}

const struct test protocol_tests[] = {
	{ "each callback is called once for a region", test_success },
	{ "when a callback fails the ones before it are undone", test_each_step_fails },
	{ "a page size that is none is refused", test_page_sizes },
	{ "a table that is none is refused", test_tables },
	{ "clients are asked in order, and only for what is not host memory", test_order },
	{ "sysfs counts", test_sysfs },
	{ NULL, NULL },
};
