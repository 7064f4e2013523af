// SPDX-License-Identifier: GPL-2.0

//! Send work requests as they are understood.

use super::{
    status::{
        Extra,
        Status, //
    },
    wqe::RawSge, //
};
use crate::rdma::{
    addressing::Path,
    mr::{
        fast::Registration,
        key::Key,
        memory_window::BindRequest, //
    },
};

/// A scatter/gather element.
#[derive(Clone, Copy)]
pub struct Sge {
    /// The first byte, in the region's addressing.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// The region.
    pub key: Key,
}

/// Where the other side's bytes are.
#[derive(Clone, Copy)]
pub struct Remote {
    /// The first byte, in the region's addressing.
    pub addr: u64,
    /// The region.
    pub key: Key,
}

/// What an atomic operation does to the word that it finds.
#[derive(Clone, Copy)]
pub enum AtomicOperation {
    /// Puts `swap` there if it is `compare`.
    CompareAndSwap {
        /// What it must be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
    /// Adds to it.
    FetchAndAdd {
        /// How much.
        add: u64,
    },
}

/// What a send work request asks for.
#[derive(Clone, Copy)]
pub enum Operation {
    /// A message into the next receive of the other side.
    Send {
        /// What comes along with it.
        extra: Extra,
    },
    /// Bytes into the other side's memory.
    Write {
        /// Where to.
        remote: Remote,
        /// A word for the next receive of the other side.
        imm: Option<u32>,
    },
    /// Eight bytes into the other side's memory, all at once.
    AtomicWrite {
        /// Where to.
        remote: Remote,
    },
    /// Bytes out of the other side's memory.
    Read {
        /// Where from.
        remote: Remote,
        /// What is to be taken back afterwards.
        invalidate: Option<Key>,
    },
    /// A change of a word of the other side's memory.
    Atomic {
        /// Which word.
        remote: Remote,
        /// What to do to it.
        operation: AtomicOperation,
    },
    /// What was written to the other side's memory is to be visible to all there.
    Flush {
        /// Where.
        remote: Remote,
        /// How many bytes; `None`: the whole region.
        length: Option<u32>,
        /// Whether it is to outlast a loss of power.
        persistent: bool,
    },
    /// The layout that waits on a region is to stand from now on.
    Bind {
        /// The region.
        key: Key,
    },
    /// A memory window is to stand for a part of a region.
    BindWindow(BindRequest),
    /// A memory window or a registered region is to be taken back.
    Invalidate {
        /// Its key.
        key: Key,
    },
    /// The mapped pages of a region are to be registered.
    Register(Registration),
}

/// Where a datagram goes.
#[derive(Clone, Copy)]
pub struct Destination {
    /// The queue pair.
    pub qp_num: u32,
    /// What proves that it may go there.
    pub qkey: u32,
    /// The number of an address handle; 0: `path` is given instead.
    pub ah_num: u32,
    /// The way there.
    pub path: Path,
}

/// Where the local bytes are.
#[derive(Clone, Copy)]
pub enum Local<'a> {
    /// In regions.
    Elements(&'a [RawSge]),
    /// In the ring itself, as many bytes.
    Inline(usize),
}

/// A send work request that has been understood.
pub struct SendRequest<'a> {
    /// What the poster calls it.
    pub wr_id: u64,
    /// Whether it completes visibly when it succeeds.
    pub signalled: bool,
    /// Whether the receiver is to be woken.
    pub solicited: bool,
    /// What to do; or why that makes no sense.
    pub operation: Result<Operation, Status>,
    /// The local side.
    pub local: Local<'a>,
    /// Bytes of the message.
    pub length: u64,
}

/// What the queue allows in a request.
#[derive(Clone, Copy)]
pub struct SendLimits {
    /// Elements.
    pub max_sge: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
    /// Whether the ring is filled by a user in the kernel, who can post more kinds of requests.
    pub from_kernel: bool,
}
