// SPDX-License-Identifier: GPL-2.0
/*
 * peer_test CLIENT GROUP...: tests of peer memory with the reference client c or
 * rust, in KTAP.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "test.h"

const char *client = "c";
static bool failed;
static const char *skipped;

void check_failed(const char *file, int line, const char *format, ...)
{
	va_list args;

	failed = true;
	printf("# %s:%d: ", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

void need(bool condition, const char *what)
{
	if (condition)
		return;
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

void skip(const char *why)
{
	skipped = why;
}

static const struct {
	const char *name;
	const struct test *tests;
} groups[] = {
	{ "data", data_tests },
	{ "refusal", refusal_tests },
	{ "protocol", protocol_tests },
	{ "revoke", revoke_tests },
	{ "stress", stress_tests },
	{ "removal", removal_tests },
	{ "private", private_tests },
	{ "change", change_tests },
	{ "names", names_tests },
	{ "outliving", outliving_tests },
};

int main(int argc, char **argv)
{
	const struct test *test;
	unsigned int n = 0, bad = 0, g;
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3) {
		fprintf(stderr, "peer_test c|rust GROUP...\n");
		return 2;
	}
	client = argv[1];
	open_device();
	printf("KTAP version 1\n");
	for (i = 2; i < argc; i++) {
		for (g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
			if (strcmp(groups[g].name, argv[i]))
				continue;
			for (test = groups[g].tests; test->name; test++) {
				failed = false;
				skipped = NULL;
				test->run();
				bad += failed;
				printf("%sok %u %s client: %s%s%s\n", failed ? "not " : "", ++n,
				       client, test->name, skipped ? " # SKIP " : "",
				       skipped ? skipped : "");
			}
		}
	}
	printf("1..%u\n", n);
	return bad ? 1 : 0;
}
