// SPDX-License-Identifier: GPL-2.0

//! Copying bytes of kernel memory, the way that this machine does best.
//!
//! The kernel's `memmove` is a string instruction on today's processors, which is best where the
//! hardware knows it; where an emulator goes through it byte by byte, a plain loop over words is
//! several times faster. As the kernel's RAID and XOR code does, the module tries both when it is
//! loaded.

use crate::bindings::{
    memcpy_fromio,
    memcpy_toio, //
};
use kernel::{
    prelude::*,
    sync::atomic::{
        AtomicFlag,
        Relaxed, //
    },
    time::{
        Instant,
        Monotonic, //
    }, //
};

/// Whether the loop over words won.
static BY_WORDS: AtomicFlag = AtomicFlag::new(false);

const WORD: usize = size_of::<u64>();
/// Words that are moved in one turn of the loop.
const WORDS: usize = 8;
/// Up to this many bytes neither the loop nor the string instruction is worth its start.
const SHORT: usize = WORD * WORDS;

/// Copies `len` bytes from `from` to `to`, which may overlap.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of `len` bytes. Others may write to either at the
/// same time, in which case any mixture of bytes may arrive.
#[inline(always)]
pub unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: By the requirements of this function.
    unsafe {
        if len == WORD {
            to.cast::<u64>()
                .write_unaligned(from.cast::<u64>().read_unaligned());
        } else {
            copy_any(to, from, len);
        }
    }
}

/// As [`copy`], of any length.
///
/// # Safety
///
/// As for [`copy`].
#[inline(never)]
unsafe fn copy_any(to: *mut u8, from: *const u8, len: usize) {
    let overlap = || (to as usize).abs_diff(from as usize) < len;
    if len <= SHORT {
        // SAFETY: By the requirements of this function.
        unsafe { copy_short(to, from, len) };
    } else if !BY_WORDS.load(Relaxed) || overlap() {
        // SAFETY: By the requirements of this function.
        unsafe { core::ptr::copy(from, to, len) };
    } else {
        // SAFETY: By the requirements of this function; the ranges do not overlap, and there are
        // at least as many bytes as the function needs.
        unsafe { copy_words(to, from, len) };
    }
}

/// As [`copy`], for at most [`SHORT`] bytes.
///
/// Reads all before it writes any, in the fewest pieces of one size: from the start on, and up to
/// the end, which may cover bytes in the middle twice.
///
/// # Safety
///
/// As for [`copy`]; `len` is at most [`SHORT`].
#[inline]
unsafe fn copy_short(to: *mut u8, from: *const u8, len: usize) {
    /// # Safety
    ///
    /// As for [`copy`]; `len` is between `size_of::<T>()` and twice that.
    #[inline(always)]
    unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, len: usize) {
        let last = len - size_of::<T>();
        // SAFETY: Both pieces are within `len` bytes.
        unsafe {
            let head = from.cast::<T>().read_unaligned();
            let tail = from.add(last).cast::<T>().read_unaligned();
            to.cast::<T>().write_unaligned(head);
            to.add(last).cast::<T>().write_unaligned(tail);
        }
    }
    // SAFETY: By the requirements of this function and the match.
    unsafe {
        match len {
            0 => {}
            1 => to.write(from.read()),
            2..4 => ends::<u16>(to, from, len),
            4..8 => ends::<u32>(to, from, len),
            8..=16 => ends::<u64>(to, from, len),
            17..=32 => ends::<[u64; 2]>(to, from, len),
            _ => ends::<[u64; 4]>(to, from, len),
        }
    }
}

/// As [`copy`].
///
/// # Safety
///
/// As for [`copy`]; the ranges do not overlap, and `len` is more than [`SHORT`].
unsafe fn copy_words(to: *mut u8, from: *const u8, len: usize) {
    let head = (to as usize).wrapping_neg() % WORD;
    let words = (len - head) / WORD;
    let body = head + words * WORD;
    // SAFETY: All offsets are below `len`. Stores are aligned after the head.
    unsafe {
        if head > 0 {
            core::ptr::copy_nonoverlapping(from, to, head);
        }
        copy_whole_words(to.add(head).cast(), from.add(head), words);
        if body < len {
            core::ptr::copy_nonoverlapping(from.add(body), to.add(body), len - body);
        }
    }
}

/// Copies `words` words.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of so many, and they do not overlap.
#[inline]
unsafe fn copy_whole_words(to: *mut u64, from: *const u8, words: usize) {
    let turns = words / WORDS;
    let mut source = from.cast::<[u64; WORDS]>();
    let mut target = to;
    // SAFETY: By the requirements of this function. Stores are aligned; loads need not be.
    unsafe {
        for _ in 0..turns {
            // One by one: of an iterator over the array the compiler makes a loop with the array and
            // its state in memory. Volatile, or it makes the very call that this replaces.
            let [a, b, c, d, e, f, g, h] = source.read_unaligned();
            target.write_volatile(a);
            target.add(1).write_volatile(b);
            target.add(2).write_volatile(c);
            target.add(3).write_volatile(d);
            target.add(4).write_volatile(e);
            target.add(5).write_volatile(f);
            target.add(6).write_volatile(g);
            target.add(7).write_volatile(h);
            source = source.add(1);
            target = target.add(WORDS);
        }
        let mut source = source.cast::<u64>();
        for _ in turns * WORDS..words {
            target.write_volatile(source.read_unaligned());
            source = source.add(1);
            target = target.add(1);
        }
    }
}

/// Copies `count` blocks of `block` bytes, of which each begins `from_stride` bytes behind the one
/// before it, to places that are `to_stride` bytes apart. What overlaps is copied block by block.
///
/// # Safety
///
/// As for [`copy`], for each of the blocks. All of one side are within an object, or what is
/// treated as one.
pub unsafe fn copy_blocks(
    to: *mut u8,
    to_stride: usize,
    from: *const u8,
    from_stride: usize,
    block: usize,
    count: usize,
) {
    let reach = |stride: usize| stride * (count - 1) + block;
    let (to_at, from_at) = (to as usize, from as usize);
    let apart = to_at.wrapping_add(reach(to_stride)) <= from_at
        || from_at.wrapping_add(reach(from_stride)) <= to_at;
    let aligned = (to_at | to_stride | block) % WORD == 0;
    let by_words = aligned && (block <= FEW_WORDS || BY_WORDS.load(Relaxed));
    // SAFETY: By the requirements of this function; the two sides do not overlap where that
    // matters, and words are stored where they are aligned.
    unsafe {
        match block {
            4 if apart => copy_each::<u32>(to, to_stride, from, from_stride, count),
            WORD if apart => copy_each::<u64>(to, to_stride, from, from_stride, count),
            _ => {
                let (mut to, mut from) = (to, from);
                for _ in 0..count {
                    if apart && by_words {
                        copy_whole_words(to.cast(), from, block / WORD);
                    } else {
                        copy(to, from, block);
                    }
                    to = to.wrapping_add(to_stride);
                    from = from.wrapping_add(from_stride);
                }
            }
        }
    }
}

/// Below this many bytes a loop over words is no slower than the kernel's function, whatever the
/// machine.
const FEW_WORDS: usize = 128;

/// As [`copy_blocks`], of blocks that are a `T`.
///
/// # Safety
///
/// As for [`copy_blocks`]; the two sides do not overlap.
unsafe fn copy_each<T: Copy>(
    mut to: *mut u8,
    to_stride: usize,
    mut from: *const u8,
    from_stride: usize,
    count: usize,
) {
    for _ in 0..count {
        // SAFETY: By the requirements of this function.
        unsafe {
            to.cast::<T>()
                .write_unaligned(from.cast::<T>().read_unaligned());
        }
        to = to.wrapping_add(to_stride);
        from = from.wrapping_add(from_stride);
    }
}

/// Copies `len` bytes from `from` to `to`, of which those that are said to be `io` are memory of a
/// device.
///
/// # Safety
///
/// As for [`copy`], but that device memory is a mapping of such.
pub unsafe fn copy_io(to: *mut u8, to_io: bool, from: *const u8, from_io: bool, len: usize) {
    /// Bytes that go over the stack where neither side is ordinary memory.
    const PIECE: usize = 256;
    // SAFETY: By the requirements of this function; `done + piece` is at most `len`.
    unsafe {
        match (to_io, from_io) {
            (false, false) => copy(to, from, len),
            (false, true) => memcpy_fromio(to.cast(), from.cast(), len),
            (true, false) => memcpy_toio(to.cast(), from.cast(), len),
            (true, true) => {
                let mut buffer = [0u8; PIECE];
                let mut done = 0;
                while done < len {
                    let piece = (len - done).min(PIECE);
                    memcpy_fromio(buffer.as_mut_ptr().cast(), from.add(done).cast(), piece);
                    memcpy_toio(to.add(done).cast(), buffer.as_ptr().cast(), piece);
                    done += piece;
                }
            }
        }
    }
}

/// Finds out which way is faster. Does nothing without memory to try it on.
pub fn calibrate() {
    const LEN: usize = 1 << 16;
    const ROUNDS: usize = 8;
    let buffer = || KVec::<u8>::from_elem(0x5a, LEN, GFP_KERNEL);
    let (Ok(from), Ok(mut to)) = (buffer(), buffer()) else {
        return;
    };
    let mut time = |by_words| {
        let mut best = i64::MAX;
        BY_WORDS.store(by_words, Relaxed);
        for _ in 0..ROUNDS {
            let start = Instant::<Monotonic>::now();
            // SAFETY: Both are vectors of `LEN` bytes.
            unsafe { copy(to.as_mut_ptr(), from.as_ptr(), LEN) };
            best = best.min(start.elapsed().as_nanos());
        }
        best
    };
    let words = time(true);
    let string = time(false);
    let rate = |nanos: i64| (LEN as i64 * 1000).checked_div(nanos).unwrap_or(0);
    BY_WORDS.store(words < string, Relaxed);
    pr_info!(
        "copying by {}: words {} MB/s, string instruction {} MB/s\n",
        if words < string {
            "words"
        } else {
            "string instruction"
        },
        rate(words),
        rate(string)
    );
}
