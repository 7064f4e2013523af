// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The methods of `<rdma/mrx_user_ioctl.h>`, and one of the core's, one function
//! each, on file descriptors and handles. The C and the Rust interface both stand on these.

use std::{ffi::c_int, io};

use crate::{
    sys::{
        self, ib_uverbs_sge, mrx_dimension, mrx_interleaved, mrx_layout_caps, mrx_layout_info,
        mrx_user_list, UVERBS_OBJECT_DEVICE, UVERBS_OBJECT_MR,
    },
    uverbs::Call,
};

/// A region as the kernel knows it.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) command_fd: c_int,
    pub(crate) handle: u32,
}

/// The keys of a region.
#[derive(Clone, Copy, Default)]
pub(crate) struct Keys {
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

fn list_of<T>(entries: &[T]) -> io::Result<mrx_user_list> {
    let count = u32::try_from(entries.len()).map_err(|_| invalid())?;
    let addr = entries.as_ptr().expose_provenance() as u64;
    Ok(mrx_user_list {
        addr,
        count,
        entry_size: size_of::<T>() as u32,
    })
}

fn room_in<T>(entries: &mut [T]) -> io::Result<mrx_user_list> {
    let count = u32::try_from(entries.len()).map_err(|_| invalid())?;
    let addr = entries.as_mut_ptr().expose_provenance() as u64;
    Ok(mrx_user_list {
        addr,
        count,
        entry_size: size_of::<T>() as u32,
    })
}

pub(crate) fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

/// `MRX_METHOD_QUERY_CAPS`
pub(crate) fn query_caps(command_fd: c_int) -> io::Result<mrx_layout_caps> {
    let mut caps = mrx_layout_caps::default();
    Call::new(UVERBS_OBJECT_DEVICE, sys::MRX_METHOD_QUERY_CAPS)
        .output(sys::MRX_ATTR_QUERY_CAPS_RESP, &mut caps)
        .run(command_fd)?;
    Ok(caps)
}

/// `MRX_METHOD_MR_CREATE`: the handle and the keys of the new region.
pub(crate) fn create(
    command_fd: c_int,
    pd_handle: u32,
    attr: &sys::mrx_mr_init_attr,
) -> io::Result<(u32, Keys)> {
    let mut keys = Keys::default();
    let handle = Call::new(UVERBS_OBJECT_MR, sys::MRX_METHOD_MR_CREATE)
        .handle(sys::MRX_ATTR_MR_CREATE_HANDLE, 0)
        .handle(sys::MRX_ATTR_MR_CREATE_PD_HANDLE, pd_handle)
        .constant(sys::MRX_ATTR_MR_CREATE_TYPE, attr.type_.into())
        .word(
            sys::MRX_ATTR_MR_CREATE_MAX_DESCRIPTORS,
            attr.max_descriptors,
        )
        .constant(sys::MRX_ATTR_MR_CREATE_ACCESS, attr.access.into())
        .constant(sys::MRX_ATTR_MR_CREATE_FLAGS, attr.flags.into())
        .output(sys::MRX_ATTR_MR_CREATE_RESP_LKEY, &mut keys.lkey)
        .output(sys::MRX_ATTR_MR_CREATE_RESP_RKEY, &mut keys.rkey)
        .run(command_fd)?;
    Ok((handle, keys))
}

/// `MRX_METHOD_MR_SET_LAYOUT_SG`: the keys from now on.
pub(crate) fn set_layout_sg(
    target: Target,
    flags: u32,
    ranges: &[ib_uverbs_sge],
) -> io::Result<Keys> {
    let list = list_of(ranges)?;
    set_layout(target, sys::MRX_METHOD_MR_SET_LAYOUT_SG, flags, &list, None)
}

/// `MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED`: the keys from now on.
pub(crate) fn set_layout_interleaved(
    target: Target,
    flags: u32,
    entries: &[mrx_interleaved],
    dimensions: &[mrx_dimension],
) -> io::Result<Keys> {
    let (list, dimensions) = (list_of(entries)?, list_of(dimensions)?);
    let method = sys::MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED;
    set_layout(target, method, flags, &list, Some(&dimensions))
}

fn set_layout(
    target: Target,
    method: u32,
    flags: u32,
    list: &mrx_user_list,
    dimensions: Option<&mrx_user_list>,
) -> io::Result<Keys> {
    let mut keys = Keys::default();
    let mut call = Call::new(UVERBS_OBJECT_MR, method)
        .handle(sys::MRX_ATTR_SET_LAYOUT_HANDLE, target.handle)
        .constant(sys::MRX_ATTR_SET_LAYOUT_FLAGS, flags.into())
        .input(sys::MRX_ATTR_SET_LAYOUT_LIST, list);
    if let Some(dimensions) = dimensions {
        call = call.input(sys::MRX_ATTR_SET_LAYOUT_DIMENSIONS, dimensions);
    }
    call.output(sys::MRX_ATTR_SET_LAYOUT_RESP_LKEY, &mut keys.lkey)
        .output(sys::MRX_ATTR_SET_LAYOUT_RESP_RKEY, &mut keys.rkey)
        .run(target.command_fd)
        .map_err(|error| match error.raw_os_error() {
            // Also what the core says of a device of another driver.
            Some(libc::EINVAL) if query_caps(target.command_fd).is_err() => unsupported(),
            _ => error,
        })?;
    Ok(keys)
}

/// `MRX_METHOD_MR_QUERY_LAYOUT` without room: what there is to read.
pub(crate) fn query_layout(target: Target) -> io::Result<mrx_layout_info> {
    let mut info = mrx_layout_info::default();
    Call::new(UVERBS_OBJECT_MR, sys::MRX_METHOD_MR_QUERY_LAYOUT)
        .handle(sys::MRX_ATTR_QUERY_LAYOUT_HANDLE, target.handle)
        .output(sys::MRX_ATTR_QUERY_LAYOUT_INFO, &mut info)
        .run(target.command_fd)?;
    Ok(info)
}

/// `MRX_METHOD_MR_QUERY_LAYOUT` of a layout whose descriptors are of type `T`.
///
/// # Safety
///
/// `T` is the type that the kernel writes for layouts of kind `kind`, and all
/// of its bit patterns are valid.
unsafe fn query_entries<T>(
    target: Target,
    kind: u32,
    entries: &mut [T],
    dimensions: &mut [mrx_dimension],
) -> io::Result<mrx_layout_info> {
    // Another thread can set a layout of the other kind between the two calls.
    // The kernel then finds the wrong entry size and refuses.
    let info = query_layout(target)?;
    if info.kind != kind {
        return Err(invalid());
    }
    let (list, dimension_list) = (room_in(entries)?, room_in(dimensions)?);
    let mut info = mrx_layout_info::default();
    Call::new(UVERBS_OBJECT_MR, sys::MRX_METHOD_MR_QUERY_LAYOUT)
        .handle(sys::MRX_ATTR_QUERY_LAYOUT_HANDLE, target.handle)
        .output(sys::MRX_ATTR_QUERY_LAYOUT_INFO, &mut info)
        .input(sys::MRX_ATTR_QUERY_LAYOUT_LIST, &list)
        .input(sys::MRX_ATTR_QUERY_LAYOUT_DIMENSIONS, &dimension_list)
        .run(target.command_fd)?;
    if info.kind != kind {
        return Err(invalid());
    }
    Ok(info)
}

/// Reads an SG layout into `ranges`; the answer says how many there are.
pub(crate) fn query_sg(
    target: Target,
    ranges: &mut [ib_uverbs_sge],
) -> io::Result<mrx_layout_info> {
    // SAFETY: an SG layout is a list of `ib_uverbs_sge`, plain integers.
    unsafe { query_entries(target, sys::MRX_LAYOUT_SG, ranges, &mut []) }
}

/// Reads an interleaved layout into `entries` and `dimensions`.
pub(crate) fn query_interleaved(
    target: Target,
    entries: &mut [mrx_interleaved],
    dimensions: &mut [mrx_dimension],
) -> io::Result<mrx_layout_info> {
    // SAFETY: an interleaved layout is a list of `mrx_interleaved`, plain integers.
    unsafe { query_entries(target, sys::MRX_LAYOUT_INTERLEAVED, entries, dimensions) }
}

/// `UVERBS_METHOD_ADVISE_MR`: advice about ranges of regions of a domain.
pub(crate) fn advise(
    command_fd: c_int,
    pd_handle: u32,
    advice: u32,
    flags: u32,
    ranges: &[ib_uverbs_sge],
) -> io::Result<()> {
    Call::new(UVERBS_OBJECT_MR, sys::UVERBS_METHOD_ADVISE_MR)
        .handle(sys::UVERBS_ATTR_ADVISE_MR_PD_HANDLE, pd_handle)
        .constant(sys::UVERBS_ATTR_ADVISE_MR_ADVICE, advice.into())
        .constant(sys::UVERBS_ATTR_ADVISE_MR_FLAGS, flags.into())
        .list(sys::UVERBS_ATTR_ADVISE_MR_SGE_LIST, ranges)?
        .run(command_fd)
        .map(drop)
}
