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
    ByteStride,
    DatumCount,
    LayoutError,
    Leaf,
    Plan,
    Position,
    Source, //
};
use core::num::NonZeroU64;

/// An item of an SG layout: a range of a source.
pub struct SgItem<L> {
    /// What the range is a part of.
    pub source: Source<L>,
    /// The first byte of the range.
    pub offset: ByteOffset,
    /// The bytes of the range, at least one.
    pub length: ByteLength,
}

/// As [`SgItem`], of a source that somebody else keeps.
pub struct SgRange<'s, L> {
    /// What the range is a part of.
    pub source: &'s Source<L>,
    /// The first byte of the range.
    pub offset: ByteOffset,
    /// The bytes of the range, at least one.
    pub length: ByteLength,
}

impl<L> Clone for SgRange<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for SgRange<'_, L> {}

impl<L> SgItem<L> {
    /// The same, by reference.
    pub fn range(&self) -> SgRange<'_, L> {
        SgRange {
            source: &self.source,
            offset: self.offset,
            length: self.length,
        }
    }
}

/// How many runs beyond one for each item a list may grow to by flattening nested SG layouts.
const EXTRA_RUNS_PER_ITEM: usize = 3;
const EXTRA_RUNS: usize = 64;

/// Equally long, equally spaced pieces of a source, which follow one another in the layout.
struct Pieces<L> {
    source: Source<L>,
    /// The first byte of the first piece.
    offset: ByteOffset,
    /// The bytes of each.
    length: NonZeroU64,
    /// From the start of each to that of the next; 0 for a single piece.
    stride: u64,
    count: NonZeroU64,
    start: Position,
}

/// The plan of an SG layout.
///
/// A list of ranges that a pattern can stand for is walked, and found in, as that pattern: items
/// that continue each other in the same source become one piece, and pieces at equal distances one
/// run, of which there are fewer than of items.
///
/// # Invariants
///
/// All pieces are inside of their source; each run starts where the one before it ends, the first
/// at 0.
pub(super) struct Sg<L> {
    runs: Table<Pieces<L>>,
}

impl<L: Leaf> Sg<L> {
    /// The plan and its length in bytes. Fails as [`Layout::sg`](super::Layout::sg) does.
    pub(super) fn new<'s>(
        ranges: impl ExactSizeIterator<Item = SgRange<'s, L>>,
    ) -> Result<(Self, ByteLength), LayoutError>
    where
        L: 's,
    {
        let mut total = 0u64;
        let mut sg = Self {
            runs: Table::with_capacity(0)?,
        };
        let mut extra = ranges
            .len()
            .saturating_mul(EXTRA_RUNS_PER_ITEM)
            .saturating_add(EXTRA_RUNS);

        for (entry, range) in ranges.enumerate() {
            total = check(entry, &range, total)?;
            let within = spans_within(&range, extra);
            extra = extra.saturating_sub(within.walked.saturating_sub(1));
            match within.spans {
                Some(spans) => {
                    for span in spans {
                        sg.push(&span)?;
                    }
                }
                None => sg.push(&Span::piece(range.source, range.offset, range.length))?,
            }
        }
        Ok((sg, ByteLength(total)))
    }

    pub(super) fn memory(&self) -> usize {
        self.runs.memory()
    }

    fn push(&mut self, span: &Span<'_, L>) -> Result<(), LayoutError> {
        let mut start = Position(0);
        if let Some(last) = self.runs.last_mut() {
            if last.continue_with(span) {
                return Ok(());
            }
            start = last.end();
        }
        let (length, count) = (
            NonZeroU64::new(span.length.0),
            NonZeroU64::new(span.count.0),
        );
        let (Some(length), Some(count)) = (length, count) else {
            // Items and the spans of a walk are not empty.
            return Ok(());
        };
        self.runs.push(Pieces {
            source: span.source.clone(),
            offset: span.offset,
            length,
            stride: span.stride.0,
            count,
            start,
        })
    }

    /// Index of the run that `position` is in.
    fn find(&self, position: Position) -> usize {
        let after = self.runs.partition_point(|run| {
            count_visit();
            run.start <= position
        });
        // The first run starts at 0.
        after.saturating_sub(1)
    }
}

impl<L: Leaf> Pieces<L> {
    fn end(&self) -> Position {
        let bytes = exact::mul(self.length.get(), self.count.get());
        self.start.plus(ByteLength(bytes))
    }

    /// Takes the pieces of `span` in, if it all stays one piece or one run.
    fn continue_with(&mut self, span: &Span<'_, L>) -> bool {
        if !self.source.is_same(span.source) {
            return false;
        }
        let length = self.length.get();
        // What the pieces are is inside of the source, but what would follow them need not be.
        let Some(ahead) = span.offset.0.checked_sub(self.offset.0) else {
            return false;
        };
        if self.count == NonZeroU64::MIN && span.count.0 == 1 {
            if ahead == length {
                // Both are in the source, so their sum is a length.
                self.length = self.length.saturating_add(span.length.0);
                return true;
            }
            if span.length.0 == length {
                self.stride = ahead;
                self.count = self.count.saturating_add(1);
                return true;
            }
            return false;
        }
        let stride = match self.count {
            NonZeroU64::MIN => span.stride.0,
            _ => self.stride,
        };
        if span.length.0 != length
            || (span.count.0 > 1 && span.stride.0 != stride)
            || stride.checked_mul(self.count.get()) != Some(ahead)
        {
            return false;
        }
        self.stride = stride;
        self.count = self.count.saturating_add(span.count.0);
        true
    }
}

/// The bytes of all items up to this one, which has the index `entry`; those before it have
/// `before`.
fn check<L: Leaf>(entry: usize, range: &SgRange<'_, L>, before: u64) -> Result<u64, LayoutError> {
    if range.length.0 == 0 {
        return Err(LayoutError::ZeroLength { entry });
    }
    let end = range
        .offset
        .checked_add(range.length)
        .ok_or(LayoutError::Overflow { entry })?;
    if end.0 > range.source.length().0 {
        return Err(LayoutError::OutOfSource { entry });
    }
    before
        .checked_add(range.length.0)
        .ok_or(LayoutError::TotalOverflow { entry })
}

/// The spans that an item stands for.
struct Within<'s, L> {
    /// All of them, if they are few enough.
    spans: Option<Cursor<'s, L>>,
    /// How many were looked at to find out.
    walked: usize,
}

/// The spans that `item` stands for, if its source is an SG layout and they are at most `extra` more
/// than one. The item is not empty.
fn spans_within<'s, L: Leaf>(item: &SgRange<'s, L>, extra: usize) -> Within<'s, L> {
    let none = |walked| Within {
        spans: None,
        walked,
    };
    let Source::Nested(layout) = item.source else {
        return none(0);
    };
    let Plan::Sg(sg) = &layout.plan else {
        return none(0);
    };
    let first = item.offset.in_layout();
    let last = first.plus(ByteLength(exact::sub(item.length.0, 1)));
    let most = extra.saturating_add(1);
    // Each run is one span at least.
    if sg.find(last).saturating_sub(sg.find(first)) >= most {
        return none(0);
    }
    let end = first.plus(item.length);
    let walked = Cursor::new(sg, first, end)
        .take(most.saturating_add(1))
        .count();
    match walked <= most {
        true => Within {
            spans: Some(Cursor::new(sg, first, end)),
            walked,
        },
        // So many are not walked in vain again and again.
        false => none(walked),
    }
}

/// A place in an SG layout, and where the walk ends.
pub(super) struct Cursor<'a, L> {
    sg: &'a Sg<L>,
    run: usize,
    position: Position,
    end: Position,
}

impl<'a, L: Leaf> Cursor<'a, L> {
    /// Starts at `position`; the caller has checked that the range is in the layout.
    pub(super) fn new(sg: &'a Sg<L>, position: Position, end: Position) -> Self {
        Self {
            sg,
            run: sg.find(position),
            position,
            end,
        }
    }
}

impl<'a, L: Leaf> Iterator for Cursor<'a, L> {
    type Item = Span<'a, L>;

    /// The next pieces that are equally long and equally spaced. Of another layout there is one
    /// piece at a time.
    fn next(&mut self) -> Option<Span<'a, L>> {
        if self.position >= self.end {
            return None;
        }
        count_visit();
        let run = self.sg.runs.get(self.run)?;
        let length = run.length.get();
        let into_run = self.position.since(run.start).0;
        let (piece, into_piece) = match into_run {
            0 => (0, 0),
            _ => (into_run / run.length, into_run % run.length),
        };
        let offset = exact::add(run.offset.0, exact::mul(piece, run.stride));
        let wanted = self.end.since(self.position).0;
        let left = exact::sub(run.count.get(), piece);

        let whole = match exact::mul(left, length) {
            bytes if bytes <= wanted => left,
            _ => wanted / run.length,
        };
        let single = into_piece > 0 || whole <= 1 || matches!(run.source, Source::Nested(_));
        let (span, pieces) = if single {
            let rest = exact::sub(length, into_piece).min(wanted);
            let offset = ByteOffset(exact::add(offset, into_piece));
            (Span::piece(&run.source, offset, ByteLength(rest)), 1)
        } else {
            let span = Span {
                source: &run.source,
                offset: ByteOffset(offset),
                length: ByteLength(length),
                stride: ByteStride(run.stride),
                count: DatumCount(whole),
            };
            (span, whole)
        };
        if pieces == left {
            self.run = self.run.saturating_add(1);
        }
        self.position = self.position.plus(span.total());
        Some(span)
    }
}
