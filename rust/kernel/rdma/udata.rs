// SPDX-License-Identifier: GPL-2.0

//! The driver's private part of a verbs call.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h) (`struct ib_udata`)

use crate::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    transmute::{
        AsBytes,
        FromBytes, //
    },
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

/// The request and the response of the provider library. Absent when the caller is in the kernel.
#[derive(Clone, Copy)]
pub struct Udata<'a> {
    udata: NonNull<bindings::ib_udata>,
    _call: PhantomData<&'a ()>,
}

impl Udata<'_> {
    /// # Safety
    ///
    /// `udata` is null or valid for the lifetime of the result.
    pub(super) unsafe fn from_raw(udata: *mut bindings::ib_udata) -> Option<Self> {
        NonNull::new(udata).map(|udata| Self {
            udata,
            _call: PhantomData,
        })
    }

    fn raw(&self) -> &bindings::ib_udata {
        // SAFETY: By the requirements of `from_raw`.
        unsafe { self.udata.as_ref() }
    }

    /// Whether the caller left room for a response.
    pub fn wants_response<T>(&self) -> bool {
        self.raw().outlen >= size_of::<T>()
    }

    /// Reads the request. `EINVAL` if the caller sent less, `EFAULT` if it is not readable.
    pub fn request<T: FromBytes>(&self) -> Result<T> {
        let raw = self.raw();
        if raw.inlen < size_of::<T>() {
            return Err(EINVAL);
        }
        UserSlice::new(UserPtr::from_ptr(raw.inbuf.cast_mut()), size_of::<T>())
            .reader()
            .read::<T>()
    }

    /// Writes `value` to `addr` of the caller's memory, where an old interface wants its answer.
    pub fn respond_at<T: AsBytes>(&self, addr: u64, value: &T) -> Result {
        let addr = usize::try_from(addr).map_err(|_| EFAULT)?;
        UserSlice::new(UserPtr::from_addr(addr), size_of::<T>())
            .writer()
            .write(value)
    }

    /// Writes the response. `EINVAL` if the caller left less room, `EFAULT` if it is not writable.
    pub fn respond<T: AsBytes>(&self, response: &T) -> Result {
        let raw = self.raw();
        if raw.outlen < size_of::<T>() {
            return Err(EINVAL);
        }
        UserSlice::new(UserPtr::from_ptr(raw.outbuf), size_of::<T>())
            .writer()
            .write(response)
    }
}
