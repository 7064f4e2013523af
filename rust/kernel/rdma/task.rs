// SPDX-License-Identifier: GPL-2.0

//! Being a good citizen in long kernel work.
//!
//! C header: [`include/linux/sched.h`](srctree/include/linux/sched.h)

use crate::bindings;

/// Whether the current process has been killed.
#[inline]
pub fn is_dying() -> bool {
    // SAFETY: Looks at the current task only.
    unsafe { bindings::mrx_fatal_signal_pending() }
}

/// Lets others run if they wait for this CPU, and says whether to go on: not if the current process
/// has been killed. May sleep.
#[inline]
pub fn pause() -> bool {
    // SAFETY: As in `let_others_run`.
    unsafe { bindings::mrx_pause() }
}

/// Whether the caller is a thread of the kernel, which cannot be killed.
#[inline]
pub fn is_kernel_thread() -> bool {
    kernel::current!().mm().is_none()
}

/// Lets others run if they wait for this CPU. May sleep.
#[inline]
pub fn let_others_run() {
    // SAFETY: Callers are in process context and hold no spinlock.
    unsafe { bindings::mrx_cond_resched() };
}
