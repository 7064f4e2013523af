/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The C interfaces that bindgen turns into Rust. Types that the kernel's own
 * `bindings` crate has are taken from there; see bindgen_parameters.
 */
#include <linux/mmu_notifier.h>
#include <linux/netdevice.h>
#include <linux/sched/signal.h>
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>
#include <rdma/iba.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_std_types.h>
#include <rdma/ib_mr_ext.h>
#include <rdma/peer_mem.h>
#include <rdma/mrx_user_ioctl.h>

#include "helpers.h"
