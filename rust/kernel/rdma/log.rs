// SPDX-License-Identifier: GPL-2.0

//! Messages for a person, which user space cannot flood the log with.

use crate::bindings;

/// Whether another message may be printed now.
pub fn allowed() -> bool {
    // SAFETY: The rate is kept in C, under a lock of its own.
    unsafe { bindings::mrx_ratelimit() }
}

/// Prints a warning unless there have been many.
macro_rules! warn_ratelimited {
    ($($arg:tt)*) => {
        if $crate::rdma::log::allowed() {
            kernel::prelude::pr_warn!($($arg)*);
        }
    };
}
pub(crate) use warn_ratelimited;
