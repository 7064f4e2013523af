// SPDX-License-Identifier: GPL-2.0

//! By what regions are named.

/// A local or remote key.
///
/// The upper 24 bits are the region's number in its device's table, the lower 8 are its variant.
/// A region that gets a new key keeps its number and changes its variant, so the old key meets the
/// region and is seen to be old (IBTA 1.7, 10.6.3.3: keys of an index and a changeable part).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(u32);

/// The first number that no region can have. The numbers above it are those of memory windows, so
/// that a key tells which of the two it names.
pub const INDEX_END: u32 = 1 << 23;
/// The first number that no memory window can have.
pub const WINDOW_INDEX_END: u32 = 1 << 24;

impl Key {
    /// The first key of the region with number `index`.
    pub const fn new(index: u32, variant: u8) -> Self {
        Self((index << 8) | variant as u32)
    }

    /// The key that came over the wire or from a ring as `raw`.
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    /// As it goes over the wire and into rings.
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// The number of the region.
    pub const fn index(self) -> u32 {
        self.0 >> 8
    }

    /// Whether this names a memory window rather than a region.
    pub const fn names_window(self) -> bool {
        self.index() >= INDEX_END
    }

    /// The key of the same region or window with the variant of `other`.
    pub const fn with_variant_of(self, other: Self) -> Self {
        Self::new(self.index(), other.0 as u8)
    }

    /// The next key of the same region.
    pub const fn renewed(self) -> Self {
        Self::new(self.index(), (self.0 as u8).wrapping_add(1))
    }
}
