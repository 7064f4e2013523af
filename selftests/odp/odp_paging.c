// SPDX-License-Identifier: GPL-2.0
/*
 * Transfers over memory that is paged on demand. One file, long as it is: a list of
 * short tests that each say one thing of the same subject.
 */
#include "odp_test.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void capabilities(struct pair *pair)
{
	struct ibv_device_attr_ex attr = { 0 };
	uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	uint32_t uc = ud | IBV_ODP_SUPPORT_WRITE;
	/* Flush and atomic write, which distributions have no names for yet. */
	uint32_t rc = uc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | 1 << 6 | 1 << 7;

	(void)pair;
	CHECK_EQ(ibv_query_device_ex(context, NULL, &attr), 0);
	CHECK_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CHECK_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps, rc);
	CHECK_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps, uc);
	CHECK_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps, ud);
}

/* What it says is so, where other tests do not show it: with pages that are not there yet. */
static void unreliable(struct pair *unused)
{
	size_t len = 100000;

	(void)unused;
	for (int shared = 0; shared < 2; shared++) {
		struct pair *pair = pair_of(IBV_QPT_UC, shared);
		char *a = map(MB), *b = map(MB);
		struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP), *mb = reg(pair, b, MB, REMOTE | ODP);
		long faults = counter("page_faults");

		CHECK(ma && mb);
		CHECK_EQ(put(pair, ma, a, mb, b, len), IBV_WC_SUCCESS);
		CHECK_EQ(counter("page_faults"), faults + 2 * ((len + PAGE - 1) / PAGE));
		fill(a, MB, 1);
		CHECK_EQ(send_recv(pair, ma->lkey, a, mb->lkey, b, MB), IBV_WC_SUCCESS);
		CHECK(is_filled(b, MB, 1));
		ibv_dereg_mr(ma);
		ibv_dereg_mr(mb);
		pair_free(pair);
		munmap(a, MB);
		munmap(b, MB);
	}
}

static void datagrams(struct pair *unused)
{
	enum { LEN = 1000, HEADER = 40 };

	(void)unused;
	for (int shared = 0; shared < 2; shared++) {
		struct pair *pair = pair_of(IBV_QPT_UD, shared);
		char *a = map(MB), *b = map(MB);
		struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP), *mb = reg(pair, b, MB, LOCAL | ODP);
		struct ibv_sge from, to;
		struct ibv_send_wr *bad, wr = {
			.sg_list = &from,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { far_address(pair), pair->far->qp_num, QKEY },
		};

		CHECK(ma && mb && wr.wr.ud.ah);
		/* Over the end of a page, both sides. */
		from = (struct ibv_sge){ (uintptr_t)a + PAGE - 96, LEN, ma->lkey };
		to = (struct ibv_sge){ (uintptr_t)b + PAGE - 56, LEN + HEADER, mb->lkey };
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(post_recv(pair, &to), 0);
			CHECK_EQ(ibv_post_send(pair->near, &wr, &bad), 0);
			CHECK_EQ(wait_near(pair), IBV_WC_SUCCESS);
			CHECK_EQ(wait_far(pair), IBV_WC_SUCCESS);
			CHECK(!memcmp(a + PAGE - 96, b + PAGE - 56 + HEADER, LEN));
			fill(a, MB, i);
			CHECK_EQ(madvise(b, MB, MADV_DONTNEED), 0);
		}
		ibv_destroy_ah(wr.wr.ud.ah);
		ibv_dereg_mr(ma);
		ibv_dereg_mr(mb);
		pair_free(pair);
		munmap(a, MB);
		munmap(b, MB);
	}
}

static void shared_receives(struct pair *unused)
{
	struct pair *pair = pair_of(IBV_QPT_RC, true);
	char *a = map(MB), *b = map(MB);
	struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP), *mb = reg(pair, b, MB, LOCAL | ODP);

	(void)unused;
	CHECK(ma && mb);
	fill(a, MB, 5);
	CHECK_EQ(send_recv(pair, ma->lkey, a, mb->lkey, b, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(b, MB, 5));
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	pair_free(pair);
	munmap(a, MB);
	munmap(b, MB);
}

static void flush_and_atomic_write(struct pair *pair)
{
	uint64_t *b = map(MB);
	struct ibv_mr *mb = reg(pair, b, MB, REMOTE | IBV_ACCESS_FLUSH_GLOBAL | ODP);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->near);
	uint64_t value = 0x1122334455667788;

	CHECK(mb && qp);
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(qp, mb->rkey, (uintptr_t)&b[3 * 512 + 1], &value);
		CHECK_EQ(ibv_wr_complete(qp), 0);
		CHECK_EQ(wait_near(pair), IBV_WC_SUCCESS);
		CHECK_EQ(b[3 * 512 + 1], value);
		CHECK_EQ(b[3 * 512 + 2], 0);
		ibv_wr_start(qp);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_flush(qp, mb->rkey, (uintptr_t)b, MB, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		CHECK_EQ(ibv_wr_complete(qp), 0);
		CHECK_EQ(wait_near(pair), IBV_WC_SUCCESS);
		CHECK_EQ(madvise(b, MB, MADV_DONTNEED), 0);
	}
	munmap(b, MB);
	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, mb->rkey, (uintptr_t)b, &value);
	CHECK_EQ(ibv_wr_complete(qp), 0);
	CHECK_EQ(wait_near(pair), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(mb);
}

static void moves_bytes(struct pair *pair)
{
	size_t len = 3 * MB + 808;
	char *a = map(4 * MB), *b = map(4 * MB);
	struct ibv_mr *ma = reg(pair, a + 16, len, LOCAL | ODP);
	struct ibv_mr *mb = reg(pair, b + 24, len, REMOTE | ODP);

	CHECK(ma && mb);
	fill(a + 16, len, 1);
	CHECK_EQ(put(pair, ma, a + 16, mb, b + 24, len), IBV_WC_SUCCESS);
	CHECK(is_filled(b + 24, len, 1));
	fill(b + 24, len, 2);
	CHECK_EQ(get(pair, ma, a + 16, mb, b + 24, len), IBV_WC_SUCCESS);
	CHECK(is_filled(a + 16, len, 2));
	fill(a + 16, len, 3);
	CHECK_EQ(send_recv(pair, ma->lkey, a + 16, mb->lkey, b + 24, len), IBV_WC_SUCCESS);
	CHECK(is_filled(b + 24, len, 3));
	CHECK(counter("page_faults") > 0);
	CHECK_EQ(ibv_dereg_mr(ma), 0);
	CHECK_EQ(ibv_dereg_mr(mb), 0);
	munmap(a, 4 * MB);
	munmap(b, 4 * MB);
}

static void with_pinned(struct pair *pair)
{
	char *a = map(MB), *b = map(MB);
	struct ibv_mr *pinned = reg(pair, a, MB, REMOTE), *paged = reg(pair, b, MB, REMOTE | ODP);

	CHECK(pinned && paged);
	fill(a, MB, 4);
	CHECK_EQ(put(pair, pinned, a, paged, b, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(b, MB, 4));
	fill(b, MB, 5);
	CHECK_EQ(put(pair, paged, b, pinned, a, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(a, MB, 5));
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(paged);
	munmap(a, MB);
	munmap(b, MB);
}

static void within_one_region(struct pair *pair)
{
	char *a = map(40 * MB);
	struct ibv_mr *mr = reg(pair, a, 40 * MB, REMOTE | ODP);

	CHECK(mr);
	fill(a, 2 * MB, 6);
	/* Two places of one span, then of two. */
	CHECK_EQ(put(pair, mr, a, mr, a + 3 * MB, 2 * MB), IBV_WC_SUCCESS);
	CHECK(is_filled(a + 3 * MB, 2 * MB, 6));
	CHECK_EQ(put(pair, mr, a, mr, a + 37 * MB, 2 * MB), IBV_WC_SUCCESS);
	CHECK(is_filled(a + 37 * MB, 2 * MB, 6));
	ibv_dereg_mr(mr);
	munmap(a, 40 * MB);
}

static void implicit(struct pair *pair)
{
	struct ibv_mr *all = ibv_reg_mr(pair->pd, NULL, SIZE_MAX, REMOTE | ODP);
	char *a, *b;

	CHECK(all);
	a = map(5 * MB);
	b = map(5 * MB);
	fill(a, 5 * MB, 7);
	CHECK_EQ(put(pair, all, a, all, b, 5 * MB), IBV_WC_SUCCESS);
	CHECK(is_filled(b, 5 * MB, 7));
	munmap(b, 5 * MB);
	CHECK_EQ(put(pair, all, a, all, b, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	b = map(MB);
	CHECK_EQ(put(pair, all, a, all, b, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(b, MB, 7));
	/* The kernel's half of the address space, and where there can be nothing. */
	CHECK_EQ(put(pair, all, a, all, 0xffff888000000000UL, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(put(pair, all, a, all, 0x7ffffffff000UL, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(put(pair, all, a, all, UINT64_MAX - PAGE, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	/* Looking for what is not there, all over the address space, leaves nothing behind. */
	for (uint64_t at = 1UL << 40; at < 200UL << 40; at += 1UL << 40)
		advise_one(all, 0, 1, (void *)(at % (100UL << 40)), PAGE);
	ibv_dereg_mr(all);
	munmap(a, 5 * MB);
	munmap(b, MB);
}

static void holes(struct pair *pair)
{
	char *a = map(MB), *b = map(MB);
	struct ibv_mr *ma, *mb;

	munmap(b + MB / 2, PAGE);
	ma = reg(pair, a, MB, LOCAL | ODP);
	mb = reg(pair, b, MB, REMOTE | ODP);
	CHECK(ma && mb);
	CHECK_EQ(put(pair, ma, a, mb, b, MB), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(put(pair, mb, b, ma, a, MB), IBV_WC_REM_ACCESS_ERR); /* not remote */
	pair_reset(pair);
	CHECK_EQ(put(pair, mb, b, mb, b, MB), IBV_WC_LOC_PROT_ERR);
	pair_reset(pair);
	CHECK_EQ(get(pair, ma, a, mb, b, MB), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	/* Up to the hole, and from behind it on. */
	fill(a, MB / 2, 8);
	CHECK_EQ(put(pair, ma, a, mb, b, MB / 2), IBV_WC_SUCCESS);
	CHECK(is_filled(b, MB / 2, 8));
	CHECK_EQ(put(pair, ma, a, mb, b + MB / 2 + PAGE, MB / 2 - PAGE), IBV_WC_SUCCESS);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	munmap(a, MB);
	munmap(b, MB);
}

static void refused(struct pair *pair)
{
	char *a = map(MB);

	/* Nothing need be there yet, but the range must be one that there can be. */
	errno = 0;
	CHECK(!reg(pair, (void *)0xffff800000000000UL, PAGE, LOCAL | ODP));
	CHECK_EQ(errno, EFAULT);
	CHECK(!reg(pair, (void *)(UINTPTR_MAX - PAGE + 1), 2 * PAGE, LOCAL | ODP));
	munmap(a, MB);
}

/* Words that are not there yet, of a region that is written to by both sides. */
static void atomics(struct pair *pair)
{
	uint64_t *a = map(MB), *b = map(MB);
	struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP);
	struct ibv_mr *mb = reg(pair, b, MB, REMOTE | IBV_ACCESS_REMOTE_ATOMIC | ODP);

	CHECK(ma && mb);
	for (int i = 0; i < 8; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)&a[i * 512], .length = 8, .lkey = ma->lkey };
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = i % 2 ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = {
				.remote_addr = (uintptr_t)&b[i / 2 * 1024 + 1],
				.rkey = mb->rkey,
				.compare_add = 40,
				.swap = 2,
			},
		};

		CHECK_EQ(ibv_post_send(pair->near, &wr, &bad), 0);
		CHECK_EQ(wait_near(pair), IBV_WC_SUCCESS);
		CHECK_EQ(a[i * 512], i % 2 ? 40 : 0);
		CHECK_EQ(b[i / 2 * 1024 + 1], i % 2 ? 2 : 40);
	}
	munmap(b, PAGE);
	CHECK_EQ(put(pair, ma, a, mb, b, 8), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	munmap(a, MB);
	munmap(b, MB);
}

/* A request that nobody was ready for is executed later, by no process. */
static void faults_of_nobody(struct pair *pair)
{
	char *a = map(MB), *b = map(MB);
	struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP), *mb = reg(pair, b, MB, LOCAL | ODP);
	struct ibv_sge from, to;
	struct ibv_send_wr *bad, wr = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr *bad_recv, recv = { .sg_list = &to, .num_sge = 1 };
	long faults = counter("page_faults");

	CHECK(ma && mb);
	from = (struct ibv_sge){ (uintptr_t)a, MB, ma->lkey };
	to = (struct ibv_sge){ (uintptr_t)b, MB, mb->lkey };
	CHECK_EQ(ibv_post_send(pair->near, &wr, &bad), 0);
	fill(a, MB, 20);
	CHECK_EQ(ibv_post_recv(pair->far, &recv, &bad_recv), 0);
	CHECK_EQ(wait_near(pair), IBV_WC_SUCCESS);
	CHECK(is_filled(b, MB, 20));
	CHECK_EQ(counter("page_faults"), faults + 2 * MB / PAGE);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	munmap(a, MB);
	munmap(b, MB);
}

/* What two processes tell each other. */
struct meeting {
	volatile uint32_t parent_qp, child_qp, rkey, step;
	volatile uint64_t addr;
};

static bool reaches(struct meeting *meeting, uint32_t step)
{
	for (int i = 0; i < 5000 && meeting->step < step; i++)
		usleep(1000);
	return meeting->step >= step;
}

static void other_process(struct meeting *meeting)
{
	struct pair *pair;
	char *b = map(4 * MB);
	struct ibv_mr *mb;

	context = open_device();
	pair = pair_new();
	mb = reg(pair, b, 4 * MB, REMOTE | ODP);
	meeting->rkey = mb->rkey;
	meeting->addr = (uintptr_t)b;
	meeting->child_qp = pair->far->qp_num;
	meeting->step = 1;
	if (!reaches(meeting, 2) || pair_connect_far(pair, meeting->parent_qp))
		_exit(1);
	meeting->step = 3;
	if (!reaches(meeting, 4) || !is_filled(b, 4 * MB, 21))
		_exit(2);
	fill(b, 4 * MB, 22);
	meeting->step = 5;
	pause();
}

static void between_processes(struct pair *pair)
{
	struct meeting *meeting = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *a = map(4 * MB);
	struct ibv_mr *ma = reg(pair, a, 4 * MB, LOCAL | ODP);
	pid_t pid = fork_tied();
	int status;

	if (!pid)
		other_process(meeting);
	CHECK(ma && pid > 0 && reaches(meeting, 1));
	CHECK_EQ(pair_connect_near(pair, meeting->child_qp), 0);
	meeting->parent_qp = pair->near->qp_num;
	meeting->step = 2;
	CHECK(reaches(meeting, 3));
	fill(a, 4 * MB, 21);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, meeting->rkey, meeting->addr, 4 * MB),
		 IBV_WC_SUCCESS);
	meeting->step = 4;
	CHECK(reaches(meeting, 5));
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_READ, ma->lkey, a, meeting->rkey, meeting->addr, 4 * MB),
		 IBV_WC_SUCCESS);
	CHECK(is_filled(a, 4 * MB, 22));
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK(WIFSIGNALED(status));
	ibv_dereg_mr(ma);
	munmap(a, 4 * MB);
}

static void secret_memory(struct pair *pair)
{
	int fd = syscall(447 /* memfd_secret */, 0);
	char *a = map(MB), *s;
	struct ibv_mr *ma, *ms;

	if (fd < 0) {
		skip("no memfd_secret");
		return;
	}
	CHECK_EQ(ftruncate(fd, MB), 0);
	s = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(s != MAP_FAILED);
	fill(s, MB, 9);
	ma = reg(pair, a, MB, LOCAL | ODP);
	ms = reg(pair, s, MB, REMOTE | ODP);
	CHECK(ma && ms);
	CHECK_EQ(put(pair, ma, a, ms, s, MB), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(ms);
	munmap(a, MB);
	munmap(s, MB);
	close(fd);
}

/* A page of a device's registers, or whatever its first resource is. */
static char *device_page(void)
{
	char *addr = MAP_FAILED;
	glob_t found;

	if (glob("/sys/bus/pci/devices/*/resource[0-5]", 0, NULL, &found))
		return NULL;
	for (size_t i = 0; i < found.gl_pathc && addr == MAP_FAILED; i++) {
		int fd = open(found.gl_pathv[i], O_RDWR);

		if (fd < 0)
			continue;
		addr = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	globfree(&found);
	return addr == MAP_FAILED ? NULL : addr;
}

static void device_mappings(struct pair *pair)
{
	char *a = map(MB), *registers = device_page();
	struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP), *mr;

	if (!registers) {
		skip("no device can be mapped");
		return;
	}
	mr = reg(pair, registers, PAGE, REMOTE | ODP);
	CHECK(ma && mr);
	CHECK_EQ(get(pair, ma, a, mr, registers, PAGE), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(put(pair, ma, a, mr, registers, 8), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(advise_one(mr, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, registers,
			    PAGE), EFAULT);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mr);
	munmap(a, MB);
	munmap(registers, PAGE);
}

static void hugetlbfs(struct pair *pair)
{
	size_t len = 4 * MB;
	FILE *count = fopen("/proc/sys/vm/nr_hugepages", "w");
	char *a = map(len), *huge;
	struct ibv_mr *ma, *mh;

	if (!count || fprintf(count, "4") < 0 || fclose(count)) {
		skip("no huge pages");
		return;
	}
	huge = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
		    0);
	if (huge == MAP_FAILED) {
		skip("no huge pages");
		return;
	}
	ma = reg(pair, a, len, REMOTE);
	mh = reg(pair, huge, len, REMOTE | ODP | IBV_ACCESS_HUGETLB);
	CHECK(ma && mh);
	fill(a, len, 1);
	CHECK_EQ(put(pair, ma, a + 808, mh, huge + 808, len - 808), IBV_WC_SUCCESS);
	CHECK(!memcmp(a + 808, huge + 808, len - 808) && !huge[0]);
	CHECK_EQ(madvise(huge + 2 * MB, 2 * MB, MADV_DONTNEED), 0);
	CHECK_EQ(get(pair, ma, a, mh, huge, len), IBV_WC_SUCCESS);
	CHECK(!memcmp(a, huge, 2 * MB));
	CHECK(!a[2 * MB] && !memcmp(a + 2 * MB, a + 2 * MB + 1, 2 * MB - 1));
	munmap(huge, 2 * MB);
	CHECK_EQ(put(pair, ma, a, mh, huge, 8), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(put(pair, ma, a, mh, huge + 2 * MB, 2 * MB), IBV_WC_SUCCESS);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mh);
	munmap(huge + 2 * MB, 2 * MB);
	munmap(a, len);
}

/* Of another process, which has let this one have the region, and ends. */
static void of_the_dead(struct pair *pair)
{
	struct ibv_mr *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				     0);
	char *a = map(MB);
	struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP), theirs;
	int go[2], byte, status;
	pid_t pid;

	CHECK(ma && !pipe(go));
	pid = fork_tied();
	if (!pid) {
		/* The file of the device is the parent's, the memory is not. */
		char *b = map(MB);
		struct ibv_mr *mr = reg(pair, b, MB, REMOTE | ODP);

		if (!mr)
			_exit(1);
		shared->addr = mr->addr;
		shared->handle = mr->handle;
		shared->lkey = mr->lkey;
		shared->pd = mr->pd;
		__atomic_store_n(&shared->rkey, mr->rkey, __ATOMIC_RELEASE);
		_exit(read(go[0], &byte, 1) != 1 || !is_filled(b, MB / 2, 12));
	}
	CHECK(pid > 0);
	for (int i = 0; i < 500 && !__atomic_load_n(&shared->rkey, __ATOMIC_ACQUIRE); i++)
		usleep(10000);
	theirs = *shared;
	CHECK(theirs.rkey);
	fill(a, MB, 12);
	CHECK_EQ(put(pair, ma, a, &theirs, theirs.addr, MB / 2), IBV_WC_SUCCESS);
	CHECK(write(go[1], "", 1) == 1);
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK_EQ(put(pair, ma, a, &theirs, theirs.addr, 8), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(put(pair, ma, a, &theirs, (char *)theirs.addr + MB / 2, 8), IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(advise_one(&theirs, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH,
			    theirs.addr, PAGE), EFAULT);
	CHECK_EQ(dereg_raw(pair->context, theirs.handle), 0);
	ibv_dereg_mr(ma);
	close(go[0]);
	close(go[1]);
	munmap(shared, PAGE);
	munmap(a, MB);
}

/* A window is as good as the region that it is bound to. */
static void memory_window(struct pair *pair)
{
	char *a = map(MB), *b = map(MB);
	struct ibv_mr *ma = reg(pair, a, MB, LOCAL | ODP);
	struct ibv_mr *mb = reg(pair, b, MB, LOCAL | IBV_ACCESS_MW_BIND | ODP);
	struct ibv_mw *mw = ibv_alloc_mw(pair->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };

	CHECK(ma && mb && mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mb, (uintptr_t)b + MB / 2, MB / 2,
							  IBV_ACCESS_REMOTE_WRITE };
	CHECK_EQ(ibv_post_send(pair->far, &wr, &bad), 0);
	CHECK_EQ(wait_far(pair), IBV_WC_SUCCESS);
	fill(a, MB / 2, 13);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, wr.bind_mw.rkey, (uintptr_t)b + MB / 2,
		      MB / 2), IBV_WC_SUCCESS);
	CHECK(is_filled(b + MB / 2, MB / 2, 13));
	CHECK_EQ(madvise(b, MB, MADV_DONTNEED), 0);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, wr.bind_mw.rkey, (uintptr_t)b + MB / 2,
		      MB / 2), IBV_WC_SUCCESS);
	CHECK(is_filled(b + MB / 2, MB / 2, 13));
	munmap(b + MB / 2, PAGE);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, wr.bind_mw.rkey, (uintptr_t)b + MB / 2, 8),
		 IBV_WC_REM_ACCESS_ERR);
	ibv_dealloc_mw(mw);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	munmap(a, MB);
	munmap(b, MB);
}

static void of_files(struct pair *pair)
{
	int fd = memfd_create("odp", 0);
	char *a = map(MB), *p, *s;
	struct ibv_mr *ma, *mp, *ms;

	CHECK(fd >= 0 && !ftruncate(fd, MB));
	s = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ma = reg(pair, a, MB, LOCAL | ODP);
	ms = reg(pair, s, MB, REMOTE | ODP);
	mp = reg(pair, p, MB, REMOTE | ODP);
	CHECK(ma && ms && mp);
	fill(a, MB, 10);
	CHECK_EQ(put(pair, ma, a, ms, s, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(s, MB, 10));
	/* A private mapping shows the file until it is written to, and then keeps it to itself. */
	CHECK_EQ(get(pair, ma, a, mp, p, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(a, MB, 10));
	fill(a, MB, 11);
	CHECK_EQ(put(pair, ma, a, mp, p, MB), IBV_WC_SUCCESS);
	CHECK(is_filled(p, MB, 11));
	CHECK(is_filled(s, MB, 10));
	/* Behind the end of the file there is nothing. */
	CHECK_EQ(ftruncate(fd, MB / 2), 0);
	CHECK_EQ(put(pair, ma, a, ms, s, MB / 2), IBV_WC_SUCCESS);
	CHECK_EQ(put(pair, ma, a, ms, s + MB / 2, MB / 2), IBV_WC_REM_ACCESS_ERR);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(ms);
	ibv_dereg_mr(mp);
	munmap(a, MB);
	munmap(s, MB);
	munmap(p, MB);
	close(fd);
}

void paging_tests(void)
{
	run_test("the device says what it can", capabilities);
	run_test("WRITE, READ and SEND move bytes between paged regions", moves_bytes);
	run_test("paged and pinned regions go together", with_pinned);
	run_test("a region can be both sides of a transfer", within_one_region);
	run_test("an implicit region covers mappings made later", implicit);
	run_test("a hole gives an access error", holes);
	run_test("ranges outside of the address space are refused", refused);
	run_test("memory that the kernel must not see gives an access error", secret_memory);
	run_test("a device's registers are not to be paged", device_mappings);
	run_test("pages of hugetlbfs", hugetlbfs);
	run_test("memory of a process that has ended gives access errors", of_the_dead);
	run_test("a memory window over paged memory", memory_window);
	run_test("atomic operations on words that are not there yet", atomics);
	run_test("unreliable connections take faults, too", unreliable);
	run_test("datagrams take faults, too", datagrams);
	run_test("shared receives take faults, too", shared_receives);
	run_test("flush and atomic write take faults, too", flush_and_atomic_write);
	run_test("faults of requests that no process executes", faults_of_nobody);
	run_test("transfers into another process's paged memory", between_processes);
	run_test("shared and private mappings of a file", of_files);
}
