// SPDX-License-Identifier: GPL-2.0
/* What happens to a region when the mappings of its process change. */
#include "odp_test.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A source that is pinned and a paged region that a test changes. */
#define LEN (2 * MB)
struct both {
	char *src, *dst;
	struct ibv_mr *from, *to;
};

static bool start(struct both *t, struct pair *pair)
{
	t->src = map(LEN);
	t->dst = map(LEN);
	t->from = reg(pair, t->src, LEN, REMOTE);
	t->to = reg(pair, t->dst, LEN, REMOTE | ODP);
	fill(t->src, LEN, 1);
	if (!t->from || !t->to)
		return false;
	/* All pages are known from here on. */
	return !put(pair, t->from, t->src, t->to, t->dst, LEN) && is_filled(t->dst, LEN, 1);
}

static void stop(struct both *t)
{
	ibv_dereg_mr(t->from);
	ibv_dereg_mr(t->to);
	munmap(t->src, LEN);
	munmap(t->dst, LEN);
}

static void unmap(struct pair *pair)
{
	struct both t;
	char *again;

	CHECK(start(&t, pair));
	munmap(t.dst, LEN);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	/* Other memory at the same place belongs to the region again. */
	again = mmap(t.dst, LEN, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(again == t.dst);
	fill(t.src, LEN, 2);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 2));
	CHECK(counter("page_invalidations") >= (long)(LEN / PAGE));
	stop(&t);
}

static void protect(struct pair *pair)
{
	struct both t;

	CHECK(start(&t, pair));
	CHECK_EQ(mprotect(t.dst, LEN, PROT_READ), 0);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(mprotect(t.dst, LEN, PROT_NONE), 0);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(mprotect(t.dst, LEN, PROT_READ | PROT_WRITE), 0);
	CHECK(is_filled(t.dst, LEN, 1));
	fill(t.src, LEN, 3);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 3));
	stop(&t);
}

static void dont_need(struct pair *pair)
{
	struct both t;
	static const char zero[PAGE];

	CHECK(start(&t, pair));
	CHECK_EQ(madvise(t.dst, LEN, MADV_DONTNEED), 0);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	for (size_t i = 0; i < LEN; i += PAGE)
		CHECK(!memcmp(t.src + i, zero, PAGE));
	/* What was read is the page of zeros, and is not what is written to. */
	fill(t.src, LEN, 4);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 4));
	/* Pages that may be dropped are not when they are written to afterwards. */
	CHECK_EQ(madvise(t.dst, LEN, MADV_FREE), 0);
	fill(t.src, LEN, 5);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	madvise(t.dst, LEN, MADV_PAGEOUT);
	CHECK(is_filled(t.dst, LEN, 5));
	stop(&t);
}

static void move(struct pair *pair)
{
	struct both t;
	char *to;

	CHECK(start(&t, pair));
	to = mremap(t.dst, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, map(LEN));
	CHECK(to != MAP_FAILED && to != t.dst);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, PAGE), IBV_WC_REM_ACCESS_ERR);
	CHECK(is_filled(to, LEN, 1));
	munmap(to, LEN);
	stop(&t);
}

/* Runs fn in a child and says whether it returned true. */
static int child_says(bool (*fn)(const char *), const char *arg, int *go, int *answer)
{
	pid_t pid;

	if (pipe(go) || pipe(answer))
		return -1;
	pid = fork_tied();
	if (!pid) {
		char byte;

		if (read(go[0], &byte, 1) != 1)
			_exit(2);
		byte = fn(arg);
		if (write(answer[1], &byte, 1) != 1)
			_exit(2);
		_exit(0);
	}
	return pid;
}

static bool has_first(const char *dst)
{
	return is_filled(dst, LEN, 1);
}

static bool overwrites(const char *dst)
{
	fill((char *)dst, LEN, 66);
	return true;
}

static bool ask(int *go, int *answer, pid_t pid)
{
	char byte = 1;
	int status;

	if (write(go[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1)
		byte = 0;
	waitpid(pid, &status, 0);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(answer[i]);
	}
	return byte;
}

static void fork_parent(struct pair *pair)
{
	struct both t;
	int go[2], answer[2];
	pid_t pid;

	CHECK(start(&t, pair));
	/* The parent's memory is written to by transfers; the child keeps what it had. */
	pid = child_says(has_first, t.dst, go, answer);
	CHECK(pid > 0);
	fill(t.src, LEN, 6);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 6));
	CHECK(ask(go, answer, pid));
	stop(&t);
}

static void fork_child(struct pair *pair)
{
	struct both t;
	int go[2], answer[2];
	pid_t pid;

	CHECK(start(&t, pair));
	pid = child_says(overwrites, t.dst, go, answer);
	CHECK(pid > 0);
	CHECK(ask(go, answer, pid));
	memset(t.src, 0, LEN);
	CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.src, LEN, 1));
	fill(t.src, LEN, 7);
	CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(t.dst, LEN, 7));
	stop(&t);
}

static bool has_swap(void)
{
	FILE *f = fopen("/proc/swaps", "r");
	char line[256];
	int lines = 0;

	while (f && fgets(line, sizeof(line), f))
		lines++;
	if (f)
		fclose(f);
	return lines > 1;
}

static void swap_out(struct pair *pair)
{
	struct both t;
	unsigned char there[LEN / PAGE];
	size_t gone = 0;

	if (!has_swap()) {
		skip("no swap");
		return;
	}
	CHECK(start(&t, pair));
	for (int round = 0; round < 3; round++) {
		CHECK_EQ(madvise(t.dst, LEN, MADV_PAGEOUT), 0);
		CHECK_EQ(mincore(t.dst, LEN, there), 0);
		for (size_t i = 0; i < LEN / PAGE; i++)
			gone += !(there[i] & 1);
		memset(t.src, 0, LEN);
		CHECK_EQ(get(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
		CHECK(is_filled(t.src, LEN, round + 1));
		/* What is written through the region must be what comes back from swap. */
		fill(t.src, LEN, round + 2);
		CHECK_EQ(put(pair, t.from, t.src, t.to, t.dst, LEN), IBV_WC_SUCCESS);
	}
	CHECK(gone > 0);
	CHECK_EQ(madvise(t.dst, LEN, MADV_PAGEOUT), 0);
	CHECK(is_filled(t.dst, LEN, 4));
	stop(&t);
}

static void huge_pages(struct pair *pair)
{
	char *area = map(4 * LEN), *dst = (char *)(((uintptr_t)area + LEN - 1) & ~(LEN - 1));
	char *src = map(LEN);
	struct ibv_mr *from = reg(pair, src, LEN, REMOTE), *to;

	if (access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
		skip("this kernel has no huge pages");
		ibv_dereg_mr(from);
		return;
	}
	madvise(dst, LEN, MADV_NOHUGEPAGE);
	to = reg(pair, dst, LEN, REMOTE | ODP);
	CHECK(from && to);
	for (int round = 0; round < 4; round++) {
		fill(src, LEN, round);
		CHECK_EQ(put(pair, from, src, to, dst, LEN), IBV_WC_SUCCESS);
		if (round % 2) {
			/* Split it: a part of it goes. */
			CHECK_EQ(madvise(dst + LEN / 2, PAGE, MADV_DONTNEED), 0);
			CHECK(is_filled(dst, LEN / 2, round));
		} else {
			CHECK_EQ(madvise(dst, LEN, MADV_HUGEPAGE), 0);
			CHECK_EQ(madvise(dst, LEN, 25 /* MADV_COLLAPSE */), 0);
			CHECK(is_filled(dst, LEN, round));
		}
		fill(src, LEN, round + 10);
		CHECK_EQ(put(pair, from, src, to, dst, LEN), IBV_WC_SUCCESS);
		CHECK(is_filled(dst, LEN, round + 10));
	}
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	munmap(area, 4 * LEN);
	munmap(src, LEN);
}

int userfault(char *addr, size_t len)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)addr, .len = len },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		return -1;
	return fd;
}

static char page_of_sevens[PAGE];

void *userfault_server(void *arg)
{
	int fd = *(int *)arg;
	struct uffd_msg msg;

	while (read(fd, &msg, sizeof(msg)) == sizeof(msg)) {
		struct uffdio_copy copy = {
			.dst = msg.arg.pagefault.address & ~(PAGE - 1),
			.src = (uintptr_t)page_of_sevens,
			.len = PAGE,
		};

		usleep(1000);
		ioctl(fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static void userfault_resolved(struct pair *pair)
{
	char *src = map(8 * PAGE), *dst = map(8 * PAGE);
	struct ibv_mr *from = reg(pair, src, 8 * PAGE, REMOTE | ODP);
	struct ibv_mr *to = reg(pair, dst, 8 * PAGE, REMOTE | ODP);
	pthread_t thread;
	int fd = userfault(src, 8 * PAGE);

	if (fd < 0) {
		skip("no userfaultfd");
		return;
	}
	memset(page_of_sevens, 7, PAGE);
	CHECK(from && to);
	pthread_create(&thread, NULL, userfault_server, &fd);
	CHECK_EQ(put(pair, from, src, to, dst, 8 * PAGE), IBV_WC_SUCCESS);
	for (int i = 0; i < 8; i++)
		CHECK(!memcmp(dst + i * PAGE, page_of_sevens, PAGE));
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	close(fd);
	munmap(src, 8 * PAGE);
	munmap(dst, 8 * PAGE);
}

struct stuck {
	struct pair *pair;
	struct ibv_mr *from, *to;
	char *src, *dst;
	volatile int status;
};

static void *sends(void *arg)
{
	struct stuck *s = arg;
	struct ibv_sge sge = { .addr = (uintptr_t)s->src, .length = PAGE, .lkey = s->from->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)s->dst, .rkey = s->to->rkey },
	};

	ibv_post_send(s->pair->near, &wr, &bad);
	s->status = 1;
	return NULL;
}

/* While a page never comes, everything else goes on, and the queue pair can be stopped. */
static void userfault_never(struct pair *pair)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct stuck s = { .pair = pair, .src = map(PAGE), .dst = map(LEN) };
	struct pair *other = pair_new();
	struct ibv_mr *plain;
	char *more = map(LEN);
	pthread_t thread;
	int fd = userfault(s.src, PAGE);

	if (fd < 0) {
		skip("no userfaultfd");
		return;
	}
	s.from = reg(pair, s.src, PAGE, REMOTE | ODP);
	s.to = reg(pair, s.dst, LEN, REMOTE | ODP);
	plain = reg(other, more, LEN, REMOTE | ODP);
	CHECK(s.from && s.to && plain);
	pthread_create(&thread, NULL, sends, &s);
	usleep(50000);
	CHECK_EQ(s.status, 0);
	CHECK_EQ(put(other, plain, more, plain, more + MB, MB), IBV_WC_SUCCESS);
	madvise(more, LEN, MADV_DONTNEED);
	CHECK_EQ(put(other, plain, more, plain, more + MB, MB), IBV_WC_SUCCESS);
	CHECK_EQ(ibv_dereg_mr(s.from), 0);
	CHECK_EQ(ibv_modify_qp(pair->near, &error, IBV_QP_STATE), 0);
	pthread_join(thread, NULL);
	CHECK_EQ(s.status, 1);
	CHECK_EQ(wait_near(pair), IBV_WC_WR_FLUSH_ERR);
	close(fd);
	ibv_dereg_mr(s.to);
	ibv_dereg_mr(plain);
	pair_free(other);
	munmap(s.src, PAGE);
	munmap(s.dst, LEN);
	munmap(more, LEN);
}

/* How many faults have begun to wait since this was asked last; that may take a moment. */
static int begun_faults(int fd)
{
	struct pollfd one = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;
	int n = 0;

	poll(&one, 1, 20);
	while (read(fd, &msg, sizeof(msg)) == sizeof(msg))
		n++;
	return n;
}

/* Posts a request that waits for a page, gives it up, and says how many faults wait more. */
static int give_up(struct stuck *s, int fd)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct pair *pair = s->pair;
	pthread_t thread;
	int more;

	if (pthread_create(&thread, NULL, sends, s))
		return -1;
	more = begun_faults(fd);
	if (ibv_modify_qp(pair->near, &error, IBV_QP_STATE))
		return -1;
	pthread_join(thread, NULL);
	if (wait_near(pair) != IBV_WC_WR_FLUSH_ERR ||
	    pair_connect_near(pair, pair->far->qp_num) ||
	    pair_connect_far(pair, pair->near->qp_num))
		return -1;
	return more;
}

/* A transfer of pages that a program serves, to its end. */
static int served(void)
{
	char *src = map(8 * PAGE), *dst = map(8 * PAGE);
	struct pair *pair = pair_new();
	struct ibv_mr *from = reg(pair, src, 8 * PAGE, REMOTE | ODP);
	struct ibv_mr *to = reg(pair, dst, 8 * PAGE, REMOTE | ODP);
	int fd = userfault(src, 8 * PAGE);
	pthread_t thread;

	memset(page_of_sevens, 7, PAGE);
	if (!from || !to || fd < 0 || pthread_create(&thread, NULL, userfault_server, &fd))
		return 3;
	if (put(pair, from, src, to, dst, 8 * PAGE) != IBV_WC_SUCCESS)
		return 4;
	return memcmp(dst + 7 * PAGE, page_of_sevens, PAGE) != 0;
}

/* Whether another process succeeds, and before long. */
static bool succeeds(int (*fn)(void))
{
	pid_t pid = fork_tied();
	int status;

	if (!pid) {
		context = open_device();
		_exit(fn());
	}
	for (int i = 0; i < 1000; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFEXITED(status) && !WEXITSTATUS(status);
		usleep(20000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return false;
}

/* Who gives up requests does not get rid of their faults, which stay in bounds. */
static void given_up(struct pair *pair)
{
	enum { ROUNDS = 200, MOST = 64 /* that wait for a process, by Documentation/odp.md */ };
	struct stuck s = { .pair = pair, .src = map(PAGE), .dst = map(LEN) };
	struct pair *other = pair_new();
	int fd = userfault(s.src, PAGE), waiting = 0;
	struct ibv_mr *plain;
	char *more = map(LEN);

	if (fd < 0) {
		skip("no userfaultfd");
		return;
	}
	/* Else poll() refuses to wait for messages. */
	CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	s.from = reg(pair, s.src, PAGE, REMOTE | ODP);
	s.to = reg(pair, s.dst, LEN, REMOTE | ODP);
	plain = reg(other, more, LEN, REMOTE | ODP);
	CHECK(s.from && s.to && plain);
	for (int round = 0; round < ROUNDS; round++) {
		int n = give_up(&s, fd);

		CHECK(n >= 0);
		waiting += n;
	}
	usleep(200000);
	waiting += begun_faults(fd);
	printf("# %d faults wait for %d requests\n", waiting, ROUNDS);
	CHECK(waiting > 0 && waiting <= MOST);
	CHECK_EQ(put(other, plain, more, plain, more + MB, MB), IBV_WC_SUCCESS);
	CHECK_EQ(put(pair, s.to, s.dst, s.to, s.dst + MB, MB), IBV_WC_SUCCESS);
	CHECK(succeeds(served));
	/* The page is a plain one now, and the same request succeeds. */
	close(fd);
	CHECK_EQ(put(pair, s.from, s.src, s.to, s.dst, PAGE), IBV_WC_SUCCESS);
	ibv_dereg_mr(s.from);
	ibv_dereg_mr(s.to);
	ibv_dereg_mr(plain);
	pair_free(other);
	munmap(s.src, PAGE);
	munmap(s.dst, LEN);
	munmap(more, LEN);
}

int stuck(void)
{
	struct stuck s = { .src = map(PAGE), .dst = map(LEN) };

	s.pair = pair_new();
	s.from = reg(s.pair, s.src, PAGE, REMOTE | ODP);
	s.to = reg(s.pair, s.dst, LEN, REMOTE | ODP);
	/* Its file is closed after that of the device. */
	if (userfault(s.src, PAGE) < 0)
		return 3;
	advise_one(s.from, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, s.src, PAGE);
	printf("# a request waits for a page\n");
	sends(&s);
	/* Only when the device has gone. */
	return 0;
}

/* The same, where the request is executed by no process because of a late receive. */
static int stuck_elsewhere(void)
{
	char *src = map(PAGE), *dst = map(PAGE);
	struct pair *pair = pair_new();
	struct ibv_mr *from = reg(pair, src, PAGE, REMOTE | ODP), *to = reg(pair, dst, PAGE, REMOTE | ODP);
	struct ibv_sge out = { (uintptr_t)src, PAGE, from->lkey }, in = { (uintptr_t)dst, PAGE, to->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &in, .num_sge = 1 };

	if (userfault(src, PAGE) < 0 || ibv_post_send(pair->near, &wr, &bad) ||
	    ibv_post_recv(pair->far, &recv, &bad_recv))
		return 3;
	for (;;)
		pause();
}

/* A process whose request waits for a page for ever dies at once when it is killed. */
static bool dies(int (*fn)(void))
{
	pid_t pid = fork_tied();
	int status;

	if (!pid) {
		context = open_device();
		_exit(fn());
	}
	usleep(700000);
	if (waitpid(pid, &status, WNOHANG))
		return false;
	kill(pid, SIGKILL);
	for (int i = 0; i < 1000; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return WIFSIGNALED(status);
		usleep(20000);
	}
	return false;
}

static void userfault_killed(struct pair *unused)
{
	(void)unused;
	CHECK(dies(stuck));
	CHECK(dies(stuck_elsewhere));
}

void change_tests(void)
{
	run_test("munmap ends access, and a new mapping brings it back", unmap);
	run_test("mprotect holds for transfers", protect);
	run_test("madvise DONTNEED and FREE", dont_need);
	run_test("mremap takes the pages along", move);
	run_test("transfers into a parent's memory leave its child's alone", fork_parent);
	run_test("what a child writes is not seen by transfers", fork_child);
	run_test("pages come back from swap as transfers left them", swap_out);
	run_test("huge pages come together and apart", huge_pages);
	run_test("a transfer waits for a userfaultfd", userfault_resolved);
	run_test("a page that never comes holds up only its own request", userfault_never);
	run_test("requests that wait for a page are given up again and again", given_up);
	run_test("a process that waits for a page can be killed", userfault_killed);
}
