// SPDX-License-Identifier: GPL-2.0

//! Memory for one call at a time: what the kernel reads, and where it answers.

use std::{io, ptr, slice};

use crate::arena::PAGE;

/// Bytes for what the kernel reads, and for what it writes.
const INPUT: usize = 8 * PAGE;
const OUTPUT: usize = 4 * PAGE;

/// The scratch memory of a thread. A page that can only be read, and one
/// without rights, come after it.
pub struct Scratch {
    start: *mut u8,
    input: usize,
    output: usize,
}

// SAFETY: a mapping is not tied to a thread.
unsafe impl Send for Scratch {}

/// A piece of scratch memory.
#[derive(Clone, Copy)]
pub struct Piece {
    pub offset: usize,
    pub len: usize,
}

impl Scratch {
    pub fn new() -> io::Result<Self> {
        let (rights, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_ANONYMOUS | libc::MAP_PRIVATE,
        );
        let len = INPUT + OUTPUT + 2 * PAGE;
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = start.cast::<u8>();
        // SAFETY: the last two pages of the mapping, which are used for nothing.
        unsafe {
            libc::mprotect(start.add(INPUT + OUTPUT).cast(), PAGE, libc::PROT_READ);
            libc::mprotect(start.add(len - PAGE).cast(), PAGE, libc::PROT_NONE);
        }
        Ok(Self {
            start,
            input: 0,
            output: INPUT,
        })
    }

    /// Forgets the last call.
    pub fn clear(&mut self) {
        (self.input, self.output) = (0, INPUT);
    }

    /// Puts bytes where the kernel can read them. Too many are cut off.
    pub fn put(&mut self, bytes: &[u8]) -> Piece {
        let offset = self.input;
        let len = bytes.len().min(INPUT - offset);
        // SAFETY: the range is inside the input part.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), len) };
        self.input = (offset + len).next_multiple_of(8).min(INPUT);
        Piece { offset, len }
    }

    /// Room for an answer, which is zeroed.
    pub fn room(&mut self, len: usize) -> Piece {
        let offset = self.output;
        let len = len.min(INPUT + OUTPUT - offset);
        // SAFETY: the range is inside the output part.
        unsafe { ptr::write_bytes(self.start.add(offset), 0, len) };
        self.output = (offset + len).next_multiple_of(8).min(INPUT + OUTPUT);
        Piece { offset, len }
    }

    pub fn address(&self, piece: Piece) -> u64 {
        self.start.wrapping_add(piece.offset).expose_provenance() as u64
    }

    /// The bytes of a piece as they are now.
    pub fn read(&self, piece: Piece) -> Vec<u8> {
        // SAFETY: pieces are inside the memory; no thread but ours uses it.
        unsafe { slice::from_raw_parts(self.start.add(piece.offset), piece.len) }.to_vec()
    }

    /// The first word of a piece.
    pub fn word(&self, piece: Piece, at: usize) -> u32 {
        let bytes = self.read(piece);
        bytes
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_ne_bytes)
    }

    /// An address at which the kernel cannot read or write, or not all of it.
    pub fn bad_address(&self, random: &mut fastrand::Rng) -> u64 {
        let end = self.start.expose_provenance() as u64 + (INPUT + OUTPUT) as u64;
        let page = PAGE as u64;
        *random
            .choice(&[
                0,
                1,
                end - 2,
                end + page - 2,
                end + page,
                0x7fff_ffff_efff,
                0x8000_0000_0000,
                0xffff_8880_0000_0000,
                0xffff_ffff_8100_0000,
                u64::MAX - 7,
                u64::MAX,
            ])
            .unwrap_or(&0)
    }
}
