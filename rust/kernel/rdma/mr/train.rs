// SPDX-License-Identifier: GPL-2.0

//! Bytes at hand: a stretch of kernel memory, and equal ones behind it at equal distances.
//!
//! The inner loop of a transfer goes by these, so that bytes of a pattern are copied as a
//! hand-written strided copy would, without a look at regions or layouts in between.

use super::memory::Stretch;

/// What is left of one piece of memory, and pieces that follow it.
///
/// # Invariants
///
/// All bytes that this names lie in the memory that a [`Stream`](super::stream::Stream) holds.
#[derive(Clone, Copy)]
pub(super) struct Train {
    /// What is left of the first piece.
    first: Stretch,
    /// Where the next one begins, if there is one.
    next: *mut u8,
    /// How many follow.
    more: usize,
    /// The bytes of each of those.
    length: usize,
    /// From the start of each to that of the next.
    stride: usize,
}

/// Blocks that bytes at hand begin with.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    /// How many, at least one.
    pub(super) count: usize,
    /// From the start of each to that of the next.
    pub(super) stride: usize,
}

impl Train {
    /// Nothing.
    pub(super) const NONE: Self = Self::of(Stretch {
        addr: core::ptr::null_mut(),
        len: 0,
        io: false,
    });

    /// A single piece.
    pub(super) const fn of(first: Stretch) -> Self {
        Self {
            first,
            next: first.addr,
            more: 0,
            length: 0,
            stride: 0,
        }
    }

    /// Adds `more` pieces of `length` bytes, of which the first lies `ahead` bytes behind the start
    /// of what there is, and each other `stride` bytes behind the one before it.
    #[inline]
    pub(super) fn couple(&mut self, more: usize, ahead: usize, length: usize, stride: usize) {
        self.next = self.first.addr.wrapping_add(ahead);
        self.more = more;
        self.length = length;
        self.stride = stride;
    }

    /// What is left of the first piece.
    #[inline]
    pub(super) fn first(&self) -> Stretch {
        self.first
    }

    /// How many pieces follow it.
    #[inline]
    pub(super) fn more(&self) -> usize {
        self.more
    }

    /// How many blocks of `block` bytes there are at equal distances, and at which. The first piece
    /// is at least that long.
    #[inline]
    pub(super) fn blocks(&self, block: usize) -> Blocks {
        if self.first.len == block {
            let alike =
                self.length == block && self.next == self.first.addr.wrapping_add(self.stride);
            Blocks {
                count: if alike { self.more + 1 } else { 1 },
                stride: self.stride,
            }
        } else {
            Blocks {
                count: self.first.len.checked_div(block).unwrap_or(1),
                stride: block,
            }
        }
    }

    /// Goes on by `len` bytes of the first piece.
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.first.addr = self.first.addr.wrapping_add(len);
        self.first.len -= len;
        if self.first.len == 0 {
            self.skip(1);
        }
    }

    /// Goes on by `count` of the [`blocks`](Self::blocks) of `block` bytes.
    #[inline]
    pub(super) fn advance_blocks(&mut self, block: usize, count: usize) {
        if self.first.len == block {
            // A piece that is at an end stays there until another one comes.
            self.first.addr = self.first.addr.wrapping_add(block);
            self.first.len = 0;
            self.skip(count);
        } else {
            self.advance(count * block);
        }
    }

    /// Goes to the `count`th of the pieces that follow one which is at its end; to the end of the
    /// last one if there are fewer, by one.
    #[inline]
    fn skip(&mut self, count: usize) {
        if count <= self.more {
            self.first.addr = self.next.wrapping_add((count - 1) * self.stride);
            self.first.len = self.length;
            self.next = self.first.addr.wrapping_add(self.stride);
            self.more -= count;
        } else if self.more > 0 {
            let last = self.next.wrapping_add((self.more - 1) * self.stride);
            self.first.addr = last.wrapping_add(self.length);
            self.more = 0;
        }
    }
}
