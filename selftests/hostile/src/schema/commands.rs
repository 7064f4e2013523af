// SPDX-License-Identifier: GPL-2.0

//! The commands that are written, or wrapped in a method
//! (`<rdma/ib_user_verbs.h>`).

use super::{Sense::*, *};

/// The structure of a command's input, and what is usual for the rest.
macro_rules! command {
    ($number:ident, $structure:ident, $fields:expr, $weight:literal, $handler:literal $(, $key:ident: $value:expr)* $(,)?) => {{
        Command {
            $($key: $value,)*
            ..Command {
                name: stringify!($number),
                number: $number as u32,
                extended: false,
                fields: filling::<$structure>($fields),
                tail: &[],
                answer: 0,
                rings: None,
                makes: None,
                key_at: None,
                shape: Shape::Plain,
                weight: $weight,
                has_handler: $handler,
            }
        }
    }};
}

/// The fields of a `T`: all of it.
const fn filling<T>(fields: &'static [Field]) -> &'static [Field] {
    let (mut bytes, mut at) = (0, 0);
    while at < fields.len() {
        bytes += fields[at].bytes;
        at += 1;
    }
    assert!(bytes == size_of::<T>());
    fields
}

const ANSWER: Field = quad(Answer);
const GRH: [Field; 6] = [
    GID,
    word(OneOf(&[0], &[0xf_ffff, 0xffff_ffff])),
    byte(GidIndex),
    byte(OneOf(&[64], &[0, 1])),
    byte(OneOf(&[0], &[255])),
    byte(Zero),
];
/// `struct ib_uverbs_qp_dest`
const DEST: [Field; 12] = [
    GID,
    word(OneOf(&[0], &[0xf_ffff, 0xffff_ffff])),
    half(Zero),
    half(Zero),
    byte(GidIndex),
    byte(OneOf(&[64], &[0, 1])),
    byte(OneOf(&[0], &[255])),
    byte(OneOf(&[0], &[15, 255])),
    byte(Zero),
    byte(Zero),
    byte(OneOf(&[1], &[0])),
    byte(PORT),
];

/// Offsets in `struct ib_uverbs_modify_qp`, for [`Shape::Modify`].
pub const MODIFY_MASK: usize = 68;
pub const MODIFY_STATE: usize = 96;

/// `struct ib_uverbs_modify_qp`
const MODIFY: [Field; 49] = joined(&[
    &DEST,
    &DEST,
    &[
        word(Handle(QP)),
        word(Any),
        word(OneOf(&[0x1122_3344], &[0, 0x8001_0000, 0xffff_ffff])),
        word(UpTo(0xff_ffff)),
        word(UpTo(0xff_ffff)),
        word(QpNumber),
        word(Access),
        half(OneOf(&[0], &[1, 0xffff])),
        half(Zero),
        byte(Any),
        byte(UpTo(8)),
        byte(OneOf(&[3, 5, 1], &[0, 6])),
        byte(UpTo(3)),
        byte(UpTo(1)),
        byte(OneOf(&[1, 8], &[0, 16, 255])),
        byte(OneOf(&[1, 8], &[0, 16, 255])),
        byte(OneOf(&[1], &[0, 31, 32])),
        byte(PORT),
        byte(OneOf(&[1, 8, 14], &[0, 31, 32])),
        byte(OneOf(&[0, 1], &[7, 8])),
        byte(OneOf(&[0, 1], &[7, 8])),
        byte(Zero),
        byte(Zero),
        byte(Zero),
        byte(Zero),
    ],
]);
/// `struct ib_uverbs_ex_modify_qp`
const EX_MODIFY: [Field; 51] = joined(&[&MODIFY, &[word(Zero), word(Zero)]]);

/// `struct ib_uverbs_create_qp` behind its response, and what `struct ib_uverbs_ex_create_qp` begins
/// with.
const NEW_QP: [Field; 14] = [
    quad(Any),
    word(Handle(PD)),
    word(Handle(CQ)),
    word(Handle(CQ)),
    word(Handle(SRQ)),
    word(DEPTH),
    word(DEPTH),
    word(PIECES),
    word(PIECES),
    word(INLINE),
    byte(UpTo(1)),
    byte(QpType),
    byte(OneOf(&[0, 0, 0, 1], &[2])),
    byte(Zero),
];
const CREATE_QP: [Field; 15] = joined(&[&[ANSWER], &NEW_QP]);
const EX_CREATE_QP: [Field; 18] = joined(&[
    &NEW_QP,
    &[
        word(OneOf(&[0], &[1])),
        word(OneOf(&[0], &[2, 0x1000, 0xffff_ffff])),
        word(Zero),
        word(Zero),
    ],
]);
const CREATE_SRQ: &[Field] = &[
    ANSWER,
    quad(Any),
    word(Handle(PD)),
    word(DEPTH),
    word(PIECES),
    word(LIMIT),
];
/// `struct ib_uverbs_ah_attr` with what is before it.
const CREATE_AH: &[Field] = &[
    ANSWER,
    quad(Any),
    word(Handle(PD)),
    word(Zero),
    GRH[0],
    GRH[1],
    GRH[2],
    GRH[3],
    GRH[4],
    GRH[5],
    half(Zero),
    byte(OneOf(&[0], &[15])),
    byte(Zero),
    byte(Zero),
    byte(OneOf(&[1], &[0])),
    byte(PORT),
    byte(Zero),
];
const MCAST: &[Field] = &[GROUP, word(Handle(DATAGRAMS)), half(Zero), half(Zero)];
const REG_MR: &[Field] = &[
    ANSWER,
    quad(Address),
    quad(Length),
    quad(Again),
    word(Handle(PD)),
    word(Access),
];
/// A request to post is what follows; the counts are set with it.
const POST: &[Field] = &[
    ANSWER,
    word(Handle(QP)),
    word(Zero),
    word(Zero),
    word(OneOf(&[64], &[16, 0, 128, 0xffff_ffff])),
];

/// All commands.
pub const COMMANDS: &[Command] = &[
    command!(
        IB_USER_VERBS_CMD_GET_CONTEXT, ib_uverbs_get_context, &[ANSWER], 1, true,
        answer: 8, makes: Some(EVENTS),
    ),
    command!(IB_USER_VERBS_CMD_QUERY_DEVICE, ib_uverbs_query_device, &[ANSWER], 1, true, answer: 176),
    command!(
        IB_USER_VERBS_CMD_QUERY_PORT, ib_uverbs_query_port,
        &[ANSWER, byte(PORT), byte(Zero), half(Zero), word(Zero)], 1, true, answer: 40,
    ),
    command!(
        IB_USER_VERBS_CMD_ALLOC_PD, ib_uverbs_alloc_pd, &[ANSWER], 3, true,
        answer: 4, makes: Some(PD),
    ),
    command!(
        IB_USER_VERBS_CMD_DEALLOC_PD, ib_uverbs_dealloc_pd, &[word(Handle(OTHER_PD))], 2, true,
        shape: Shape::Ends(PD, 0),
    ),
    command!(
        IB_USER_VERBS_CMD_CREATE_AH, ib_uverbs_create_ah, CREATE_AH, 5, true,
        answer: 12, makes: Some(AH),
    ),
    command!(
        IB_USER_VERBS_CMD_DESTROY_AH, ib_uverbs_destroy_ah, &[word(Handle(AH))], 2, true,
        shape: Shape::Ends(AH, 0),
    ),
    command!(
        IB_USER_VERBS_CMD_REG_MR, ib_uverbs_reg_mr, REG_MR, 15, true,
        answer: 12, makes: Some(MR), key_at: Some(4), shape: Shape::Registers(8),
    ),
    command!(
        IB_USER_VERBS_CMD_REREG_MR, ib_uverbs_rereg_mr,
        &[
            ANSWER, word(Handle(MR)), word(OneOf(&[1, 2, 4, 3, 5, 6, 7], &[0, 8, 0xffff_ffff])),
            quad(Address), quad(Length), quad(Again), word(Handle(PD)), word(Access),
        ],
        12, true, answer: 8, key_at: Some(0), shape: Shape::Registers(16),
    ),
    command!(
        IB_USER_VERBS_CMD_DEREG_MR, ib_uverbs_dereg_mr, &[word(Handle(MR))], 4, true,
        shape: Shape::Ends(MR, 0),
    ),
    command!(
        IB_USER_VERBS_CMD_ALLOC_MW, ib_uverbs_alloc_mw,
        &[ANSWER, word(Handle(PD)), byte(OneOf(&[1, 2], &[0, 3])), byte(Zero), half(Zero)],
        4, true, answer: 8, makes: Some(MW), key_at: Some(4),
    ),
    command!(
        IB_USER_VERBS_CMD_DEALLOC_MW, ib_uverbs_dealloc_mw, &[word(Handle(MW))], 2, true,
        shape: Shape::Ends(MW, 0),
    ),
    command!(
        IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, ib_uverbs_create_comp_channel, &[ANSWER], 1, false,
        answer: 4, makes: Some(CHANNEL),
    ),
    command!(
        IB_USER_VERBS_CMD_CREATE_CQ, ib_uverbs_create_cq,
        &[
            ANSWER, quad(Any), word(ENTRIES), word(VECTOR),
            word(Channel), word(Zero),
        ],
        6, true, answer: 8, makes: Some(CQ), rings: Some(Rings::Completion),
    ),
    command!(
        IB_USER_VERBS_CMD_RESIZE_CQ, ib_uverbs_resize_cq,
        &[ANSWER, word(Handle(CQ)), word(ENTRIES)], 6, true,
        answer: 8, rings: Some(Rings::Completion),
    ),
    command!(
        IB_USER_VERBS_CMD_DESTROY_CQ, ib_uverbs_destroy_cq,
        &[ANSWER, word(Handle(CQ)), word(Zero)], 2, true,
        answer: 8, shape: Shape::Ends(CQ, 8),
    ),
    command!(
        IB_USER_VERBS_CMD_POLL_CQ, ib_uverbs_poll_cq,
        &[ANSWER, word(Handle(CQ)), word(OneOf(&[1, 4, 16], &[0, 0xffff_ffff]))], 2, false, answer: 776,
    ),
    command!(
        IB_USER_VERBS_CMD_REQ_NOTIFY_CQ,
        ib_uverbs_req_notify_cq,
        &[word(Handle(CQ)), word(OneOf(&[0, 1], &[2]))],
        4,
        true,
    ),
    command!(
        IB_USER_VERBS_CMD_CREATE_QP, ib_uverbs_create_qp, &CREATE_QP, 10, true,
        answer: 32, makes: Some(QP), rings: Some(Rings::Pair),
    ),
    command!(
        IB_USER_VERBS_CMD_QUERY_QP, ib_uverbs_query_qp,
        &[ANSWER, word(Handle(QP)), word(OneOf(&[0x1f_ffff, 1, 0], &[0xffff_ffff]))], 3, true, answer: 128,
    ),
    command!(
        IB_USER_VERBS_CMD_MODIFY_QP, ib_uverbs_modify_qp, &MODIFY, 8, true, shape: Shape::Modify,
    ),
    command!(
        IB_USER_VERBS_CMD_DESTROY_QP, ib_uverbs_destroy_qp,
        &[ANSWER, word(Handle(QP)), word(Zero)], 2, true,
        answer: 4, shape: Shape::Ends(QP, 8),
    ),
    command!(
        IB_USER_VERBS_CMD_POST_SEND, ib_uverbs_post_send, POST, 12, true,
        answer: 4, shape: Shape::Post,
    ),
    command!(
        IB_USER_VERBS_CMD_POST_RECV, ib_uverbs_post_recv, POST, 3, false,
        answer: 4, shape: Shape::Post,
    ),
    command!(
        IB_USER_VERBS_CMD_POST_SRQ_RECV, ib_uverbs_post_srq_recv,
        &[
            ANSWER, word(Handle(SRQ)), word(Zero), word(Zero),
            word(OneOf(&[16], &[0, 64, 0xffff_ffff])),
        ],
        3, false, answer: 4, shape: Shape::Post,
    ),
    command!(
        IB_USER_VERBS_CMD_ATTACH_MCAST,
        ib_uverbs_attach_mcast,
        MCAST,
        5,
        true,
        shape: Shape::Joins,
    ),
    command!(
        IB_USER_VERBS_CMD_DETACH_MCAST,
        ib_uverbs_detach_mcast,
        MCAST,
        3,
        true,
        shape: Shape::Leaves,
    ),
    command!(
        IB_USER_VERBS_CMD_CREATE_SRQ, ib_uverbs_create_srq, CREATE_SRQ, 4, true,
        answer: 16, makes: Some(SRQ), rings: Some(Rings::Shared),
    ),
    command!(
        IB_USER_VERBS_CMD_CREATE_XSRQ, ib_uverbs_create_xsrq,
        &[
            ANSWER, quad(Any), word(OneOf(&[0], &[1, 2])), word(Handle(PD)), word(DEPTH), word(PIECES),
            word(LIMIT), word(Any), word(Handle(XRCD)), word(Handle(CQ)),
        ],
        2, true, answer: 16, makes: Some(SRQ), rings: Some(Rings::Shared),
    ),
    command!(
        IB_USER_VERBS_CMD_MODIFY_SRQ,
        ib_uverbs_modify_srq,
        &[
            word(Handle(SRQ)),
            word(OneOf(&[1, 2, 3], &[0, 0xffff_ffff])),
            word(DEPTH),
            word(LIMIT)
        ],
        6,
        true,
        // Where the kernel says where the ring is, when it is another.
        tail: &[ANSWER],
    ),
    command!(
        IB_USER_VERBS_CMD_QUERY_SRQ, ib_uverbs_query_srq,
        &[ANSWER, word(Handle(SRQ)), word(Zero)], 2, true, answer: 16,
    ),
    command!(
        IB_USER_VERBS_CMD_DESTROY_SRQ, ib_uverbs_destroy_srq,
        &[ANSWER, word(Handle(SRQ)), word(Zero)], 1, true,
        answer: 4, shape: Shape::Ends(SRQ, 8),
    ),
    command!(
        IB_USER_VERBS_CMD_OPEN_XRCD, ib_uverbs_open_xrcd,
        &[ANSWER, word(OneOf(&[0xffff_ffff], &[0])), word(OneOf(&[64], &[0]))], 1, false,
        answer: 4, makes: Some(XRCD),
    ),
    command!(
        IB_USER_VERBS_CMD_OPEN_QP, ib_uverbs_open_qp,
        &[ANSWER, quad(Any), word(Handle(PD)), word(QpNumber), byte(QpType), byte(Zero), half(Zero), word(Zero)],
        1, false, answer: 32, makes: Some(QP),
    ),
    command!(
        IB_USER_VERBS_EX_CMD_QUERY_DEVICE, ib_uverbs_ex_query_device, &[word(Zero), word(Zero)],
        1, true, extended: true, answer: 304, name: "IB_USER_VERBS_EX_CMD_QUERY_DEVICE",
    ),
    command!(
        IB_USER_VERBS_EX_CMD_CREATE_CQ, ib_uverbs_ex_create_cq,
        &[
            quad(Any), word(ENTRIES), word(VECTOR), word(Channel), word(Zero),
            word(OneOf(&[0], &[1, 2, 4])), word(Zero),
        ],
        3, true, extended: true, answer: 16, makes: Some(CQ), rings: Some(Rings::Completion),
    ),
    command!(
        IB_USER_VERBS_EX_CMD_CREATE_QP, ib_uverbs_ex_create_qp, &EX_CREATE_QP, 5, true,
        extended: true, answer: 40, makes: Some(QP), rings: Some(Rings::Pair),
    ),
    command!(
        IB_USER_VERBS_EX_CMD_MODIFY_QP, ib_uverbs_ex_modify_qp, &EX_MODIFY, 3, true,
        extended: true, answer: 8, shape: Shape::Modify,
    ),
    command!(
        IB_USER_VERBS_EX_CMD_MODIFY_CQ, ib_uverbs_ex_modify_cq,
        &[word(Handle(CQ)), word(UpTo(3)), half(Any), half(Any), word(Zero)], 1, false, extended: true,
    ),
    command!(
        IB_USER_VERBS_EX_CMD_CREATE_WQ, ib_uverbs_ex_create_wq,
        &[
            word(Zero), word(Zero), quad(Any), word(Handle(PD)), word(Handle(CQ)), word(DEPTH),
            word(PIECES), word(Zero), word(Zero),
        ],
        1, false, extended: true, answer: 24,
    ),
];
