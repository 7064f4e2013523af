// SPDX-License-Identifier: GPL-2.0
/* Bytes between peer memory and other memory, for every kind of it. */
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test.h"

#define SIZE (256 * 1024)
#define NOBODY 65534

static const struct {
	const char *name;
	enum mrx_peer_flavour flavour;
} flavours[] = {
	{ "contiguous", MRX_PEER_CONTIGUOUS },
	{ "scattered", MRX_PEER_SCATTERED },
	{ "BAR", MRX_PEER_BAR },
	{ "pageless", MRX_PEER_PAGELESS },
};
#define FLAVOURS (sizeof(flavours) / sizeof(flavours[0]))

/* Calls `f` with two buffers of each kind, of a client in slot 0, and a link. */
static void with_each(void (*f)(struct link *, struct peer *, struct peer *))
{
	struct link link;
	unsigned int i;

	CHECK_EQ(register_kind(0, CLASSIC), 0);
	link_open(&link);
	for (i = 0; i < FLAVOURS; i++) {
		struct peer a, b;
		int error = peer_open(&a, flavours[i].flavour, SIZE, 1);

		if (error == ENODEV) {
			skip(flavours[i].flavour == MRX_PEER_BAR ? "no BAR: needs --ivshmem" :
								   "no memory without pages");
			continue;
		}
		CHECK_EQ(error, 0);
		CHECK_EQ(peer_open(&b, flavours[i].flavour, SIZE, 1), 0);
		printf("# %s\n", flavours[i].name);
		f(&link, &a, &b);
		CHECK_EQ(peer_counters(&a).active, 0);
		CHECK_EQ(peer_counters(&a).violations, 0);
		CHECK_EQ(peer_counters(&b).violations, 0);
		peer_close(&a);
		peer_close(&b);
	}
	link_close(&link);
	unregister_client(0);
}

static struct ibv_mr *reg(void *addr, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, addr, len, ALL_ACCESS);

	need(mr, "ibv_reg_mr");
	return mr;
}

static void move(struct link *link, void *from, struct ibv_mr *from_mr, void *to,
		 struct ibv_mr *to_mr, size_t len)
{
	fill(from, len, 1);
	memset(to, 0, len);
	CHECK_EQ(transfer(link, IBV_WR_RDMA_WRITE, sge(from, len, from_mr), (uintptr_t)to,
			  to_mr->rkey), IBV_WC_SUCCESS);
	filled(to, len, 1, 0);
	fill(from, len, 2);
	CHECK_EQ(transfer(link, IBV_WR_RDMA_READ, sge(to, len, to_mr), (uintptr_t)from,
			  from_mr->rkey), IBV_WC_SUCCESS);
	filled(to, len, 2, 0);
	fill(from, len, 3);
	CHECK_EQ(send_recv(link, sge(from, len, from_mr), sge(to, len, to_mr)), IBV_WC_SUCCESS);
	filled(to, len, 3, 0);
}

static void every_way(struct link *link, struct peer *a, struct peer *b)
{
	/* whole pages, and parts that begin and end inside of some */
	static const struct { size_t at, len; } parts[] = {
		{ 0, SIZE }, { 4096, 8192 }, { 100, 5000 }, { 4095, 1 }, { 12289, SIZE - 12290 },
	};
	void *host = host_alloc(SIZE);
	unsigned int i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		size_t at = parts[i].at, len = parts[i].len;
		struct ibv_mr *host_mr = reg(host + at, len);
		struct ibv_mr *a_mr = reg(a->addr + at, len), *b_mr = reg(b->addr + at, len);

		memset(a->addr, 0xee, SIZE);
		memset(b->addr, 0xee, SIZE);
		move(link, host + at, host_mr, a->addr + at, a_mr, len);
		move(link, a->addr + at, a_mr, host + at, host_mr, len);
		move(link, a->addr + at, a_mr, b->addr + at, b_mr, len);
		/* nothing but the part has changed */
		if (at)
			CHECK_EQ(((uint8_t *)b->addr)[at - 1], 0xee);
		if (at + len < SIZE)
			CHECK_EQ(((uint8_t *)b->addr)[at + len], 0xee);
		CHECK_EQ(ibv_dereg_mr(host_mr), 0);
		CHECK_EQ(ibv_dereg_mr(a_mr), 0);
		CHECK_EQ(ibv_dereg_mr(b_mr), 0);
	}
	host_free(host, SIZE);
}

static void test_every_way(void)
{
	with_each(every_way);
}

static void sg_layout(struct link *link, struct peer *a, struct peer *b)
{
	enum { PIECE = 5000, N = 6 };
	void *host = host_alloc(SIZE), *flat = host_alloc(SIZE);
	struct ibv_mr *host_mr = reg(host, SIZE), *flat_mr = reg(flat, SIZE);
	struct ibv_mr *a_mr = reg(a->addr, SIZE), *b_mr = reg(b->addr, SIZE);
	struct ibv_mr *layout = empty_region();
	struct ibv_sge list[N] = {
		sge(a->addr + 10, PIECE, a_mr), sge(host + 5, PIECE, host_mr),
		sge(b->addr + 4000, PIECE, b_mr), sge(host + 70000, PIECE, host_mr),
		sge(a->addr + 90001, PIECE, a_mr), sge(b->addr + 20480, PIECE, b_mr),
	};
	unsigned int i;

	CHECK_EQ(set_layout_sg(layout, list, N), 0);
	fill(flat, N * PIECE, 4);
	CHECK_EQ(transfer(link, IBV_WR_RDMA_WRITE, sge(flat, N * PIECE, flat_mr), 0, layout->rkey),
		 IBV_WC_SUCCESS);
	for (i = 0; i < N; i++)
		filled((void *)(uintptr_t)list[i].addr, PIECE, 4, i * PIECE);
	memset(flat, 0, N * PIECE);
	CHECK_EQ(transfer(link, IBV_WR_RDMA_READ, sge(flat, N * PIECE, flat_mr), 0, layout->rkey),
		 IBV_WC_SUCCESS);
	filled(flat, N * PIECE, 4, 0);
	/* a region that a layout uses stays */
	CHECK_EQ(ibv_dereg_mr(a_mr), EBUSY);
	CHECK_EQ(ibv_dereg_mr(layout), 0);
	CHECK_EQ(ibv_dereg_mr(a_mr), 0);
	CHECK_EQ(ibv_dereg_mr(b_mr), 0);
	CHECK_EQ(ibv_dereg_mr(host_mr), 0);
	CHECK_EQ(ibv_dereg_mr(flat_mr), 0);
	host_free(host, SIZE);
	host_free(flat, SIZE);
}

static void test_sg_layout(void)
{
	with_each(sg_layout);
}

static void interleaved_layout(struct link *link, struct peer *a, struct peer *b)
{
	enum { DATUM = 24, STRIDE = 1000, COUNT = 200, TOTAL = 2 * DATUM * COUNT };
	void *host = host_alloc(SIZE), *flat = host_alloc(TOTAL);
	struct ibv_mr *host_mr = reg(host, SIZE), *flat_mr = reg(flat, TOTAL);
	struct ibv_mr *a_mr = reg(a->addr, SIZE), *b_mr = reg(b->addr, SIZE);
	struct ibv_mr *layout = empty_region();
	struct ibv_sge list[2] = { sge(a->addr + 3, DATUM, a_mr), sge(host + 7, DATUM, host_mr) };
	unsigned int i;

	CHECK_EQ(set_layout_interleaved(layout, list, STRIDE, COUNT), 0);
	fill(b->addr, TOTAL, 5);
	CHECK_EQ(transfer(link, IBV_WR_RDMA_WRITE, sge(b->addr, TOTAL, b_mr), 0, layout->rkey),
		 IBV_WC_SUCCESS);
	for (i = 0; i < COUNT; i++) {
		filled(a->addr + 3 + i * STRIDE, DATUM, 5, 2 * i * DATUM);
		filled(host + 7 + i * STRIDE, DATUM, 5, (2 * i + 1) * DATUM);
	}
	CHECK_EQ(transfer(link, IBV_WR_RDMA_READ, sge(flat, TOTAL, flat_mr), 0, layout->rkey),
		 IBV_WC_SUCCESS);
	filled(flat, TOTAL, 5, 0);
	CHECK_EQ(ibv_dereg_mr(layout), 0);
	CHECK_EQ(ibv_dereg_mr(a_mr), 0);
	CHECK_EQ(ibv_dereg_mr(b_mr), 0);
	CHECK_EQ(ibv_dereg_mr(host_mr), 0);
	CHECK_EQ(ibv_dereg_mr(flat_mr), 0);
	host_free(host, SIZE);
	host_free(flat, TOTAL);
}

static void test_interleaved_layout(void)
{
	with_each(interleaved_layout);
}

/* --- above the limit on pinned memory --- */

struct registration {
	void *addr;
	size_t len;
	struct ibv_mr *mr;
	int error;
};

/*
 * The thread alone becomes somebody who is held to the limit: the C library would
 * change the whole process, which could then use its file of the device no more.
 */
static void *reg_as_nobody(void *arg)
{
	struct registration *registration = arg;

	need(!syscall(SYS_setresuid, -1, NOBODY, -1), "setresuid");
	registration->mr = ibv_reg_mr(pd, registration->addr, registration->len, ALL_ACCESS);
	registration->error = errno;
	return NULL;
}

/* Registers where a page is all that may be pinned. NULL, and errno, if that is refused. */
static struct ibv_mr *reg_above_limit(void *addr, size_t len)
{
	struct registration registration = { .addr = addr, .len = len };
	struct rlimit before, page;
	pthread_t thread;

	need(!getrlimit(RLIMIT_MEMLOCK, &before), "getrlimit");
	page = (struct rlimit){ .rlim_cur = 4096, .rlim_max = before.rlim_max };
	need(!setrlimit(RLIMIT_MEMLOCK, &page), "setrlimit");
	need(!pthread_create(&thread, NULL, reg_as_nobody, &registration), "pthread_create");
	pthread_join(thread, NULL);
	need(!setrlimit(RLIMIT_MEMLOCK, &before), "setrlimit");
	errno = registration.error;
	return registration.mr;
}

static void above_limit(struct link *link, struct peer *a, struct peer *b)
{
	enum { LEN = 65536 };
	struct ibv_mr *host_mr, *a_mr, *b_mr;
	void *host = host_alloc(LEN);

	host_mr = reg_above_limit(host, LEN);
	if (CHECK(!host_mr, "host memory was registered"))
		CHECK(errno == ENOMEM || errno == EPERM, "ibv_reg_mr: %m");
	else
		ibv_dereg_mr(host_mr);
	a_mr = reg_above_limit(a->addr, LEN);
	CHECK(a_mr, "ibv_reg_mr: %m");
	b_mr = reg_above_limit(b->addr, LEN);
	CHECK(b_mr, "ibv_reg_mr: %m");
	if (a_mr && b_mr)
		move(link, a->addr, a_mr, b->addr, b_mr, LEN);
	if (a_mr)
		CHECK_EQ(ibv_dereg_mr(a_mr), 0);
	if (b_mr)
		CHECK_EQ(ibv_dereg_mr(b_mr), 0);
	host_free(host, LEN);
}

static void test_above_limit(void)
{
	with_each(above_limit);
}

const struct test data_tests[] = {
	{ "WRITE, READ and SEND between peer and host and peer and peer", test_every_way },
	{ "an SG layout over peer and host memory", test_sg_layout },
	{ "an interleaved layout over peer and host memory", test_interleaved_layout },
	{ "the limit on pinned memory is one of host memory", test_above_limit },
	{ NULL, NULL },
};
