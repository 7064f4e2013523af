// SPDX-License-Identifier: GPL-2.0

//! Garbage in the rings that userspace shares with the kernel. Whatever stands
//! there, the kernel goes on, nobody else's memory changes, the queue pair can
//! be destroyed, and the next one works. (Who runs this reads the kernel log.)
//!
//! Not for `rdma_rxe`: inline data of a great length, some opcodes, and a
//! changed receive make 7.3 read and write outside its rings and crash, and a
//! producer index far ahead makes it spin for ever.

mod garbage;
mod victim;
mod words;

use crate::harness::Test;

/// All tests of the rings.
pub fn all() -> Vec<Test> {
    [words::TESTS, garbage::TESTS].concat()
}
