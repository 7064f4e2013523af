/* SPDX-License-Identifier: GPL-2.0 */
/* What the tests of the rings know of the user ABI. */
#include <rdma/rdma_user_rxe.h>
#include <rdma/ib_user_verbs.h>
