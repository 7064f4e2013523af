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

#include "../fork_tied.h"

#define PAGE 4096UL
#define MB (1UL << 20)

#define LOCAL IBV_ACCESS_LOCAL_WRITE
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ODP IBV_ACCESS_ON_DEMAND

/* Two queue pairs of one protection domain, connected if they are that; "near" sends. */
struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *near_cq, *far_cq;
	struct ibv_qp *near, *far;
	enum ibv_qp_type type;
	struct ibv_srq *srq;
};

#define QKEY 0x1234

extern struct ibv_context *context;

struct ibv_context *open_device(void);
/* Of type RC, or of another one; receives are shared on request. */
struct pair *pair_new(void);
struct pair *pair_of(enum ibv_qp_type type, bool shares_receives);
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
/* The status of the next completion of one side. */
int wait_near(struct pair *pair);
int wait_far(struct pair *pair);
/* Posts a receive on the far side. */
int post_recv(struct pair *pair, struct ibv_sge *to);
/* Where datagrams to the far side go. */
struct ibv_ah *far_address(struct pair *pair);
/* As rdma(), where the far side's keys and addresses are those of a region. */
#define put(pair, from, addr, to, dest, len) \
	rdma(pair, IBV_WR_RDMA_WRITE, (from)->lkey, addr, (to)->rkey, (uint64_t)(dest), len)
#define get(pair, to, addr, from, src, len) \
	rdma(pair, IBV_WR_RDMA_READ, (to)->lkey, addr, (from)->rkey, (uint64_t)(src), len)

struct ibv_mr *reg(struct pair *pair, void *addr, size_t len, int access);

/* ADVISE_MR through the library: 0 or the errno. */
int advise(struct ibv_pd *pd, uint64_t advice, uint32_t flags, const struct ibv_sge *list,
	   uint32_t count);
int advise_one(struct ibv_mr *mr, uint64_t advice, uint32_t flags, void *addr, size_t len);
/* The same as a raw ioctl, with a list of so many bytes. */
int advise_bytes(struct ibv_pd *pd, const void *list, size_t len);
/* The sum of a counter over all regions of the device. */
long counter(const char *name);
/* Waits, not for ever, until a counter has at least the value. */
bool counter_reaches(const char *name, long value);

/* Regions that librxe has no call for. */
struct raw_mr {
	uint32_t handle, lkey, rkey;
};
int reg_dmabuf(struct ibv_pd *pd, uint64_t offset, uint64_t len, uint64_t iova, int fd, int access,
	       struct raw_mr *mr);
/* The same by UVERBS_METHOD_REG_MR. */
int reg_fd(struct ibv_pd *pd, uint64_t offset, uint64_t len, uint64_t iova, int fd, int access,
	   struct raw_mr *mr);
/* IB_USER_VERBS_CMD_REREG_MR: new keys, or the errno. */
int rereg_raw(struct ibv_pd *pd, struct raw_mr *mr, int flags, struct ibv_pd *to, void *addr,
	      size_t len, int access);
int dereg_raw(struct ibv_context *context, uint32_t handle);

/* A new buffer of the exporter (MRX_TEST_*), or -1; and how many have attached to it. */
int exported(uint64_t size, uint32_t flags);
uint32_t attachments(int fd);
void no_exporter(void);

struct layout_list {
	uint64_t addr;
	uint32_t count, entry_size;
};
/* MRX_METHOD_MR_SET_LAYOUT_SG, or _INTERLEAVED if there are dimensions. */
int set_layout(struct ibv_mr *mr, struct layout_list *list, struct layout_list *dimensions);

/* A userfaultfd for a range, or -1; and a thread that serves it with pages of sevens. */
int userfault(char *addr, size_t len);
void *userfault_server(void *fd);

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
/* Gives more advice than can be taken at once. */
int queues(void);
/* Gives an advice and waits for such a page until the device goes. */
int advised_stuck(void);
/* Two regions with counters of their own. */
int counts(void);
/* A region of a buffer of the exporter, of which nothing else is open. */
int held(void);
/* Says so to whoever started the program, and waits until that closes standard input. */
void ready(void);

void paging_tests(void);
void change_tests(void);
void userfault_tests(void);
void advise_tests(void);
void layout_tests(void);
void fuse_tests(void);
void model_tests(void);
void rereg_tests(void);
void dmabuf_tests(void);
void stress_tests(void);

#endif /* ODP_TEST_H */
