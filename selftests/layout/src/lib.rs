// SPDX-License-Identifier: GPL-2.0

//! The kernel module's layout arithmetic on the host, and what it is checked against.
//!
//! - [`layout`] is the module itself, the same files that the kernel build compiles.
//! - [`model`] describes layouts a second time and resolves them straight from the definition.
//! - [`decode`] makes models from bytes, [`check`] compares the two, and [`fuzz`] is both in one
//!   call for a fuzzer.

pub mod check;
pub mod decode;
pub mod fuzz;
pub mod model;

/// The folder of the module, so that its files find each other as they do in the kernel.
#[path = "../../../rust/kernel/rdma/mr"]
mod mr {
    pub mod layout;
}

pub use mr::layout;
