// SPDX-License-Identifier: GPL-2.0
/* Pages of a file system that a program serves, or does not. */
#include "odp_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEN (1 * MB)
#define DIR "/tmp/odp_fuse"
#define FILE_NODE 2

/* A file system of one file, full of nines, whose reads are answered if "serves" says so. */
struct server {
	int fd;
	volatile bool serves;
	volatile int unanswered;
	pthread_t thread;
};

static void answer(struct server *server, uint64_t unique, int error, const void *data, size_t len)
{
	struct {
		struct fuse_out_header header;
		char data[FUSE_MIN_READ_BUFFER + LEN];
	} *out = (void *)map(sizeof(*out));

	out->header.unique = unique;
	out->header.error = -error;
	out->header.len = sizeof(out->header) + len;
	if (len)
		memcpy(out->data, data, len);
	if (write(server->fd, out, out->header.len) < 0 && errno != ENOENT)
		perror("# answer of FUSE");
	munmap(out, sizeof(*out));
}

static void fill_attr(struct fuse_attr *attr, uint64_t node)
{
	attr->ino = node;
	attr->mode = node == FILE_NODE ? S_IFREG | 0600 : S_IFDIR | 0700;
	attr->nlink = 1;
	attr->size = node == FILE_NODE ? LEN : 0;
	attr->blksize = PAGE;
}

static void serve(struct server *server, const struct fuse_in_header *in)
{
	const void *args = in + 1;
	static char nines[LEN];

	switch (in->opcode) {
	case FUSE_INIT: {
		const struct fuse_init_in *init = args;
		/* No reading ahead: each page is asked for, and waited for, by who needs it. */
		struct fuse_init_out out = {
			.major = FUSE_KERNEL_VERSION,
			.minor = init->minor < FUSE_KERNEL_MINOR_VERSION ? init->minor :
									    FUSE_KERNEL_MINOR_VERSION,
			.max_write = PAGE,
		};

		answer(server, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_LOOKUP: {
		struct fuse_entry_out out = { .nodeid = FILE_NODE, .generation = 1, .entry_valid = 100,
					      .attr_valid = 100 };

		fill_attr(&out.attr, FILE_NODE);
		answer(server, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_GETATTR: {
		struct fuse_attr_out out = { .attr_valid = 100 };

		fill_attr(&out.attr, in->nodeid);
		answer(server, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_OPEN: {
		struct fuse_open_out out = { .fh = 1 };

		answer(server, in->unique, 0, &out, sizeof(out));
		break;
	}
	case FUSE_READ: {
		const struct fuse_read_in *read = args;

		if (!server->serves) {
			server->unanswered++;
			break;
		}
		memset(nines, 9, sizeof(nines));
		answer(server, in->unique, 0, nines, read->size < LEN ? read->size : LEN);
		break;
	}
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(server, in->unique, ENOSYS, NULL, 0);
	}
}

static void *serves(void *arg)
{
	struct server *server = arg;
	static char request[FUSE_MIN_READ_BUFFER + LEN];

	/* Until the file system is unmounted, or its connection broken. */
	while (read(server->fd, request, sizeof(request)) > 0)
		serve(server, (struct fuse_in_header *)request);
	return NULL;
}

/* The file, mapped; its connection breaks when this process ends, or before. */
static char *mount_file(struct server *server)
{
	char options[128], *addr;
	int fd;

	server->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (server->fd < 0)
		return NULL;
	mkdir(DIR, 0700);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", server->fd);
	if (mount("odp", DIR, "fuse", MS_NOSUID | MS_NODEV, options))
		return NULL;
	pthread_create(&server->thread, NULL, serves, server);
	fd = open(DIR "/file", O_RDONLY);
	if (fd < 0)
		return NULL;
	addr = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	return addr == MAP_FAILED ? NULL : addr;
}

static void unmount(struct server *server, char *addr)
{
	munmap(addr, LEN);
	umount2(DIR, MNT_FORCE | MNT_DETACH);
	pthread_cancel(server->thread);
	pthread_join(server->thread, NULL);
	close(server->fd);
	rmdir(DIR);
}

static void served(struct pair *pair)
{
	struct server server = { .serves = true };
	char *file = mount_file(&server), *a = map(LEN);
	struct ibv_mr *from, *to = reg(pair, a, LEN, REMOTE);

	if (!file) {
		skip("no FUSE");
		return;
	}
	from = reg(pair, file, LEN, IBV_ACCESS_REMOTE_READ | ODP);
	CHECK(from && to);
	CHECK_EQ(get(pair, to, a, from, file, LEN / 2), IBV_WC_SUCCESS);
	CHECK(a[0] == 9 && !memcmp(a, a + 1, LEN / 2 - 1));
	CHECK_EQ(advise_one(from, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, file, LEN),
		 0);
	CHECK_EQ(get(pair, to, a, from, file, LEN), IBV_WC_SUCCESS);
	CHECK(a[0] == 9 && !memcmp(a, a + 1, LEN - 1));
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	unmount(&server, file);
	munmap(a, LEN);
}

struct request {
	struct pair *pair;
	struct ibv_mr *from, *to;
	char *src, *dst;
	volatile int status;
};

static void *reads(void *arg)
{
	struct request *r = arg;

	r->status = get(r->pair, r->to, r->dst, r->from, r->src, PAGE);
	return NULL;
}

/* Nobody waits for such a page who is not asked to, and who is asked to can be stopped. */
static void not_served(struct pair *pair)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct server server = { 0 };
	struct request r = { .pair = pair, .src = mount_file(&server), .dst = map(LEN), .status = -7 };
	long failed = counter("page_prefetch_failed");
	pthread_t thread;

	if (!r.src) {
		skip("no FUSE");
		return;
	}
	r.from = reg(pair, r.src, LEN, IBV_ACCESS_REMOTE_READ | ODP);
	r.to = reg(pair, r.dst, LEN, REMOTE);
	CHECK(r.from && r.to);
	CHECK_EQ(advise_one(r.from, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, r.src, LEN), 0);
	CHECK(counter_reaches("page_prefetch_failed", failed + 1));
	CHECK_EQ(server.unanswered, 0);
	pthread_create(&thread, NULL, reads, &r);
	for (int i = 0; i < 500 && !server.unanswered; i++)
		usleep(10000);
	CHECK(server.unanswered > 0);
	CHECK_EQ(r.status, -7);
	CHECK_EQ(ibv_dereg_mr(r.from), 0);
	CHECK_EQ(ibv_modify_qp(pair->near, &error, IBV_QP_STATE), 0);
	pthread_join(thread, NULL);
	CHECK_EQ(r.status, IBV_WC_WR_FLUSH_ERR);
	ibv_dereg_mr(r.to);
	unmount(&server, r.src);
	munmap(r.dst, LEN);
}

void fuse_tests(void)
{
	run_test("pages of a file system that a program serves", served);
	run_test("pages of a file system that nobody serves hold up only their own request",
		 not_served);
}
