// SPDX-License-Identifier: GPL-2.0
/*
 * Regions over buffers of other drivers. One file, long as it is: the kinds of buffers
 * share the helpers that make and move them, and nothing else needs those.
 */
#include "exporter/mrx_test_exporter.h"
#include "odp_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mrx_user_ioctl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define LEN (2 * MB)

static void *map_fd(int fd, size_t len)
{
	void *addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return addr == MAP_FAILED ? NULL : addr;
}

static void sync_fd(int fd, uint64_t flags)
{
	struct dma_buf_sync sync = { .flags = flags };

	ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
}

/* The two methods that make a region of a buffer. */
typedef int (*reg_fn)(struct ibv_pd *pd, uint64_t offset, uint64_t len, uint64_t iova, int fd,
		      int access, struct raw_mr *mr);
static const reg_fn methods[] = { reg_dmabuf, reg_fd };
#define METHODS (sizeof(methods) / sizeof(methods[0]))

/* Moves bytes in and out of a buffer, and looks at them through a mapping of it. */
static void transfers_of(struct pair *pair, int fd, reg_fn reg_buffer)
{
	char *a = map(LEN), *view = map_fd(fd, LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE | ODP);
	struct raw_mr mr;

	CHECK(ma && view);
	CHECK_EQ(reg_buffer(pair->pd, 0, LEN, 0, fd, REMOTE, &mr), 0);
	fill(a, LEN, 1);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, LEN), IBV_WC_SUCCESS);
	sync_fd(fd, DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW);
	CHECK(is_filled(view, LEN, 1));
	fill(view, LEN, 2);
	sync_fd(fd, DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_READ, ma->lkey, a, mr.rkey, 0, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(a, LEN, 2));
	/* Both sides at once, and a part that begins inside of a page of the buffer. */
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, mr.lkey, 0, mr.rkey, MB, MB), IBV_WC_SUCCESS);
	CHECK(!memcmp(view, view + MB, MB));
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	CHECK_EQ(reg_buffer(pair->pd, PAGE + 100, PAGE, 0x10000 + 100, fd, REMOTE, &mr), 0);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_READ, ma->lkey, a, mr.rkey, 0x10000 + 100, PAGE),
		 IBV_WC_SUCCESS);
	CHECK(!memcmp(a, view + PAGE + 100, PAGE));
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_READ, ma->lkey, a, mr.rkey, 0x10000 + 100, PAGE + 1),
		 IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	ibv_dereg_mr(ma);
	munmap(view, LEN);
	munmap(a, LEN);
}

static void transfers(struct pair *pair, int fd)
{
	for (size_t i = 0; i < METHODS; i++)
		transfers_of(pair, fd, methods[i]);
}

static int udmabuf(void)
{
	int fd = open("/dev/udmabuf", O_RDWR), memfd;
	struct udmabuf_create create = { .size = LEN };

	if (fd < 0)
		return -1;
	memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING);
	if (ftruncate(memfd, LEN) || fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	create.memfd = memfd;
	fd = ioctl(fd, UDMABUF_CREATE, &create);
	close(memfd);
	return fd;
}

static void from_udmabuf(struct pair *pair)
{
	int fd = udmabuf();

	if (fd < 0) {
		skip("no udmabuf");
		return;
	}
	transfers(pair, fd);
	close(fd);
}

static void from_heap(struct pair *pair)
{
	int heap = open("/dev/dma_heap/system", O_RDONLY);
	struct dma_heap_allocation_data data = { .len = LEN, .fd_flags = O_RDWR | O_CLOEXEC };

	if (heap < 0) {
		skip("no system heap");
		return;
	}
	CHECK_EQ(ioctl(heap, DMA_HEAP_IOCTL_ALLOC, &data), 0);
	transfers(pair, data.fd);
	close(data.fd);
	close(heap);
}

static int exporter = -1;

int exported(uint64_t size, uint32_t flags)
{
	struct mrx_test_buffer request = { .size = size, .flags = flags };

	if (exporter < 0)
		exporter = open("/dev/mrx_test_exporter", O_RDWR);
	if (exporter < 0 || ioctl(exporter, MRX_TEST_CREATE, &request))
		return -1;
	return request.fd;
}

static struct mrx_test_state state(int fd)
{
	struct mrx_test_state answer = { .fd = fd };

	if (ioctl(exporter, MRX_TEST_STATE, &answer))
		answer.fd = -1;
	return answer;
}

uint32_t attachments(int fd)
{
	return state(fd).attachments;
}

void no_exporter(void)
{
	skip("no exporter module");
}

static void refused(struct pair *pair)
{
	int fd = exported(LEN, 0), no_cpu = exported(LEN, MRX_TEST_NO_CPU);
	int file = memfd_create("no dma-buf", 0);
	struct raw_mr mr;

	if (fd < 0) {
		no_exporter();
		return;
	}
	for (size_t i = 0; i < METHODS; i++) {
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 8, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 4, LEN - 4, 8, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 0, LEN + 1, 0, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, LEN, PAGE, 0, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 0, 0, 0, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, UINT64_MAX - PAGE + 1, PAGE, 0, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, UINT64_MAX - PAGE + 1, fd, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 0, file, REMOTE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 0, 999, REMOTE, &mr), EBADF);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 0, no_cpu, REMOTE, &mr), EOPNOTSUPP);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 0, -1, REMOTE, &mr), EBADF);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 0, fd, IBV_ACCESS_REMOTE_WRITE, &mr), EINVAL);
		CHECK_EQ(methods[i](pair->pd, 0, LEN, 0, fd, REMOTE | ODP, &mr), EINVAL);
	}
	CHECK_EQ(state(fd).attachments, 0);
	close(fd);
	close(no_cpu);
	close(file);
}

static void device_memory(struct pair *pair)
{
	int fd = exported(LEN, MRX_TEST_IOMEM);

	if (fd < 0 && errno == EOPNOTSUPP) {
		skip("no memory can pass for a device's in this kernel");
		return;
	}
	if (fd < 0) {
		no_exporter();
		return;
	}
	transfers(pair, fd);
	CHECK_EQ(state(fd).attachments, 0);
	close(fd);
}

static void balanced(struct pair *pair)
{
	int fd = exported(LEN, 0);
	char *a = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE);
	struct raw_mr mr;
	struct mrx_test_state before, after;

	if (fd < 0) {
		no_exporter();
		return;
	}
	transfers(pair, fd);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, fd, REMOTE, &mr), 0);
	before = state(fd);
	CHECK_EQ(before.attachments, 1);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, LEN), IBV_WC_SUCCESS);
	after = state(fd);
	/* One request accesses it once, without mapping it anew. */
	CHECK_EQ(after.begins, before.begins + 1);
	CHECK_EQ(after.ends, after.begins);
	CHECK_EQ(after.maps, before.maps);
	/* The buffer outlives its file descriptor while it is registered. */
	close(fd);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	ibv_dereg_mr(ma);
	munmap(a, LEN);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
	(void)number;
	alarms++;
}

/* As rdma(), while signals come that do not kill. */
static int disturbed(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t lkey, const void *addr,
		     uint32_t rkey, uint64_t remote, size_t len)
{
	struct sigaction before, action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { 0 };
	int status;

	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	status = rdma(pair, opcode, lkey, addr, rkey, remote, len);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	return status;
}

/* An exporter that gives up waiting because of a signal is asked again. */
static void signals(struct pair *pair)
{
	int fd = exported(LEN, MRX_TEST_SLOW);
	char *a = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE);
	struct raw_mr mr;

	if (fd < 0) {
		no_exporter();
		return;
	}
	CHECK(ma);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, fd, REMOTE, &mr), 0);
	fill(a, MB, 1);
	alarms = 0;
	CHECK_EQ(disturbed(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, MB), IBV_WC_SUCCESS);
	CHECK(alarms > 0);
	/* As the requester's own memory, and as both sides of a request. */
	CHECK_EQ(disturbed(pair, IBV_WR_RDMA_WRITE, mr.lkey, 0, ma->rkey, (uintptr_t)a + MB, MB),
		 IBV_WC_SUCCESS);
	CHECK(is_filled(a + MB, MB, 1));
	CHECK_EQ(disturbed(pair, IBV_WR_RDMA_WRITE, mr.lkey, 0, mr.rkey, MB, MB), IBV_WC_SUCCESS);
	memset(a, 0, LEN);
	CHECK_EQ(disturbed(pair, IBV_WR_RDMA_READ, ma->lkey, a, mr.rkey, 0, LEN), IBV_WC_SUCCESS);
	CHECK(is_filled(a, MB, 1) && is_filled(a + MB, MB, 1));
	CHECK_EQ(state(fd).ends, state(fd).begins);
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	ibv_dereg_mr(ma);
	close(fd);
	munmap(a, LEN);
}

struct mover {
	int fd;
	volatile int stop;
};

static void *moves(void *arg)
{
	struct mover *mover = arg;

	while (!mover->stop) {
		uint32_t fd = mover->fd;

		if (ioctl(exporter, MRX_TEST_MOVE, &fd))
			break;
		usleep(200);
	}
	return NULL;
}

static void moved(struct pair *pair)
{
	struct mover mover = { .fd = exported(LEN, 0) };
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE | ODP), *mb = reg(pair, b, LEN, REMOTE);
	struct raw_mr mr;
	pthread_t thread;

	if (mover.fd < 0) {
		no_exporter();
		return;
	}
	CHECK(ma && mb);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, mover.fd, REMOTE, &mr), 0);
	pthread_create(&thread, NULL, moves, &mover);
	/* The other thread may be long in getting its turn. */
	for (int i = 0; i < 60 || (state(mover.fd).moves <= 5 && i < 6000); i++) {
		fill(a, LEN, i);
		CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, LEN),
			 IBV_WC_SUCCESS);
		/* From one half of the buffer to the other, too. */
		CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, mr.lkey, 0, mr.rkey, MB, MB),
			 IBV_WC_SUCCESS);
		CHECK_EQ(rdma(pair, IBV_WR_RDMA_READ, mb->lkey, b, mr.rkey, 0, LEN),
			 IBV_WC_SUCCESS);
		CHECK(is_filled(b, MB, i) && is_filled(b + MB, MB, i));
	}
	mover.stop = 1;
	pthread_join(thread, NULL);
	printf("# %u moves\n", state(mover.fd).moves);
	CHECK(state(mover.fd).moves > 5);
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	CHECK_EQ(state(mover.fd).attachments, 0);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	close(mover.fd);
	munmap(a, LEN);
	munmap(b, LEN);
}

static void *revokes(void *arg)
{
	uint32_t fd = ((struct mover *)arg)->fd;

	usleep(20000);
	ioctl(exporter, MRX_TEST_REVOKE, &fd);
	return NULL;
}

static void revoked(struct pair *pair)
{
	int fd = exported(LEN, 0);
	uint32_t number = fd;
	char *a = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE);
	struct raw_mr mr;

	if (fd < 0) {
		no_exporter();
		return;
	}
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, fd, REMOTE, &mr), 0);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(ioctl(exporter, MRX_TEST_REVOKE, &number), 0);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, ma->lkey, a, mr.rkey, 0, LEN),
		 IBV_WC_REM_ACCESS_ERR);
	pair_reset(pair);
	CHECK_EQ(rdma(pair, IBV_WR_RDMA_WRITE, mr.lkey, 0, ma->rkey, (uintptr_t)a, LEN),
		 IBV_WC_LOC_PROT_ERR);
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	ibv_dereg_mr(ma);
	close(fd);
	munmap(a, LEN);
}

/* Two buffers, paged and pinned memory in one layout. */
static void in_a_layout(struct pair *pair)
{
	enum { COUNT = 32, PIECE = 5000 };
	struct mover mover = { .fd = exported(LEN, 0) };
	int second = exported(LEN, 0);
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE | ODP), *mb = reg(pair, b, LEN, REMOTE);
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
	struct ib_uverbs_sge list[COUNT];
	struct layout_list sg = { (uintptr_t)list, COUNT, sizeof(list[0]) };
	struct raw_mr one, two;
	pthread_t thread;

	if (mover.fd < 0) {
		no_exporter();
		return;
	}
	CHECK(ma && mb && mr);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, mover.fd, REMOTE, &one), 0);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, second, REMOTE, &two), 0);
	for (int i = 0; i < COUNT; i++)
		list[i] = (struct ib_uverbs_sge){
			.addr = i * PIECE + (i % 3 == 2 ? (uintptr_t)a : 0),
			.length = PIECE,
			.lkey = i % 3 == 0 ? one.lkey : i % 3 == 1 ? two.lkey : ma->lkey,
		};
	CHECK_EQ(set_layout(mr, &sg, NULL), 0);
	CHECK_EQ(dereg_raw(pair->context, one.handle), EBUSY);
	pthread_create(&thread, NULL, moves, &mover);
	for (int i = 0; i < 20; i++) {
		fill(b, COUNT * PIECE, i);
		CHECK_EQ(put(pair, mb, b, mr, 0, COUNT * PIECE), IBV_WC_SUCCESS);
		memset(b, 0, COUNT * PIECE);
		CHECK_EQ(get(pair, mb, b, mr, 0, COUNT * PIECE), IBV_WC_SUCCESS);
		CHECK(is_filled(b, COUNT * PIECE, i));
	}
	mover.stop = 1;
	pthread_join(thread, NULL);
	ibv_dereg_mr(mr);
	CHECK_EQ(dereg_raw(pair->context, one.handle), 0);
	CHECK_EQ(dereg_raw(pair->context, two.handle), 0);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	close(mover.fd);
	close(second);
	munmap(a, LEN);
	munmap(b, LEN);
}

/* A buffer is revoked while a request writes to it and another one reads. */
static void revoked_under_traffic(struct pair *pair)
{
	char *a = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE);

	CHECK(ma);
	for (int i = 0; i < 10; i++) {
		uint32_t fd = exported(LEN, 0);
		struct mover mover = { .fd = fd };
		struct raw_mr mr;
		pthread_t thread;
		int status = 0, rounds = 0;

		if ((int)fd < 0) {
			no_exporter();
			return;
		}
		CHECK_EQ(methods[i % METHODS](pair->pd, 0, LEN, 0, fd, REMOTE, &mr), 0);
		pthread_create(&thread, NULL, revokes, &mover);
		for (rounds = 0; !status && rounds < 100000; rounds++)
			status = rdma(pair, rounds % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				      ma->lkey, a, mr.rkey, 0, LEN);
		pthread_join(thread, NULL);
		CHECK_EQ(status, IBV_WC_REM_ACCESS_ERR);
		pair_reset(pair);
		CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
		CHECK_EQ(state(fd).attachments, 0);
		close(fd);
	}
	ibv_dereg_mr(ma);
	munmap(a, LEN);
}

static void atomics(struct pair *pair)
{
	for (uint32_t flags = 0; flags <= MRX_TEST_IOMEM; flags += MRX_TEST_IOMEM) {
		int fd = exported(LEN, flags);

		/* see device_memory() */
		if (fd < 0 && flags && errno == EOPNOTSUPP)
			return;
		uint64_t *a = map(PAGE), *view = map_fd(fd, LEN);
		struct ibv_mr *ma = reg(pair, a, PAGE, REMOTE);
		struct ibv_sge sge = { (uintptr_t)a, 8, 0 };
		struct ibv_send_wr *bad, wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.atomic = { .remote_addr = 4096 + 8, .compare_add = 5 },
		};
		struct raw_mr mr;

		if (fd < 0) {
			no_exporter();
			return;
		}
		CHECK(ma && view);
		sge.lkey = ma->lkey;
		CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, fd, REMOTE | IBV_ACCESS_REMOTE_ATOMIC, &mr),
			 0);
		wr.wr.atomic.rkey = mr.rkey;
		view[513] = 37;
		CHECK_EQ(ibv_post_send(pair->near, &wr, &bad), 0);
		/* Memory of a device has none. */
		CHECK_EQ(wait_near(pair), flags ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
		CHECK_EQ(view[513], flags ? 37 : 42);
		CHECK_EQ(a[0], flags ? 0 : 37);
		pair_reset(pair);
		CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
		ibv_dereg_mr(ma);
		close(fd);
		munmap(view, LEN);
		munmap(a, PAGE);
	}
}

/*
 * Data of a buffer that moves and of paged memory in turn, and a layout that
 * takes the second half of that first.
 */
static void interleaved_and_nested(struct pair *pair)
{
	enum { DATA = 2000, DATUM = 40, STRIDE = 56, TOTAL = 2 * DATA * DATUM };
	struct mover mover = { .fd = exported(LEN, 0) };
	char *paged = map(LEN), *flat = map(LEN), *view = map(LEN);
	struct ibv_mr *mp = reg(pair, paged, LEN, REMOTE | ODP), *mf = reg(pair, flat, LEN, REMOTE);
	struct ibv_mr *inner = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
	struct ibv_mr *outer = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
	struct mrx_interleaved entries[2] = {
		{ .addr = 8, .length = DATUM, .num_repeated = 1, .num_dimensions = 1 },
		{ .addr = (uintptr_t)paged, .length = DATUM, .num_repeated = 1, .num_dimensions = 1 },
	};
	struct mrx_dimension dims[2] = { { STRIDE, DATA }, { STRIDE, DATA } };
	struct layout_list list = { (uintptr_t)entries, 2, sizeof(entries[0]) };
	struct layout_list dim_list = { (uintptr_t)dims, 2, sizeof(dims[0]) };
	struct ib_uverbs_sge halves[2] = { { TOTAL / 2, TOTAL / 2, 0 }, { 0, TOTAL / 2, 0 } };
	struct layout_list sg = { (uintptr_t)halves, 2, sizeof(halves[0]) };
	struct raw_mr mr;
	pthread_t thread;

	if (mover.fd < 0) {
		no_exporter();
		return;
	}
	CHECK(mp && mf && inner && outer);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, mover.fd, REMOTE, &mr), 0);
	entries[0].lkey = mr.lkey;
	entries[1].lkey = mp->lkey;
	CHECK_EQ(set_layout(inner, &list, &dim_list), 0);
	halves[0].lkey = halves[1].lkey = inner->lkey;
	CHECK_EQ(set_layout(outer, &sg, NULL), 0);
	pthread_create(&thread, NULL, moves, &mover);
	for (int round = 0; round < 8; round++) {
		fill(flat, TOTAL, round);
		CHECK_EQ(put(pair, mf, flat, outer, 0, TOTAL), IBV_WC_SUCCESS);
		CHECK_EQ(rdma(pair, IBV_WR_RDMA_READ, mf->lkey, flat + MB, mr.rkey, 0, LEN / 2),
			 IBV_WC_SUCCESS);
		memcpy(view, flat + MB, LEN / 2);
		for (int i = 0; i < 2 * DATA; i++) {
			/* The data of the two take turns; the layout above swaps the halves. */
			char *datum = i % 2 ? paged + i / 2 * STRIDE : view + 8 + i / 2 * STRIDE;

			CHECK(!memcmp(datum, flat + (i * DATUM + TOTAL / 2) % TOTAL, DATUM));
		}
		memset(flat, 0, TOTAL);
		CHECK_EQ(get(pair, mf, flat, outer, 0, TOTAL), IBV_WC_SUCCESS);
		CHECK(is_filled(flat, TOTAL, round));
		/* What there is of it to be paged is prefetched. */
		CHECK_EQ(madvise(paged, LEN, MADV_DONTNEED), 0);
		CHECK_EQ(advise_one(outer, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, 0, TOTAL), 0);
	}
	mover.stop = 1;
	pthread_join(thread, NULL);
	ibv_dereg_mr(outer);
	ibv_dereg_mr(inner);
	/* All of the buffer, no page of which is paged by the module. */
	inner = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
	halves[0] = halves[1] = (struct ib_uverbs_sge){ 0, LEN / 2, mr.lkey };
	CHECK_EQ(set_layout(inner, &sg, NULL), 0);
	CHECK_EQ(advise_one(inner, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, 0, PAGE),
		 EINVAL);
	ibv_dereg_mr(inner);
	CHECK_EQ(dereg_raw(pair->context, mr.handle), 0);
	ibv_dereg_mr(mp);
	ibv_dereg_mr(mf);
	close(mover.fd);
	munmap(paged, LEN);
	munmap(flat, LEN);
	munmap(view, LEN);
}

int held(void)
{
	int fd = exported(LEN, 0);
	struct pair *pair = pair_new();
	struct raw_mr mr;

	if (fd < 0 || reg_dmabuf(pair->pd, 0, LEN, 0, fd, REMOTE, &mr))
		return 3;
	close(fd);
	close(exporter);
	ready();
	/* The buffer is still good. */
	return rdma(pair, IBV_WR_RDMA_WRITE, mr.lkey, 0, mr.rkey, MB, MB) != IBV_WC_SUCCESS;
}

void dmabuf_tests(void)
{
	run_test("a buffer of udmabuf", from_udmabuf);
	run_test("a buffer of the system heap", from_heap);
	run_test("what cannot be accessed is refused", refused);
	run_test("a buffer of device memory", device_memory);
	run_test("CPU access begins and ends once a request", balanced);
	run_test("a signal that does not kill is no error", signals);
	run_test("buffers move under traffic", moved);
	run_test("a revoked buffer gives access errors", revoked);
	run_test("a buffer is revoked under traffic", revoked_under_traffic);
	run_test("atomic operations on words of buffers", atomics);
	run_test("a layout over buffers and paged memory", in_a_layout);
	run_test("an interleaved layout over a buffer, and one over it", interleaved_and_nested);
}
