// SPDX-License-Identifier: GPL-2.0

//! The memory that a hostile process offers to the device: slots that may be
//! registered, and pages between them that nobody may ever write to.
//!
//! On each side of a slot is a page without rights, so that a region cannot go
//! beyond the slot: its pages cannot be pinned, and a fault on them fails.

use std::{io, ptr};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a slot.
pub const SLOT: usize = 16 * PAGE;
/// A slot, a page without rights, a canary page, and another one without rights.
const STEP: usize = SLOT + 3 * PAGE;
const SLOTS: usize = 6;
const SLOT_BYTES: u64 = SLOT as u64;

/// The arena of a process.
#[derive(Clone, Copy)]
pub struct Arena {
    start: *mut u8,
    writable: bool,
}

// SAFETY: the memory is the device's as much as ours; all access is volatile.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// Words of a page.
const WORDS: usize = PAGE / 8;

/// What a word of a canary is.
fn canary(slot: usize, at: usize) -> u64 {
    let number = (slot * WORDS + at + 1) as u64;
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Arena {
    /// An arena whose canaries can be written to by whoever finds the way, or
    /// only by somebody who does not go through the page tables of the process.
    pub fn new(writable: bool) -> io::Result<Self> {
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                SLOTS * STEP,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_ANONYMOUS | libc::MAP_PRIVATE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let arena = Self {
            start: start.cast(),
            writable,
        };
        for slot in 0..SLOTS {
            for at in 0..WORDS {
                // SAFETY: inside the mapping.
                unsafe {
                    arena
                        .canary_at(slot)
                        .add(at)
                        .write_volatile(canary(slot, at))
                };
            }
            for guard in [SLOT, SLOT + 2 * PAGE] {
                let page = arena.start.wrapping_add(slot * STEP + guard);
                // SAFETY: a page of the mapping, which nobody uses.
                if unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_NONE) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            let page = arena.canary_at(slot);
            // SAFETY: as above.
            if !writable && unsafe { libc::mprotect(page.cast(), PAGE, libc::PROT_READ) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(arena)
    }

    fn canary_at(&self, slot: usize) -> *mut u64 {
        self.start.wrapping_add(slot * STEP + SLOT + PAGE).cast()
    }

    /// The first byte of a slot.
    pub fn slot(&self, slot: usize) -> *mut u8 {
        self.start.wrapping_add(slot % SLOTS * STEP)
    }

    /// Bytes from an address in a slot up to its end; those of a slot for others.
    pub fn left(&self, address: u64) -> u64 {
        let from = address.wrapping_sub(self.start.expose_provenance() as u64);
        match from % STEP as u64 {
            offset @ ..SLOT_BYTES if from < (SLOTS * STEP) as u64 => SLOT_BYTES - offset,
            _ => SLOT_BYTES,
        }
    }

    /// An address in or about a slot, mostly one at which something may begin.
    pub fn address(&self, random: &mut fastrand::Rng) -> u64 {
        let slot = self.slot(random.usize(0..SLOTS)).expose_provenance() as u64;
        let offset = match random.u8(0..8) {
            0 => 0,
            1 => random.u64(0..SLOT as u64),
            2 => random.u64(0..16) * PAGE as u64,
            3 => SLOT as u64 - random.u64(0..64),
            4 if random.u8(0..4) == 0 => SLOT as u64 + self.beyond(random),
            _ => random.u64(0..SLOT as u64 / 8) * 8,
        };
        slot + offset
    }

    /// An offset behind a slot: what is without rights, and the canary, if the
    /// kernel has to refuse a region there. One that can be written to would be as
    /// good as any memory, and its owner would harm itself.
    fn beyond(&self, random: &mut fastrand::Rng) -> u64 {
        let page = match self.writable {
            true => 2 * random.usize(0..2),
            false => random.usize(0..3),
        };
        (page * PAGE + random.usize(0..PAGE)) as u64
    }

    /// How many words of canaries are not what they were.
    pub fn harm(&self) -> u64 {
        let mut harm = 0;
        for slot in 0..SLOTS {
            for at in 0..WORDS {
                // SAFETY: inside the mapping, and readable.
                let word = unsafe { self.canary_at(slot).add(at).read_volatile() };
                harm += u64::from(word != canary(slot, at));
            }
        }
        harm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_of_a_canary_is_harm() {
        let arena = Arena::new(true).expect("an arena");
        assert_eq!(arena.harm(), 0);
        let byte = arena
            .canary_at(SLOTS - 1)
            .cast::<u8>()
            .wrapping_add(PAGE - 1);
        // SAFETY: a byte of a page that can be written to.
        unsafe { *byte ^= 1 };
        assert_eq!(arena.harm(), 1);
    }

    #[test]
    fn a_canary_that_can_be_written_to_is_never_offered() {
        let mut random = fastrand::Rng::with_seed(1);
        for (writable, least) in [(true, 0), (false, 1)] {
            let arena = Arena::new(writable).expect("an arena");
            let start = arena.start.expose_provenance() as u64;
            let canary = (SLOT + PAGE) as u64..(SLOT + 2 * PAGE) as u64;
            let offered = (0..20_000)
                .filter(|_| {
                    let from = arena.address(&mut random) - start;
                    canary.contains(&(from % STEP as u64))
                })
                .count();
            assert_eq!(offered.min(1), least, "writable: {writable}");
        }
    }

    #[test]
    fn what_is_left_of_a_slot_ends_with_it() {
        let arena = Arena::new(true).expect("an arena");
        let slot = arena.slot(1).expose_provenance() as u64;
        assert_eq!(arena.left(slot), SLOT_BYTES);
        assert_eq!(arena.left(slot + SLOT_BYTES - 1), 1);
        assert_eq!(arena.left(0), SLOT_BYTES);
    }
}
