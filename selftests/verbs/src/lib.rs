// SPDX-License-Identifier: GPL-2.0

//! What programs that test an RDMA device from userspace have in common.

pub mod harness;
