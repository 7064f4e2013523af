// SPDX-License-Identifier: GPL-2.0

//! The quantities of a layout, each a type of its own, and arithmetic on checked quantities.

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($raw:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $raw);
    };
}

unit! {
    /// A byte of a layout, counted from the layout's first byte.
    Position(u64)
}

unit! {
    /// A byte of a source, counted from the source's first byte, whatever the addressing of the
    /// region behind it.
    ByteOffset(u64)
}

unit! {
    /// A number of bytes.
    ByteLength(u64)
}

unit! {
    /// The distance in bytes from the start of one piece to the start of the next; never
    /// negative.
    ByteStride(u64)
}

unit! {
    /// A number of data (or of pieces, each of which is one datum or a part of it).
    DatumCount(u64)
}

unit! {
    /// The number of data that an entry contributes to each round.
    RepeatCount(u32)
}

unit! {
    /// The number of items or entries that a layout was described with.
    DescriptorCount(u32)
}

unit! {
    /// How many layouts lie on the longest way from a layout to memory, itself included: 1 for a
    /// layout of plain regions.
    NestingLevel(u32)
}

impl Position {
    /// The byte `length` bytes further on, in the same layout.
    pub(super) fn plus(self, length: ByteLength) -> Self {
        Self(exact::add(self.0, length.0))
    }

    /// The bytes from `earlier` up to here.
    pub(super) fn since(self, earlier: Position) -> ByteLength {
        ByteLength(exact::sub(self.0, earlier.0))
    }
}

impl ByteOffset {
    /// The end of a range that starts here, or `None` if no 64-bit offset can name it.
    pub fn checked_add(self, length: ByteLength) -> Option<ByteOffset> {
        self.0.checked_add(length.0).map(ByteOffset)
    }

    /// The byte `length` bytes further on, in the same source.
    pub(super) fn plus(self, length: ByteLength) -> Self {
        Self(exact::add(self.0, length.0))
    }

    /// The same byte where the source is itself a layout.
    pub(super) fn in_layout(self) -> Position {
        Position(self.0)
    }
}

/// Arithmetic on quantities whose result is known to be in range.
///
/// Constructing a layout checks that its length and every byte it names fit in 64 bits; each
/// position, offset and count that occurs later is a part of one of those. So nothing here
/// overflows, and a kernel that is built with overflow checks need not carry a panic for it.
pub(super) mod exact {
    /// `a + b`.
    pub(in super::super) fn add(a: u64, b: u64) -> u64 {
        debug_assert!(a.checked_add(b).is_some());
        a.wrapping_add(b)
    }

    /// `a - b`.
    pub(in super::super) fn sub(a: u64, b: u64) -> u64 {
        debug_assert!(a >= b);
        a.wrapping_sub(b)
    }

    /// `a * b`.
    pub(in super::super) fn mul(a: u64, b: u64) -> u64 {
        debug_assert!(a.checked_mul(b).is_some());
        a.wrapping_mul(b)
    }
}
