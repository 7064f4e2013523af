// SPDX-License-Identifier: GPL-2.0

//! Why a layout or a range of it was refused.

/// Why a layout or a range of it was refused.
///
/// `entry` and `dimension` are indices into what the caller passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The list has no entry.
    Empty,
    /// The list has more entries than 32 bits can count.
    TooManyDescriptors,
    /// The item, or the datum of the entry, has no byte.
    ZeroLength {
        /// Index of the item or entry.
        entry: usize,
    },
    /// The entry contributes no datum to a round.
    ZeroRepeat {
        /// Index of the entry.
        entry: usize,
    },
    /// The entry has no dimension.
    NoDimensions {
        /// Index of the entry.
        entry: usize,
    },
    /// The entry has more than [`MAX_DIMENSIONS`](super::MAX_DIMENSIONS) dimensions.
    TooManyDimensions {
        /// Index of the entry.
        entry: usize,
    },
    /// A dimension of the entry has no datum.
    ZeroDatumCount {
        /// Index of the entry.
        entry: usize,
        /// Index of the dimension within the entry.
        dimension: usize,
    },
    /// A byte of the item or entry lies beyond the end of its source.
    OutOfSource {
        /// Index of the item or entry.
        entry: usize,
    },
    /// An offset, count or length of the item or entry does not fit in 64 bits.
    Overflow {
        /// Index of the item or entry.
        entry: usize,
    },
    /// With this item or entry, the length of the layout no longer fits in 64 bits.
    TotalOverflow {
        /// Index of the item or entry.
        entry: usize,
    },
    /// The source nests too deep for one more layout above it; see
    /// [`MAX_NESTING`](super::MAX_NESTING).
    TooDeep {
        /// Index of the item or entry.
        entry: usize,
    },
    /// The range to walk is not inside the layout.
    OutOfRange,
    /// There is no memory for the layout's tables.
    NoMemory,
}

/// The kinds of [`LayoutError`], as the documentation of `ibv_mr_set_layout_sg` tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request makes no sense (`IBV_MR_SET_LAYOUT_ERR_INPUT`, `EINVAL`).
    Input,
    /// The request exceeds a limit of this implementation (`IBV_MR_SET_LAYOUT_ERR_UNSUPPORTED`,
    /// `EOPNOTSUPP`).
    Unsupported,
    /// The system cannot serve the request now (`ENOMEM`).
    Memory,
}

impl LayoutError {
    /// The kind of this error.
    pub fn class(self) -> ErrorClass {
        match self {
            Self::TooManyDescriptors | Self::TooManyDimensions { .. } | Self::TooDeep { .. } => {
                ErrorClass::Unsupported
            }
            Self::NoMemory => ErrorClass::Memory,
            Self::Empty
            | Self::ZeroLength { .. }
            | Self::ZeroRepeat { .. }
            | Self::NoDimensions { .. }
            | Self::ZeroDatumCount { .. }
            | Self::OutOfSource { .. }
            | Self::Overflow { .. }
            | Self::TotalOverflow { .. }
            | Self::OutOfRange => ErrorClass::Input,
        }
    }

    /// Index of the item or entry at fault, if it is one of them.
    pub fn entry(self) -> Option<usize> {
        match self {
            Self::ZeroLength { entry }
            | Self::ZeroRepeat { entry }
            | Self::NoDimensions { entry }
            | Self::TooManyDimensions { entry }
            | Self::ZeroDatumCount { entry, .. }
            | Self::OutOfSource { entry }
            | Self::Overflow { entry }
            | Self::TotalOverflow { entry }
            | Self::TooDeep { entry } => Some(entry),
            Self::Empty | Self::TooManyDescriptors | Self::OutOfRange | Self::NoMemory => None,
        }
    }
}
