// SPDX-License-Identifier: GPL-2.0
#include "test.h"
const struct test stress_tests[] = { { NULL, NULL } };
