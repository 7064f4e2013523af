// SPDX-License-Identifier: GPL-2.0
/*
 * The symbols that other modules may use. Their code is Rust; the export itself
 * is C, for lack of a macro on the other side.
 */
#include <linux/export.h>
#include <rdma/ib_mr_ext.h>

EXPORT_SYMBOL_GPL(ib_create_mr);
EXPORT_SYMBOL_GPL(ib_destroy_mr);
