// SPDX-License-Identifier: GPL-2.0

//! Charging memory to the process that it is for.
//!
//! C header: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h)

use crate::bindings;
use kernel::{
    mm::MmWithUser,
    types::NotThreadSafe, //
};

/// While this lives, what the thread allocates with `GFP_KERNEL_ACCOUNT` is charged to the memory
/// cgroup of a process, also in a thread of the kernel, which would charge nobody otherwise.
///
/// # Invariants
///
/// A reference to `group` is owned, unless it is null; `before` is what the thread charged before.
pub struct Charged {
    group: *mut bindings::mem_cgroup,
    before: *mut bindings::mem_cgroup,
    _thread: NotThreadSafe,
}

impl Charged {
    /// To the process whose memory `mm` is.
    pub fn to(mm: &MmWithUser) -> Self {
        // SAFETY: `mm` is alive. The group stays until the drop, which sets what was before.
        unsafe {
            let group = bindings::mrx_mem_cgroup_of(mm.as_raw());
            // INVARIANT: The helper returned a reference.
            Self {
                group,
                before: bindings::mrx_set_active_memcg(group),
                _thread: NotThreadSafe,
            }
        }
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        // SAFETY: By the type invariant, and this is the thread for which it was set.
        unsafe {
            bindings::mrx_set_active_memcg(self.before);
            bindings::mrx_mem_cgroup_put(self.group);
        }
    }
}
