// SPDX-License-Identifier: GPL-2.0

//! Methods of regions, and of layouts over them.

use mrx::sys::*;

use super::super::{Kind::*, Sense::*, *};
use super::{RANGE, UVERBS_METHOD_REG_MR};

const PATTERN: &[Field] = &[
    range(64, RIGHTS),
    word(OneOf(&[1, 1, 1, 2, 3], &[7, 0, 0xffff_ffff])),
    word(Dimensions),
];
const DIMENSION: &[Field] = &[
    quad(OneOf(
        &[64, 64, 128, 512],
        &[4096, 0, 1, 1 << 32, 1 << 63, u64::MAX],
    )),
    quad(OneOf(
        &[1, 2, 2, 4],
        &[8, 16, 0, 1 << 20, 1 << 32, 1 << 63, u64::MAX],
    )),
];
const DESCRIPTORS: Sense = OneOf(
    &[16, 64, 1024],
    &[1, 1 << 20, 0, (1 << 20) + 1, 0xffff_ffff],
);
/// Bytes of a buffer that are registered, from its beginning.
pub const DMABUF: u64 = 4096;
/// Ranges that advice can be given about.
const PAGED: &[Field] = &[range(4096, IBV_ACCESS_ON_DEMAND)];

pub const METHODS: &[Method] = &[
    method!(
        MR,
        MRX_METHOD_MR_CREATE,
        10,
        true,
        [
            with(MRX_ATTR_MR_CREATE_HANDLE, New(MR)),
            with(MRX_ATTR_MR_CREATE_PD_HANDLE, Use(PD)),
            with(MRX_ATTR_MR_CREATE_TYPE, Constant(OneOf(&[1], &[0, 2]))),
            with(MRX_ATTR_MR_CREATE_MAX_DESCRIPTORS, In(&[word(DESCRIPTORS)])),
            with(MRX_ATTR_MR_CREATE_ACCESS, Constant(Access)),
            wrongly(MRX_ATTR_MR_CREATE_FLAGS, Constant(Bits(3))),
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
            with(MRX_ATTR_SET_LAYOUT_HANDLE, Use(LAYOUT)),
            perhaps(
                MRX_ATTR_SET_LAYOUT_FLAGS,
                Constant(OneOf(&[0, 1, 1, 2, 3], &[4, 7]))
            ),
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
            with(MRX_ATTR_SET_LAYOUT_HANDLE, Use(LAYOUT)),
            perhaps(
                MRX_ATTR_SET_LAYOUT_FLAGS,
                Constant(OneOf(&[0, 1, 1, 2, 3], &[4, 7]))
            ),
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
            with(MRX_ATTR_QUERY_LAYOUT_HANDLE, Use(LAYOUT)),
            with(MRX_ATTR_QUERY_LAYOUT_INFO, Out(24)),
            perhaps(MRX_ATTR_QUERY_LAYOUT_LIST, Room(RANGE, 64)),
            perhaps(MRX_ATTR_QUERY_LAYOUT_DIMENSIONS, Room(DIMENSION, 64)),
        ]
    ),
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
                Constant(OneOf(&[0, 1, 2], &[3, u64::MAX]))
            ),
            with(
                UVERBS_ATTR_ADVISE_MR_FLAGS,
                Constant(OneOf(&[0, 1], &[2, 3]))
            ),
            with(UVERBS_ATTR_ADVISE_MR_SGE_LIST, Array(PAGED, 8)),
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
            perhaps(UVERBS_ATTR_QUERY_MR_RESP_IOVA, Out(8)),
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
                In(&[quad(OneOf(&[0], &[4096, 1, u64::MAX - 4095]))])
            ),
            with(
                UVERBS_ATTR_REG_DMABUF_MR_LENGTH,
                In(&[quad(OneOf(&[DMABUF], &[1, 65536, 65537, 0, u64::MAX]))])
            ),
            with(
                UVERBS_ATTR_REG_DMABUF_MR_IOVA,
                In(&[quad(OneOf(&[0], &[4096, 1, u64::MAX]))])
            ),
            with(UVERBS_ATTR_REG_DMABUF_MR_FD, In(&[word(Buffer)])),
            with(
                UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS,
                Constant(BufferAccess)
            ),
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
            wrongly(7, Fd(Buffer)),
            wrongly(8, In(&[quad(OneOf(&[0, 4096], &[u64::MAX]))])),
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
];
