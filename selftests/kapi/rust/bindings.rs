// SPDX-License-Identifier: GPL-2.0

//! What bindgen makes of `api.h`, and the kernel's own bindings.

#![allow(
    clippy::all,
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
    unsafe_op_in_unsafe_fn
)]

use kernel::ffi;

include!(concat!(env!("MRX_KAPI_OBJ"), "/rust/bindings_generated.rs"));
