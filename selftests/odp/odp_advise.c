// SPDX-License-Identifier: GPL-2.0
/* ADVISE_MR. */
#include "odp_test.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mrx_user_ioctl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define READ IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH IBV_ADVISE_MR_FLAG_FLUSH
#define LEN (4 * MB)
/* As many ranges as an attribute of an ioctl can hold. */
#define FULL 4095

static size_t resident(char *addr, size_t len)
{
	unsigned char there[LEN / PAGE];
	size_t n = 0;

	if (mincore(addr, len, there))
		return 0;
	for (size_t i = 0; i < len / PAGE; i++)
		n += there[i] & 1;
	return n;
}

static void errors(struct pair *pair)
{
	char *a = map(LEN);
	struct ibv_mr *mr = reg(pair, a, LEN - PAGE, REMOTE | ODP);
	struct ibv_mr *pinned = reg(pair, a, PAGE, REMOTE);
	struct ibv_mr *readable = reg(pair, a, PAGE, ODP);
	struct ibv_mr *implicit = reg(pair, NULL, SIZE_MAX, REMOTE | ODP);
	struct pair *other = pair_new();
	struct ibv_sge sge = { .addr = (uintptr_t)a, .length = PAGE };
	struct ibv_sge full[FULL + 1];

	CHECK(mr && pinned && readable && implicit);
	sge.lkey = mr->lkey;
	for (int i = 0; i <= FULL; i++)
		full[i] = sge;
	for (uint32_t flags = 0; flags <= FLUSH; flags += FLUSH) {
		CHECK_EQ(advise(pair->pd, 3, flags, &sge, 1), EOPNOTSUPP);
		CHECK_EQ(advise(pair->pd, 77, flags, &sge, 1), EOPNOTSUPP);
		CHECK_EQ(advise(pair->pd, READ, flags | 2, &sge, 1), EINVAL);
		CHECK_EQ(advise(other->pd, READ, flags, &sge, 1), EPERM);
		CHECK_EQ(advise_one(pinned, READ, flags, a, PAGE), EINVAL);
		CHECK_EQ(advise_one(readable, WRITE, flags, a, PAGE), EPERM);
		CHECK_EQ(advise_one(readable, READ, flags, a, PAGE), 0);
		sge.lkey = mr->lkey ^ 0x80;
		CHECK_EQ(advise(pair->pd, READ, flags, &sge, 1), ENOENT);
		sge.lkey = 0xdeadbe00;
		CHECK_EQ(advise(pair->pd, READ, flags, &sge, 1), ENOENT);
		sge.lkey = mr->lkey;
	}
	CHECK_EQ(advise_one(mr, READ, FLUSH, a, LEN), EFAULT);
	CHECK_EQ(advise_one(mr, READ, FLUSH, a - PAGE, PAGE), EFAULT);
	CHECK_EQ(advise_one(implicit, READ, FLUSH, (void *)0x7ffffffff000UL, PAGE), EFAULT);
	CHECK_EQ(advise_one(implicit, READ, FLUSH, (void *)(UINTPTR_MAX - 99), 100), EFAULT);
	CHECK_EQ(advise_one(implicit, READ, FLUSH, (void *)PAGE, PAGE), EFAULT);
	munmap(a + MB, PAGE);
	CHECK_EQ(advise_one(mr, WRITE, FLUSH, a, 2 * MB), EFAULT);
	CHECK_EQ(advise_one(mr, NO_FAULT, FLUSH, a, 2 * MB), 0);
	CHECK_EQ(mprotect(a, PAGE, PROT_READ), 0);
	CHECK_EQ(advise_one(mr, WRITE, FLUSH, a, PAGE), EFAULT);
	CHECK_EQ(advise_one(mr, READ, FLUSH, a, PAGE), 0);
	/* Without flushing the same is not an error of the call. */
	CHECK_EQ(advise_one(mr, READ, 0, a, LEN), 0);
	CHECK_EQ(advise_one(mr, WRITE, 0, a, PAGE), 0);
	CHECK(counter_reaches("page_prefetch_failed", 2));
	/* Lists that are none. */
	CHECK_EQ(advise(pair->pd, READ, FLUSH, &sge, 0), EINVAL);
	CHECK_EQ(advise(pair->pd, READ, 0, NULL, 0), EINVAL);
	CHECK_EQ(advise(pair->pd, READ, FLUSH, NULL, 1), EFAULT);
	CHECK_EQ(advise(pair->pd, READ, FLUSH, (struct ibv_sge *)PAGE, 1), EFAULT);
	CHECK_EQ(advise_bytes(pair->pd, &sge, 0), EINVAL);
	CHECK_EQ(advise_bytes(pair->pd, &sge, sizeof(sge) - 1), EINVAL);
	CHECK_EQ(advise_bytes(pair->pd, &sge, sizeof(sge)), 0);
	CHECK_EQ(advise(pair->pd, READ, FLUSH, full, FULL), 0);
	CHECK_EQ(advise(pair->pd, READ, FLUSH, full, FULL + 1), E2BIG);
	pair_free(other);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(readable);
	ibv_dereg_mr(implicit);
	munmap(a, LEN);
}

/* KiB of this process that are pinned. */
static long pinned_memory(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static void no_further_fault(struct pair *pair)
{
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *ma, *mb;
	long faults, pinned = pinned_memory();

	ma = reg(pair, a, LEN, REMOTE);
	mb = reg(pair, b, LEN, REMOTE | ODP);
	CHECK(ma && mb);
	CHECK(pinned >= 0);
	CHECK_EQ(put(pair, ma, a, mb, b, MB), IBV_WC_SUCCESS);
	CHECK_EQ(counter("page_faults"), MB / PAGE);
	CHECK_EQ(advise_one(mb, WRITE, FLUSH, b + MB, LEN - MB), 0);
	CHECK_EQ(counter("page_prefetch"), (LEN - MB) / PAGE);
	faults = counter("page_faults");
	CHECK_EQ(put(pair, ma, a, mb, b, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(counter("page_faults"), faults);
	/* Nothing is pinned: the pages can be taken away, and then it takes a fault again. */
	CHECK_EQ(pinned_memory(), pinned + (long)(LEN >> 10));
	CHECK_EQ(madvise(b, LEN, MADV_DONTNEED), 0);
	CHECK_EQ(put(pair, ma, a, mb, b, LEN), IBV_WC_SUCCESS);
	CHECK_EQ(counter("page_faults"), faults + LEN / PAGE);
	ibv_dereg_mr(ma);
	ibv_dereg_mr(mb);
	munmap(a, LEN);
	munmap(b, LEN);
}

static void breaks_cow(struct pair *pair)
{
	int fd = memfd_create("cow", 0);
	char *shared, *private;
	struct ibv_mr *mr;

	CHECK(fd >= 0 && !ftruncate(fd, LEN));
	shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	private = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	mr = reg(pair, private, LEN, REMOTE | ODP);
	CHECK(mr);
	fill(shared, LEN, 1);
	CHECK_EQ(advise_one(mr, READ, FLUSH, private, LEN), 0);
	fill(shared, LEN, 2);
	CHECK(is_filled(private, LEN, 2));
	CHECK_EQ(advise_one(mr, WRITE, FLUSH, private, LEN / 2), 0);
	fill(shared, LEN, 3);
	CHECK(is_filled(private, LEN / 2, 2));
	CHECK(!memcmp(private + LEN / 2, shared + LEN / 2, LEN / 2));
	ibv_dereg_mr(mr);
	munmap(shared, LEN);
	munmap(private, LEN);
	close(fd);
}

static void only_present(struct pair *pair)
{
	char *a = map(LEN);
	struct ibv_mr *mr;
	long faults;

	madvise(a, LEN, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < LEN; i += 2 * PAGE)
		a[i] = 1;
	mr = reg(pair, a, LEN, REMOTE | ODP);
	CHECK(mr);
	CHECK_EQ(advise_one(mr, NO_FAULT, FLUSH, a, LEN), 0);
	CHECK_EQ(resident(a, LEN), LEN / PAGE / 2);
	CHECK_EQ(counter("page_prefetch"), LEN / PAGE / 2);
	faults = counter("page_faults");
	for (size_t i = 0; i < 8; i += 2)
		CHECK_EQ(put(pair, mr, a + i * PAGE, mr, a + (i + 8) * PAGE, PAGE), IBV_WC_SUCCESS);
	CHECK_EQ(counter("page_faults"), faults);
	ibv_dereg_mr(mr);
	munmap(a, LEN);
}

static void later(struct pair *pair)
{
	char *a = map(LEN);
	struct ibv_mr *mr = reg(pair, a, LEN, REMOTE | ODP);

	CHECK(mr);
	CHECK_EQ(advise_one(mr, WRITE, 0, a, LEN), 0);
	CHECK(counter_reaches("page_prefetch", LEN / PAGE));
	CHECK_EQ(resident(a, LEN), LEN / PAGE);
	ibv_dereg_mr(mr);
	munmap(a, LEN);
	/* Advice about a region that goes away at once. */
	for (int i = 0; i < 50; i++) {
		a = map(LEN);
		mr = reg(pair, a, LEN, REMOTE | ODP);
		CHECK(mr);
		CHECK_EQ(advise_one(mr, i % 3, 0, a, LEN), 0);
		if (i % 2)
			munmap(a, LEN);
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		if (!(i % 2))
			munmap(a, LEN);
	}
}

/* Once a region has ended, no page is looked for any more because of an advice about it. */
static void ends_with_region(struct pair *pair)
{
	enum { AREA = 64 * MB, ROUNDS = 40, QUEUED = 8 };
	static unsigned char there[2][AREA / PAGE];
	size_t begun = 0;

	for (int i = 0; i < ROUNDS; i++) {
		char *a = map(AREA);
		struct ibv_mr *mr = reg(pair, a, AREA, REMOTE | ODP), *holder = NULL;

		CHECK(mr);
		madvise(a, AREA, MADV_NOHUGEPAGE);
		for (int n = 0; n < QUEUED; n++)
			CHECK_EQ(advise_one(mr, n % 2 ? READ : WRITE, 0, a, AREA), 0);
		if (i % 2) {
			/* About a layout over it, which goes first. */
			struct ib_uverbs_sge all = { (uintptr_t)a, AREA, mr->lkey };
			struct layout_list list = { (uintptr_t)&all, 1, sizeof(all) };

			holder = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);
			CHECK(holder);
			CHECK_EQ(set_layout(holder, &list, NULL), 0);
			CHECK_EQ(advise_one(holder, WRITE, 0, 0, AREA), 0);
		}
		usleep(i % 8 * 1000);
		CHECK(!holder || !ibv_dereg_mr(holder));
		CHECK_EQ(ibv_dereg_mr(mr), 0);
		CHECK_EQ(mincore(a, AREA, there[0]), 0);
		usleep(20000);
		CHECK_EQ(mincore(a, AREA, there[1]), 0);
		CHECK(!memcmp(there[0], there[1], AREA / PAGE));
		for (size_t page = 0; page < AREA / PAGE; page++)
			begun += there[1][page] & 1;
		munmap(a, AREA);
	}
	printf("# %zu of %zu pages were found before their region ended\n", begun,
	       (size_t)ROUNDS * AREA / PAGE);
	CHECK(begun > 0);
	/* Else the advice was taken before its region could end. */
	CHECK(begun < (size_t)ROUNDS * AREA / PAGE);
}

/* A region of as many pieces as an SGE can name, which are all the same byte. */
static struct ibv_mr *endless(struct pair *pair, struct ibv_mr *byte)
{
	struct mrx_interleaved entry = {
		.addr = (uintptr_t)byte->addr,
		.length = 1,
		.lkey = byte->lkey,
		.num_repeated = 1,
		.num_dimensions = 1,
	};
	struct mrx_dimension dimension = { .offset_stride = 0, .datum_count = UINT32_MAX };
	struct layout_list list = { (uintptr_t)&entry, 1, sizeof(entry) };
	struct layout_list dimensions = { (uintptr_t)&dimension, 1, sizeof(dimension) };
	struct ibv_mr *mr = ibv_reg_mr(pair->pd, NULL, 0, REMOTE | IBV_ACCESS_ZERO_BASED);

	return mr && !set_layout(mr, &list, &dimensions) ? mr : NULL;
}

/* Advice that takes for ever keeps neither that of others waiting, nor who deregisters. */
static void takes_long(struct pair *pair)
{
	enum { ADVICES = 16, SGES = 256, SECONDS = 10 };
	char *byte = map(PAGE), *a = map(LEN);
	struct ibv_mr *one = reg(pair, byte, 1, REMOTE | ODP), *holder;
	struct ibv_mr *mr = reg(pair, a, LEN, REMOTE | ODP);
	struct ibv_sge list[SGES];
	int given = 0;
	bool followed;
	long prefetched;
	time_t begun;

	CHECK(one && mr);
	holder = endless(pair, one);
	CHECK(holder);
	madvise(a, LEN, MADV_NOHUGEPAGE);
	for (int i = 0; i < SGES; i++)
		list[i] = (struct ibv_sge){ .addr = 0, .length = UINT32_MAX, .lkey = holder->lkey };
	/* From now on the byte takes no prefetch that is counted. */
	CHECK_EQ(advise_one(one, WRITE, FLUSH, byte, 1), 0);
	prefetched = counter("page_prefetch");
	for (int i = 0; i < ADVICES; i++)
		given |= advise(pair->pd, WRITE, 0, list, SGES);
	given |= advise_one(mr, WRITE, 0, a, LEN);
	followed = counter_reaches("page_prefetch", prefetched + LEN / PAGE);
	/* Nothing is checked before, since that would leave the advice going on. */
	begun = time(NULL);
	CHECK_EQ(ibv_dereg_mr(holder), 0);
	CHECK_EQ(ibv_dereg_mr(one), 0);
	CHECK(time(NULL) - begun < SECONDS);
	CHECK_EQ(given, 0);
	CHECK(followed);
	CHECK_EQ(resident(a, LEN), LEN / PAGE);
	ibv_dereg_mr(mr);
	munmap(a, LEN);
	munmap(byte, PAGE);
}

/* Advice for what pages come from a program waits for it only if somebody waits for the advice. */
static void up_to_a_program(struct pair *pair)
{
	char *a = map(LEN);
	struct ibv_mr *mr = reg(pair, a, LEN, REMOTE | ODP);
	long failed = counter("page_prefetch_failed");
	int fd = userfault(a + MB, PAGE);
	pthread_t thread;

	if (fd < 0) {
		skip("no userfaultfd");
		return;
	}
	CHECK(mr);
	madvise(a, LEN, MADV_NOHUGEPAGE);
	CHECK_EQ(advise_one(mr, WRITE, 0, a, LEN), 0);
	CHECK(counter_reaches("page_prefetch_failed", failed + 1));
	CHECK_EQ(advise_one(mr, NO_FAULT, FLUSH, a, LEN), 0);
	pthread_create(&thread, NULL, userfault_server, &fd);
	CHECK_EQ(advise_one(mr, WRITE, FLUSH, a, LEN), 0);
	CHECK_EQ(resident(a, LEN), LEN / PAGE);
	ibv_dereg_mr(mr);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	close(fd);
	munmap(a, LEN);
}

int queues(void)
{
	enum { REGIONS = 4, ADVICES = 200 };
	struct pair *pair = pair_new();

	for (int i = 0; i < REGIONS; i++) {
		char *a = map(64 * MB);
		struct ibv_mr *mr = reg(pair, a, 64 * MB, REMOTE | ODP);

		madvise(a, 64 * MB, MADV_NOHUGEPAGE);
		for (int n = 0; n < ADVICES; n++)
			if (!mr || advise_one(mr, WRITE, 0, a, 64 * MB))
				return 3;
	}
	ready();
	return 0;
}

int advised_stuck(void)
{
	struct pair *pair = pair_new();
	char *a = map(PAGE);
	struct ibv_mr *mr = reg(pair, a, PAGE, REMOTE | ODP);

	if (!mr || userfault(a, PAGE) < 0)
		return 3;
	printf("an advice waits for a page\n");
	return advise_one(mr, WRITE, FLUSH, a, PAGE) != EIO;
}

int counts(void)
{
	struct pair *pair = pair_new();
	char *a = map(LEN), *b = map(LEN);
	struct ibv_mr *one = reg(pair, a, LEN, REMOTE | ODP), *two = reg(pair, b, LEN, REMOTE | ODP);
	struct ibv_mr *pinned = reg(pair, a, PAGE, REMOTE);

	madvise(a, LEN, MADV_NOHUGEPAGE);
	madvise(b, LEN, MADV_NOHUGEPAGE);
	/* Before there are pages: where a mapping is split, what is around is given up as well. */
	munmap(a + 64 * PAGE, PAGE);
	/* 6 pages that transfers look for, 7 of an advice, 2 failures, 3 pages given up. */
	if (!one || !two || !pinned || put(pair, pinned, a, one, a + PAGE, 10) ||
	    put(pair, pinned, a, one, a + 2 * PAGE - 5, 10) ||
	    get(pair, one, a + 4 * PAGE, one, a + 6 * PAGE, PAGE + 1) ||
	    advise_one(one, WRITE, FLUSH, a + 32 * PAGE, 7 * PAGE) ||
	    advise_one(one, WRITE, 0, a + 64 * PAGE, 1) || advise_one(one, WRITE, 0, a - 1, 1) ||
	    madvise(a + 33 * PAGE, 3 * PAGE, MADV_DONTNEED) ||
	    advise_one(two, READ, FLUSH, b, 1) || put(pair, pinned, a, two, b + MB, 1))
		return 3;
	ready();
	return 0;
}

static void many(struct pair *pair)
{
	enum { REGIONS = 50, SGES = 1000 };
	struct ibv_mr *mrs[REGIONS];
	struct ibv_sge list[SGES];
	char *a[REGIONS];
	long prefetched;

	for (int i = 0; i < REGIONS; i++) {
		a[i] = map(SGES / REGIONS * 2 * PAGE);
		madvise(a[i], SGES / REGIONS * 2 * PAGE, MADV_NOHUGEPAGE);
		mrs[i] = reg(pair, a[i], SGES / REGIONS * 2 * PAGE, REMOTE | ODP);
		CHECK(mrs[i]);
	}
	for (int i = 0; i < SGES; i++)
		list[i] = (struct ibv_sge){
			.addr = (uintptr_t)a[i % REGIONS] + i / REGIONS * 2 * PAGE + 100,
			.length = 100,
			.lkey = mrs[i % REGIONS]->lkey,
		};
	prefetched = counter("page_prefetch");
	CHECK_EQ(advise(pair->pd, WRITE, FLUSH, list, SGES), 0);
	CHECK_EQ(counter("page_prefetch"), prefetched + SGES);
	list[SGES - 1].lkey ^= 1;
	CHECK_EQ(advise(pair->pd, WRITE, FLUSH, list, SGES), ENOENT);
	for (int i = 0; i < REGIONS; i++) {
		ibv_dereg_mr(mrs[i]);
		munmap(a[i], SGES / REGIONS * 2 * PAGE);
	}
}

void advise_tests(void)
{
	run_test("each error of ADVISE_MR", errors);
	run_test("after a flushed prefetch a transfer takes no fault", no_further_fault);
	run_test("write prefetch breaks copy-on-write, read prefetch does not", breaks_cow);
	run_test("NO_FAULT maps what is present only", only_present);
	run_test("advice is taken later, and dies with its region", later);
	run_test("deregistration ends what is queued for a region", ends_with_region);
	run_test("advice that takes long does not keep that of others", takes_long);
	run_test("advice waits for a userfaultfd only when flushed", up_to_a_program);
	run_test("1000 ranges of 50 regions", many);
}
