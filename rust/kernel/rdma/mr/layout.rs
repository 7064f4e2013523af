// SPDX-License-Identifier: GPL-2.0

#![forbid(unsafe_code)]

//! Layouts: memory regions that are made of pieces of other regions.
//!
//! A [`Layout`] says, for each byte of a non-contiguous region, which byte of which other region
//! it is. There are two kinds, as in the documentation of `ibv_mr_set_layout_sg` and
//! `ibv_mr_set_layout_interleaved`:
//!
//! - [`Layout::sg`] is the concatenation of the listed ranges.
//! - [`Layout::interleaved`] takes data from several strided patterns in turn.
//!
//! A source of either is a plain region ([`Source::Leaf`]) or another layout
//! ([`Source::Nested`]). Layouts never change and refer only to layouts that existed before
//! them, so they form no cycle. They may name the same byte any number of times.
//!
//! [`Layout::walk`] turns a range of the layout into [`Run`]s of bytes in plain regions.
//!
//! This is arithmetic only. It knows neither memory nor devices, allocates only while a layout is
//! made, cannot panic, and is compiled for the host as well, where `selftests/layout` checks it
//! against an oracle that goes byte by byte.

mod error;
mod interleaved;
mod pattern;
mod platform;
mod rounds;
mod sg;
mod units;
mod walk;

pub use self::{
    error::{
        ErrorClass,
        LayoutError, //
    },
    interleaved::InterleavedEntry,
    pattern::Dimension,
    platform::*,
    sg::{
        SgItem,
        SgRange, //
    },
    units::{
        ByteLength,
        ByteOffset,
        ByteStride,
        DatumCount,
        DescriptorCount,
        NestingLevel,
        Position,
        RepeatCount, //
    },
    walk::{
        Run,
        Walker, //
    },
};

use self::{
    interleaved::Interleaved,
    sg::Sg, //
};

/// The most layouts that can lie on one way from a layout to memory, the layout itself included.
///
/// A [`Walker`] holds this many places in fixed storage, which fits a kernel stack.
pub const MAX_NESTING: usize = 8;

/// The most dimensions of an entry of an interleaved layout.
pub const MAX_DIMENSIONS: usize = 8;

/// A region that is no layout, as layouts see it: a cheap handle, cloned freely.
pub trait Leaf: Clone {
    /// The bytes of the region. Must never change while a layout refers to the region.
    fn length(&self) -> ByteLength;

    /// Whether both are handles of one region.
    fn is_same(&self, other: &Self) -> bool;
}

/// What an item or an entry takes its bytes from.
pub enum Source<L> {
    /// A region that is no layout.
    Leaf(L),
    /// A region that is a layout.
    Nested(Arc<Layout<L>>),
}

impl<L: Leaf> Source<L> {
    /// The bytes of the source.
    pub fn length(&self) -> ByteLength {
        match self {
            Self::Leaf(leaf) => leaf.length(),
            Self::Nested(layout) => layout.length(),
        }
    }

    /// How many layouts lie on the longest way from the source to memory: 0 for a leaf.
    pub fn depth(&self) -> NestingLevel {
        match self {
            Self::Leaf(_) => NestingLevel(0),
            Self::Nested(layout) => layout.depth(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Leaf(a), Self::Leaf(b)) => a.is_same(b),
            (Self::Nested(a), Self::Nested(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl<L: Leaf> Clone for Source<L> {
    fn clone(&self) -> Self {
        match self {
            Self::Leaf(leaf) => Self::Leaf(leaf.clone()),
            Self::Nested(layout) => Self::Nested(layout.clone()),
        }
    }
}

/// A region that is made of pieces of other regions.
///
/// # Invariants
///
/// - `length` is the sum of the lengths of all pieces, and is not zero.
/// - Every piece lies inside of its source.
/// - `depth` is one more than the largest depth of a source, and at most [`MAX_NESTING`].
pub struct Layout<L> {
    plan: Plan<L>,
    length: ByteLength,
    descriptors: DescriptorCount,
    depth: NestingLevel,
}

enum Plan<L> {
    Sg(Sg<L>),
    Interleaved(Interleaved<L>),
}

impl<L: Leaf> Layout<L> {
    /// The concatenation of `items`.
    ///
    /// An item whose source is an SG layout is replaced with the pieces it stands for as long as
    /// the whole list stays within four times its own length plus 64; beyond that it is resolved
    /// while walking. Items that continue each other in the same source become one.
    ///
    /// Fails if the list is empty, and if an item is empty, exceeds its source, makes the layout
    /// too long for 64 bits or nests too deep. The rules are those of the documentation of
    /// `ibv_mr_set_layout_sg`.
    pub fn sg(items: &[SgItem<L>]) -> Result<Self, LayoutError> {
        Self::sg_of(items.iter().map(SgItem::range))
    }

    /// As [`Layout::sg`], of ranges that are not in a list.
    pub fn sg_of<'s>(
        ranges: impl ExactSizeIterator<Item = SgRange<'s, L>> + Clone,
    ) -> Result<Self, LayoutError>
    where
        L: 's,
    {
        let descriptors = count(ranges.len())?;
        let depth = depth_above(ranges.clone().map(|range| range.source))?;
        let (sg, length) = Sg::new(ranges)?;

        Ok(Self {
            plan: Plan::Sg(sg),
            length,
            descriptors,
            depth,
        })
    }

    /// The data of `entries`, taken in turn.
    ///
    /// Rounds follow one another until every entry is exhausted. A round visits the entries in
    /// order, takes the next [`repeat`](InterleavedEntry::repeat) data of each, or as many as are
    /// left, and skips the exhausted ones.
    ///
    /// With A and B of four data each, repeats of 1 and 1 give ABABABAB and repeats of 2 and 2
    /// give AABBAABB; with two data in A, four in B and repeats of 1 and 2 the order is ABBABB.
    ///
    /// Memory is proportional to the entries and their dimensions, times the logarithm of the
    /// number of entries where these end in different rounds, and does not depend on the number
    /// of data.
    ///
    /// Fails if the list is empty, and if an entry has a zero length, repeat or count, no or too
    /// many dimensions, a datum beyond the end of its source, a number that does not fit in 64
    /// bits, or nests too deep. The rules are those of the documentation of
    /// `ibv_mr_set_layout_interleaved`.
    pub fn interleaved(entries: &[InterleavedEntry<'_, L>]) -> Result<Self, LayoutError> {
        Self::interleaved_like(entries, None)
    }

    /// As [`Layout::interleaved`]. Where the entries have as many data, of as many bytes and taken
    /// as many at a time, as those of `like`, the order in which they take turns is not worked out
    /// again, but shared.
    pub fn interleaved_like(
        entries: &[InterleavedEntry<'_, L>],
        like: Option<&Self>,
    ) -> Result<Self, LayoutError> {
        let like = like.and_then(|layout| match &layout.plan {
            Plan::Interleaved(plan) => Some(plan),
            Plan::Sg(_) => None,
        });
        let descriptors = count(entries.len())?;
        let depth = depth_above(entries.iter().map(|entry| &entry.source))?;
        let (interleaved, length) = Interleaved::new(entries, like)?;

        Ok(Self {
            plan: Plan::Interleaved(interleaved),
            length,
            descriptors,
            depth,
        })
    }

    /// The layout as a source for others. Fails with [`LayoutError::NoMemory`].
    pub fn into_arc(self) -> Result<Arc<Self>, LayoutError> {
        share(self)
    }

    /// The bytes that the layout spans.
    pub fn length(&self) -> ByteLength {
        self.length
    }

    /// How many layouts lie on the longest way to memory, this one included, as the user built
    /// it (whether or not walking takes as many steps).
    pub fn depth(&self) -> NestingLevel {
        self.depth
    }

    /// The items or entries that the layout was described with.
    pub fn descriptors(&self) -> DescriptorCount {
        self.descriptors
    }

    /// The bytes of memory that the layout's own tables take, without those of its sources.
    pub fn memory(&self) -> usize {
        match &self.plan {
            Plan::Sg(sg) => sg.memory(),
            Plan::Interleaved(interleaved) => interleaved.memory(),
        }
    }

    /// The runs of plain memory that make up `length` bytes from `start` on, in order.
    ///
    /// Finding `start` takes time logarithmic in the number of descriptors of each nesting level
    /// and independent of the number of data before it. `length` may be zero, which gives no run.
    ///
    /// Fails with [`LayoutError::OutOfRange`] if the range is not inside of the layout.
    pub fn walk(&self, start: Position, length: ByteLength) -> Result<Walker<'_, L>, LayoutError> {
        let mut walker = Walker::idle();
        walker.begin(self, start, length)?;
        Ok(walker)
    }
}

fn count(descriptors: usize) -> Result<DescriptorCount, LayoutError> {
    match u32::try_from(descriptors) {
        Ok(0) => Err(LayoutError::Empty),
        Ok(count) => Ok(DescriptorCount(count)),
        Err(_) => Err(LayoutError::TooManyDescriptors),
    }
}

/// The depth of a layout of `sources`.
fn depth_above<'a, L: Leaf + 'a>(
    sources: impl Iterator<Item = &'a Source<L>>,
) -> Result<NestingLevel, LayoutError> {
    let mut depth = 1;
    for (entry, source) in sources.enumerate() {
        let NestingLevel(below) = source.depth();
        if below as usize >= MAX_NESTING {
            return Err(LayoutError::TooDeep { entry });
        }
        depth = depth.max(below.saturating_add(1));
    }
    Ok(NestingLevel(depth))
}
