/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests in Rust see of C. */
#ifndef KAPI_RUST_API_H
#define KAPI_RUST_API_H

#include <rdma/ib_mr_ext.h>
#include <rdma/ib_verbs.h>

#include "../frame.h"
#include "../scene.h"

#endif /* KAPI_RUST_API_H */
