// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The C interface: the functions that `<infiniband/mrx.h>` declares.

use std::{ffi::c_int, io, ptr, slice};

use crate::{
    method::{self, Keys, Target},
    sys::{
        ib_uverbs_sge, ibv_context, ibv_mr, ibv_mr_layout_caps, ibv_mr_layout_interleaved,
        ibv_mr_layout_interleaved_dimensions, ibv_mr_set_layout_err_code, ibv_pd, ibv_sge,
        mrx_dimension, mrx_interleaved, mrx_layout_info, mrx_mr_init_attr,
        IBV_MR_SET_LAYOUT_ERR_INPUT, IBV_MR_SET_LAYOUT_ERR_UNSUPPORTED,
        IBV_MR_SET_LAYOUT_ERR_WOULD_INVALIDATE,
    },
};

/// What libibverbs and its providers hang on a `struct ibv_mr`.
///
/// `ibv_dereg_mr` takes the `struct ibv_mr` for the head of a private structure
/// of rdma-core (`struct verbs_mr` in its `driver.h`, there since version 20):
/// the type of the region and the access flags follow. Before that version
/// nothing followed. The call ends in the provider, which reads the context and
/// the handle, and gives the block to `free`; libibverbs itself looks at type,
/// flags, address and length to undo what `ibv_fork_init` may have done to the
/// pages, and with a length of zero there is nothing to undo.
#[repr(C)]
struct VerbsMr {
    mr: ibv_mr,
    /// `IBV_MR_TYPE_MR` is zero.
    kind: c_int,
    access: c_int,
    /// Room for what a later version may append; zero is the default there.
    spare: [u64; 16],
}

fn errno_of(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

fn set_errno(value: c_int) {
    // SAFETY: the address of the calling thread's own errno.
    unsafe { *libc::__errno_location() = value };
}

/// The errno value that functions of libibverbs return.
fn answer(result: io::Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            set_errno(errno_of(&error));
            errno_of(&error)
        }
    }
}

/// The code for an errno value of the methods that set a layout.
fn layout_error(errno: c_int) -> ibv_mr_set_layout_err_code {
    match errno {
        libc::ESTALE => IBV_MR_SET_LAYOUT_ERR_WOULD_INVALIDATE,
        // The second is what the core says where no driver has added the method.
        libc::EOPNOTSUPP | libc::EPROTONOSUPPORT => IBV_MR_SET_LAYOUT_ERR_UNSUPPORTED,
        _ => IBV_MR_SET_LAYOUT_ERR_INPUT,
    }
}

/// # Safety
///
/// `mr` is a region of libibverbs that nothing deregisters meanwhile.
unsafe fn target_of(mr: *const ibv_mr) -> Target {
    // SAFETY: a live region has a live context; by this function's contract.
    unsafe {
        Target {
            command_fd: (*(*mr).context).cmd_fd,
            handle: (*mr).handle,
        }
    }
}

/// Writes the keys down and makes the code of a call that set a layout.
///
/// # Safety
///
/// As for [`target_of`], and nothing else uses `*mr` meanwhile.
unsafe fn finish(mr: *mut ibv_mr, result: io::Result<Keys>) -> c_int {
    match result {
        Ok(keys) => {
            // SAFETY: by this function's contract.
            unsafe { ((*mr).lkey, (*mr).rkey) = (keys.lkey, keys.rkey) };
            0
        }
        Err(error) => {
            set_errno(errno_of(&error));
            layout_error(errno_of(&error))
        }
    }
}

/// The array of a C caller, where an empty one may have any address.
///
/// # Safety
///
/// If `count` is positive and `entries` is not null, that many can be read for
/// as long as the caller of this function says.
unsafe fn array<'a, T>(entries: *const T, count: impl TryInto<usize>) -> io::Result<&'a [T]> {
    match count.try_into() {
        Ok(0) => Ok(&[]),
        Ok(_) if entries.is_null() => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        // SAFETY: by this function's contract.
        Ok(count) => Ok(unsafe { slice::from_raw_parts(entries, count) }),
        Err(_) => Err(method::invalid()),
    }
}

/// As [`array`], to write.
///
/// # Safety
///
/// As for [`array`], and nothing else uses the entries meanwhile.
unsafe fn array_mut<'a, T>(entries: *mut T, count: u32) -> io::Result<&'a mut [T]> {
    match count {
        0 => Ok(&mut []),
        _ if entries.is_null() => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        // SAFETY: by this function's contract.
        _ => Ok(unsafe { slice::from_raw_parts_mut(entries, count as usize) }),
    }
}

/// Reads what the device can do with layouts. Returns 0 or an errno value.
///
/// # Safety
///
/// `context` is an open device, and `caps` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_mr_layout_caps(
    context: *mut ibv_context,
    caps: *mut ibv_mr_layout_caps,
) -> c_int {
    // SAFETY: by this function's contract.
    let command_fd = unsafe { (*context).cmd_fd };
    answer(method::query_caps(command_fd).map(|found| {
        let found = ibv_mr_layout_caps {
            cap_flags: found.cap_flags,
            max_num_sg: found.max_num_sg,
            max_inline_num_sg: found.max_inline_num_sg,
            max_num_interleaved: found.max_num_interleaved,
            max_inline_num_interleaved: found.max_inline_num_interleaved,
            max_mr_stride_dimension: found.max_mr_stride_dimension,
            max_mr_nesting_level: found.max_mr_nesting_level,
        };
        // SAFETY: by this function's contract.
        unsafe { caps.write(found) }
    }))
}

/// Gives advice about ranges of regions that are paged on demand. Returns 0 or
/// an errno value.
///
/// # Safety
///
/// `pd` is a live protection domain, and `sg_list` has `num_sge` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrx_advise_mr(
    pd: *mut ibv_pd,
    advice: u32,
    flags: u32,
    sg_list: *mut ibv_sge,
    num_sge: u32,
) -> c_int {
    // SAFETY: by this function's contract; the two structures are the same.
    let (command_fd, handle, ranges) = unsafe {
        let ranges = array(sg_list.cast::<ib_uverbs_sge>().cast_const(), num_sge);
        ((*(*pd).context).cmd_fd, (*pd).handle, ranges)
    };
    answer(ranges.and_then(|list| method::advise(command_fd, handle, advice, flags, list)))
}

/// Makes `mr` the concatenation of the listed ranges. Returns 0 or an
/// `ibv_mr_set_layout_err_code`, with errno set.
///
/// # Safety
///
/// `mr` is a region that no other thread uses in a call like this one, and
/// `sg_list` has `num_sge` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_mr_set_layout_sg(
    mr: *mut ibv_mr,
    flags: c_int,
    num_sge: c_int,
    sg_list: *mut ibv_sge,
) -> c_int {
    const { assert!(size_of::<ibv_sge>() == size_of::<ib_uverbs_sge>()) };
    // The two structures are the same three integers.
    // SAFETY: by this function's contract.
    let ranges = unsafe { array(sg_list.cast::<ib_uverbs_sge>().cast_const(), num_sge) };
    // SAFETY: by this function's contract.
    unsafe {
        let target = target_of(mr);
        finish(
            mr,
            ranges.and_then(|list| method::set_layout_sg(target, flags as u32, list)),
        )
    }
}

/// The entries and the dimensions of a C caller, as the kernel takes them.
///
/// # Safety
///
/// The dimensions of each entry can be read.
unsafe fn flatten(
    entries: &[ibv_mr_layout_interleaved],
) -> io::Result<(Vec<mrx_interleaved>, Vec<mrx_dimension>)> {
    // Most entries have one.
    let mut dimensions = Vec::with_capacity(entries.len());
    let mut flat = Vec::with_capacity(entries.len());
    for entry in entries {
        // SAFETY: by this function's contract.
        let own = unsafe { array(entry.dims.cast_const(), entry.num_dimensions) }?;
        dimensions.extend(own.iter().map(|dimension| mrx_dimension {
            offset_stride: dimension.offset_stride,
            datum_count: dimension.datum_count,
        }));
        flat.push(mrx_interleaved {
            addr: entry.first_datum.addr,
            length: entry.first_datum.length,
            lkey: entry.first_datum.lkey,
            num_repeated: u32::try_from(entry.num_repeated).map_err(|_| method::invalid())?,
            num_dimensions: own.len() as u32,
        });
    }
    Ok((flat, dimensions))
}

/// Makes `mr` a pattern of the listed entries. Returns as
/// [`ibv_mr_set_layout_sg`].
///
/// # Safety
///
/// `mr` is a region that no other thread uses in a call like this one, and
/// `interleaved_list` has `num_interleaved` entries, each with its dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_mr_set_layout_interleaved(
    mr: *mut ibv_mr,
    flags: c_int,
    num_interleaved: c_int,
    interleaved_list: *mut ibv_mr_layout_interleaved,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        let target = target_of(mr);
        let keys = array(interleaved_list.cast_const(), num_interleaved)
            .and_then(|entries| flatten(entries))
            .and_then(|(entries, dimensions)| {
                method::set_layout_interleaved(target, flags as u32, &entries, &dimensions)
            });
        finish(mr, keys)
    }
}

/// Creates a region with no memory of its own. Returns null, with errno set, on
/// failure.
///
/// # Safety
///
/// `pd` is a live protection domain, and `attr` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrx_create_mr(
    pd: *mut ibv_pd,
    attr: *const mrx_mr_init_attr,
) -> *mut ibv_mr {
    // The provider frees it with free().
    // SAFETY: an allocation with no other precondition.
    let block = unsafe { libc::calloc(1, size_of::<VerbsMr>()) }.cast::<VerbsMr>();
    if block.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: by this function's contract.
    let (context, created) = unsafe {
        let context = (*pd).context;
        (
            context,
            method::create((*context).cmd_fd, (*pd).handle, &*attr),
        )
    };
    match created {
        Ok((handle, keys)) => {
            let mr = ibv_mr {
                context,
                pd,
                handle,
                lkey: keys.lkey,
                rkey: keys.rkey,
                ..Default::default()
            };
            // SAFETY: the block is ours and large enough; `attr` can be read.
            unsafe {
                let access = (*attr).access as c_int;
                block.write(VerbsMr {
                    mr,
                    kind: 0,
                    access,
                    spare: [0; 16],
                });
            }
            block.cast()
        }
        Err(error) => {
            // SAFETY: calloc made the block, and nothing else knows it.
            unsafe { libc::free(block.cast()) };
            set_errno(errno_of(&error));
            ptr::null_mut()
        }
    }
}

/// Reads the kind and the size of a layout. Returns 0 or an errno value.
///
/// # Safety
///
/// `mr` is a region, and `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrx_query_layout(mr: *mut ibv_mr, info: *mut mrx_layout_info) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { answer(method::query_layout(target_of(mr)).map(|found| info.write(found))) }
}

/// Reads an SG layout back. Returns 0 or an errno value.
///
/// # Safety
///
/// `mr` is a region, and `sg_list` has room for `num_sge` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrx_query_layout_sg(
    mr: *mut ibv_mr,
    num_sge: u32,
    sg_list: *mut ibv_sge,
) -> c_int {
    // SAFETY: by this function's contract; the two structures are the same.
    unsafe {
        let target = target_of(mr);
        answer(
            array_mut(sg_list.cast::<ib_uverbs_sge>(), num_sge)
                .and_then(|ranges| method::query_sg(target, ranges))
                .map(drop),
        )
    }
}

/// Reads an interleaved layout back. Returns 0 or an errno value.
///
/// # Safety
///
/// `mr` is a region; `entries` and `dims` have room for as many as is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mrx_query_layout_interleaved(
    mr: *mut ibv_mr,
    num_entries: u32,
    entries: *mut ibv_mr_layout_interleaved,
    num_dims: u32,
    dims: *mut ibv_mr_layout_interleaved_dimensions,
) -> c_int {
    // SAFETY: by this function's contract.
    unsafe {
        let target = target_of(mr);
        // The room that is needed is that of the layout, whatever the caller says it has.
        let (mut found, mut dimensions) = match method::query_layout(target) {
            Ok(info) => (
                vec![mrx_interleaved::default(); info.num_descriptors.min(num_entries) as usize],
                vec![mrx_dimension::default(); info.num_dimensions.min(num_dims) as usize],
            ),
            Err(error) => return answer(Err(error)),
        };
        answer(
            method::query_interleaved(target, &mut found, &mut dimensions).and_then(|info| {
                let room = array_mut(entries, info.num_descriptors.min(num_entries))?;
                let dimension_room = array_mut(dims, info.num_dimensions.min(num_dims))?;
                for (to, from) in dimension_room.iter_mut().zip(&dimensions) {
                    to.offset_stride = from.offset_stride;
                    to.datum_count = from.datum_count;
                }
                let mut own = dims;
                for (to, from) in room.iter_mut().zip(&found) {
                    to.first_datum = ibv_sge {
                        addr: from.addr,
                        length: from.length,
                        lkey: from.lkey,
                    };
                    to.num_repeated = from.num_repeated as c_int;
                    to.num_dimensions = from.num_dimensions as c_int;
                    to.dims = own;
                    own = own.wrapping_add(from.num_dimensions as usize);
                }
                Ok(())
            }),
        )
    }
}
