// SPDX-License-Identifier: GPL-2.0

//! What programs that test an RDMA device from userspace have in common.

// Memory and rings have a length, and are never empty.
#![allow(clippy::len_without_is_empty)]

pub mod harness;
