// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! The C interface of libibverbs and of this library, and the inline functions
//! of `<infiniband/verbs.h>`, which no library exports.

#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals
)]
#![allow(clippy::all, unsafe_op_in_unsafe_fn)]
// Bindgen writes no SAFETY comments.
#![allow(clippy::undocumented_unsafe_blocks)]

use std::{ffi::c_int, mem::offset_of, ptr};

include!(concat!(env!("OUT_DIR"), "/bindings.rs"));

/// The opcode that activates a staged layout; see `<infiniband/mrx.h>`.
pub const IBV_WR_BIND_MR: ibv_wr_opcode = IBV_WR_DRIVER1;

/// The errno value of a function pointer that the provider left empty.
const NOT_THERE: c_int = libc::EOPNOTSUPP;

/// # Safety
///
/// `cq` is a live completion queue, and `wc` has room for `num_entries`.
pub unsafe fn ibv_poll_cq(cq: *mut ibv_cq, num_entries: c_int, wc: *mut ibv_wc) -> c_int {
    match (*(*cq).context).ops.poll_cq {
        Some(poll_cq) => poll_cq(cq, num_entries, wc),
        None => -NOT_THERE,
    }
}

/// # Safety
///
/// `cq` is a live completion queue.
pub unsafe fn ibv_req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    match (*(*cq).context).ops.req_notify_cq {
        Some(req_notify_cq) => req_notify_cq(cq, solicited_only),
        None => NOT_THERE,
    }
}

/// # Safety
///
/// `qp` is a live queue pair, and `wr` a list of valid work requests.
pub unsafe fn ibv_post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    match (*(*qp).context).ops.post_send {
        Some(post_send) => post_send(qp, wr, bad_wr),
        None => NOT_THERE,
    }
}

/// # Safety
///
/// `qp` is a live queue pair, and `wr` a list of valid work requests.
pub unsafe fn ibv_post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    match (*(*qp).context).ops.post_recv {
        Some(post_recv) => post_recv(qp, wr, bad_wr),
        None => NOT_THERE,
    }
}

/// # Safety
///
/// `context` is a live context, and `entry` may be written.
pub unsafe fn ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
) -> c_int {
    _ibv_query_gid_ex(context, port, index, entry, 0, size_of::<ibv_gid_entry>())
}

/// What `verbs.h` calls `ibv_query_port`; the fields that only its newer form
/// has stay zero.
///
/// # Safety
///
/// `context` is a live context, and `attr` may be written.
pub unsafe fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    unsafe extern "C" {
        #[link_name = "ibv_query_port"]
        fn exported(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int;
    }
    attr.write_bytes(0, 1);
    exported(context, port, attr)
}

/// # Safety
///
/// `context` is a live context, and `attr` is filled in.
pub unsafe fn ibv_create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    match extended(context).and_then(|it| (*it).create_cq_ex) {
        Some(create_cq_ex) => create_cq_ex(context, attr),
        None => {
            *libc::__errno_location() = NOT_THERE;
            ptr::null_mut()
        }
    }
}

/// The structure with the newer calls that a context is a part of, as far as
/// this crate knows it.
unsafe fn extended(context: *mut ibv_context) -> Option<*mut verbs_context> {
    // What verbs.h calls __VERBS_ABI_IS_EXTENDED.
    if (*context).abi_compat.addr() != usize::MAX {
        return None;
    }
    let whole = context.byte_sub(offset_of!(verbs_context, context));
    let whole = whole.cast::<verbs_context>();
    // It grows at its front, so that this is where the oldest part begins.
    let known = size_of::<verbs_context>() - offset_of!(verbs_context, create_cq_ex);
    ((*whole).sz >= known).then_some(whole)
}
