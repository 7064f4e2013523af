// SPDX-License-Identifier: GPL-2.0

//! Methods of the device as such, and of what peer memory a process uses.

use mrx::sys::*;

use super::super::{Kind::*, Sense::*, *};

const DEVICE: u32 = UVERBS_OBJECT_DEVICE;
/// `struct mrx_peer_context`
const PEER: &[Field] = &[CLIENT, quad(Any)];

pub const METHODS: &[Method] = &[
    method!(
        DEVICE,
        MRX_METHOD_QUERY_CAPS,
        2,
        true,
        [with(MRX_ATTR_QUERY_CAPS_RESP, Out(32)),]
    ),
    method!(
        DEVICE,
        MRX_METHOD_SET_PEER_CONTEXT,
        2,
        true,
        [with(MRX_ATTR_SET_PEER_CONTEXT, In(PEER)),]
    ),
    method!(
        DEVICE,
        UVERBS_METHOD_GET_CONTEXT,
        // Only by those who have none: the core of Linux 7.3 never lets go of a
        // task that asks for a second one so.
        0,
        true,
        [
            with(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, Out(4)),
            with(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, Out(8)),
        ]
    ),
    method!(
        DEVICE,
        UVERBS_METHOD_QUERY_CONTEXT,
        1,
        false,
        [
            with(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, Out(4)),
            with(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, Out(8)),
        ]
    ),
    method!(
        DEVICE,
        UVERBS_METHOD_INFO_HANDLES,
        2,
        false,
        [
            with(UVERBS_ATTR_INFO_OBJECT_ID, Constant(UpTo(20))),
            with(UVERBS_ATTR_INFO_TOTAL_HANDLES, Out(4)),
            with(UVERBS_ATTR_INFO_HANDLES_LIST, Out(256)),
        ]
    ),
    method!(
        DEVICE,
        UVERBS_METHOD_QUERY_PORT,
        2,
        true,
        [
            with(UVERBS_ATTR_QUERY_PORT_PORT_NUM, Constant(PORT)),
            with(UVERBS_ATTR_QUERY_PORT_RESP, Out(72)),
        ]
    ),
    method!(
        DEVICE,
        UVERBS_METHOD_QUERY_GID_TABLE,
        1,
        false,
        [
            with(
                UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
                Constant(OneOf(&[32], &[8, 0, u64::MAX]))
            ),
            with(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, Constant(Zero)),
            with(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, Out(1024)),
            with(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, Out(8)),
        ]
    ),
    method!(
        DEVICE,
        UVERBS_METHOD_QUERY_GID_ENTRY,
        1,
        false,
        [
            with(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, Constant(PORT)),
            with(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, Constant(UpTo(20))),
            with(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, Constant(Zero)),
            with(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, Out(32)),
        ]
    ),
];
