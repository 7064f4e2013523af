// SPDX-License-Identifier: GPL-2.0

//! How a work request ended.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h) (`enum ib_wc_status`)

use crate::bindings;

/// The status of a completion (IBTA 1.7, 11.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// It was carried out.
    Success = bindings::ib_wc_status_IB_WC_SUCCESS,
    /// The message does not fit where it has to go.
    LocalLength = bindings::ib_wc_status_IB_WC_LOC_LEN_ERR,
    /// The request itself makes no sense on this queue pair.
    LocalQpOperation = bindings::ib_wc_status_IB_WC_LOC_QP_OP_ERR,
    /// There is nothing to bind, or the region is in use.
    BindError = bindings::ib_wc_status_IB_WC_MW_BIND_ERR,
    /// A local key, or what it names, does not allow it.
    LocalProtection = bindings::ib_wc_status_IB_WC_LOC_PROT_ERR,
    /// The queue pair broke before it was its turn.
    Flushed = bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
    /// The other side does not know what to do with it.
    RemoteInvalidRequest = bindings::ib_wc_status_IB_WC_REM_INV_REQ_ERR,
    /// The other side does not let anybody reach that memory.
    RemoteAccess = bindings::ib_wc_status_IB_WC_REM_ACCESS_ERR,
    /// The other side failed while it carried it out.
    RemoteOperation = bindings::ib_wc_status_IB_WC_REM_OP_ERR,
    /// The other side cannot be reached.
    RetryExceeded = bindings::ib_wc_status_IB_WC_RETRY_EXC_ERR,
    /// The other side never had a receive posted.
    RnrRetryExceeded = bindings::ib_wc_status_IB_WC_RNR_RETRY_EXC_ERR,
}

/// What was done, as completions name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Done {
    /// A message was sent.
    Send = bindings::ib_wc_opcode_IB_WC_SEND,
    /// Remote memory was written.
    RdmaWrite = bindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
    /// Remote memory was read.
    RdmaRead = bindings::ib_wc_opcode_IB_WC_RDMA_READ,
    /// Remote memory was compared and changed.
    CompareSwap = bindings::ib_wc_opcode_IB_WC_COMP_SWAP,
    /// Remote memory was added to.
    FetchAdd = bindings::ib_wc_opcode_IB_WC_FETCH_ADD,
    /// A memory window was bound.
    BindWindow = bindings::ib_wc_opcode_IB_WC_BIND_MW,
    /// A memory window or a region was taken back.
    LocalInvalidate = bindings::ib_wc_opcode_IB_WC_LOCAL_INV,
    /// A region was registered.
    Register = bindings::ib_wc_opcode_IB_WC_REG_MR,
    /// Remote memory was flushed.
    Flush = bindings::ib_wc_opcode_IB_WC_FLUSH,
    /// A word of remote memory was written at once.
    AtomicWrite = bindings::ib_wc_opcode_IB_WC_ATOMIC_WRITE,
    /// A layout was bound: `IBV_WC_DRIVER1` of libibverbs, the twin of `IBV_WR_DRIVER1`.
    Bind = 135,
    /// A message was received.
    Recv = bindings::ib_wc_opcode_IB_WC_RECV,
    /// Memory was written by the other side, which sent a word along.
    RecvRdmaWithImm = bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
}

/// What comes along with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    None,
    /// A word, in network order.
    Imm(u32),
    /// The key of what the message took back.
    Invalidate(u32),
}

/// A network that datagrams come over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Network {
    /// IP version 4.
    V4 = bindings::rdma_network_type_RDMA_NETWORK_IPV4,
    /// IP version 6.
    V6 = bindings::rdma_network_type_RDMA_NETWORK_IPV6,
}

/// A completion.
#[derive(Clone, Copy)]
pub struct Completion {
    /// What the poster called the request.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// What it did. Means nothing unless it succeeded.
    pub done: Done,
    /// Bytes that were moved.
    pub byte_len: u32,
    /// What came along.
    pub extra: Extra,
    /// The network whose header is in front of the bytes of a datagram.
    pub network: Option<Network>,
    /// The queue pair.
    pub qp_num: u32,
    /// The address of the core's structure of the queue pair, for its owner in the kernel.
    pub qp_address: usize,
    /// The queue pair on the other side.
    pub src_qp: u32,
    /// Whether the sender wants the receiver to be woken.
    pub solicited: bool,
}
