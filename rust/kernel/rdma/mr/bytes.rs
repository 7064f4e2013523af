// SPDX-License-Identifier: GPL-2.0

//! Where the bytes of one side of a copy are, and the short way to all of them at once.

use super::{
    super::{
        gate::Inside,
        odp::span::Resident, //
    },
    memory::{
        Memory,
        Stretch, //
    },
    window::Window,
};
use kernel::sync::atomic::Relaxed;

/// Bytes that lie next to each other, and stay where they are as long as this is held.
pub(super) struct Held<'a> {
    /// The kernel address of the first.
    pub(super) addr: *mut u8,
    // Pages are let go before the memory that they are of.
    _pages: Option<Resident>,
    _memory: Option<Inside<'a, Memory>>,
}

/// The bytes of one side of a copy.
#[derive(Clone, Copy)]
pub struct Bytes<'a>(pub(super) Place<'a>);

#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Those that windows stand for, in order.
    Windows(&'a [Window]),
    /// Memory of the kernel, which its owner vouches for.
    Kernel(Stretch),
}

impl<'a> Bytes<'a> {
    /// The bytes of `windows`.
    #[inline]
    pub fn of(windows: &'a [Window]) -> Self {
        Self(Place::Windows(windows))
    }

    /// Bytes of kernel memory, to be read only.
    ///
    /// # Safety
    ///
    /// `data` is valid for reads of `len` bytes as long as the result, or a stream of it, is used.
    #[inline]
    pub unsafe fn of_kernel_memory(data: *const u8, len: usize) -> Self {
        Self(Place::Kernel(Stretch {
            addr: data.cast_mut(),
            len,
            io: false,
        }))
    }

    /// Kernel memory to be written to.
    ///
    /// # Safety
    ///
    /// `data` is valid for writes of `len` bytes as long as the result, or a stream of it, is used.
    #[inline]
    pub unsafe fn into_kernel_memory(data: *mut u8, len: usize) -> Self {
        // SAFETY: By the requirements of this function; what is written may be read.
        unsafe { Self::of_kernel_memory(data, len) }
    }

    /// The first `len` bytes, if they lie next to each other in memory that needs no
    /// looking for and are all that there is (of kernel memory, there may be more): most copies are
    /// short, of one region, and have that. `write` says what will be done to them.
    #[inline(always)]
    pub(super) fn straight(self, len: usize, write: bool) -> Option<Held<'a>> {
        match self.0 {
            Place::Kernel(stretch) => (len <= stretch.len).then_some(Held {
                addr: stretch.addr,
                _pages: None,
                _memory: None,
            }),
            Place::Windows([window]) if window.bound.is_none() && window.length == len as u64 => {
                let region = &window.region;
                let memory = region.memory.enter()?;
                if region.generation.load(Relaxed) != window.generation {
                    return None;
                }
                let mut pages = None;
                let addr = match &*memory {
                    Memory::Paged(memory) => {
                        let paged = memory.paged();
                        let found = paged.resident(window.offset, len, write, &mut pages);
                        let stretch = found.ok()?;
                        (stretch.len == len).then_some(stretch.addr)?
                    }
                    memory => memory.straight(window.offset, len)?,
                };
                Some(Held {
                    addr,
                    _pages: pages,
                    _memory: Some(memory),
                })
            }
            Place::Windows(_) => None,
        }
    }
}
