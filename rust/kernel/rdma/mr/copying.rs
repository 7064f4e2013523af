// SPDX-License-Identifier: GPL-2.0

//! Copying from one stream to another.

use super::{
    super::{
        copy::{
            copy as move_bytes,
            copy_blocks as move_blocks,
            copy_io, //
        },
        odp::absent::FaultError,
    },
    bytes::Bytes,
    stream::{
        Next,
        Stream,
        LET_GO_AFTER, //
    },
    window::AccessError,
};
use kernel::sync::atomic::Atomic;

impl Stream<'_> {
    /// Calls `f` with the 64-bit word that the stream begins with, to be written; `Ok(None)` if
    /// that is not aligned or does not lie in one piece. Waits as [`copy`] does.
    pub fn with_word<R>(
        &mut self,
        mut go_on: impl FnMut() -> bool,
        f: impl FnOnce(&Atomic<u64>) -> R,
    ) -> Result<Option<R>, CopyError> {
        self.will_be_written();
        let stretch = loop {
            match self.current().map_err(CopyError::To)? {
                Next::Bytes(stretch) => break stretch,
                Next::End => return Err(CopyError::To(AccessError::OutOfBounds)),
                Next::Missing(missing) => {
                    self.let_go();
                    let found = self.find(missing, &mut go_on);
                    found.map_err(|e| not_found(e, CopyError::To))?;
                }
            }
        };
        if stretch.io {
            // Memory of a device need not know the processor's atomic operations.
            return Err(CopyError::To(AccessError::NotAllowed));
        }
        let word = stretch.addr.cast::<u64>();
        let fits = stretch.len >= size_of::<u64>() && word.is_aligned();
        // SAFETY: Eight aligned bytes of a region that the stream keeps from being released. The
        // kernel has no other kind of access to them but copies, which may tear, as those of
        // processes do.
        let result = fits.then(|| f(unsafe { Atomic::from_ptr(word) }));
        self.let_go();
        Ok(result)
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

/// Copies the first `length` bytes of `from` to the first of `to`, both of which have that many.
/// `go_on` is as in [`copy`], and this waits as that does.
#[inline]
pub fn transfer(
    to: Bytes<'_>,
    from: Bytes<'_>,
    length: u64,
    mut go_on: impl FnMut() -> bool,
) -> Result<(), CopyError> {
    if transfer_straight(to, from, length) {
        return Ok(());
    }
    transfer_piecewise(to, from, length, &mut go_on)
}

/// Copies all of both sides if that is a matter of one move. Returns whether it was.
#[inline]
fn transfer_straight(to: Bytes<'_>, from: Bytes<'_>, length: u64) -> bool {
    let len = length as usize;
    if len == 0 {
        return true;
    }
    if len > LET_GO_AFTER {
        return false;
    }
    let Some(source) = from.straight(len, false) else {
        return false;
    };
    let Some(target) = to.straight(len, true) else {
        return false;
    };
    // SAFETY: There are `len` bytes at both addresses, in memory that stays where it is meanwhile or
    // that its owner vouches for. They may overlap, and processes may write to them meanwhile; the
    // bytes are not looked at.
    unsafe { move_bytes(target.addr, source.addr, len) };
    true
}

/// As [`transfer`], with streams: they are large, and the short way does without their memory.
#[inline(never)]
fn transfer_piecewise(
    to: Bytes<'_>,
    from: Bytes<'_>,
    length: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<(), CopyError> {
    copy(&mut Stream::new(to), &mut Stream::new(from), length, go_on)?;
    Ok(())
}

/// Copies `length` bytes, or fewer if a stream ends before. `go_on` is asked after every stretch of
/// up to a mebibyte whether to go on, and may sleep for a moment.
///
/// Waits for memory that is not there, without holding anything of either stream, and lets go of
/// both in the end.
pub fn copy(
    to: &mut Stream<'_>,
    from: &mut Stream<'_>,
    length: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<u64, CopyError> {
    to.will_be_written();
    let copied = copy_until(to, from, length, go_on);
    from.let_go();
    to.let_go();
    copied
}

/// Copies up to `most` bytes that both streams have at hand, or find in memory that they hold, and
/// says how many.
fn copy_at_hand(to: &mut Stream<'_>, from: &mut Stream<'_>, most: usize) -> usize {
    let mut copied = 0;
    while copied < most && from.replenish() && to.replenish() {
        let (source, target) = (from.at_hand().first(), to.at_hand().first());
        let left = most - copied;
        let block = source.len.min(target.len).min(left);
        let (in_source, in_target) = (from.at_hand().blocks(block), to.at_hand().blocks(block));
        let count = in_source.count.min(in_target.count);
        // SAFETY: Both streams have the blocks at hand, in memory of regions that they keep from
        // being released, or in kernel memory that its owner vouches for. They may overlap, and
        // processes may write to them meanwhile; the bytes are not looked at.
        unsafe {
            if source.io || target.io {
                copy_io(target.addr, target.io, source.addr, source.io, block);
            } else if count > 1 && 2 * block <= left {
                let count = match count.checked_mul(block) {
                    Some(bytes) if bytes <= left => count,
                    _ => left.checked_div(block).unwrap_or(1),
                };
                let (to_stride, from_stride) = (in_target.stride, in_source.stride);
                move_blocks(
                    target.addr,
                    to_stride,
                    source.addr,
                    from_stride,
                    block,
                    count,
                );
                from.advance_blocks(block, count);
                to.advance_blocks(block, count);
                copied += count * block;
                continue;
            } else {
                move_bytes(target.addr, source.addr, block);
            }
        }
        from.advance(block);
        to.advance(block);
        copied += block;
    }
    copied
}

fn copy_until(
    to: &mut Stream<'_>,
    from: &mut Stream<'_>,
    length: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<u64, CopyError> {
    let mut left = length;
    let mut since_asked = 0;
    while left > 0 {
        match from.current().map_err(CopyError::From)? {
            Next::Bytes(_) => {}
            Next::End => break,
            Next::Missing(missing) => {
                from.let_go();
                to.let_go();
                let found = from.find(missing, go_on);
                found.map_err(|e| not_found(e, CopyError::From))?;
                continue;
            }
        }
        match to.current().map_err(CopyError::To)? {
            Next::Bytes(_) => {}
            Next::End => break,
            Next::Missing(missing) => {
                from.let_go();
                to.let_go();
                let found = to.find(missing, go_on);
                found.map_err(|e| not_found(e, CopyError::To))?;
                continue;
            }
        }
        let most = (left as usize).min(LET_GO_AFTER);
        let len = copy_at_hand(to, from, most);
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

fn not_found(e: FaultError, side: fn(AccessError) -> CopyError) -> CopyError {
    match e {
        FaultError::Stopped => CopyError::Stopped,
        FaultError::NotMapped => side(AccessError::NotMapped),
    }
}
