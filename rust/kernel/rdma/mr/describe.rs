// SPDX-License-Identifier: GPL-2.0

//! What a person can see of a region (`rdma resource show mr`).

use super::{
    super::driver::Property,
    binding::Description,
    memory::Memory,
    region::Region, //
};
use kernel::{
    c_str,
    prelude::*,
    str::CStr,
    sync::atomic::Relaxed, //
};

impl Region {
    /// Calls `f` with name and value of each property, until it fails.
    pub fn describe(&self, f: &mut dyn FnMut(&CStr, Property) -> Result) -> Result {
        let memory = match self.memory.enter().as_deref() {
            None => c_str!("revoked"),
            Some(Memory::None) => c_str!("none"),
            Some(Memory::Pinned(_)) => c_str!("pinned"),
            Some(Memory::Paged(_)) => c_str!("odp"),
            Some(Memory::Buffer(_)) => c_str!("dmabuf"),
            Some(Memory::Peer(_)) => c_str!("peer"),
            Some(Memory::Fast(_)) => c_str!("fast"),
            Some(Memory::Kernel) => c_str!("kernel"),
        };
        f(c_str!("memory"), Property::Text(memory))?;
        let users = u32::try_from(self.users.load(Relaxed)).unwrap_or(u32::MAX);
        f(c_str!("users"), Property::Number(users))?;
        let Some(bound) = self.bound() else {
            return Ok(());
        };
        let kind = match bound.description() {
            Description::Sg(_) => c_str!("sg"),
            Description::Interleaved { .. } => c_str!("interleaved"),
        };
        let layout = bound.layout();
        f(c_str!("layout"), Property::Text(kind))?;
        f(
            c_str!("descriptors"),
            Property::Number(layout.descriptors().0),
        )?;
        f(c_str!("nesting"), Property::Number(layout.depth().0))
    }
}
