// SPDX-License-Identifier: GPL-2.0

//! The rings of a file, as its threads use them: one at a time, since nobody may
//! unmap them meanwhile.

use std::sync::atomic::Ordering::Relaxed;

use mrx_selftest_verbs::harness::rings::{ring_doorbell_of, CONSUMER, PRODUCER};

use crate::{
    caller::{Binding, Caller},
    device::{Mapped, Purpose},
    schema::commands::COMMANDS,
    world::{OPCODES, POSTED_RECEIVE, POSTED_REQUEST, TAKEN},
};

/// What the upper half of the number of our requests says; the lower half is the
/// opcode.
pub const OURS: u32 = 0x6d72_7821;
/// What is there for receives.
pub const RECEIVE: u32 = u32::MAX;
/// Completions that are taken at a time.
const TAKE: usize = 64;
/// Words of a completion (`struct ib_uverbs_wc`), which begins with the number.
const STATUS: usize = 8;

impl Caller<'_> {
    /// Counts a change of a ring.
    pub fn done(&self, operation: usize) {
        let line = self.world.operation_lines[operation];
        self.world.ledger.count(line, 0);
        self.world.ledger.totals().mutations.fetch_add(1, Relaxed);
    }

    /// All rings, while nobody else uses any.
    pub fn with_rings<T>(&mut self, body: impl FnOnce(&mut Self, &[Mapped]) -> T) -> Option<T> {
        let file = self.file;
        let rings = file.rings.try_lock().ok()?;
        Some(body(self, &rings))
    }

    /// One of the suitable rings, while nobody else uses any.
    pub fn with_ring<T>(
        &mut self,
        is_suitable: impl Fn(&Mapped) -> bool,
        body: impl FnOnce(&mut Self, Mapped) -> T,
    ) -> Option<T> {
        self.with_rings(|caller, rings| {
            let suitable: Vec<_> = rings.iter().filter(|mapped| is_suitable(mapped)).collect();
            let mapped = *caller.random.choice(suitable)?;
            Some(body(caller, mapped))
        })?
    }

    pub fn doorbell(&mut self, owner: u32) {
        let outcome = ring_doorbell_of(self.descriptor(), owner);
        let which = COMMANDS
            .iter()
            .position(|command| command.name == "IB_USER_VERBS_CMD_POST_SEND");
        if let Some(which) = which {
            let line = self.world.command_lines[which];
            self.count(line, &outcome);
        }
    }

    /// Makes what was just written to an element the next thing in a ring.
    pub fn produce(&self, mapped: Mapped) {
        let next = mapped.ring.word(PRODUCER).wrapping_add(1);
        mapped.ring.set_word(PRODUCER, next & mapped.shape.mask);
        self.done(match mapped.purpose {
            Purpose::Receive => POSTED_RECEIVE,
            _ => POSTED_REQUEST,
        });
    }

    /// Takes completions of a queue.
    pub fn drain(&mut self) {
        let is_of_completions = |mapped: &Mapped| mapped.purpose == Purpose::Completion;
        self.with_ring(is_of_completions, |caller, mapped| {
            caller.take_completions(mapped);
        });
    }

    /// Takes completions, and counts ours. Whether one of them is a failure.
    pub fn take_completions(&mut self, mapped: Mapped) -> bool {
        let (ring, mask) = (mapped.ring, mapped.shape.mask);
        let mut has_failed = false;
        for _ in 0..TAKE {
            let consumer = ring.word(CONSUMER) & mask;
            if consumer == ring.word(PRODUCER) & mask {
                break;
            }
            let entry = ring.element(mapped.shape, consumer);
            let (number, ours) = (ring.word(entry), ring.word(entry + 4));
            let status = ring.word(entry + STATUS) as i32;
            if ours == OURS {
                // Nobody comes across it again, whatever becomes of the indices.
                ring.set_word(entry + 4, 0);
                self.completed(number, status);
                has_failed |= status != 0;
            }
            ring.set_word(CONSUMER, (consumer + 1) & mask);
            let taken = self.world.operation_lines[TAKEN];
            self.world.ledger.count(taken, 0);
        }
        has_failed
    }

    fn completed(&mut self, number: u32, status: i32) {
        let which = OPCODES.iter().position(|(opcode, _)| *opcode == number);
        let line = which.map(|which| self.world.opcode_lines[which]);
        let line = line.unwrap_or(self.world.receive_line);
        self.world.ledger.count(line, status);
        match self.binding.filter(|_| status == 0) {
            Some(Binding::Window { handle, key }) if number == 8 => {
                self.file.windows.change(handle, |window| window.key = key);
            }
            Some(Binding::Layout { handle }) if number == 11 => {
                self.file
                    .regions
                    .change(handle, |region| region.waits = false);
            }
            _ => {}
        }
    }
}
