/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of on-demand paging share: a pair of connected queue pairs in
 * one process, and requests over them.
 */
#ifndef ODP_TEST_H
#define ODP_TEST_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PAGE 4096UL
#define MB (1UL << 20)

#define LOCAL IBV_ACCESS_LOCAL_WRITE
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ODP IBV_ACCESS_ON_DEMAND

/* Two connected RC queue pairs of one protection domain; "near" sends. */
struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *near_cq, *far_cq;
	struct ibv_qp *near, *far;
};

extern struct ibv_context *context;

struct ibv_context *open_device(void);
struct pair *pair_new(void);
void pair_free(struct pair *pair);
/* Makes a pair usable again after a request has broken it. */
void pair_reset(struct pair *pair);

/* Connects one side to a queue pair of another process instead. */
int pair_connect_near(struct pair *pair, uint32_t number);
int pair_connect_far(struct pair *pair, uint32_t number);

/* Each waits for its completion and gives its status. */
int rdma(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t lkey, const void *addr,
	 uint32_t rkey, uint64_t remote, size_t len);
int send_recv(struct pair *pair, uint32_t from_key, const void *from, uint32_t to_key, void *to,
	      size_t len);
/* The status of the next completion of the near side. */
int wait_near(struct pair *pair);
/* As rdma(), where the far side's keys and addresses are those of a region. */
#define put(pair, from, addr, to, dest, len) \
	rdma(pair, IBV_WR_RDMA_WRITE, (from)->lkey, addr, (to)->rkey, (uint64_t)(dest), len)
#define get(pair, to, addr, from, src, len) \
	rdma(pair, IBV_WR_RDMA_READ, (to)->lkey, addr, (from)->rkey, (uint64_t)(src), len)

struct ibv_mr *reg(struct pair *pair, void *addr, size_t len, int access);

/* ADVISE_MR as a raw ioctl: 0 or the errno. */
int advise(struct ibv_pd *pd, uint64_t advice, uint32_t flags, const struct ibv_sge *list,
	   uint32_t count);
int advise_one(struct ibv_mr *mr, uint64_t advice, uint32_t flags, void *addr, size_t len);
/* The sum of a counter over all regions of the device. */
long counter(const char *name);
/* Waits up to a few seconds until a counter has at least the value. */
bool counter_reaches(const char *name, long value);

/* Regions that librxe has no call for. */
struct raw_mr {
	uint32_t handle, lkey, rkey;
};
int reg_dmabuf(struct ibv_pd *pd, uint64_t offset, uint64_t len, uint64_t iova, int fd, int access,
	       struct raw_mr *mr);
int dereg_raw(struct ibv_context *context, uint32_t handle);
struct layout_list {
	uint64_t addr;
	uint32_t count, entry_size;
};
/* MRX_METHOD_MR_SET_LAYOUT_SG, or _INTERLEAVED if there are dimensions. */
int set_layout(struct ibv_mr *mr, struct layout_list *list, struct layout_list *dimensions);

void *map(size_t len);
/* Fills with bytes that depend on the seed, and looks whether that is there. */
void fill(void *addr, size_t len, unsigned int seed);
bool is_filled(const void *addr, size_t len, unsigned int seed);

/* KTAP. A test returns; the first failing check of it makes it fail. */
typedef void (*test_fn)(struct pair *pair);
void run_test(const char *name, test_fn fn);
void skip(const char *why);
bool check(bool ok, const char *what, const char *file, int line);
#define CHECK(cond)                                         \
	do {                                                \
		if (!check(cond, #cond, __FILE__, __LINE__)) \
			return;                             \
	} while (0)
#define CHECK_EQ(a, b)                                                                      \
	do {                                                                                \
		long a_ = (long)(a), b_ = (long)(b);                                        \
		if (a_ != b_)                                                               \
			printf("# %s is %ld, not %ld\n", #a, a_, b_);                       \
		if (!check(a_ == b_, #a " == " #b, __FILE__, __LINE__))                     \
			return;                                                             \
	} while (0)

/* Posts a request that waits for a page which never comes. */
int stuck(void);

void paging_tests(void);
void change_tests(void);
void advise_tests(void);
void layout_tests(void);
void dmabuf_tests(void);
void stress_tests(void);

#endif /* ODP_TEST_H */
