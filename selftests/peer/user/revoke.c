// SPDX-License-Identifier: GPL-2.0
#include "test.h"
const struct test revoke_tests[] = { { NULL, NULL } };
