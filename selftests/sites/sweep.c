// SPDX-License-Identifier: GPL-2.0
/*
 * sweep.so, for LD_PRELOAD: each ioctl and each mmap of a file is done again and
 * again while its first, its second, its third ... allocation fails, until none
 * failed any more; that is the call which the program sees. What was refused for
 * want of memory must have left everything as it was, so a program notices
 * nothing of it. Fault injection is set up by scripts/debug-guest.sh, which says
 * whose allocations count.
 *
 *   MRX_SWEEP  a file that the counts are kept in. A refusal that names another
 *              reason than memory, and not the one that the call fails with in the
 *              end, is told in a line of the file MRX_SWEEP.odd.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Every failure up to here has a turn of its own; from then on they are chosen. */
#define EACH 40
#define MOST 60000

/*
 * What came of the nth failure in the calls of a method. A call that succeeds in
 * spite of a failure is done, and nothing is learnt about its later allocations;
 * so a failure that never was the end of a call is left out from then on. One
 * that was the end of many is only tried now and then: nearly every test makes
 * the same objects first.
 */
struct turn {
	_Atomic uint64_t key; /* 0: not in use */
	atomic_uint refused, survived;
};

#define TURNS 16384
#define ENOUGH 2
#define MANY 16
#define NOW_AND_THEN 16

static struct counts {
	/* what scripts/debug-guest.sh prints, in this order */
	atomic_uint calls, failures, survived, odd;
	struct turn turns[TURNS];
} none, *counts = &none;

/* Where refusals for an odd reason are told. */
static int odd_file = -1;

static struct turn *turn_of(uint64_t method, unsigned int nth)
{
	static struct turn spare;
	uint64_t key = method << 16 | nth, i = key * 0x9e3779b97f4a7c15ULL >> 50, tries;

	for (tries = 0; tries < TURNS; tries++) {
		struct turn *turn = &counts->turns[(i + tries) % TURNS];
		uint64_t old = 0;

		if (atomic_compare_exchange_strong(&turn->key, &old, key) || old == key)
			return turn;
	}
	return &spare;
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("MRX_SWEEP");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	char odd[4096];
	void *shared;

	if (fd < 0 || ftruncate(fd, sizeof(*counts)))
		return;
	shared = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (shared != MAP_FAILED)
		counts = shared;
	close(fd);
	snprintf(odd, sizeof(odd), "%s.odd", path);
	odd_file = open(odd, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

/* The file of this thread; it is another one after a fork. */
static int control(void)
{
	static _Thread_local int fd = -1;
	static _Thread_local pid_t owner;
	pid_t self = syscall(SYS_gettid);

	if (owner != self) {
		if (fd >= 0)
			close(fd);
		fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
		owner = self;
	}
	return fd;
}

static void fail_at(unsigned int nth)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%u", nth);

	if (pwrite(control(), text, len, 0) != len)
		counts = &none;
}

/* Ends what fail_at began; whether the allocation was there to fail. */
static int did_fail(void)
{
	char text[16] = "";
	int failed;

	if (pread(control(), text, sizeof(text) - 1, 0) <= 0)
		return 0;
	failed = !strcmp(text, "0\n");
	fail_at(0);
	return failed;
}

/* The first failure from nth on that is worth a try. */
static unsigned int worth(uint64_t method, unsigned int nth)
{
	struct turn *turn;
	unsigned int refused;

	for (;; nth = nth < EACH ? nth + 1 : nth + nth / 2) {
		if (nth >= MOST)
			return nth;
		turn = turn_of(method, nth);
		refused = atomic_load(&turn->refused);
		if (refused > MANY && (atomic_load(&counts->calls) + nth) % NOW_AND_THEN)
			continue;
		if (refused || atomic_load(&turn->survived) < ENOUGH)
			return nth;
	}
}

/* A call that is done again and again. */
struct call {
	uint64_t method;
	unsigned int nth;
	/* refusals for an odd reason, as long as there is room */
	unsigned int odds;
	struct {
		unsigned int nth;
		int error;
	} odd[EACH];
};

static void begin_call(struct call *call, uint64_t method)
{
	call->method = method;
	call->nth = worth(method, 1);
	call->odds = 0;
	atomic_fetch_add(&counts->calls, 1);
}

/*
 * Memory that cannot be had is ENOMEM, memory of the program that cannot be
 * accessed EFAULT. What was survived, such as a large block that was had in pieces,
 * leaves the call to whatever it ends with.
 */
static void tell_odd(const struct call *call, int refused, int error)
{
	unsigned int i;

	for (i = 0; i < call->odds; i++) {
		if (refused && call->odd[i].error == error)
			continue;
		atomic_fetch_add(&counts->odd, 1);
		dprintf(odd_file, "method %#llx failure %u: %s\n",
			(unsigned long long)call->method, call->odd[i].nth,
			strerrorname_np(call->odd[i].error));
	}
}

/* What became of one try: whether the next one is due. */
static int next_is_due(struct call *call, int refused, int error)
{
	struct turn *turn = turn_of(call->method, call->nth);

	if (!did_fail()) {
		tell_odd(call, refused, error);
		return 0;
	}
	atomic_fetch_add(&counts->failures, 1);
	if (!refused) {
		atomic_fetch_add(&turn->survived, 1);
		atomic_fetch_add(&counts->survived, 1);
		tell_odd(call, 0, 0);
		return 0;
	}
	atomic_fetch_add(&turn->refused, 1);
	if (error != ENOMEM && error != EFAULT && call->odds < EACH) {
		call->odd[call->odds].nth = call->nth;
		call->odd[call->odds++].error = error;
	}
	call->nth = worth(call->method, call->nth + 1);
	return call->nth < MOST;
}

#define OF_MMAP (1ULL << 40) /* is no method of an object */

/* The commands of old come through one method, each with another number. */
static uint64_t method_of(const struct ib_uverbs_ioctl_hdr *header)
{
	uint64_t method = (uint64_t)header->object_id << 16 | header->method_id;
	unsigned int i;

	if (header->object_id == UVERBS_OBJECT_DEVICE && header->method_id == UVERBS_METHOD_INVOKE_WRITE)
		for (i = 0; i < header->num_attrs; i++)
			if (header->attrs[i].attr_id == UVERBS_ATTR_WRITE_CMD)
				method |= (header->attrs[i].data & 0xff) << 32;
	return method;
}

int ioctl(int fd, unsigned long request, ...)
{
	/* The kernel writes into it. 64 attributes are enough. */
	static _Thread_local char before[sizeof(struct ib_uverbs_ioctl_hdr) +
					 64 * sizeof(struct ib_uverbs_attr)];
	struct ib_uverbs_ioctl_hdr *header;
	unsigned int size;
	struct call call;
	int result, error;
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (request != RDMA_VERBS_IOCTL || counts == &none || control() < 0)
		return syscall(SYS_ioctl, fd, request, argument);

	header = argument;
	size = header->length < sizeof(before) ? header->length : sizeof(before);
	memcpy(before, argument, size);
	begin_call(&call, method_of(header));
	do {
		memcpy(argument, before, size);
		fail_at(call.nth);
		result = syscall(SYS_ioctl, fd, request, argument);
		error = errno;
	} while (next_is_due(&call, result < 0, error));
	errno = error;
	return result;
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	struct call call;
	void *result;
	int error;

	if (fd < 0 || counts == &none || control() < 0)
		return (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
	begin_call(&call, OF_MMAP);
	do {
		fail_at(call.nth);
		result = (void *)syscall(SYS_mmap, addr, len, prot, flags, fd, offset);
		error = errno;
	} while (next_is_due(&call, result == MAP_FAILED, error));
	errno = error;
	return result;
}

void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));
