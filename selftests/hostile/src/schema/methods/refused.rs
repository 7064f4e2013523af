// SPDX-License-Identifier: GPL-2.0

//! What the core refuses for want of a handler.

use mrx::sys::*;

use super::super::{Kind::*, Sense::*, *};

pub const METHODS: &[Method] = &[
    method!(
        WQ,
        UVERBS_METHOD_WQ_CREATE,
        1,
        false,
        [
            with(UVERBS_ATTR_CREATE_WQ_HANDLE, New(WQ)),
            with(UVERBS_ATTR_CREATE_WQ_PD_HANDLE, Use(PD)),
            with(UVERBS_ATTR_CREATE_WQ_CQ_HANDLE, Use(CQ)),
            with(UVERBS_ATTR_CREATE_WQ_USER_HANDLE, In(&[quad(Any)])),
            with(UVERBS_ATTR_CREATE_WQ_TYPE, Constant(Zero)),
            with(UVERBS_ATTR_CREATE_WQ_MAX_WR, In(&[word(DEPTH)])),
            with(UVERBS_ATTR_CREATE_WQ_MAX_SGE, In(&[word(PIECES)])),
            with(UVERBS_ATTR_CREATE_WQ_RESP_MAX_WR, Out(4)),
            with(UVERBS_ATTR_CREATE_WQ_RESP_MAX_SGE, Out(4)),
            with(UVERBS_ATTR_CREATE_WQ_RESP_WQ_NUM, Out(4)),
        ]
    ),
    method!(
        WQ,
        UVERBS_METHOD_WQ_DESTROY,
        1,
        false,
        [
            with(UVERBS_ATTR_DESTROY_WQ_HANDLE, End(WQ)),
            with(UVERBS_ATTR_DESTROY_WQ_RESP, Out(4)),
        ]
    ),
    method!(
        DM,
        UVERBS_METHOD_DM_ALLOC,
        1,
        false,
        [
            with(UVERBS_ATTR_ALLOC_DM_HANDLE, New(DM)),
            with(UVERBS_ATTR_ALLOC_DM_LENGTH, In(&[quad(Length)])),
            with(UVERBS_ATTR_ALLOC_DM_ALIGNMENT, In(&[word(UpTo(32))])),
        ]
    ),
    method!(
        DM,
        UVERBS_METHOD_DM_FREE,
        1,
        false,
        [with(UVERBS_ATTR_FREE_DM_HANDLE, End(DM)),]
    ),
    method!(
        COUNTERS,
        UVERBS_METHOD_COUNTERS_CREATE,
        1,
        false,
        [with(UVERBS_ATTR_CREATE_COUNTERS_HANDLE, New(COUNTERS)),]
    ),
    method!(
        COUNTERS,
        UVERBS_METHOD_COUNTERS_READ,
        1,
        false,
        [
            with(UVERBS_ATTR_READ_COUNTERS_HANDLE, Use(COUNTERS)),
            with(UVERBS_ATTR_READ_COUNTERS_BUFF, Out(64)),
            with(UVERBS_ATTR_READ_COUNTERS_FLAGS, Constant(Bits(1))),
        ]
    ),
    method!(
        ACTION,
        UVERBS_METHOD_FLOW_ACTION_DESTROY,
        1,
        false,
        [with(UVERBS_ATTR_DESTROY_FLOW_ACTION_HANDLE, End(ACTION)),]
    ),
    method!(
        FLOW,
        UVERBS_METHOD_FLOW_DESTROY,
        1,
        false,
        [with(UVERBS_ATTR_DESTROY_FLOW_HANDLE, End(FLOW)),]
    ),
    method!(
        XRCD,
        UVERBS_METHOD_XRCD_DESTROY,
        1,
        false,
        [with(UVERBS_ATTR_DESTROY_XRCD_HANDLE, End(XRCD)),]
    ),
    method!(
        TABLE,
        UVERBS_METHOD_RWQ_IND_TBL_DESTROY,
        1,
        false,
        [with(UVERBS_ATTR_DESTROY_RWQ_IND_TBL_HANDLE, End(TABLE)),]
    ),
];
