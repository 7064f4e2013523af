// SPDX-License-Identifier: GPL-2.0

//! The methods of the ioctl tree (`<rdma/ib_user_ioctl_cmds.h>` and
//! `<rdma/mrx_user_ioctl.h>`).

use super::{Kind::*, Sense::*, *};

/// A method that headers older than the kernel lack: it registers memory or a
/// buffer. Its attributes have no names there either.
pub const UVERBS_METHOD_REG_MR: u32 = 5;

/// A range of a region, by its lkey.
pub const RANGE: &[Field] = &[range(4096)];
const PATTERN: &[Field] = &[
    range(64),
    word(OneOf(&[
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        1,
        2,
        2,
        2,
        3,
        3,
        3,
        3,
        7,
        0,
        0xffff_ffff,
    ])),
    word(Dimensions),
];
const STRIDES: &[u64] = &[
    64,
    64,
    64,
    64,
    64,
    64,
    64,
    64,
    64,
    128,
    128,
    128,
    128,
    512,
    512,
    512,
    512,
    512,
    4096,
    4096,
    0,
    1,
    1 << 32,
    1 << 63,
    u64::MAX,
];
const COUNTS: &[u64] = &[
    1,
    1,
    1,
    1,
    1,
    1,
    2,
    2,
    2,
    2,
    2,
    2,
    2,
    2,
    2,
    4,
    4,
    4,
    4,
    4,
    8,
    8,
    16,
    0,
    1 << 20,
    1 << 32,
    1 << 63,
    u64::MAX,
];
const DIMENSION: &[Field] = &[quad(OneOf(STRIDES)), quad(OneOf(COUNTS))];
const CAP: &[Field] = &[
    word(DEPTH),
    word(DEPTH),
    word(PIECES),
    word(PIECES),
    word(INLINE),
];
/// A client of peer memory by its name, and a number.
const PEER: &[Field] = &[
    quad(OneOf(&[0, 0x61, u64::MAX])),
    quad(Zero),
    quad(Zero),
    quad(Zero),
    quad(Zero),
    quad(Zero),
    quad(Zero),
    quad(OneOf(&[0, 0, u64::MAX])),
    quad(Any),
];
const DESCRIPTORS: &[u64] = &[1, 4, 16, 64, 1024, 1 << 20, 0, (1 << 20) + 1, 0xffff_ffff];

/// A method of an object, with its weight, and whether it has a handler in the module.
macro_rules! method {
    ($object:ident, $method:ident, $weight:literal, $handler:literal, [$($attribute:expr),* $(,)?]) => {
        Method {
            name: stringify!($method),
            object: $object as u32,
            method: $method,
            attributes: &[$($attribute),*],
            weight: $weight,
            has_handler: $handler,
        }
    };
}

const DEVICE: u32 = UVERBS_OBJECT_DEVICE;

/// All methods but the one that wraps commands.
pub const METHODS: &[Method] = &[
    // ---- the module's own
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
        MR,
        MRX_METHOD_MR_CREATE,
        10,
        true,
        [
            with(MRX_ATTR_MR_CREATE_HANDLE, New(MR)),
            with(MRX_ATTR_MR_CREATE_PD_HANDLE, Use(PD)),
            with(
                MRX_ATTR_MR_CREATE_TYPE,
                Constant(OneOf(&[1, 1, 1, 1, 0, 2]))
            ),
            with(
                MRX_ATTR_MR_CREATE_MAX_DESCRIPTORS,
                In(&[word(OneOf(DESCRIPTORS))])
            ),
            with(MRX_ATTR_MR_CREATE_ACCESS, Constant(Access)),
            rarely(MRX_ATTR_MR_CREATE_FLAGS, Constant(Bits(3))),
            with(MRX_ATTR_MR_CREATE_RESP_LKEY, OutKey),
            with(MRX_ATTR_MR_CREATE_RESP_RKEY, Out(4)),
        ]
    ),
    method!(
        MR,
        MRX_METHOD_MR_SET_LAYOUT_SG,
        20,
        true,
        [
            with(MRX_ATTR_SET_LAYOUT_HANDLE, Use(MR)),
            rarely(MRX_ATTR_SET_LAYOUT_FLAGS, Constant(Bits(7))),
            with(MRX_ATTR_SET_LAYOUT_LIST, List(RANGE, 64)),
            with(MRX_ATTR_SET_LAYOUT_RESP_LKEY, OutKey),
            with(MRX_ATTR_SET_LAYOUT_RESP_RKEY, Out(4)),
        ]
    ),
    method!(
        MR,
        MRX_METHOD_MR_SET_LAYOUT_INTERLEAVED,
        20,
        true,
        [
            with(MRX_ATTR_SET_LAYOUT_HANDLE, Use(MR)),
            rarely(MRX_ATTR_SET_LAYOUT_FLAGS, Constant(Bits(7))),
            with(MRX_ATTR_SET_LAYOUT_LIST, List(PATTERN, 4)),
            with(MRX_ATTR_SET_LAYOUT_DIMENSIONS, List(DIMENSION, 16)),
            with(MRX_ATTR_SET_LAYOUT_RESP_LKEY, OutKey),
            with(MRX_ATTR_SET_LAYOUT_RESP_RKEY, Out(4)),
        ]
    ),
    method!(
        MR,
        MRX_METHOD_MR_QUERY_LAYOUT,
        6,
        true,
        [
            with(MRX_ATTR_QUERY_LAYOUT_HANDLE, Use(MR)),
            with(MRX_ATTR_QUERY_LAYOUT_INFO, Out(24)),
            rarely(MRX_ATTR_QUERY_LAYOUT_LIST, List(RANGE, 64)),
            rarely(MRX_ATTR_QUERY_LAYOUT_DIMENSIONS, List(DIMENSION, 64)),
        ]
    ),
    // ---- regions
    method!(
        MR,
        UVERBS_METHOD_MR_DESTROY,
        6,
        true,
        [with(UVERBS_ATTR_DESTROY_MR_HANDLE, End(MR)),]
    ),
    method!(
        MR,
        UVERBS_METHOD_ADVISE_MR,
        8,
        true,
        [
            with(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, Use(PD)),
            with(
                UVERBS_ATTR_ADVISE_MR_ADVICE,
                Constant(OneOf(&[0, 1, 2, 3, u64::MAX]))
            ),
            with(UVERBS_ATTR_ADVISE_MR_FLAGS, Constant(Bits(3))),
            with(UVERBS_ATTR_ADVISE_MR_SGE_LIST, Array(RANGE, 8)),
        ]
    ),
    method!(
        MR,
        UVERBS_METHOD_QUERY_MR,
        2,
        false,
        [
            with(UVERBS_ATTR_QUERY_MR_HANDLE, Use(MR)),
            with(UVERBS_ATTR_QUERY_MR_RESP_LKEY, Out(4)),
            with(UVERBS_ATTR_QUERY_MR_RESP_RKEY, Out(4)),
            with(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, Out(8)),
            rarely(UVERBS_ATTR_QUERY_MR_RESP_IOVA, Out(8)),
        ]
    ),
    method!(
        MR,
        UVERBS_METHOD_REG_DMABUF_MR,
        5,
        true,
        [
            with(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, New(MR)),
            with(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, Use(PD)),
            with(
                UVERBS_ATTR_REG_DMABUF_MR_OFFSET,
                In(&[quad(OneOf(&[0, 0, 0, 4096, 1, u64::MAX - 4095]))])
            ),
            with(
                UVERBS_ATTR_REG_DMABUF_MR_LENGTH,
                In(&[quad(OneOf(&[4096, 65536, 65537, 1, 0, u64::MAX]))])
            ),
            with(
                UVERBS_ATTR_REG_DMABUF_MR_IOVA,
                In(&[quad(OneOf(&[0, 0, 4096, 1, u64::MAX]))])
            ),
            with(UVERBS_ATTR_REG_DMABUF_MR_FD, In(&[word(Buffer)])),
            with(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, Constant(Access)),
            with(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, OutKey),
            with(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, Out(4)),
        ]
    ),
    method!(
        MR,
        UVERBS_METHOD_REG_MR,
        10,
        true,
        [
            with(0, New(MR)),
            with(1, Use(PD)),
            with(4, In(&[quad(Address)])),
            with(3, In(&[quad(Again)])),
            with(5, In(&[quad(Length)])),
            with(6, Constant(Access)),
            rarely(7, Fd(Buffer)),
            rarely(8, In(&[quad(OneOf(&[0, 4096, u64::MAX]))])),
            with(9, OutKey),
            with(10, Out(4)),
        ]
    ),
    method!(
        MR,
        UVERBS_METHOD_DM_MR_REG,
        1,
        false,
        [
            with(UVERBS_ATTR_REG_DM_MR_HANDLE, New(MR)),
            with(UVERBS_ATTR_REG_DM_MR_OFFSET, In(&[quad(Length)])),
            with(UVERBS_ATTR_REG_DM_MR_LENGTH, In(&[quad(Length)])),
            with(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, Use(PD)),
            with(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, Constant(Access)),
            with(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, Use(DM)),
            with(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, OutKey),
            with(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, Out(4)),
        ]
    ),
    // ---- queues
    method!(
        CQ,
        UVERBS_METHOD_CQ_CREATE,
        8,
        true,
        [
            with(UVERBS_ATTR_CREATE_CQ_HANDLE, New(CQ)),
            with(UVERBS_ATTR_CREATE_CQ_CQE, In(&[word(ENTRIES)])),
            with(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, In(&[quad(Any)])),
            rarely(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, Fd(Channel)),
            with(
                UVERBS_ATTR_CREATE_CQ_COMP_VECTOR,
                In(&[word(OneOf(&[0, 0, 0, 1, 0xffff_ffff]))])
            ),
            rarely(UVERBS_ATTR_CREATE_CQ_FLAGS, Constant(Bits(7))),
            with(UVERBS_ATTR_CREATE_CQ_RESP_CQE, Out(4)),
            rarely(UVERBS_ATTR_CREATE_CQ_EVENT_FD, Fd(Channel)),
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
            rarely(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, Use(SRQ)),
            with(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, Use(CQ)),
            with(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, Use(CQ)),
            rarely(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, Use(XRCD)),
            rarely(UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, Use(TABLE)),
            with(UVERBS_ATTR_CREATE_QP_USER_HANDLE, In(&[quad(Any)])),
            with(UVERBS_ATTR_CREATE_QP_CAP, In(CAP)),
            with(UVERBS_ATTR_CREATE_QP_TYPE, Constant(QP_TYPES)),
            rarely(UVERBS_ATTR_CREATE_QP_FLAGS, Constant(Bits(0xfff))),
            rarely(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, In(&[word(QpNumber)])),
            rarely(UVERBS_ATTR_CREATE_QP_EVENT_FD, Fd(Channel)),
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
            rarely(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, Use(XRCD)),
            rarely(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, Use(CQ)),
            with(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, In(&[quad(Any)])),
            with(UVERBS_ATTR_CREATE_SRQ_MAX_WR, In(&[word(DEPTH)])),
            with(UVERBS_ATTR_CREATE_SRQ_MAX_SGE, In(&[word(PIECES)])),
            with(UVERBS_ATTR_CREATE_SRQ_LIMIT, In(&[word(DEPTH)])),
            rarely(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, In(&[word(Any)])),
            with(
                UVERBS_ATTR_CREATE_SRQ_TYPE,
                Constant(OneOf(&[0, 0, 0, 1, 2, 3]))
            ),
            rarely(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, Fd(Channel)),
            with(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, Out(4)),
            with(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, Out(4)),
            rarely(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, Out(4)),
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
    // ---- other objects
    method!(
        PD,
        UVERBS_METHOD_PD_DESTROY,
        1,
        true,
        [with(UVERBS_ATTR_DESTROY_PD_HANDLE, End(PD)),]
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
    // ---- the device
    method!(
        DEVICE,
        UVERBS_METHOD_GET_CONTEXT,
        1,
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
            with(
                UVERBS_ATTR_QUERY_PORT_PORT_NUM,
                Constant(OneOf(&[1, 1, 1, 0, 2, 255]))
            ),
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
                Constant(OneOf(&[32, 32, 8, 0, u64::MAX]))
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
            with(
                UVERBS_ATTR_QUERY_GID_ENTRY_PORT,
                Constant(OneOf(&[1, 1, 0, 2, 0xffff_ffff]))
            ),
            with(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, Constant(UpTo(20))),
            with(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, Constant(Zero)),
            with(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, Out(32)),
        ]
    ),
    // ---- what the core refuses for want of a handler
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
