// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Devices and protection domains, as far as regions need them.

use std::{ffi::CStr, io, marker::PhantomData, ptr::NonNull, slice};

use crate::{
    method,
    sys::{self, ibv_context, ibv_pd},
    Caps,
};

/// The error of a call that has set errno, unless it answered.
pub(crate) fn non_null<T>(pointer: *mut T) -> io::Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(io::Error::last_os_error)
}

/// An open device.
pub struct Context {
    raw: NonNull<ibv_context>,
    owned: bool,
}

// SAFETY: libibverbs may be called from every thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Opens the device of this name, as `ibv_devices` lists it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](io::ErrorKind::NotFound) if libibverbs has no such device.
    pub fn open(name: &str) -> io::Result<Self> {
        let mut count = 0;
        // SAFETY: `count` may be written.
        let list = non_null(unsafe { sys::ibv_get_device_list(&mut count) })?;
        // SAFETY: the list has `count` devices, each of which has a name, until
        // it is freed; an open device keeps what it needs.
        let opened = unsafe {
            let devices = slice::from_raw_parts(list.as_ptr(), count as usize);
            let named = |&device: &*mut sys::ibv_device| {
                CStr::from_ptr(sys::ibv_get_device_name(device)).to_bytes() == name.as_bytes()
            };
            let opened = devices
                .iter()
                .copied()
                .find(named)
                .map(|it| non_null(sys::ibv_open_device(it)));
            sys::ibv_free_device_list(list.as_ptr());
            opened
        };
        let raw = opened.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()))?;
        Ok(Self { raw, owned: true })
    }

    /// A device that somebody else opened, and closes.
    ///
    /// # Safety
    ///
    /// `raw` is an open device, and stays open for as long as the answer lives.
    pub unsafe fn from_raw(raw: NonNull<ibv_context>) -> Self {
        Self { raw, owned: false }
    }

    /// The structure of libibverbs.
    pub fn as_raw(&self) -> NonNull<ibv_context> {
        self.raw
    }

    /// What the device can do with layouts.
    ///
    /// # Errors
    ///
    /// `EPROTONOSUPPORT` or, if its driver is neither that of mrx nor `rdma_rxe`,
    /// `EINVAL`: it has none.
    pub fn layout_caps(&self) -> io::Result<Caps> {
        // SAFETY: the device is open.
        let command_fd = unsafe { self.raw.as_ref() }.cmd_fd;
        method::query_caps(command_fd).map(Caps::from)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: opened by `open`; what was made from it borrowed it.
            unsafe { sys::ibv_close_device(self.raw.as_ptr()) };
        }
    }
}

/// A protection domain: regions work together within one.
pub struct Pd<'a> {
    raw: NonNull<ibv_pd>,
    owned: bool,
    context: PhantomData<&'a Context>,
}

// SAFETY: libibverbs may be called from every thread.
unsafe impl Send for Pd<'_> {}
// SAFETY: as above.
unsafe impl Sync for Pd<'_> {}

impl<'a> Pd<'a> {
    /// A new domain.
    pub fn new(context: &'a Context) -> io::Result<Self> {
        // SAFETY: the device is open.
        let raw = non_null(unsafe { sys::ibv_alloc_pd(context.raw.as_ptr()) })?;
        Ok(Self {
            raw,
            owned: true,
            context: PhantomData,
        })
    }

    /// A domain that somebody else made, and deallocates.
    ///
    /// # Safety
    ///
    /// `raw` is a domain, and stays one for as long as the answer lives.
    pub unsafe fn from_raw(raw: NonNull<ibv_pd>) -> Self {
        Self {
            raw,
            owned: false,
            context: PhantomData,
        }
    }

    /// The structure of libibverbs.
    pub fn as_raw(&self) -> NonNull<ibv_pd> {
        self.raw
    }
}

impl Drop for Pd<'_> {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: made by `new`; what was made in it borrowed it.
            unsafe { sys::ibv_dealloc_pd(self.raw.as_ptr()) };
        }
    }
}
