// SPDX-License-Identifier: GPL-2.0

//! Methods of queues, and of the other objects.

use mrx::sys::*;

use super::super::{Kind::*, Sense::*, *};

const CAP: &[Field] = &[
    word(DEPTH),
    word(DEPTH),
    word(PIECES),
    word(PIECES),
    word(INLINE),
];

pub const METHODS: &[Method] = &[
    method!(
        CQ,
        UVERBS_METHOD_CQ_CREATE,
        8,
        true,
        [
            with(UVERBS_ATTR_CREATE_CQ_HANDLE, New(CQ)),
            with(UVERBS_ATTR_CREATE_CQ_CQE, In(&[word(ENTRIES)])),
            with(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, In(&[quad(Any)])),
            perhaps(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, Fd(Channel)),
            with(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, In(&[word(VECTOR)])),
            wrongly(UVERBS_ATTR_CREATE_CQ_FLAGS, Constant(Bits(7))),
            with(UVERBS_ATTR_CREATE_CQ_RESP_CQE, Out(4)),
            wrongly(UVERBS_ATTR_CREATE_CQ_EVENT_FD, Fd(Channel)),
            with(UVERBS_ATTR_UHW_OUT, OutRings(Rings::Completion)),
        ]
    ),
    method!(
        CQ,
        UVERBS_METHOD_CQ_DESTROY,
        3,
        true,
        [
            with(UVERBS_ATTR_DESTROY_CQ_HANDLE, End(CQ)),
            with(UVERBS_ATTR_DESTROY_CQ_RESP, Out(8)),
        ]
    ),
    method!(
        QP,
        UVERBS_METHOD_QP_CREATE,
        10,
        true,
        [
            with(UVERBS_ATTR_CREATE_QP_HANDLE, New(QP)),
            with(UVERBS_ATTR_CREATE_QP_PD_HANDLE, Use(PD)),
            perhaps(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, Use(SRQ)),
            with(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, Use(CQ)),
            with(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, Use(CQ)),
            wrongly(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, Use(XRCD)),
            wrongly(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, Use(TABLE)),
            with(UVERBS_ATTR_CREATE_QP_USER_HANDLE, In(&[quad(Any)])),
            with(UVERBS_ATTR_CREATE_QP_CAP, In(CAP)),
            with(UVERBS_ATTR_CREATE_QP_TYPE, Constant(QpType)),
            wrongly(UVERBS_ATTR_CREATE_QP_FLAGS, Constant(Bits(0xfff))),
            wrongly(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, In(&[word(QpNumber)])),
            wrongly(UVERBS_ATTR_CREATE_QP_EVENT_FD, Fd(Channel)),
            with(UVERBS_ATTR_CREATE_QP_RESP_CAP, Out(20)),
            with(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, OutQpNumber),
            with(UVERBS_ATTR_UHW_OUT, OutRings(Rings::Pair)),
        ]
    ),
    method!(
        QP,
        UVERBS_METHOD_QP_DESTROY,
        3,
        true,
        [
            with(UVERBS_ATTR_DESTROY_QP_HANDLE, End(QP)),
            with(UVERBS_ATTR_DESTROY_QP_RESP, Out(4)),
        ]
    ),
    method!(
        SRQ,
        UVERBS_METHOD_SRQ_CREATE,
        5,
        true,
        [
            with(UVERBS_ATTR_CREATE_SRQ_HANDLE, New(SRQ)),
            with(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, Use(PD)),
            wrongly(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, Use(XRCD)),
            wrongly(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, Use(CQ)),
            with(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, In(&[quad(Any)])),
            with(UVERBS_ATTR_CREATE_SRQ_MAX_WR, In(&[word(DEPTH)])),
            with(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, In(&[word(PIECES)])),
            with(UVERBS_ATTR_CREATE_SRQ_LIMIT, In(&[word(LIMIT)])),
            wrongly(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, In(&[word(Any)])),
            with(
                UVERBS_ATTR_CREATE_SRQ_TYPE,
                Constant(OneOf(&[0], &[1, 2, 3]))
            ),
            wrongly(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, Fd(Channel)),
            with(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, Out(4)),
            with(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, Out(4)),
            wrongly(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, Out(4)),
            with(UVERBS_ATTR_UHW_OUT, OutRings(Rings::Shared)),
        ]
    ),
    method!(
        SRQ,
        UVERBS_METHOD_SRQ_DESTROY,
        2,
        true,
        [
            with(UVERBS_ATTR_DESTROY_SRQ_HANDLE, End(SRQ)),
            with(UVERBS_ATTR_DESTROY_SRQ_RESP, Out(4)),
        ]
    ),
    method!(
        PD,
        UVERBS_METHOD_PD_DESTROY,
        1,
        true,
        [with(UVERBS_ATTR_DESTROY_PD_HANDLE, End(OTHER_PD)),]
    ),
    method!(
        AH,
        UVERBS_METHOD_AH_DESTROY,
        2,
        true,
        [with(UVERBS_ATTR_DESTROY_AH_HANDLE, End(AH)),]
    ),
    method!(
        MW,
        UVERBS_METHOD_MW_DESTROY,
        2,
        true,
        [with(UVERBS_ATTR_DESTROY_MW_HANDLE, End(MW)),]
    ),
    method!(
        EVENTS,
        UVERBS_METHOD_ASYNC_EVENT_ALLOC,
        1,
        false,
        [with(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, New(EVENTS)),]
    ),
];
