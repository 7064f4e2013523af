// SPDX-License-Identifier: GPL-2.0

//! The contiguous stretches of kernel memory that windows consist of, and copying between them.

use super::{
    super::{
        copy::{
            copy as move_bytes,
            copy_io, //
        },
        gate::Inside, //
    },
    layout::{
        ByteLength,
        Position,
        Run,
        Walker, //
    },
    memory::{
        Memory,
        Stretch, //
    },
    region::Region,
    window::{
        AccessError,
        Window, //
    },
};
use core::slice;
use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    Arc, //
};

/// The most bytes that are moved before memory that somebody takes away is let go of. Bounds how
/// long a deregistration or an invalidation waits for a transfer.
const LET_GO_AFTER: usize = 1 << 20;

/// Pieces of the current window that are still to come.
enum Pieces<'a> {
    None,
    /// One piece of a region that has no layout.
    Whole {
        region: &'a Arc<Region>,
        offset: u64,
        length: u64,
    },
    /// The pieces that a layout gives.
    Layout {
        walker: Walker<'a, Arc<Region>>,
        run: Option<Run<'a, Arc<Region>>>,
    },
}

/// A piece of a region that has memory of its own.
#[derive(Clone, Copy)]
struct Piece<'a> {
    leaf: &'a Arc<Region>,
    offset: u64,
    length: u64,
}

/// The bytes of a list of windows, in order.
///
/// A stream keeps the memory that its current stretch lies in from going away, so it must not be
/// kept while waiting for anything.
pub struct Stream<'a> {
    windows: slice::Iter<'a, Window>,
    /// The region that the current window names: taking it away stops the stream as well, even
    /// where the bytes belong to other regions.
    holder: Option<(&'a Arc<Region>, Inside<'a, Memory>)>,
    pieces: Pieces<'a>,
    piece: Option<Piece<'a>>,
    leaf: Option<(&'a Arc<Region>, Inside<'a, Memory>)>,
    /// The generation that the memory of the current window must have, unless a layout keeps it
    /// as it is.
    generation: Option<u32>,
    hint: usize,
    stretch: Stretch,
    moved: usize,
}

impl<'a> Stream<'a> {
    /// The bytes of `windows`.
    pub fn new(windows: &'a [Window]) -> Self {
        Self {
            windows: windows.iter(),
            holder: None,
            pieces: Pieces::None,
            piece: None,
            leaf: None,
            generation: None,
            hint: 0,
            stretch: Stretch {
                addr: core::ptr::null_mut(),
                len: 0,
                io: false,
            },
            moved: 0,
        }
    }

    /// The bytes of kernel memory that `data` lies in, to be read only.
    ///
    /// # Safety
    ///
    /// `data` is valid for reads as long as the stream is used.
    pub unsafe fn of_kernel_memory(data: *const u8, len: usize) -> Self {
        let mut stream = Self::new(&[]);
        stream.stretch = Stretch {
            addr: data.cast_mut(),
            len,
            io: false,
        };
        stream
    }

    /// Kernel memory to be written to.
    ///
    /// # Safety
    ///
    /// `data` is valid for writes as long as the stream is used.
    pub unsafe fn into_kernel_memory(data: *mut u8, len: usize) -> Self {
        // SAFETY: By the requirements of this function; what is written may be read.
        unsafe { Self::of_kernel_memory(data, len) }
    }

    /// Calls `f` with the 64-bit word that the stream begins with; `Ok(None)` if that is not
    /// aligned or does not lie in one piece.
    pub fn with_word<R>(
        &mut self,
        f: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<Option<R>, AccessError> {
        let Some(stretch) = self.current()? else {
            return Err(AccessError::OutOfBounds);
        };
        if stretch.io {
            // Memory of a device need not know the processor's atomic operations.
            return Err(AccessError::NotAllowed);
        }
        let word = stretch.addr.cast::<u64>();
        if stretch.len < size_of::<u64>() || !word.is_aligned() {
            return Ok(None);
        }
        // SAFETY: Eight aligned bytes of a region that the stream keeps from being released. The
        // kernel has no other kind of access to them but copies, which may tear, as those of
        // processes do.
        Ok(Some(f(unsafe { Atomic::from_ptr(word) })))
    }

    /// The next bytes that lie next to each other; `None` at the end.
    #[inline]
    fn current(&mut self) -> Result<Option<Stretch>, AccessError> {
        if self.stretch.len == 0 && !self.refill()? {
            return Ok(None);
        }
        Ok(Some(self.stretch))
    }

    #[inline]
    fn advance(&mut self, len: usize) {
        self.stretch.addr = self.stretch.addr.wrapping_add(len);
        self.stretch.len -= len;
        self.moved += len;
    }

    /// Finds the next stretch. Returns whether there is one.
    fn refill(&mut self) -> Result<bool, AccessError> {
        let Some(piece) = self.next_piece() else {
            return Ok(false);
        };
        if self.moved >= LET_GO_AFTER {
            self.moved = 0;
            self.leaf = None;
            let holder = self.holder.take().map(|(region, _)| region);
            self.holder = holder.map(enter).transpose()?;
        }
        if !matches!(self.leaf, Some((leaf, _)) if Arc::ptr_eq(leaf, piece.leaf)) {
            self.leaf = None;
            self.leaf = Some(enter(piece.leaf)?);
            self.hint = 0;
        }
        let Some((_, memory)) = &self.leaf else {
            return Err(AccessError::Revoked);
        };
        let generation = piece.leaf.generation.load(Relaxed);
        if self
            .generation
            .is_some_and(|expected| expected != generation)
        {
            return Err(AccessError::Revoked);
        }
        let len = (piece.length as usize).min(LET_GO_AFTER);
        let stretch = memory
            .stretch(piece.offset, len, &mut self.hint)
            .ok_or(AccessError::Revoked)?;
        self.stretch = stretch;
        let rest = piece.length - stretch.len as u64;
        self.piece = (rest > 0).then_some(Piece {
            offset: piece.offset + stretch.len as u64,
            length: rest,
            ..piece
        });
        Ok(true)
    }

    fn next_piece(&mut self) -> Option<Piece<'a>> {
        if let Some(piece) = self.piece.take() {
            return Some(piece);
        }
        loop {
            if let Some(piece) = self.pieces.next() {
                return Some(piece);
            }
            let window = self.windows.next()?;
            self.pieces = Pieces::of(window);
            self.holder = None;
            self.generation = window.bound.is_none().then_some(window.generation);
            if window.bound.is_some() {
                match enter(&window.region) {
                    Ok(holder) => self.holder = Some(holder),
                    // A piece of the holder, which has gone, stops the stream.
                    Err(_) => {
                        return Some(Piece {
                            leaf: &window.region,
                            offset: 0,
                            length: 1,
                        })
                    }
                }
            }
        }
    }
}

fn enter(region: &Arc<Region>) -> Result<(&Arc<Region>, Inside<'_, Memory>), AccessError> {
    match region.memory.enter() {
        Some(inside) => Ok((region, inside)),
        None => Err(AccessError::Revoked),
    }
}

impl<'a> Pieces<'a> {
    fn of(window: &'a Window) -> Self {
        match &window.bound {
            None => Self::Whole {
                region: &window.region,
                offset: window.offset,
                length: window.length,
            },
            Some(bound) => {
                match bound
                    .layout()
                    .walk(Position(window.offset), ByteLength(window.length))
                {
                    Ok(walker) => Self::Layout { walker, run: None },
                    // Windows are checked against their layout, which never changes.
                    Err(_) => Self::None,
                }
            }
        }
    }

    fn next(&mut self) -> Option<Piece<'a>> {
        match self {
            Self::None => None,
            Self::Whole {
                region,
                offset,
                length,
            } => {
                let piece = Piece {
                    leaf: region,
                    offset: *offset,
                    length: *length,
                };
                *self = Self::None;
                (piece.length > 0).then_some(piece)
            }
            Self::Layout { walker, run } => {
                let mut current = match run.take() {
                    Some(run) => run,
                    None => walker.next()?,
                };
                let piece = Piece {
                    leaf: current.leaf,
                    offset: current.offset.0,
                    length: current.length.0,
                };
                if current.count.0 > 1 {
                    current.count.0 -= 1;
                    current.offset.0 += current.stride.0;
                    *run = Some(current);
                }
                Some(piece)
            }
        }
    }
}

/// Which side of a copy failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyError {
    /// The source.
    From(AccessError),
    /// The destination.
    To(AccessError),
    /// The caller gave up.
    Stopped,
}

/// Copies `length` bytes, or fewer if a stream ends before. `go_on` is asked after every stretch of
/// up to a mebibyte whether to go on, and may sleep for a moment.
pub fn copy(
    to: &mut Stream<'_>,
    from: &mut Stream<'_>,
    length: u64,
    mut go_on: impl FnMut() -> bool,
) -> Result<u64, CopyError> {
    let mut left = length;
    let mut since_asked = 0;
    while left > 0 {
        let Some(source) = from.current().map_err(CopyError::From)? else {
            break;
        };
        let Some(target) = to.current().map_err(CopyError::To)? else {
            break;
        };
        let len = source.len.min(target.len).min(left as usize);
        // SAFETY: Both stretches are memory of regions that the streams keep from being released,
        // or kernel memory that its owner vouches for. They may overlap, and processes may write
        // to them meanwhile; the bytes are not looked at.
        unsafe {
            if source.io || target.io {
                copy_io(target.addr, target.io, source.addr, source.io, len);
            } else {
                move_bytes(target.addr, source.addr, len);
            }
        }
        from.advance(len);
        to.advance(len);
        left -= len as u64;
        since_asked += len;
        if since_asked >= LET_GO_AFTER {
            since_asked = 0;
            if !go_on() {
                return Err(CopyError::Stopped);
            }
        }
    }
    Ok(length - left)
}
