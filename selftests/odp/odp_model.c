// SPDX-License-Identifier: GPL-2.0
/*
 * A region beside a model of it: what each transfer reads, and what the process
 * loads after each transfer that wrote, is what a load or store of the process
 * would have given at that moment. One file, long as it is: every move changes the
 * model and the mappings together, and is checked against both.
 */
#include "odp_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (4 * MB)
#define PAGES (LEN / PAGE)
#define WORDS (PAGE / 8)
#define HUGE (2 * MB)
#define COLLAPSE 25 /* MADV_COLLAPSE */

/* What the process may do with a page. */
enum right { NONE, READS, WRITES };

struct model {
	struct pair *pair;
	unsigned int seed;
	char *area;
	/* The paged region, and pinned memory for what is moved. */
	struct ibv_mr *paged, *pinned;
	uint64_t *buffer;
	uint64_t (*words)[WORDS];
	enum right right[PAGES];
	/* Children that hold a copy of what there was when they were made. */
	struct child {
		pid_t pid;
		int ask[2], answer[2];
	} children[3];
};

static unsigned int below(struct model *m, unsigned int end)
{
	return rand_r(&m->seed) % end;
}

static size_t some_page(struct model *m)
{
	return below(m, PAGES);
}

/* A few pages, or many. */
static size_t some_count(struct model *m, size_t from)
{
	size_t count = below(m, 4) ? 1 + below(m, 8) : 1 + below(m, PAGES);

	return count < PAGES - from ? count : PAGES - from;
}

static char *at(struct model *m, size_t page)
{
	return m->area + page * PAGE;
}

static bool all(struct model *m, size_t from, size_t count, enum right right)
{
	for (size_t i = from; i < from + count; i++)
		if (m->right[i] < right)
			return false;
	return true;
}

/* One transfer of whole pages: what must happen, happens. */
static bool transfer(struct model *m, bool write)
{
	size_t from = some_page(m), count = some_count(m, from), len = count * PAGE;
	bool fine = all(m, from, count, write ? WRITES : READS);
	int status;

	if (write)
		for (size_t i = 0; i < len / 8; i++)
			m->buffer[i] = ((uint64_t)rand_r(&m->seed) << 32) | i;
	else
		memset(m->buffer, 0x11, len);
	/* The paged memory is on the other side, or on this one. */
	if (below(m, 2))
		status = rdma(m->pair, write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			      m->pinned->lkey, m->buffer, m->paged->rkey,
			      (uintptr_t)at(m, from), len);
	else
		status = rdma(m->pair, write ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
			      m->paged->lkey, at(m, from), m->pinned->rkey,
			      (uintptr_t)m->buffer, len);
	if (!fine) {
		pair_reset(m->pair);
		if (status != IBV_WC_REM_ACCESS_ERR && status != IBV_WC_LOC_PROT_ERR) {
			printf("# %s of pages %zu+%zu: status %d\n", write ? "write" : "read", from,
			       count, status);
			return false;
		}
		/* What lies before the first hole may have been written to. */
		if (write)
			for (size_t i = 0; i < count && m->right[from + i] == WRITES; i++)
				memcpy(m->words[from + i], at(m, from + i), PAGE);
		return true;
	}
	if (status) {
		printf("# %s of pages %zu+%zu: status %d\n", write ? "write" : "read", from, count,
		       status);
		return false;
	}
	if (write)
		memcpy(m->words[from], m->buffer, len);
	else if (memcmp(m->words[from], m->buffer, len)) {
		printf("# pages %zu+%zu were read otherwise\n", from, count);
		return false;
	}
	return true;
}

static bool fetch_and_add(struct model *m)
{
	size_t page = some_page(m), word = below(m, WORDS);
	struct ibv_sge sge = { (uintptr_t)m->buffer, 8, m->pinned->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.atomic = {
			.remote_addr = (uintptr_t)at(m, page) + word * 8,
			.rkey = m->paged->rkey,
			.compare_add = 7,
		},
	};
	int status = ibv_post_send(m->pair->near, &wr, &bad) ? -1 : wait_near(m->pair);

	if (m->right[page] != WRITES) {
		pair_reset(m->pair);
		return status == IBV_WC_REM_ACCESS_ERR;
	}
	if (status || m->buffer[0] != m->words[page][word]) {
		printf("# word %zu of page %zu: status %d, %llx instead of %llx\n", word, page,
		       status, (unsigned long long)m->buffer[0],
		       (unsigned long long)m->words[page][word]);
		return false;
	}
	m->words[page][word] += 7;
	return true;
}

static bool stores(struct model *m)
{
	size_t page = some_page(m), word = below(m, WORDS);

	if (m->right[page] == WRITES) {
		m->words[page][word] = rand_r(&m->seed);
		((volatile uint64_t *)at(m, page))[word] = m->words[page][word];
	}
	return true;
}

static bool loads(struct model *m, size_t from, size_t count)
{
	for (size_t i = from; i < from + count; i++) {
		if (m->right[i] == NONE || !memcmp(at(m, i), m->words[i], PAGE))
			continue;
		printf("# page %zu is not what it should be\n", i);
		return false;
	}
	return true;
}

static bool load_some(struct model *m)
{
	size_t from = some_page(m);

	return loads(m, from, some_count(m, from));
}

/* Changes after which every byte is what it was. */
static bool change_nothing(struct model *m)
{
	size_t from = some_page(m), count = some_count(m, from);

	switch (below(m, 4)) {
	case 0:
		madvise(at(m, from), count * PAGE, MADV_PAGEOUT);
		break;
	case 1:
		madvise(m->area + below(m, LEN / HUGE) * HUGE, HUGE, COLLAPSE);
		break;
	case 2:
		madvise(at(m, from), count * PAGE, MADV_COLD);
		break;
	case 3:
		/* Splits a huge page. */
		madvise(at(m, from), count * PAGE, below(m, 2) ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
		break;
	}
	return true;
}

static bool change_rights(struct model *m, enum right right)
{
	static const int prot[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
	size_t from = some_page(m), count = some_count(m, from);

	if (right == NONE)
		count = count < 4 ? count : 4;
	/* There may be holes. */
	for (size_t i = from; i < from + count; i++)
		if (!mprotect(at(m, i), PAGE, prot[right]))
			m->right[i] = right;
	return true;
}

static bool zero(struct model *m)
{
	size_t from = some_page(m), count = some_count(m, from);

	for (size_t i = from; i < from + count; i++)
		if (!madvise(at(m, i), PAGE, MADV_DONTNEED))
			memset(m->words[i], 0, PAGE);
	return true;
}

/* Each page is as before or of zeros until it is written to; after that it stays. */
static bool free_some(struct model *m)
{
	size_t from = some_page(m), count = some_count(m, from);

	for (size_t i = from; i < from + count; i++) {
		static const char zeros[PAGE];

		if (m->right[i] != WRITES || madvise(at(m, i), PAGE, MADV_FREE))
			continue;
		if (below(m, 2))
			madvise(at(m, i), PAGE, MADV_PAGEOUT);
		if (rdma(m->pair, IBV_WR_RDMA_READ, m->pinned->lkey, m->buffer, m->paged->rkey,
			 (uintptr_t)at(m, i), PAGE))
			return false;
		if (memcmp(m->buffer, m->words[i], PAGE) && memcmp(m->buffer, zeros, PAGE)) {
			printf("# the freed page %zu is neither old nor zero\n", i);
			return false;
		}
		for (size_t word = 0; word < WORDS; word++)
			m->words[i][word] = i + word;
		memcpy(m->buffer, m->words[i], PAGE);
		if (rdma(m->pair, IBV_WR_RDMA_WRITE, m->pinned->lkey, m->buffer, m->paged->rkey,
			 (uintptr_t)at(m, i), PAGE))
			return false;
		madvise(at(m, i), PAGE, MADV_PAGEOUT);
	}
	return true;
}

static bool unmap_some(struct model *m)
{
	size_t from = some_page(m), count = 1 + below(m, 4);

	count = count < PAGES - from ? count : PAGES - from;
	munmap(at(m, from), count * PAGE);
	for (size_t i = from; i < from + count; i++)
		m->right[i] = NONE;
	return true;
}

static bool map_new(struct model *m, size_t from, size_t count)
{
	if (mmap(at(m, from), count * PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		return false;
	for (size_t i = from; i < from + count; i++)
		m->right[i] = WRITES;
	memset(m->words[from], 0, count * PAGE);
	return true;
}

static bool map_some(struct model *m)
{
	size_t from = some_page(m);

	return map_new(m, from, some_count(m, from));
}

/* Moves a page to the place of another one. */
static bool move_page(struct model *m)
{
	size_t from = some_page(m), to = some_page(m);

	if (from == to || m->right[from] != WRITES)
		return true;
	if (mremap(at(m, from), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(m, to)) == MAP_FAILED)
		return false;
	memcpy(m->words[to], m->words[from], PAGE);
	m->right[to] = WRITES;
	m->right[from] = NONE;
	return true;
}

/* A child that writes to its copy, or looks at the end whether it has still what it had. */
static bool fork_child(struct model *m)
{
	struct child *child = &m->children[below(m, 3)];
	char byte = 0;

	if (child->pid) {
		if (write(child->ask[1], &byte, 1) != 1 || read(child->answer[0], &byte, 1) != 1)
			byte = 0;
		waitpid(child->pid, NULL, 0);
		for (int i = 0; i < 2; i++) {
			close(child->ask[i]);
			close(child->answer[i]);
		}
		child->pid = 0;
		if (!byte)
			printf("# a child sees what came after it was made\n");
		return byte;
	}
	if (pipe(child->ask) || pipe(child->answer))
		return false;
	child->pid = fork_tied();
	if (!child->pid) {
		bool writes = below(m, 2);

		for (size_t i = 0; writes && i < PAGES; i += 3)
			if (m->right[i] == WRITES) {
				memset(at(m, i), 0xcc, PAGE);
				memset(m->words[i], 0xcc, PAGE);
			}
		if (read(child->ask[0], &byte, 1) != 1)
			_exit(1);
		byte = loads(m, 0, PAGES);
		_exit(write(child->answer[1], &byte, 1) != 1);
	}
	return child->pid > 0;
}

static bool start(struct model *m, struct pair *pair)
{
	char *area = map(LEN + HUGE);

	m->pair = pair;
	m->area = (char *)(((uintptr_t)area + HUGE - 1) & ~(HUGE - 1));
	m->buffer = map(LEN);
	m->words = map(LEN);
	m->pinned = reg(pair, m->buffer, LEN, REMOTE);
	m->paged = reg(pair, m->area, LEN, REMOTE | IBV_ACCESS_REMOTE_ATOMIC | ODP);
	for (size_t i = 0; i < PAGES; i++)
		m->right[i] = WRITES;
	/* The children must not have it. */
	madvise(m->buffer, LEN, MADV_DONTFORK);
	return m->pinned && m->paged;
}

static bool stop(struct model *m)
{
	bool fine = loads(m, 0, PAGES);

	for (int i = 0; i < 3; i++)
		if (m->children[i].pid) {
			kill(m->children[i].pid, 9);
			waitpid(m->children[i].pid, NULL, 0);
		}
	ibv_dereg_mr(m->pinned);
	ibv_dereg_mr(m->paged);
	munmap(m->area, LEN);
	munmap(m->buffer, LEN);
	munmap(m->words, LEN);
	return fine;
}

static bool access_some(struct model *m)
{
	switch (below(m, 6)) {
	case 0:
	case 1:
		return transfer(m, true);
	case 2:
		return transfer(m, false);
	case 3:
		return fetch_and_add(m);
	case 4:
		return stores(m);
	default:
		return load_some(m);
	}
}

/* Changes and accesses in turn: what is seen is known to the byte. */
static void in_turn(struct pair *pair)
{
	static struct model m;
	unsigned int seed = 20, step;
	bool fine = true;
	long faults = counter("page_faults"), gone = counter("page_invalidations");

	m = (struct model){ .seed = seed };
	CHECK(start(&m, pair));
	for (step = 0; fine && step < 1200; step++) {
		switch (below(&m, 24)) {
		case 0:
		case 1:
			fine = change_nothing(&m);
			break;
		case 2:
			fine = change_rights(&m, below(&m, 2));
			break;
		case 3:
		case 4:
			fine = change_rights(&m, WRITES);
			break;
		case 5:
			fine = zero(&m);
			break;
		case 6:
			fine = free_some(&m);
			break;
		case 7:
			fine = unmap_some(&m);
			break;
		case 8:
		case 9:
			fine = map_some(&m);
			break;
		case 10:
			fine = move_page(&m);
			break;
		case 11:
			fine = fork_child(&m);
			break;
		default:
			fine = access_some(&m);
			break;
		}
	}
	printf("# %u steps, seed %u: %ld pages found, %ld given up\n", step, seed,
	       counter("page_faults") - faults, counter("page_invalidations") - gone);
	fine &= stop(&m);
	CHECK(fine);
}

struct churn {
	struct model m;
	volatile bool stop;
	int rounds;
};

static void *churns(void *arg)
{
	struct churn *churn = arg;
	struct model *m = &churn->m;

	while (!churn->stop) {
		size_t from = some_page(m), count = some_count(m, from);

		switch (below(m, 4)) {
		case 0:
			/* The page tables are taken away, and come back. */
			mprotect(at(m, from), count * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
			mprotect(at(m, from), count * PAGE, PROT_READ | PROT_WRITE);
			break;
		case 1:
			if (!fork_tied())
				_exit(0);
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
			break;
		default:
			change_nothing(m);
			break;
		}
		churn->rounds++;
		usleep(300);
	}
	while (wait(NULL) > 0)
		;
	return NULL;
}

/* The same while another thread swaps out, collapses, splits, protects and forks. */
static void under_traffic(struct pair *pair)
{
	static struct model m;
	static struct churn churn;
	pthread_t thread;
	bool fine = true;
	unsigned int seed = 30, step;

	m = (struct model){ .seed = seed };
	CHECK(start(&m, pair));
	churn = (struct churn){ .m = { .seed = seed + 1, .area = m.area } };
	pthread_create(&thread, NULL, churns, &churn);
	for (step = 0; fine && step < 1500; step++)
		fine = access_some(&m);
	churn.stop = true;
	pthread_join(thread, NULL);
	printf("# %u accesses, %d changes, seed %u\n", step, churn.rounds, seed);
	fine &= stop(&m);
	CHECK(fine);
	CHECK(churn.rounds > 20);
}

void model_tests(void)
{
	run_test("what is seen is what a load would see, after each of many changes", in_turn);
	run_test("what is seen is what a load would see, while mappings change", under_traffic);
}
