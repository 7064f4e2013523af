// SPDX-License-Identifier: GPL-2.0
/* Pages that a program serves by a userfaultfd: in time, late, or never. */
#include "odp_test.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN (2 * MB)

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

/* Begins another process, which opens the device for itself. */
static pid_t begin(int (*fn)(void))
{
	pid_t pid = fork_tied();

	if (!pid) {
		context = open_device();
		_exit(fn());
	}
	return pid;
}

/* Whether the process ends before long, and how. */
static bool has_ended(pid_t pid, int *status)
{
	for (int i = 0; i < 1000; i++) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		usleep(20000);
	}
	return false;
}

/* Whether another process succeeds, and before long. */
static bool succeeds(int (*fn)(void))
{
	pid_t pid = begin(fn);
	int status;

	if (has_ended(pid, &status))
		return WIFEXITED(status) && !WEXITSTATUS(status);
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
	pid_t pid = begin(fn);
	int status;

	usleep(700000);
	if (waitpid(pid, &status, WNOHANG))
		return false;
	kill(pid, SIGKILL);
	return has_ended(pid, &status) && WIFSIGNALED(status);
}

static void userfault_killed(struct pair *unused)
{
	(void)unused;
	CHECK(dies(stuck));
	CHECK(dies(stuck_elsewhere));
}

void userfault_tests(void)
{
	run_test("a transfer waits for a userfaultfd", userfault_resolved);
	run_test("a page that never comes holds up only its own request", userfault_never);
	run_test("requests that wait for a page are given up again and again", given_up);
	run_test("a process that waits for a page can be killed", userfault_killed);
}
