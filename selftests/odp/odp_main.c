// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of on-demand paging; prints KTAP.
 *
 *   odp [--filter GLOB]   GLOB is matched against "60_odp NAME OF THE TEST"
 *   odp GROUP...          these groups only
 *   odp stuck|advised|queues|counts|held   one part of a test that the suite does the rest of
 */
#include "odp_test.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ibv_context *context;

static const char *filter;
static int number, failures;
static bool failed;
static const char *skipped;

bool check(bool ok, const char *what, const char *file, int line)
{
	if (!ok) {
		printf("# %s:%d: not so: %s\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file,
		       line, what);
		failed = true;
	}
	return ok;
}

void skip(const char *why)
{
	skipped = why;
}

void run_test(const char *name, test_fn fn)
{
	struct pair *pair;
	char title[256];

	snprintf(title, sizeof(title), "60_odp %s", name);
	if (filter && fnmatch(filter, title, 0))
		return;
	pair = pair_new();
	failed = false;
	skipped = NULL;
	fn(pair);
	pair_free(pair);
	failures += failed;
	printf("%sok %d - %s%s%s\n", failed ? "not " : "", ++number, name,
	       skipped ? " # SKIP " : "", skipped ? skipped : "");
	fflush(stdout);
}

void *map(size_t len)
{
	void *addr = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (addr == MAP_FAILED) {
		perror("# mmap");
		exit(1);
	}
	return addr;
}

static uint64_t word(unsigned int seed, size_t i)
{
	return (seed * 0x9e3779b97f4a7c15ULL) ^ (i * 0xff51afd7ed558ccdULL);
}

void fill(void *addr, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len / 8; i++)
		((uint64_t *)addr)[i] = word(seed, i);
}

bool is_filled(const void *addr, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len / 8; i++) {
		uint64_t is = ((const uint64_t *)addr)[i];

		if (is != word(seed, i)) {
			printf("# at byte %zu: %llx, not %llx\n", i * 8, (unsigned long long)is,
			       (unsigned long long)word(seed, i));
			return false;
		}
	}
	return true;
}

long counter(const char *name)
{
	FILE *out = popen("rdma statistic show mr", "r");
	char token[256];
	long sum = 0, value;

	while (out && fscanf(out, "%255s", token) == 1)
		if (!strcmp(token, name) && fscanf(out, "%ld", &value) == 1)
			sum += value;
	if (out)
		pclose(out);
	return sum;
}

bool counter_reaches(const char *name, long value)
{
	for (int i = 0; i < 500; i++) {
		if (counter(name) >= value)
			return true;
		usleep(20000);
	}
	printf("# %s is %ld, less than %ld\n", name, counter(name), value);
	return false;
}

void ready(void)
{
	char byte;

	printf("ready\n");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

/* What runs alone, until it is told to end or killed. */
static const struct {
	const char *name;
	int (*run)(void);
} parts[] = { { "stuck", stuck }, { "advised", advised_stuck }, { "queues", queues }, { "counts", counts }, { "held", held } };

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{ "paging", paging_tests }, { "change", change_tests },
	{ "userfault", userfault_tests }, { "fuse", fuse_tests },
	{ "model", model_tests },   { "advise", advise_tests }, { "layout", layout_tests },
	{ "rereg", rereg_tests },   { "dmabuf", dmabuf_tests }, { "stress", stress_tests },
};
#define GROUPS (sizeof(groups) / sizeof(groups[0]))

struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), "rxe_mrx0"))
			return ibv_open_device(*list);
	return NULL;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	context = open_device();
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (argc == 2 && !strcmp(argv[1], parts[i].name))
			return context ? parts[i].run() : 1;
	printf("KTAP version 1\n");
	if (!context) {
		printf("Bail out! there is no rxe_mrx0\n");
		return 1;
	}
	if (argc == 3 && !strcmp(argv[1], "--filter"))
		filter = argv[2];
	for (size_t g = 0; g < GROUPS; g++) {
		bool wanted = argc < 2 || filter;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], groups[g].name);
		if (wanted)
			groups[g].run();
	}
	printf("1..%d\n", number);
	return failures != 0;
}
