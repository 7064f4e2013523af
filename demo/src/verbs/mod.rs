// SPDX-License-Identifier: GPL-2.0

//! Verbs objects that release themselves.

mod device;
mod queue;
mod region;

use std::io;

pub use device::Device;
pub use mrx::sys::{self, ibv_sge as Sge};
pub use queue::{Address, Completions, Depths, QueuePair, Work};
pub use region::{Memory, Pattern, PatternList, Region, ALL};

/// Turns a return value of libibverbs, 0 or an errno value, into a result.
fn status(errno: i32) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        // Some calls return -1 and set errno.
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Turns a pointer of libibverbs, where null is a failure, into a result.
fn pointer<T>(pointer: *mut T) -> io::Result<*mut T> {
    if pointer.is_null() {
        Err(io::Error::last_os_error())
    } else {
        Ok(pointer)
    }
}
