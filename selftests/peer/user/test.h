/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of peer memory share: a reference client's buffers, a queue
 * pair to move bytes with, and how a result is told.
 */
#ifndef PEER_TEST_H
#define PEER_TEST_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../fork_tied.h"
#include "mrx_peer.h"

/* --- results --- */

/* A check that failed fails the running test, which goes on. */
void check_failed(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
#define CHECK(condition, ...) ((condition) ? true :					\
	(check_failed(__FILE__, __LINE__, "" __VA_ARGS__), false))
#define CHECK_EQ(is, should) do {							\
	long long is_ = (is), should_ = (should);					\
	CHECK(is_ == should_, "%s is %lld, not %lld", #is, is_, should_);		\
} while (0)
/* Ends the program: nothing makes sense without this. */
void need(bool condition, const char *what);
/* The running test cannot run here. */
void skip(const char *why);

struct test {
	const char *name;
	void (*run)(void);
};
extern const struct test data_tests[], refusal_tests[], protocol_tests[], revoke_tests[],
	stress_tests[], removal_tests[], private_tests[], change_tests[], names_tests[],
	outliving_tests[];
extern const char *client; /* "c" or "rust" */

/* --- the client --- */

struct peer {
	int fd;
	void *addr;
	size_t size;
};

enum { CLASSIC, UNMAPS, FIXED }; /* kinds of clients: the slots that have them */

int client_fd(void);
/* Nothing but regions keeps the client from being unloaded then. */
void close_client(void);
int register_client(struct mrx_peer_register how);
int register_kind(unsigned int slot, int kind);
void unregister_client(unsigned int slot);
long asked(unsigned int slot);
/* Of how many verbs contexts the client keeps data. */
int contexts(void);
/* Whether a client of this name is registered. */
bool has_folder(const char *name);
/* 0 or an errno, ENODEV if there is no such memory here. */
int peer_open(struct peer *peer, enum mrx_peer_flavour flavour, size_t size, uint32_t owners);
void peer_close(struct peer *peer);
void peer_fault(const struct peer *peer, struct mrx_peer_fault fault);
#define NO_FAULT .fail = MRX_PEER_NO_STEP, .delay = MRX_PEER_NO_STEP, \
	.invalidate = MRX_PEER_NO_STEP
int peer_invalidate(const struct peer *peer, unsigned int how);
struct mrx_peer_counters peer_counters(const struct peer *peer);
/* Checks that the client saw so many calls, and none against the rules. */
void expect_calls(const struct peer *peer, const unsigned int calls[MRX_PEER_STEPS]);
#define EXPECT_CALLS(peer, ...) \
	expect_calls(peer, (const unsigned int[MRX_PEER_STEPS]){ __VA_ARGS__ })
/* acquire, get_pages, dma_map, dma_unmap, put_pages, get_page_size, release */
#define CALLS(a, g, m, u, p, s, r) a, g, m, u, p, s, r
#define ALL_ONCE CALLS(1, 1, 1, 1, 1, 1, 1)

/* --- moving bytes --- */

extern struct ibv_context *context;
extern struct ibv_pd *pd;
#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

void open_device(void);

/* A queue pair that is connected to itself. */
struct link {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

void link_open(struct link *link);
void link_close(struct link *link);
/* Makes a queue pair that broke usable again. */
void link_repair(struct link *link);
/* Executes a work request and returns how it completed. */
enum ibv_wc_status transfer(struct link *link, enum ibv_wr_opcode opcode, struct ibv_sge local,
			    uint64_t remote, uint32_t rkey);
enum ibv_wc_status send_recv(struct link *link, struct ibv_sge from, struct ibv_sge to);
struct ibv_sge sge(const void *addr, size_t len, const struct ibv_mr *mr);

/* Says which client a context deals with. 0 or an errno. */
int set_peer_context(struct ibv_context *context, const char name[64], uint64_t id);

/* Re-registration, which the library of rxe lacks. 0 or an errno. */
int change_memory(struct ibv_mr *mr, void *addr, size_t len);
int change_access(struct ibv_mr *mr, int access);

/* A region that is addressed from 0 and can carry a layout. */
struct ibv_mr *empty_region(void);
int set_layout_sg(struct ibv_mr *mr, const struct ibv_sge *list, unsigned int n);
/* data of `length` bytes, every `stride`, `count` of them, of both regions in turn */
int set_layout_interleaved(struct ibv_mr *mr, const struct ibv_sge list[2], uint64_t stride,
			   uint64_t count);

void fill(void *to, size_t len, unsigned int seed);
/* Whether the bytes are those of fill(), from `skip` on. */
bool filled(const void *from, size_t len, unsigned int seed, size_t skip);

/* A buffer of the process itself. */
void *host_alloc(size_t size);
void host_free(void *addr, size_t size);

#endif /* PEER_TEST_H */
