// SPDX-License-Identifier: GPL-2.0

//! New inputs from old ones.

use fastrand::Rng;

/// No input is longer.
pub const MAX_LENGTH: usize = 1024;

/// Bytes at which decoding takes another turn, or numbers overflow.
const TELLING: [u8; 10] = [0, 1, 2, 3, 7, 8, 0x3f, 0x7f, 0x80, 0xff];

/// A changed copy of `input`, which may get parts of `other`.
pub fn mutated(input: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut output = input.to_vec();
    // Mostly few changes, so that what made the input worth keeping mostly stays.
    for _ in 0..1 << rng.u32(..5) {
        change(&mut output, other, rng);
    }
    output.truncate(MAX_LENGTH);
    output
}

fn change(input: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    if input.is_empty() {
        input.push(rng.u8(..));
    }
    let at = rng.usize(..input.len());
    match rng.u32(..9) {
        0 => input[at] ^= 1 << rng.u32(..8),
        1 => input[at] = rng.u8(..),
        2 => input[at] = TELLING[rng.usize(..TELLING.len())],
        3 => input[at] = input[at].wrapping_add(if rng.bool() { 1 } else { 255 }),
        4 => input.insert(at, rng.u8(..)),
        5 => {
            input.drain(at..end(at, input.len(), rng));
        }
        6 => {
            let part = input[at..end(at, input.len(), rng)].to_vec();
            let to = rng.usize(..=input.len());
            input.splice(to..to, part);
        }
        7 if !other.is_empty() => {
            let from = rng.usize(..other.len());
            let part = other[from..end(from, other.len(), rng)].to_vec();
            input.splice(at..at, part);
        }
        8 if !other.is_empty() => {
            input.truncate(at);
            input.extend_from_slice(&other[rng.usize(..other.len())..]);
        }
        _ => input.truncate(at + 1),
    }
}

/// The end of a part that begins at `at`, which is seldom long.
fn end(at: usize, length: usize, rng: &mut Rng) -> usize {
    let most = 1 << rng.u32(..7);
    length.min(at + rng.usize(1..=most))
}
