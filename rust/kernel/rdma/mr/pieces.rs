// SPDX-License-Identifier: GPL-2.0

//! The pieces of memory that a window consists of.

use super::{
    layout::{
        ByteLength,
        ByteOffset,
        ByteStride,
        DatumCount,
        Position,
        Run,
        Walker, //
    },
    region::Region,
    window::Window, //
};
use kernel::sync::Arc;

/// Pieces of the current window that are still to come.
pub(super) struct Pieces<'a> {
    /// What is left of the current run; a region without a layout is one of one piece.
    pub(super) run: Option<Run<'a, Arc<Region>>>,
    /// Where more runs come from, if the window's region has a layout. Large, and so nothing that
    /// moves: without a layout it is not touched.
    walker: Option<Walker<'a, Arc<Region>>>,
}

/// A piece of a region that has memory of its own.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) leaf: &'a Arc<Region>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl<'a> Pieces<'a> {
    /// There are none.
    pub(super) fn none() -> Self {
        Self {
            run: None,
            walker: None,
        }
    }

    /// Starts with the pieces of `window`.
    pub(super) fn start(&mut self, window: &'a Window) {
        self.run = None;
        self.walker = None;
        match &window.bound {
            None if window.length == 0 => {}
            None => {
                self.run = Some(Run {
                    leaf: &window.region,
                    offset: ByteOffset(window.offset),
                    length: ByteLength(window.length),
                    stride: ByteStride(0),
                    count: DatumCount(1),
                });
            }
            Some(bound) => {
                let (start, length) = (Position(window.offset), ByteLength(window.length));
                let walker = self.walker.insert(Walker::idle());
                // Windows are checked against their layout, which never changes; and a walker that
                // refuses has no runs.
                let _ = walker.begin(bound.layout(), start, length);
            }
        }
    }

    /// The next piece, if it is one of a layout, and of `leaf`.
    #[inline]
    pub(super) fn next_of(&mut self, leaf: &Arc<Region>) -> Option<Piece<'a>> {
        let walker = self.walker.as_mut()?;
        if self.run.is_none() {
            self.run = walker.next();
        }
        let current = self.run.take_if(|run| Arc::ptr_eq(run.leaf, leaf))?;
        let (piece, rest) = first_of(current);
        self.run = rest;
        Some(piece)
    }

    /// The next piece.
    pub(super) fn next(&mut self) -> Option<Piece<'a>> {
        let current = match self.run.take() {
            Some(run) => run,
            None => self.walker.as_mut()?.next()?,
        };
        let (piece, rest) = first_of(current);
        self.run = rest;
        Some(piece)
    }
}

/// The first piece of a run, and what is left of the run without it.
#[inline]
fn first_of<'a>(run: Run<'a, Arc<Region>>) -> (Piece<'a>, Option<Run<'a, Arc<Region>>>) {
    let piece = Piece {
        leaf: run.leaf,
        offset: run.offset.0,
        length: run.length.0,
    };
    (piece, run_after(run, 1))
}

/// What is left of a run without its first `count` pieces.
#[inline]
pub(super) fn run_after<'a>(
    mut run: Run<'a, Arc<Region>>,
    count: u64,
) -> Option<Run<'a, Arc<Region>>> {
    run.count.0 = run.count.0.saturating_sub(count);
    // One step beyond the last piece may be beyond what a number can say.
    run.offset.0 = run.offset.0.wrapping_add(run.stride.0.wrapping_mul(count));
    (run.count.0 > 0).then_some(run)
}
