// SPDX-License-Identifier: GPL-2.0

//! Using one thing from two threads, in turns.

/// Something that another thread uses.
pub struct Lent<T>(pub T);

// SAFETY: whoever lends something waits for the thread before using it in any
// other way.
unsafe impl<T> Send for Lent<T> {}

impl<T> Lent<T> {
    pub fn take(self) -> T {
        self.0
    }
}
