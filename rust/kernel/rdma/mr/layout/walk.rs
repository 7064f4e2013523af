// SPDX-License-Identifier: GPL-2.0

//! From a range of a layout to runs of plain memory.

use super::{
    interleaved,
    sg,
    units::exact,
    ByteLength,
    ByteOffset,
    ByteStride,
    DatumCount,
    Layout,
    LayoutError,
    Leaf,
    Plan,
    Position,
    Source,
    MAX_NESTING, //
};

/// Equally long, equally spaced pieces of a region that is no layout.
///
/// Piece `i` is the [`length`](Self::length) bytes from `offset + i * stride` on, for `i` below
/// [`count`](Self::count); all lie inside of the leaf. A single piece has a stride of 0.
pub struct Run<'a, L> {
    /// The region.
    pub leaf: &'a L,
    /// The first byte of the first piece.
    pub offset: ByteOffset,
    /// The bytes of each piece, at least one.
    pub length: ByteLength,
    /// From the start of a piece to the start of the next; may be 0 or less than a piece.
    pub stride: ByteStride,
    /// The pieces, at least one.
    pub count: DatumCount,
}

impl<L> Run<'_, L> {
    /// The bytes of all pieces.
    pub fn total(&self) -> ByteLength {
        ByteLength(exact::mul(self.length.0, self.count.0))
    }

    /// The first byte of each piece, in order.
    pub fn offsets(&self) -> impl Iterator<Item = ByteOffset> {
        let Self { offset, stride, .. } = *self;
        (0..self.count.0).map(move |i| ByteOffset(exact::add(offset.0, exact::mul(i, stride.0))))
    }
}

/// As [`Run`], of any source; of a nested layout a single piece.
pub(super) struct Span<'a, L> {
    pub(super) source: &'a Source<L>,
    pub(super) offset: ByteOffset,
    pub(super) length: ByteLength,
    pub(super) stride: ByteStride,
    pub(super) count: DatumCount,
}

impl<'a, L> Span<'a, L> {
    /// A single piece.
    pub(super) fn piece(source: &'a Source<L>, offset: ByteOffset, length: ByteLength) -> Self {
        Self {
            source,
            offset,
            length,
            stride: ByteStride(0),
            count: DatumCount(1),
        }
    }

    /// The bytes of all pieces.
    pub(super) fn total(&self) -> ByteLength {
        ByteLength(exact::mul(self.length.0, self.count.0))
    }
}

/// A place in one of the layouts on the way to memory.
enum Cursor<'a, L> {
    Sg(sg::Cursor<'a, L>),
    Interleaved(interleaved::Cursor<'a, L>),
}

impl<'a, L: Leaf> Cursor<'a, L> {
    /// Starts at `start`; the range is inside of the layout, so there is a cursor.
    fn new(layout: &'a Layout<L>, start: Position, length: ByteLength) -> Option<Self> {
        let end = start.plus(length);
        match &layout.plan {
            Plan::Sg(plan) => Some(Self::Sg(sg::Cursor::new(plan, start, end))),
            Plan::Interleaved(plan) => {
                interleaved::Cursor::new(plan, start, end).map(Self::Interleaved)
            }
        }
    }

    fn next_span(&mut self) -> Option<Span<'a, L>> {
        match self {
            Self::Sg(cursor) => cursor.next(),
            Self::Interleaved(cursor) => cursor.next_span(),
        }
    }
}

/// The runs that make up a range of a layout, in order; see [`Layout::walk`].
///
/// Nothing is allocated. A step takes constant time, save where a nested layout begins or where an
/// interleaved layout skips exhausted entries: those are searches, which are logarithmic.
pub struct Walker<'a, L> {
    /// The way from the walked layout to the current one.
    cursors: [Option<Cursor<'a, L>>; MAX_NESTING],
    depth: usize,
    remaining: ByteLength,
}

impl<'a, L: Leaf> Walker<'a, L> {
    /// One that has no runs to come, which [`begin`](Self::begin) changes.
    #[inline]
    pub fn idle() -> Self {
        Self {
            // Not a constant array, which would be copied with all that is not used of it.
            cursors: core::array::from_fn(|_| None),
            depth: 0,
            remaining: ByteLength(0),
        }
    }

    /// Goes on with the runs of `length` bytes of `layout` from `start` on, whatever came before.
    /// A walker is large: this makes one where it is to stay.
    ///
    /// Fails, and changes nothing, with [`LayoutError::OutOfRange`] if the range is not inside of
    /// the layout.
    pub fn begin(
        &mut self,
        layout: &'a Layout<L>,
        start: Position,
        length: ByteLength,
    ) -> Result<(), LayoutError> {
        match start.0.checked_add(length.0) {
            Some(end) if end <= layout.length().0 => {}
            _ => return Err(LayoutError::OutOfRange),
        }
        self.depth = 0;
        self.remaining = length;
        if length.0 > 0 {
            self.descend(layout, start, length);
        }
        Ok(())
    }

    /// The bytes that are still to come.
    pub fn remaining(&self) -> ByteLength {
        self.remaining
    }

    fn descend(&mut self, layout: &'a Layout<L>, start: Position, length: ByteLength) {
        // The invariant on the depth of a layout leaves room for every cursor.
        if let Some(slot) = self.cursors.get_mut(self.depth) {
            *slot = Cursor::new(layout, start, length);
            self.depth = self.depth.saturating_add(1);
        }
    }
}

impl<'a, L: Leaf> Iterator for Walker<'a, L> {
    type Item = Run<'a, L>;

    fn next(&mut self) -> Option<Run<'a, L>> {
        loop {
            let top = self.depth.checked_sub(1)?;
            let cursor = self.cursors.get_mut(top)?.as_mut()?;
            let Some(span) = cursor.next_span() else {
                self.depth = top;
                continue;
            };
            match span.source {
                Source::Leaf(leaf) => {
                    let run = Run {
                        leaf,
                        offset: span.offset,
                        length: span.length,
                        stride: span.stride,
                        count: span.count,
                    };
                    self.remaining = ByteLength(exact::sub(self.remaining.0, run.total().0));
                    return Some(run);
                }
                Source::Nested(layout) => {
                    self.descend(layout, span.offset.in_layout(), span.length);
                }
            }
        }
    }
}
