// SPDX-License-Identifier: GPL-2.0

//! Events that a person can watch.
//!
//! C header: [`rust/bindings/mrx_trace.h`](srctree/rust/bindings/mrx_trace.h)

use crate::bindings;
use core::ops::Range;
use kernel::prelude::*;

fn number(result: &Result<usize>) -> isize {
    match result {
        Ok(found) => *found as isize,
        Err(e) => e.to_errno() as isize,
    }
}

/// A transfer looked for pages.
pub(super) fn fault(addr: usize, pages: usize, write: bool, result: &Result<usize>) {
    let result = number(result);
    // SAFETY: Takes numbers only.
    unsafe { bindings::mrx_trace_page_fault(addr, pages, write, result) };
}

/// Pages were looked for because of an advice.
pub(super) fn prefetch(addr: usize, pages: usize, write: bool, result: &Result<usize>) {
    let result = number(result);
    // SAFETY: Takes numbers only.
    unsafe { bindings::mrx_trace_page_prefetch(addr, pages, write, result) };
}

/// Mappings of the addresses change, of which `given_up` pages were known.
pub(super) fn invalidate(addrs: Range<usize>, given_up: usize) {
    // SAFETY: Takes numbers only.
    unsafe { bindings::mrx_trace_page_invalidate(addrs.start, addrs.end, given_up) };
}
