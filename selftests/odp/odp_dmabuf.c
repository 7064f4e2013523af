// SPDX-License-Identifier: GPL-2.0
/* Regions over buffers of other drivers. */
#include "exporter/mrx_test_exporter.h"
#include "odp_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

/* Moves bytes in and out of a buffer, and looks at them through a mapping of it. */
static void transfers(struct pair *pair, int fd)
{
	char *a = map(LEN), *view = map_fd(fd, LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE | ODP);
	struct raw_mr mr;

	CHECK(ma && view);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, fd, REMOTE, &mr), 0);
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
	CHECK_EQ(reg_dmabuf(pair->pd, PAGE + 100, PAGE, 0x10000 + 100, fd, REMOTE, &mr), 0);
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

static int create(uint64_t size, uint32_t flags)
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

static void refused(struct pair *pair)
{
	int fd = create(LEN, 0), no_cpu = create(LEN, MRX_TEST_NO_CPU);
	int file = memfd_create("no dma-buf", 0);
	struct raw_mr mr;

	if (fd < 0) {
		skip("no exporter module");
		return;
	}
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 8, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, 4, LEN - 4, 8, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN + 1, 0, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, LEN, PAGE, 0, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, 0, 0, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, UINT64_MAX - PAGE + 1, PAGE, 0, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, UINT64_MAX - PAGE + 1, fd, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, file, REMOTE, &mr), EINVAL);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, 999, REMOTE, &mr), EBADF);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, no_cpu, REMOTE, &mr), EOPNOTSUPP);
	CHECK_EQ(state(fd).attachments, 0);
	close(fd);
	close(no_cpu);
	close(file);
}

static void device_memory(struct pair *pair)
{
	int fd = create(LEN, MRX_TEST_IOMEM);

	if (fd < 0) {
		skip("no exporter module");
		return;
	}
	transfers(pair, fd);
	CHECK_EQ(state(fd).attachments, 0);
	close(fd);
}

static void balanced(struct pair *pair)
{
	int fd = create(LEN, 0);
	char *a = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE);
	struct raw_mr mr;
	struct mrx_test_state before, after;

	if (fd < 0) {
		skip("no exporter module");
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
	struct mover mover = { .fd = create(LEN, 0) };
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE | ODP), *mb = reg(pair, b, LEN, REMOTE);
	struct raw_mr mr;
	pthread_t thread;

	if (mover.fd < 0) {
		skip("no exporter module");
		return;
	}
	CHECK(ma && mb);
	CHECK_EQ(reg_dmabuf(pair->pd, 0, LEN, 0, mover.fd, REMOTE, &mr), 0);
	pthread_create(&thread, NULL, moves, &mover);
	for (int i = 0; i < 60; i++) {
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

static void revoked(struct pair *pair)
{
	int fd = create(LEN, 0);
	uint32_t number = fd;
	char *a = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE);
	struct raw_mr mr;

	if (fd < 0) {
		skip("no exporter module");
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
	struct mover mover = { .fd = create(LEN, 0) };
	int second = create(LEN, 0);
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *ma = reg(pair, a, LEN, REMOTE | ODP), *mb = reg(pair, b, LEN, REMOTE);
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
	struct ib_uverbs_sge list[COUNT];
	struct layout_list sg = { (uintptr_t)list, COUNT, sizeof(list[0]) };
	struct raw_mr one, two;
	pthread_t thread;

	if (mover.fd < 0) {
		skip("no exporter module");
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

void dmabuf_tests(void)
{
	run_test("a buffer of udmabuf", from_udmabuf);
	run_test("a buffer of the system heap", from_heap);
	run_test("what cannot be accessed is refused", refused);
	run_test("a buffer of device memory", device_memory);
	run_test("CPU access begins and ends once a request", balanced);
	run_test("buffers move under traffic", moved);
	run_test("a revoked buffer gives access errors", revoked);
	run_test("a layout over buffers and paged memory", in_a_layout);
}
