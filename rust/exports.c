// SPDX-License-Identifier: GPL-2.0
/*
 * The symbols that other modules may use. Their code is Rust; the export itself
 * is C, for lack of a macro on the other side.
 */
#include <linux/export.h>
#include <rdma/ib_mr_ext.h>

EXPORT_SYMBOL_GPL(ib_create_mr);
EXPORT_SYMBOL_GPL(ib_destroy_mr);
EXPORT_SYMBOL_GPL(ib_mr_set_layout_interleaved);
EXPORT_SYMBOL_GPL(ib_mr_set_layout_sg);
EXPORT_SYMBOL_GPL(ib_register_mr_ext);
EXPORT_SYMBOL_GPL(ib_unregister_mr_ext);
