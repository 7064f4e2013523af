// SPDX-License-Identifier: GPL-2.0
/* Who is no client. */
#include "test.h"

static struct mrx_peer_register named(const char *name)
{
	struct mrx_peer_register how = { .slot = 0, .version = "1.0" };

	snprintf(how.name, sizeof(how.name), "%s", name);
	return how;
}

static void test_missing_callbacks(void)
{
	struct mrx_peer_register how = named("incomplete");
	int step;

	for (step = 0; step < MRX_PEER_STEPS; step++) {
		how.missing = 1 << step;
		if (step == MRX_PEER_RELEASE) {
			CHECK_EQ(register_client(how), 0);
			unregister_client(0);
		} else {
			CHECK_EQ(register_client(how), EINVAL);
		}
		CHECK(!has_folder("incomplete"));
	}
}

static void test_bad_names(void)
{
	struct mrx_peer_register how = named("");

	CHECK_EQ(register_client(how), EINVAL);
	CHECK_EQ(register_client(named("..")), EINVAL);
	memset(how.name, 'x', sizeof(how.name));
	CHECK_EQ(register_client(how), EINVAL);
	how.name[63] = 0; /* the longest name that there can be */
	CHECK_EQ(register_client(how), 0);
	unregister_client(0);

	CHECK_EQ(register_client(named("twin")), 0);
	how = named("twin");
	how.slot = 1;
	CHECK_EQ(register_client(how), EINVAL);
	unregister_client(0);
	CHECK_EQ(register_client(how), 0);
	unregister_client(1);
}

static void test_bad_extensions(void)
{
	static const struct {
		uint64_t size;
		uint32_t flags;
		unsigned char variant;
		int error;
	} tries[] = {
		{ 0, 0, 1, 0 }, { 0, 0xff, 1, 0 }, /* says that there are no flags */
		{ 148, 0, 1, 0 }, { 152, 1, 1, 0 }, { 152, 0, 1, 0 },
		{ 1, 0, 1, EINVAL }, { 147, 1, 1, EINVAL }, { 153, 1, 1, EINVAL },
		{ UINT64_MAX, 1, 1, EINVAL },
		{ 152, 2, 1, EINVAL }, { 152, 0x80000001, 1, EINVAL },
		{ 152, 0, 3, EINVAL }, { 152, 0, 255, EINVAL },
	};
	unsigned int i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		struct mrx_peer_register how = named("extended");
		int error;

		how.version[15] = tries[i].variant;
		how.ex_size = tries[i].size;
		how.ex_flags = tries[i].flags;
		error = register_client(how);
		CHECK(error == tries[i].error, "try %u: %d", i, error);
		CHECK_EQ(has_folder("extended"), !error);
		if (!error)
			unregister_client(0);
	}
}

/* All that a client in Rust can do wrong. */
const struct test names_tests[] = {
	{ "a client with a bad name is refused", test_bad_names },
	{ NULL, NULL },
};

const struct test refusal_tests[] = {
	{ "a client without a mandatory callback is refused", test_missing_callbacks },
	{ "a client with a bad extension is refused", test_bad_extensions },
	{ NULL, NULL },
};
