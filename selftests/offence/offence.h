/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the C part and the Rust part of the module have of each other.
 */
#ifndef OFFENCE_H
#define OFFENCE_H

#include <linux/types.h>

/* offence_rust.rs */
int offence_rust_use_after_free(void);
int offence_rust_overflow(size_t n);
int offence_rust_leak(void);

#endif
