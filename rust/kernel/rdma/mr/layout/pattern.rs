// SPDX-License-Identifier: GPL-2.0

//! The strided pattern of one entry of an interleaved layout.

use super::{
    platform::Table,
    rounds::Turns,
    units::exact,
    ByteLength,
    ByteOffset,
    ByteStride,
    DatumCount,
    InterleavedEntry,
    LayoutError,
    Leaf,
    Source,
    MAX_DIMENSIONS, //
};
use core::num::NonZeroU64;

/// A dimension of an entry of an interleaved layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// From a datum to the next along this dimension.
    pub stride: ByteStride,
    /// The data along this dimension, at least one.
    pub count: DatumCount,
}

/// A dimension whose count has been checked.
#[derive(Clone, Copy)]
pub(super) struct Axis {
    stride: u64,
    count: NonZeroU64,
}

impl Axis {
    const SINGLE: Self = Self {
        stride: 0,
        count: NonZeroU64::MIN,
    };

    /// One axis that stands for this one and `outer` around it, where there is one.
    ///
    /// The caller knows that the product of both counts fits in 64 bits.
    fn join(self, outer: Axis) -> Option<Axis> {
        if self.count == NonZeroU64::MIN {
            return Some(outer);
        }
        if outer.count == NonZeroU64::MIN {
            return Some(self);
        }
        if self.stride.checked_mul(self.count.get()) != Some(outer.stride) {
            return None;
        }
        Some(Axis {
            stride: self.stride,
            count: self.count.checked_mul(outer.count)?,
        })
    }
}

/// A checked entry of an interleaved layout.
///
/// Its axes describe the same sequence of data as its dimensions, with as few axes as possible:
/// the innermost is [`row`](Self::row), the others stand in a table that the entries share.
///
/// # Invariants
///
/// All data lie inside of the source; the number of data is the product of the counts of the axes;
/// the bytes of all data fit in 64 bits.
pub(super) struct Pattern<L> {
    pub(super) source: Source<L>,
    /// The first byte of the first datum.
    offset: ByteOffset,
    /// The bytes of a datum.
    length: NonZeroU64,
    /// How the data fall into turns.
    pub(super) turns: Turns,
    row: Axis,
    first_outer: u32,
    outer_axes: u32,
}

/// Where a datum is.
pub(super) struct Datum {
    pub(super) offset: ByteOffset,
    /// The data up to the end of its row, itself included.
    pub(super) left_in_row: u64,
}

impl<L: Leaf> Pattern<L> {
    /// Checks `entry`, which has the index `index`, and appends its outer axes to `outer`.
    pub(super) fn new(
        index: usize,
        entry: &InterleavedEntry<'_, L>,
        outer: &mut Table<Axis>,
    ) -> Result<Self, LayoutError> {
        let (length, data) = check(index, entry)?;
        let repeat = NonZeroU64::new(u64::from(entry.repeat.0))
            .ok_or(LayoutError::ZeroRepeat { entry: index })?;
        let axes_before = table_index(outer.len())?;
        let row = join_axes(entry.dimensions, outer)?;

        Ok(Self {
            source: entry.source.clone(),
            offset: entry.offset,
            length,
            turns: Turns::new(data, repeat),
            row,
            first_outer: axes_before,
            outer_axes: table_index(outer.len())?.saturating_sub(axes_before),
        })
    }

    /// The bytes of each datum.
    pub(super) fn length(&self) -> NonZeroU64 {
        self.length
    }

    /// From each datum of a row to the next.
    pub(super) fn stride(&self) -> ByteStride {
        ByteStride(self.row.stride)
    }

    /// Whether the data of a row follow one another without a gap.
    pub(super) fn is_dense(&self) -> bool {
        self.row.stride == self.length.get()
    }

    /// The bytes of all data.
    pub(super) fn total(&self) -> ByteLength {
        ByteLength(exact::mul(self.length.get(), self.turns.data()))
    }

    /// Finds datum `datum`, which exists; `outer` is the table given to [`Self::new`].
    pub(super) fn find(&self, datum: u64, outer: &[Axis]) -> Datum {
        let first = self.first_outer as usize;
        let axes = first..first.saturating_add(self.outer_axes as usize);
        let (mut along, mut row) = (datum, 0);
        if !axes.is_empty() {
            (along, row) = (datum % self.row.count, datum / self.row.count);
        }

        let mut offset = exact::add(self.offset.0, exact::mul(along, self.row.stride));
        for axis in outer.get(axes).unwrap_or_default() {
            offset = exact::add(offset, exact::mul(row % axis.count, axis.stride));
            row /= axis.count;
        }
        Datum {
            offset: ByteOffset(offset),
            left_in_row: exact::sub(self.row.count.get(), along),
        }
    }
}

/// The length of a datum of `entry` and the number of its data, if all of them are in its source.
fn check<L: Leaf>(
    index: usize,
    entry: &InterleavedEntry<'_, L>,
) -> Result<(NonZeroU64, NonZeroU64), LayoutError> {
    let overflow = LayoutError::Overflow { entry: index };
    let length = NonZeroU64::new(entry.length.0).ok_or(LayoutError::ZeroLength { entry: index })?;
    if entry.dimensions.is_empty() {
        return Err(LayoutError::NoDimensions { entry: index });
    }
    if entry.dimensions.len() > MAX_DIMENSIONS {
        return Err(LayoutError::TooManyDimensions { entry: index });
    }

    let mut data = NonZeroU64::MIN;
    let mut end = entry.offset.checked_add(entry.length).ok_or(overflow)?;
    for (dimension, &Dimension { stride, count }) in entry.dimensions.iter().enumerate() {
        let count = NonZeroU64::new(count.0).ok_or(LayoutError::ZeroDatumCount {
            entry: index,
            dimension,
        })?;
        let reach = exact::sub(count.get(), 1)
            .checked_mul(stride.0)
            .ok_or(overflow)?;
        end = end.checked_add(ByteLength(reach)).ok_or(overflow)?;
        data = data.checked_mul(count).ok_or(overflow)?;
    }
    data.checked_mul(length).ok_or(overflow)?;
    if end.0 > entry.source.length().0 {
        return Err(LayoutError::OutOfSource { entry: index });
    }
    Ok((length, data))
}

/// Joins `dimensions` into as few axes as possible: returns the innermost, appends the others to
/// `outer`. The dimensions have been checked.
fn join_axes(dimensions: &[Dimension], outer: &mut Table<Axis>) -> Result<Axis, LayoutError> {
    let mut row = None;
    let mut last = Axis::SINGLE;

    for dimension in dimensions {
        let axis = Axis {
            stride: dimension.stride.0,
            count: NonZeroU64::new(dimension.count.0).unwrap_or(NonZeroU64::MIN),
        };
        last = match last.join(axis) {
            Some(joined) => joined,
            None => {
                keep(last, &mut row, outer)?;
                axis
            }
        };
    }
    keep(last, &mut row, outer)?;
    Ok(row.unwrap_or(Axis::SINGLE))
}

fn keep(axis: Axis, row: &mut Option<Axis>, outer: &mut Table<Axis>) -> Result<(), LayoutError> {
    if row.is_none() {
        *row = Some(axis);
        return Ok(());
    }
    outer.push(axis)
}

fn table_index(index: usize) -> Result<u32, LayoutError> {
    u32::try_from(index).map_err(|_| LayoutError::TooManyDescriptors)
}
