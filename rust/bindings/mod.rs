// SPDX-License-Identifier: GPL-2.0

//! Bindings of the RDMA headers, made by bindgen from `bindings_helper.h`.
//!
//! Types that the kernel's own `bindings` crate has are those types, not twins of them.

#![allow(
    clippy::all,
    clippy::cast_lossless,
    clippy::missing_safety_doc,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_imports
)]

pub(crate) use kernel::bindings::*;
use kernel::ffi;
use pin_init::MaybeZeroable;

include!(concat!(
    env!("MRX_OBJ"),
    "/rust/bindings/bindings_generated.rs"
));
