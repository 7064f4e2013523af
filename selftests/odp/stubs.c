// SPDX-License-Identifier: GPL-2.0
#include "odp_test.h"
void change_tests(void){} void advise_tests(void){} void layout_tests(void){} void dmabuf_tests(void){} void stress_tests(void){}
