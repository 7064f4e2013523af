/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the bindings are generated from. */
#include <infiniband/verbs.h>
#include <infiniband/mrx.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mrx_user_ioctl.h>

/* Macros with arguments or casts, as values that bindgen can read. */
static const unsigned long MRX_VERBS_IOCTL = RDMA_VERBS_IOCTL;
