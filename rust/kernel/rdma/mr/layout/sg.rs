// SPDX-License-Identifier: GPL-2.0

//! Layouts that concatenate ranges.

use super::{
    platform::{
        count_visit,
        Table, //
    },
    units::exact,
    walk::Span,
    ByteLength,
    ByteOffset,
    LayoutError,
    Leaf,
    Plan,
    Position,
    Source, //
};

/// An item of an SG layout: a range of a source.
pub struct SgItem<L> {
    /// What the range is a part of.
    pub source: Source<L>,
    /// The first byte of the range.
    pub offset: ByteOffset,
    /// The bytes of the range, at least one.
    pub length: ByteLength,
}

/// How many pieces beyond one for each item a list may grow to by flattening nested SG layouts.
const EXTRA_PIECES_PER_ITEM: usize = 3;
const EXTRA_PIECES: usize = 64;

/// A piece of the layout that is contiguous in its source.
struct Piece<L> {
    source: Source<L>,
    offset: ByteOffset,
    length: ByteLength,
    start: Position,
}

/// The plan of an SG layout.
///
/// # Invariants
///
/// Each piece is inside of its source and not empty, and starts where the one before it ends; the
/// first starts at 0.
pub(super) struct Sg<L> {
    pieces: Table<Piece<L>>,
}

impl<L: Leaf> Sg<L> {
    /// The plan and its length in bytes. Fails as [`Layout::sg`](super::Layout::sg) does.
    pub(super) fn new(items: &[SgItem<L>]) -> Result<(Self, ByteLength), LayoutError> {
        let total = check(items)?;
        let mut sg = Self {
            pieces: Table::with_capacity(items.len())?,
        };
        let mut extra = items
            .len()
            .saturating_mul(EXTRA_PIECES_PER_ITEM)
            .saturating_add(EXTRA_PIECES);

        for item in items {
            match sg_within(item) {
                Some((first, more)) if more.len() <= extra => {
                    extra = extra.saturating_sub(more.len());
                    sg.push_part(first, item)?;
                    for piece in more {
                        sg.push_part(piece, item)?;
                    }
                }
                _ => sg.push(&item.source, item.offset, item.length)?,
            }
        }
        Ok((sg, total))
    }

    pub(super) fn memory(&self) -> usize {
        self.pieces.memory()
    }

    /// Appends what `piece` of the layout under `item` and the range of `item` have in common.
    fn push_part(&mut self, piece: &Piece<L>, item: &SgItem<L>) -> Result<(), LayoutError> {
        let first = item.offset.in_layout();
        let from = piece.start.max(first);
        let to = piece.end().min(first.plus(item.length));

        let offset = piece.offset.plus(from.since(piece.start));
        self.push(&piece.source, offset, to.since(from))
    }

    fn push(
        &mut self,
        source: &Source<L>,
        offset: ByteOffset,
        length: ByteLength,
    ) -> Result<(), LayoutError> {
        let mut start = Position(0);
        if let Some(last) = self.pieces.last_mut() {
            if last.source.is_same(source) && last.offset.plus(last.length) == offset {
                last.length = ByteLength(exact::add(last.length.0, length.0));
                return Ok(());
            }
            start = last.end();
        }
        self.pieces.push(Piece {
            source: source.clone(),
            offset,
            length,
            start,
        })
    }

    /// Index of the piece that `position` is in.
    fn find(&self, position: Position) -> usize {
        self.pieces.partition_point(|piece| {
            count_visit();
            piece.end() <= position
        })
    }
}

impl<L> Piece<L> {
    fn end(&self) -> Position {
        self.start.plus(self.length)
    }
}

/// The bytes of all items.
fn check<L: Leaf>(items: &[SgItem<L>]) -> Result<ByteLength, LayoutError> {
    let mut total = 0u64;
    for (entry, item) in items.iter().enumerate() {
        if item.length.0 == 0 {
            return Err(LayoutError::ZeroLength { entry });
        }
        let end = item
            .offset
            .checked_add(item.length)
            .ok_or(LayoutError::Overflow { entry })?;
        if end.0 > item.source.length().0 {
            return Err(LayoutError::OutOfSource { entry });
        }
        total = total
            .checked_add(item.length.0)
            .ok_or(LayoutError::TotalOverflow { entry })?;
    }
    Ok(ByteLength(total))
}

/// The pieces that `item` stands for, as the first and the others, if its source is an SG layout.
fn sg_within<L: Leaf>(item: &SgItem<L>) -> Option<(&Piece<L>, &[Piece<L>])> {
    let Source::Nested(layout) = &item.source else {
        return None;
    };
    let Plan::Sg(sg) = &layout.plan else {
        return None;
    };
    let first = item.offset.in_layout();
    let last = first.plus(ByteLength(exact::sub(item.length.0, 1)));
    let (first, more) = sg
        .pieces
        .get(sg.find(first)..=sg.find(last))?
        .split_first()?;
    Some((first, more))
}

/// A place in an SG layout, and where the walk ends.
pub(super) struct Cursor<'a, L> {
    sg: &'a Sg<L>,
    piece: usize,
    position: Position,
    end: Position,
}

impl<'a, L: Leaf> Cursor<'a, L> {
    /// Starts at `position`; the caller has checked that the range is in the layout.
    pub(super) fn new(sg: &'a Sg<L>, position: Position, end: Position) -> Self {
        Self {
            sg,
            piece: sg.find(position),
            position,
            end,
        }
    }

    /// The next piece, or `None` at the end.
    pub(super) fn next_span(&mut self) -> Option<Span<'a, L>> {
        if self.position >= self.end {
            return None;
        }
        let piece = self.sg.pieces.get(self.piece)?;
        let offset = piece.offset.plus(self.position.since(piece.start));
        let to = piece.end().min(self.end);
        let length = to.since(self.position);

        self.piece = self.piece.saturating_add(1);
        self.position = to;
        Some(Span::piece(&piece.source, offset, length))
    }
}
