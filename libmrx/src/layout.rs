// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! What layouts are made of, and what is read back of them.

use std::{error, fmt, io, marker::PhantomData};

use crate::{
    sys::{self, ib_uverbs_sge, mrx_dimension, mrx_interleaved, mrx_layout_caps},
    Region,
};

bitflags::bitflags! {
    /// How a layout is set.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SetLayout: u32 {
        /// Active on return, with new keys if it needs them.
        const NOW = 0;
        /// Only staged: it becomes active when a [`BindRequest`](crate::BindRequest)
        /// executes.
        const WITH_POST_WR = sys::IBV_MR_SET_LAYOUT_WITH_POST_WR;
        /// Fails rather than give the region new keys.
        const AVOID_INVALIDATION = sys::IBV_MR_SET_LAYOUT_AVOID_INVALIDATION;
    }
}

/// A range of a region that shall be part of a layout. It borrows the region,
/// and so does the region that gets the layout.
#[derive(Clone, Copy)]
pub struct Range<'a> {
    pub(crate) sge: ib_uverbs_sge,
    region: PhantomData<&'a Region<'a>>,
}

impl Range<'_> {
    pub(crate) fn new(addr: u64, length: u32, lkey: u32) -> Self {
        Self {
            sge: ib_uverbs_sge { addr, length, lkey },
            region: PhantomData,
        }
    }
}

/// A dimension of an entry: how many data, and how many bytes from the start of
/// one to the start of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Bytes from the start of a datum to that of the next.
    pub stride: u64,
    /// Data in this dimension.
    pub count: u64,
}

/// An entry of an interleaved layout.
#[derive(Clone)]
pub struct Entry<'a> {
    /// The first datum.
    pub first: Range<'a>,
    /// Data that each round takes from this entry.
    pub repeated: u32,
    /// The dimensions, the innermost first.
    pub dimensions: Vec<Dimension>,
}

/// The entries and dimensions in the two lists that the kernel takes.
pub(crate) fn flatten(entries: &[Entry<'_>]) -> (Vec<mrx_interleaved>, Vec<mrx_dimension>) {
    let flat = entries.iter().map(|entry| mrx_interleaved {
        addr: entry.first.sge.addr,
        length: entry.first.sge.length,
        lkey: entry.first.sge.lkey,
        num_repeated: entry.repeated,
        num_dimensions: entry.dimensions.len() as u32,
    });
    let dimensions = entries.iter().flat_map(|entry| &entry.dimensions);
    let dimensions = dimensions.map(|one| mrx_dimension {
        offset_stride: one.stride,
        datum_count: one.count,
    });
    (flat.collect(), dimensions.collect())
}

/// Why a layout was not set. The region has what it had before.
#[derive(Debug)]
pub enum SetLayoutError {
    /// An argument is wrong; the error says more.
    Input(io::Error),
    /// The region would get new keys, and
    /// [`AVOID_INVALIDATION`](SetLayout::AVOID_INVALIDATION) was given.
    WouldInvalidate,
    /// The device cannot do this; see [`Caps`].
    Unsupported,
}

impl From<io::Error> for SetLayoutError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ESTALE) => Self::WouldInvalidate,
            Some(libc::EOPNOTSUPP | libc::EPROTONOSUPPORT) => Self::Unsupported,
            _ => Self::Input(error),
        }
    }
}

impl fmt::Display for SetLayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(error) => write!(f, "the layout is wrong: {error}"),
            Self::WouldInvalidate => f.write_str("the layout would bring new keys"),
            Self::Unsupported => f.write_str("the device cannot have such a layout"),
        }
    }
}

impl error::Error for SetLayoutError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Input(error) => Some(error),
            Self::WouldInvalidate | Self::Unsupported => None,
        }
    }
}

/// What a device can do with layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Caps {
    /// `enum ibv_mr_layout_cap_flags`
    pub flags: u64,
    /// Ranges of one SG layout.
    pub max_ranges: u32,
    /// Of them, without extra memory.
    pub max_inline_ranges: u32,
    /// Entries of one interleaved layout.
    pub max_entries: u32,
    /// Of them, without extra memory.
    pub max_inline_entries: u32,
    /// Dimensions of one entry.
    pub max_dimensions: u32,
    /// Layouts over layouts.
    pub max_nesting: u32,
}

impl From<mrx_layout_caps> for Caps {
    fn from(caps: mrx_layout_caps) -> Self {
        Self {
            flags: caps.cap_flags,
            max_ranges: caps.max_num_sg,
            max_inline_ranges: caps.max_inline_num_sg,
            max_entries: caps.max_num_interleaved,
            max_inline_entries: caps.max_inline_num_interleaved,
            max_dimensions: caps.max_mr_stride_dimension,
            max_nesting: caps.max_mr_nesting_level,
        }
    }
}

/// A range as the kernel has it, by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRange {
    /// The first byte, in the addressing of the region.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// The key of the region.
    pub lkey: u32,
}

/// An entry as the kernel has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEntry {
    /// The first datum.
    pub first: RawRange,
    /// Data of each round.
    pub repeated: u32,
    /// The innermost first.
    pub dimensions: Vec<Dimension>,
}

/// A layout, read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The concatenation of ranges.
    Sg(Vec<RawRange>),
    /// A pattern.
    Interleaved(Vec<RawEntry>),
}

/// The size of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutInfo {
    /// Bytes that the region spans.
    pub length: u64,
    /// Ranges or entries.
    pub descriptors: u32,
    /// Layouts below this one, and itself.
    pub nesting: u32,
}
