// SPDX-License-Identifier: GPL-2.0

//! Memory windows.

use std::{io, ptr, rc::Rc};

use mrx::sys::{self, ibv_mw};

use super::{
    check::{pointer, status},
    Pd,
};

/// A memory window.
pub struct Mw {
    raw: *mut ibv_mw,
    _pd: Rc<Pd>,
}

impl Mw {
    /// A window that stands for nothing yet.
    pub fn new(pd: &Rc<Pd>, kind: sys::ibv_mw_type) -> io::Result<Self> {
        // SAFETY: the domain is live, and so is its context.
        let raw = unsafe {
            let alloc = (*(*pd.raw).context).ops.alloc_mw;
            pointer(alloc.ok_or_else(unsupported)?(pd.raw, kind))?
        };
        Ok(Self {
            raw,
            _pd: pd.clone(),
        })
    }

    /// What the window is now. A copy, which stays when the window ends.
    pub fn shown(&self) -> ibv_mw {
        // SAFETY: the window is live.
        unsafe { *self.raw }
    }

    /// The key that is the next one for the window.
    pub fn next_rkey(&self) -> u32 {
        let rkey = self.shown().rkey;
        (rkey & !0xff) | (rkey.wrapping_add(1) & 0xff)
    }

    /// Ends the window, whether or not it is bound.
    pub fn deallocate(&mut self) -> io::Result<()> {
        // SAFETY: the window is live, and forgotten below if it is not any more.
        unsafe {
            let dealloc = (*(*self.raw).context).ops.dealloc_mw;
            status(dealloc.ok_or_else(unsupported)?(self.raw))?;
        }
        self.raw = ptr::null_mut();
        Ok(())
    }
}

fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

impl Drop for Mw {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            if let Err(error) = self.deallocate() {
                println!("a memory window cannot be deallocated: {error}");
            }
        }
    }
}
