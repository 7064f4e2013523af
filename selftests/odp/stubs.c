// SPDX-License-Identifier: GPL-2.0
#include "odp_test.h"
void dmabuf_tests(void){}
