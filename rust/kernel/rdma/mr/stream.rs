// SPDX-License-Identifier: GPL-2.0

//! The contiguous stretches of kernel memory that windows consist of.

use super::{
    super::{
        dmabuf::{
            CpuAccess,
            Mapped,
            Unmapped, //
        },
        gate::Inside,
        odp::{
            absent::{
                Absent,
                FaultError, //
            },
            span::Resident, //
        }, //
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
        Relaxed, //
    },
    Arc, //
};

/// The most bytes that are moved before memory that somebody takes away is let go of. Bounds how
/// long a deregistration or an invalidation waits for a transfer.
pub(super) const LET_GO_AFTER: usize = 1 << 20;

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
/// kept while waiting for anything; see [`Stream::let_go`].
pub struct Stream<'a> {
    windows: slice::Iter<'a, Window>,
    /// Whether the bytes are to be written.
    write: bool,
    /// The region that the current window names, if it has a layout: taking it away stops the
    /// stream as well, even where the bytes belong to other regions.
    holder: Option<&'a Arc<Region>>,
    inside_holder: Option<Inside<'a, Memory>>,
    pieces: Pieces<'a>,
    /// What is left of the current piece, which the current stretch is the beginning of.
    piece: Option<Piece<'a>>,
    /// Keeps pages of the leaf where they are, if it is paged on demand.
    resident: Option<Resident>,
    /// Keeps the leaf mapped, if it is another driver's buffer.
    mapped: Option<Mapped>,
    leaf: Option<(&'a Arc<Region>, Inside<'a, Memory>)>,
    /// The generation that the memory of the current window must have, unless a layout keeps it
    /// as it is.
    generation: Option<u32>,
    hint: usize,
    stretch: Stretch,
    /// How many more pieces of the current run lie next to the current stretch in the kernel's
    /// address space, as they do in their region.
    train: u64,
    moved: usize,
    /// The current leaf's CPU access, if it is another driver's buffer, or that of one before it.
    /// The last field, so that it ends after everything that is held has been let go of.
    access: Option<CpuAccess>,
}

/// Memory that must be found before it can be accessed.
pub(super) enum Missing {
    Pages(Absent),
    Buffer(Unmapped),
}

/// What comes next in a stream.
pub(super) enum Next {
    /// Bytes that lie next to each other.
    Bytes(Stretch),
    /// Bytes that must be looked for before.
    Missing(Missing),
    /// Nothing.
    End,
}

impl<'a> Stream<'a> {
    /// The bytes of `windows`.
    pub fn new(windows: &'a [Window]) -> Self {
        Self {
            windows: windows.iter(),
            write: false,
            holder: None,
            inside_holder: None,
            pieces: Pieces::None,
            piece: None,
            resident: None,
            mapped: None,
            leaf: None,
            generation: None,
            hint: 0,
            stretch: Stretch {
                addr: core::ptr::null_mut(),
                len: 0,
                io: false,
            },
            train: 0,
            moved: 0,
            access: None,
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

    /// Says that the bytes from here on are to be written, not read. Pages that were found to be
    /// read may be shared with others.
    pub(super) fn will_be_written(&mut self) {
        if !self.write {
            self.let_go();
            self.write = true;
        }
    }

    /// The bytes that are at hand, maybe none.
    #[inline]
    pub(super) fn at_hand(&self) -> Stretch {
        self.stretch
    }

    /// What comes next.
    #[inline]
    pub(super) fn current(&mut self) -> Result<Next, AccessError> {
        if self.stretch.len == 0 {
            return self.refill();
        }
        Ok(Next::Bytes(self.stretch))
    }

    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.stretch.addr = self.stretch.addr.wrapping_add(len);
        self.stretch.len -= len;
        self.moved += len;
        if let Some(piece) = &mut self.piece {
            piece.offset += len as u64;
            piece.length -= len as u64;
            if piece.length == 0 && self.train > 0 {
                self.board();
            }
        }
    }

    /// Goes on to the next piece of the run, which is known to be within reach.
    #[inline]
    fn board(&mut self) {
        let (Some(piece), Pieces::Layout { run, .. }) = (&mut self.piece, &mut self.pieces) else {
            return;
        };
        let Some(next) = run else {
            return;
        };
        let ahead = next.offset.0.wrapping_sub(piece.offset) as usize;
        piece.offset = next.offset.0;
        piece.length = next.length.0;
        self.stretch.addr = self.stretch.addr.wrapping_add(ahead);
        self.stretch.len = piece.length as usize;
        self.train -= 1;
        next.count.0 -= 1;
        if next.count.0 == 0 {
            *run = None;
        } else {
            next.offset.0 += next.stride.0;
        }
    }

    /// How many pieces of the current run follow the current one within `memory` that lies next to
    /// each other. Zero where that is not worth while.
    fn couple(&self, memory: &Memory, piece: &Piece<'_>) -> u64 {
        let Pieces::Layout { run: Some(run), .. } = &self.pieces else {
            return 0;
        };
        let (stride, length) = (run.stride.0, run.length.0);
        let most = (LET_GO_AFTER as u64)
            .checked_div(length)
            .unwrap_or(0)
            .min(run.count.0);
        let wanted = || {
            // The next piece may begin before what is left of this one; then nothing is known of
            // the memory that it begins in.
            let ahead = run.offset.0.checked_sub(piece.offset)?;
            let first_end = ahead.checked_add(length)?;
            let last_end = stride
                .checked_mul(most.checked_sub(1)?)?
                .checked_add(first_end)?;
            Some((first_end, last_end))
        };
        let Some((first_end, last_end)) = wanted() else {
            return 0;
        };
        let mut hint = self.hint;
        let reach = match memory.stretch(piece.offset, last_end as usize, &mut hint) {
            Some(stretch) if !stretch.io => stretch.len as u64,
            _ => return 0,
        };
        match reach.checked_sub(first_end) {
            None => 0,
            Some(beyond) => match beyond.checked_div(stride) {
                None => most,
                Some(more) => more.saturating_add(1).min(most),
            },
        }
    }

    /// Lets go of the memory of the current stretch, which is found again when it is asked for.
    pub(super) fn let_go(&mut self) {
        self.moved = 0;
        self.resident = None;
        self.mapped = None;
        self.leaf = None;
        self.inside_holder = None;
        self.train = 0;
        if self.piece.is_some() {
            self.stretch.len = 0;
        }
    }

    /// Finds the next stretch.
    fn refill(&mut self) -> Result<Next, AccessError> {
        self.train = 0;
        let Some(piece) = self.next_piece() else {
            return Ok(Next::End);
        };
        self.piece = Some(piece);
        if self.moved >= LET_GO_AFTER {
            self.let_go();
        }
        if let (Some(holder), None) = (self.holder, &self.inside_holder) {
            self.inside_holder = Some(enter(holder)?);
        }
        if !matches!(self.leaf, Some((leaf, _)) if Arc::ptr_eq(leaf, piece.leaf)) {
            self.resident = None;
            self.mapped = None;
            self.leaf = None;
            self.leaf = Some((piece.leaf, enter(piece.leaf)?));
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
        let stretch = match &**memory {
            Memory::Paged(memory) => {
                let paged = memory.paged();
                match paged.resident(piece.offset, len, self.write, &mut self.resident) {
                    Ok(stretch) => stretch,
                    Err(absent) => return Ok(Next::Missing(Missing::Pages(absent))),
                }
            }
            Memory::Buffer(memory) => {
                let (held, access) = (&mut self.mapped, &self.access);
                match memory.mapped(piece.offset, len, self.write, held, access) {
                    Ok(stretch) => stretch,
                    Err(unmapped) => return Ok(Next::Missing(Missing::Buffer(unmapped))),
                }
            }
            memory => {
                let stretch = memory
                    .stretch(piece.offset, len, &mut self.hint)
                    .ok_or(AccessError::Revoked)?;
                if stretch.len as u64 == piece.length {
                    self.train = self.couple(memory, &piece);
                }
                stretch
            }
        };
        self.stretch = stretch;
        Ok(Next::Bytes(stretch))
    }

    /// Looks for what is missing. This stream and the other one of the copy hold nothing.
    pub(super) fn find(
        &mut self,
        missing: Missing,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), FaultError> {
        if !go_on() {
            return Err(FaultError::Stopped);
        }
        match missing {
            Missing::Pages(absent) => absent.find(go_on),
            Missing::Buffer(unmapped) => Ok(unmapped.find(&mut self.access)?),
        }
    }

    fn next_piece(&mut self) -> Option<Piece<'a>> {
        if let Some(piece) = self.piece.take().filter(|piece| piece.length > 0) {
            return Some(piece);
        }
        loop {
            if let Some(piece) = self.pieces.next() {
                return Some(piece);
            }
            let window = self.windows.next()?;
            self.pieces = Pieces::of(window);
            self.inside_holder = None;
            self.generation = window.bound.is_none().then_some(window.generation);
            self.holder = window.bound.is_some().then_some(&window.region);
        }
    }
}

#[inline]
fn enter(region: &Arc<Region>) -> Result<Inside<'_, Memory>, AccessError> {
    region.memory.enter().ok_or(AccessError::Revoked)
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
