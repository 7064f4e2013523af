// SPDX-License-Identifier: GPL-2.0

//! Layouts that take data from several patterns in turn.

use super::{
    pattern::{
        Axis,
        Pattern, //
    },
    platform::{
        share,
        Arc,
        Table, //
    },
    rounds::{
        Found,
        Rounds,
        Turn, //
    },
    units::exact,
    walk::Span,
    ByteLength,
    ByteOffset,
    DatumCount,
    Dimension,
    LayoutError,
    Leaf,
    Position,
    RepeatCount,
    Source, //
};

/// An entry of an interleaved layout: equally long data in a source, and how many of them are
/// taken at a time.
///
/// Datum (i0, i1, …) starts at `offset` plus the sum of `i_k` times the stride of dimension `k`.
/// The data are taken with i0 running fastest.
pub struct InterleavedEntry<'d, L> {
    /// Where the data are.
    pub source: Source<L>,
    /// The first byte of the first datum.
    pub offset: ByteOffset,
    /// The bytes of each datum, at least one.
    pub length: ByteLength,
    /// The data of each turn, at least one; the last turn takes what is left.
    pub repeat: RepeatCount,
    /// At least one and at most [`MAX_DIMENSIONS`](super::MAX_DIMENSIONS), innermost first.
    pub dimensions: &'d [Dimension],
}

/// The plan of an interleaved layout.
pub(super) struct Interleaved<L> {
    patterns: Table<Pattern<L>>,
    outer_axes: Table<Axis>,
    /// Who has its turn when, which layouts have in common whose entries are as many and as long
    /// as each other's.
    rounds: Arc<Rounds>,
}

impl<L: Leaf> Interleaved<L> {
    /// The plan and its length in bytes; what it has in common with `like`, it shares. Fails as
    /// [`Layout::interleaved`](super::Layout::interleaved) does.
    pub(super) fn new(
        entries: &[InterleavedEntry<'_, L>],
        like: Option<&Self>,
    ) -> Result<(Self, ByteLength), LayoutError> {
        let mut patterns = Table::with_capacity(entries.len())?;
        let mut outer_axes = Table::with_capacity(0)?;
        let mut total = 0u64;
        for (entry, description) in entries.iter().enumerate() {
            let pattern = Pattern::new(entry, description, &mut outer_axes)?;
            total = total
                .checked_add(pattern.total().0)
                .ok_or(LayoutError::TotalOverflow { entry })?;
            patterns.push(pattern)?;
        }
        let turns = |of: &Pattern<L>| (of.turns, of.length());
        let rounds = match like {
            Some(like)
                if like
                    .patterns
                    .iter()
                    .map(turns)
                    .eq(patterns.iter().map(turns)) =>
            {
                like.rounds.clone()
            }
            _ => share(Rounds::new(patterns.iter().map(turns))?)?,
        };

        let interleaved = Self {
            patterns,
            outer_axes,
            rounds,
        };
        Ok((interleaved, ByteLength(total)))
    }

    pub(super) fn memory(&self) -> usize {
        self.patterns
            .memory()
            .saturating_add(self.outer_axes.memory())
            .saturating_add(self.rounds.memory())
    }

    fn pattern(&self, entry: u32) -> Option<&Pattern<L>> {
        self.patterns.get(entry as usize)
    }

    /// The start of the turn that follows `turn`, which ends before `position`.
    fn next_turn(&self, turn: &Turn, position: Position) -> Option<Found> {
        let neighbour = turn.neighbour();
        match self.pattern(neighbour.entry) {
            Some(pattern) if pattern.turns.in_round(turn.round) > 0 => Some(Found {
                turn: neighbour,
                offset: ByteLength(0),
                alone: false,
            }),
            _ => self.rounds.find_next(turn, position),
        }
    }
}

/// A place in an interleaved layout, and where the walk ends.
///
/// # Invariants
///
/// The `left` data of `turn` from `datum` on, less the first `into_datum` bytes of that one, start
/// at `position`.
pub(super) struct Cursor<'a, L> {
    interleaved: &'a Interleaved<L>,
    position: Position,
    end: Position,
    turn: Turn,
    datum: u64,
    into_datum: u64,
    left: u64,
}

impl<'a, L: Leaf> Cursor<'a, L> {
    /// Starts at `position`; the caller has checked that the range is in the layout, so there is a
    /// cursor.
    pub(super) fn new(
        interleaved: &'a Interleaved<L>,
        position: Position,
        end: Position,
    ) -> Option<Self> {
        let found = interleaved.rounds.find(position)?;
        let mut cursor = Self {
            interleaved,
            position,
            end,
            turn: found.turn,
            datum: 0,
            into_datum: 0,
            left: 0,
        };
        cursor.enter(&found)?;
        Some(cursor)
    }

    /// Goes to a turn, or to all that is left of an entry if that is the only one left.
    fn enter(&mut self, found: &Found) -> Option<()> {
        let pattern = self.interleaved.pattern(found.turn.entry)?;
        let before = pattern.turns.before(found.turn.round);
        let (datum, into_datum) = match found.offset.0 {
            0 => (0, 0),
            offset => (offset / pattern.length(), offset % pattern.length()),
        };
        let data = if found.alone {
            exact::sub(pattern.turns.data(), before)
        } else {
            pattern.turns.in_round(found.turn.round)
        };
        self.turn = found.turn;
        self.datum = exact::add(before, datum);
        self.into_datum = into_datum;
        self.left = exact::sub(data, datum);
        Some(())
    }

    /// The next pieces that are equally long and equally spaced, or `None` at the end.
    ///
    /// Of another layout there is one piece at a time.
    pub(super) fn next_span(&mut self) -> Option<Span<'a, L>> {
        if self.position >= self.end {
            return None;
        }
        if self.left == 0 {
            let found = self.interleaved.next_turn(&self.turn, self.position)?;
            self.enter(&found)?;
        }
        let pattern = self.interleaved.pattern(self.turn.entry)?;
        let found = pattern.find(self.datum, &self.interleaved.outer_axes);
        let offset = found.offset.plus(ByteLength(self.into_datum));
        let data = self.left.min(found.left_in_row);
        if pattern.is_dense() {
            return Some(self.piece(pattern, offset, data));
        }
        if data == 1 || self.into_datum > 0 || matches!(pattern.source, Source::Nested(_)) {
            return Some(self.piece(pattern, offset, 1));
        }

        let length = pattern.length();
        let wanted = self.end.since(self.position).0;
        let whole = match exact::mul(data, length.get()) {
            bytes if bytes <= wanted => data,
            _ => wanted / length,
        };
        if whole <= 1 {
            return Some(self.piece(pattern, offset, 1));
        }
        self.advance(whole, exact::mul(whole, length.get()));
        Some(Span {
            source: &pattern.source,
            offset,
            length: ByteLength(length.get()),
            stride: pattern.stride(),
            count: DatumCount(whole),
        })
    }

    /// Takes what the walk wants of the next `data` data, which follow one another without a gap,
    /// as one piece.
    fn piece(&mut self, pattern: &'a Pattern<L>, offset: ByteOffset, data: u64) -> Span<'a, L> {
        let available = exact::sub(exact::mul(data, pattern.length().get()), self.into_datum);
        let length = available.min(self.end.since(self.position).0);
        self.advance(data, length);
        Span::piece(&pattern.source, offset, ByteLength(length))
    }

    /// Goes on by `data` data, to the start of one or to the end of the walk.
    fn advance(&mut self, data: u64, bytes: u64) {
        self.datum = exact::add(self.datum, data);
        self.left = exact::sub(self.left, data);
        self.into_datum = 0;
        self.position = self.position.plus(ByteLength(bytes));
    }
}
