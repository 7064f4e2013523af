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
            patience::wait_elsewhere,
            span::Resident, //
        },
        task, //
    },
    binding::Bound,
    bytes::{
        Bytes,
        Place, //
    },
    layout::Run,
    memory::{
        Memory,
        Stretch, //
    },
    pieces::{
        run_after,
        Piece,
        Pieces, //
    },
    region::Region,
    train::Train,
    window::{
        AccessError,
        Window, //
    },
};
use core::slice;
use kernel::{
    prelude::*,
    sync::{
        aref::ARef,
        atomic::Relaxed,
        Arc, //
    }, //
};

/// The most bytes that are moved before memory that somebody takes away is let go of. Bounds how
/// long a deregistration or an invalidation waits for a transfer.
pub(super) const LET_GO_AFTER: usize = 1 << 20;

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
    /// The current piece, as it was when bytes of it were found last.
    piece: Option<Piece<'a>>,
    /// Keeps pages of the leaf where they are, if it is paged on demand.
    resident: Option<Resident>,
    /// Keeps the leaf mapped, if it is another driver's buffer.
    mapped: Option<Mapped>,
    leaf: Option<(&'a Arc<Region>, Inside<'a, Memory>)>,
    standing: Standing<'a>,
    hint: usize,
    /// The bytes at hand, which the current piece begins with.
    at_hand: Train,
    /// The address of the first byte of the current piece.
    origin: *mut u8,
    /// How many pieces of the current run were at hand beside the current one at first.
    coupled: usize,
    moved: usize,
    /// The current leaf's CPU access, if it is another driver's buffer, or that of one before it.
    /// The last field, so that it ends after everything that is held has been let go of.
    access: Option<CpuAccess>,
}

/// What has to be so for the current window to be good.
#[derive(Clone, Copy)]
enum Standing<'a> {
    /// Nothing: it is kernel memory that its owner vouches for.
    Kernel,
    /// Its region has memory of this generation.
    Memory(u32),
    /// What could be taken away is still used by this layout.
    Layout(&'a Bound),
}

impl Standing<'_> {
    /// Whether the `memory` of `leaf`, which is held, may be accessed.
    fn allows(&self, leaf: &Region, memory: &Memory) -> bool {
        match self {
            Self::Kernel => true,
            Self::Memory(generation) => leaf.generation.load(Relaxed) == *generation,
            // Only memory of this kind changes while its region goes on.
            Self::Layout(bound) => !matches!(memory, Memory::Fast(_)) || !bound.is_released(),
        }
    }
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
    /// All of `bytes`, from the first on.
    pub fn new(bytes: Bytes<'a>) -> Self {
        let (windows, at_hand): (&[Window], _) = match bytes.0 {
            Place::Windows(windows) => (windows, Train::NONE),
            Place::Kernel(stretch) => (&[], Train::of(stretch)),
        };
        Self {
            windows: windows.iter(),
            write: false,
            holder: None,
            inside_holder: None,
            pieces: Pieces::none(),
            piece: None,
            resident: None,
            mapped: None,
            leaf: None,
            standing: Standing::Kernel,
            hint: 0,
            at_hand,
            origin: core::ptr::null_mut(),
            coupled: 0,
            moved: 0,
            access: None,
        }
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
    pub(super) fn at_hand(&self) -> &Train {
        &self.at_hand
    }

    /// What comes next.
    #[inline]
    pub(super) fn current(&mut self) -> Result<Next, AccessError> {
        if self.at_hand.first().len == 0 {
            return self.refill();
        }
        Ok(Next::Bytes(self.at_hand.first()))
    }

    /// Goes on by `len` bytes of the first piece that is at hand.
    #[inline]
    pub(super) fn advance(&mut self, len: usize) {
        self.at_hand.advance(len);
        self.moved += len;
    }

    /// Goes on by `count` of the blocks of `block` bytes that are at hand.
    #[inline]
    pub(super) fn advance_blocks(&mut self, block: usize, count: usize) {
        self.at_hand.advance_blocks(block, count);
        self.moved += count * block;
    }

    /// Notes how far into the current piece and run the bytes at hand have come. Nothing is at hand
    /// after that of the pieces behind the current one.
    fn settle(&mut self) {
        let Some(piece) = &mut self.piece else {
            return;
        };
        let first = self.at_hand.first();
        let taken = self.coupled - self.at_hand.more();
        let gone = (first.addr as usize).wrapping_sub(self.origin as usize) as u64;
        // Bytes at hand lie in memory as they do in their region.
        piece.offset = piece.offset.wrapping_add(gone);
        if self.coupled == 0 {
            piece.length = piece.length.saturating_sub(gone);
        } else {
            piece.length = first.len as u64;
            let run = &mut self.pieces.run;
            *run = run.take().and_then(|run| run_after(run, taken as u64));
        }
        self.coupled = 0;
        self.origin = first.addr;
        self.at_hand = Train::of(first);
    }

    /// Whether there are bytes at hand, which are looked for only in the memory that is held. The
    /// short way from one piece of a layout to the next.
    #[inline]
    pub(super) fn replenish(&mut self) -> bool {
        if self.at_hand.first().len > 0 {
            return true;
        }
        self.settle();
        // Plain memory of a region may be another's by now; that is for `refill` to see.
        if self.moved >= LET_GO_AFTER || matches!(self.standing, Standing::Memory(_)) {
            return false;
        }
        let Some((leaf, memory)) = &self.leaf else {
            return false;
        };
        let piece = match self.piece.filter(|piece| piece.length > 0) {
            Some(piece) => piece,
            None => match self.pieces.next_of(leaf) {
                Some(piece) => piece,
                None => return false,
            },
        };
        self.piece = Some(piece);
        let run = self.pieces.run.as_ref();
        let Some(train) = train_of(memory, &piece, run, &mut self.hint) else {
            return false;
        };
        self.take_up(train);
        true
    }

    #[inline]
    fn take_up(&mut self, train: Train) {
        self.origin = train.first().addr;
        self.coupled = train.more();
        self.at_hand = train;
    }

    /// Lets go of the memory of the bytes at hand, which is found again when it is asked for.
    pub(super) fn let_go(&mut self) {
        self.settle();
        self.moved = 0;
        self.resident = None;
        self.mapped = None;
        self.leaf = None;
        self.inside_holder = None;
        if self.piece.is_some() {
            self.at_hand = Train::NONE;
            self.origin = core::ptr::null_mut();
        }
    }

    /// Finds the next bytes.
    fn refill(&mut self) -> Result<Next, AccessError> {
        self.settle();
        let Some(piece) = self.next_piece() else {
            return Ok(Next::End);
        };
        if self.moved >= LET_GO_AFTER {
            self.let_go();
        }
        self.at_hand = Train::NONE;
        self.origin = core::ptr::null_mut();
        self.piece = Some(piece);
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
        if !self.standing.allows(piece.leaf, memory) {
            return Err(AccessError::Revoked);
        }
        let len = (piece.length as usize).min(LET_GO_AFTER);
        let train = match &**memory {
            Memory::Paged(memory) => {
                let paged = memory.paged();
                match paged.resident(piece.offset, len, self.write, &mut self.resident) {
                    Ok(stretch) => Train::of(stretch),
                    Err(absent) => return Ok(Next::Missing(Missing::Pages(absent))),
                }
            }
            Memory::Buffer(memory) => {
                let (held, access) = (&mut self.mapped, &self.access);
                match memory.mapped(piece.offset, len, self.write, held, access) {
                    Ok(stretch) => Train::of(stretch),
                    Err(unmapped) => return Ok(Next::Missing(Missing::Buffer(unmapped))),
                }
            }
            memory => {
                let run = self.pieces.run.as_ref();
                train_of(memory, &piece, run, &mut self.hint).ok_or(AccessError::Revoked)?
            }
        };
        self.take_up(train);
        Ok(Next::Bytes(train.first()))
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
            Missing::Buffer(unmapped) => self.map(unmapped, go_on),
        }
    }

    /// Begins CPU access to a buffer.
    fn map(
        &mut self,
        unmapped: Unmapped,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), FaultError> {
        match unmapped.find(&mut self.access) {
            Err(e) if (e == EINTR || e == ERESTARTSYS) && !task::is_dying() => {
                // A signal that the process survives is no reason to fail the request; nor can it
                // be delivered here. So somebody else waits for the exporter, who gets no signals.
                let mut access = self.access.take();
                let find = move || unmapped.find(&mut access).map(|()| access);
                let mm = ARef::from(&**kernel::current!().mm().ok_or(e)?);
                self.access = wait_elsewhere(&mm, find, go_on)?;
                Ok(())
            }
            found => Ok(found?),
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
            self.pieces.start(window);
            self.inside_holder = None;
            self.standing = match &window.bound {
                None => Standing::Memory(window.generation),
                Some(bound) => Standing::Layout(bound),
            };
            self.holder = window.bound.is_some().then_some(&window.region);
        }
    }
}

#[inline]
fn enter(region: &Arc<Region>) -> Result<Inside<'_, Memory>, AccessError> {
    region.memory.enter().ok_or(AccessError::Revoked)
}

/// What of `piece` lies next to each other in `memory`; and behind it, if that is all of it, the
/// pieces of `run` that the same stretch of memory has. `None` if the memory has no such bytes, or
/// none that stay.
#[inline]
fn train_of(
    memory: &Memory,
    piece: &Piece<'_>,
    run: Option<&Run<'_, Arc<Region>>>,
    hint: &mut usize,
) -> Option<Train> {
    // How far into the piece the run begins and ends. The next piece may begin before what is left
    // of this one; then nothing is known of the memory that it begins in.
    let behind = run.and_then(|run| {
        let ahead = run.offset.0.checked_sub(piece.offset)?;
        let steps = run.stride.0.checked_mul(run.count.0.checked_sub(1)?)?;
        let end = ahead.checked_add(steps)?.checked_add(run.length.0)?;
        Some((run, ahead, end))
    });
    let worth = behind.map_or(piece.length, |(.., end)| end.max(piece.length));
    let found = memory.stretch(piece.offset, worth as usize, hint)?;
    let first = Stretch {
        len: found.len.min((piece.length as usize).min(LET_GO_AFTER)),
        ..found
    };
    let mut train = Train::of(first);
    let Some((run, ahead, end)) = behind else {
        return Some(train);
    };
    if first.len as u64 != piece.length || first.io {
        return Some(train);
    }
    let (stride, length) = (run.stride.0, run.length.0);
    // A mebibyte at a time, as with single pieces.
    let reach = found.len.min(LET_GO_AFTER) as u64;
    let mut more = if reach >= end {
        run.count.0
    } else {
        match reach.checked_sub(ahead.saturating_add(length)) {
            None => 0,
            Some(beyond) => beyond.checked_div(stride).unwrap_or(0).saturating_add(1),
        }
    };
    if stride < length {
        // Pieces that overlap are more bytes than they span.
        let most = (LET_GO_AFTER as u64).checked_div(length).unwrap_or(0);
        more = more.min(most);
    }
    let more = more.min(run.count.0) as usize;
    if more > 0 {
        train.couple(more, ahead as usize, length as usize, stride as usize);
    }
    Some(train)
}
