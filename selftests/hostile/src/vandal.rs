// SPDX-License-Identifier: GPL-2.0

//! Writes to rings: requests that are nearly right, and anything anywhere while
//! the kernel reads them.

use std::sync::atomic::Ordering::Relaxed;

use mrx::sys::*;
use mrx_selftest_verbs::harness::rings::{
    dma, recv, ring_doorbell_of, send, CONSUMER, ELEMENT_SIZE, INDEX_MASK, PRODUCER,
};

use crate::{
    caller::{Caller, QKEY},
    device::{Mapped, Purpose},
    schema::commands::COMMANDS,
    world::{OPCODES, VALID},
};

/// What the upper half of the number of our requests says.
const OURS: u64 = 0x6d72_7821;
/// The number of receives, where those of requests are their opcodes.
const RECEIVE: u32 = u32::MAX;

impl Caller<'_> {
    fn done(&self, operation: usize) {
        self.world
            .ledger
            .count(self.world.operation_lines[operation], 0);
        self.world.ledger.totals().mutations.fetch_add(1, Relaxed);
    }

    /// One of the rings of a purpose, while nobody else uses any.
    fn with_ring<T>(
        &mut self,
        purpose: Option<Purpose>,
        owner: Option<u32>,
        body: impl FnOnce(&mut Self, Mapped) -> T,
    ) -> Option<T> {
        let file = self.file;
        let rings = file.rings.try_lock().ok()?;
        let suitable = rings
            .iter()
            .filter(|mapped| purpose.is_none_or(|purpose| purpose == mapped.purpose))
            .filter(|mapped| owner.is_none_or(|owner| owner == mapped.owner));
        let mapped = self.random.choice(suitable.collect::<Vec<_>>()).copied()?;
        Some(body(self, mapped))
    }

    /// Connects two queue pairs and lets them exchange something at once, before
    /// anybody breaks them.
    pub fn converse(&mut self) {
        let Some((near, far)) = self.connect() else {
            return;
        };
        // What was left in the rings would come first, and most of it is bad.
        for (purpose, owner) in [(Purpose::Send, near), (Purpose::Receive, far)] {
            self.with_ring(Some(purpose), Some(owner), |_, mapped| {
                mapped.ring.set_word(PRODUCER, mapped.ring.word(CONSUMER));
            });
        }
        self.receive_at(Some(far));
        for _ in 0..self.random.u8(2..8) {
            self.with_ring(Some(Purpose::Send), Some(near), |caller, mapped| {
                let which = caller.random.usize(0..VALID);
                caller.post_one(mapped, which);
                // Nobody writes to the rings meanwhile.
                caller.doorbell(mapped.owner);
            });
        }
        self.drain();
    }

    /// Posts a few requests by hand, and rings the doorbell.
    pub fn post_by_hand(&mut self) {
        self.post_at(None);
    }

    fn post_at(&mut self, owner: Option<u32>) {
        let owner = self.with_ring(Some(Purpose::Send), owner, |caller, mapped| {
            for _ in 0..caller.random.u8(1..4) {
                let which = caller.random.usize(0..OPCODES.len());
                caller.post_one(mapped, which);
            }
            mapped.owner
        });
        if let Some(owner) = owner {
            self.doorbell(owner);
        }
    }

    pub fn doorbell(&mut self, owner: u32) {
        let outcome = ring_doorbell_of(self.descriptor(), owner);
        let which = COMMANDS
            .iter()
            .position(|command| command.name == "IB_USER_VERBS_CMD_POST_SEND");
        if let Some(which) = which {
            let line = self.world.command_lines[which];
            self.world.ledger.count_call(line, &outcome);
        }
    }

    fn quad(&self, mapped: Mapped, at: usize, value: u64) {
        mapped.ring.set_word(at, value as u32);
        mapped.ring.set_word(at + 4, (value >> 32) as u32);
    }

    fn pieces(&mut self, mapped: Mapped, dma_at: usize, whole: Option<u32>) {
        let count = match whole {
            Some(_) => 1,
            None => self.random.u32(0..4),
        };
        let mut total = 0;
        for piece in 0..count as usize {
            let at = dma_at + 16 * piece;
            let (address, length, key) = self.range(512);
            let length = whole.unwrap_or(length);
            self.quad(mapped, at + dma::ADDR, address);
            mapped.ring.set_word(at + dma::SGE_LENGTH, length);
            mapped.ring.set_word(at + dma::LKEY, key);
            total = length.wrapping_add(total);
        }
        mapped.ring.set_word(dma_at + dma::LENGTH, total);
        mapped.ring.set_word(dma_at + dma::RESIDUE, total);
        mapped.ring.set_word(dma_at + dma::COUNT, count);
        mapped.ring.set_word(dma_at + dma::CURRENT, 0);
    }

    fn post_one(&mut self, mapped: Mapped, which: usize) {
        let (opcode, _) = OPCODES[which];
        let producer = mapped.ring.word(PRODUCER);
        let element = mapped.ring.element(mapped.shape, producer);
        self.quad(mapped, element, (OURS << 32) | u64::from(opcode));
        mapped.ring.set_word(element + send::OPCODE, opcode);
        // Signalled, mostly; with a fence, solicited, or inline now and then.
        let mut flags = IBV_SEND_SIGNALED;
        if self.random.u8(0..3) == 0 {
            flags |= self.random.u32(0..32);
        }
        mapped.ring.set_word(element + send::FLAGS, flags);
        let key = self.key();
        mapped.ring.set_word(element + send::FLAGS + 4, key);
        let whole = matches!(opcode, 5 | 6 | 15).then_some(8);
        self.pieces(mapped, element + send::DMA, whole);
        self.target(mapped, element + send::TARGET, opcode);
        mapped
            .ring
            .set_word(PRODUCER, producer.wrapping_add(1) & mapped.shape.mask);
        self.done(21);
    }

    /// What the request is about on the other side, or what it binds.
    fn target(&mut self, mapped: Mapped, at: usize, opcode: u32) {
        let (remote, _, key) = self.range(64);
        let remote = if matches!(opcode, 5 | 6 | 15) {
            remote & !7
        } else {
            remote
        };
        let window = self.file.windows.pick(&mut self.random).unwrap_or(key);
        match opcode {
            5 | 6 => {
                self.quad(mapped, at, remote);
                self.quad(
                    mapped,
                    at + 8,
                    self.world.ledger.totals().calls.load(Relaxed),
                );
                self.quad(mapped, at + 16, 7);
                mapped.ring.set_word(at + 24, key);
            }
            8 => {
                self.quad(mapped, at, remote);
                let length = self.random.u64(0..128);
                self.quad(mapped, at + 8, length);
                mapped.ring.set_word(at + 16, key);
                mapped.ring.set_word(at + 20, window);
                mapped
                    .ring
                    .set_word(at + 24, window ^ self.random.u32(0..4));
                mapped.ring.set_word(at + 28, self.access() & 0xf);
            }
            14 => {
                self.quad(mapped, at, remote);
                mapped.ring.set_word(at + 8, 64);
                mapped.ring.set_word(at + 12, key);
                mapped.ring.set_word(
                    at + 16,
                    self.random.u32(0..4) | (self.random.u32(0..2) << 8),
                );
            }
            2 | 3 if self.random.bool() => self.destination(mapped, at),
            _ => {
                self.quad(mapped, at, remote);
                mapped.ring.set_word(at + 8, key);
            }
        }
    }

    /// Where a datagram goes.
    fn destination(&mut self, mapped: Mapped, at: usize) {
        let number = self.qp_number();
        let gid = self.gid();
        let number = if gid[0] == 0xff { 0xff_ffff } else { number };
        let ah = self.file.ah_numbers.pick(&mut self.random);
        let ah = ah.filter(|_| self.random.bool()).unwrap_or(0);
        mapped.ring.set_word(at, number);
        mapped.ring.set_word(at + 4, QKEY);
        mapped.ring.set_word(at + 12, ah);
        // Behind the padding: port, network and hardware address, then the GID.
        let path = at + 32 + 8;
        for (word, bytes) in gid.chunks_exact(4).enumerate() {
            let value = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            mapped.ring.set_word(path + 4 * word, value);
        }
        mapped.ring.set_word(path + 16, 0);
        let index = u32::from(self.world.index_of(&gid));
        mapped.ring.set_word(path + 20, index | (64 << 8));
    }

    /// Posts a few receives by hand.
    pub fn receive_by_hand(&mut self) {
        self.receive_at(None);
    }

    fn receive_at(&mut self, owner: Option<u32>) {
        self.with_ring(Some(Purpose::Receive), owner, |caller, mapped| {
            for _ in 0..caller.random.u8(1..6) {
                let producer = mapped.ring.word(PRODUCER);
                let element = mapped.ring.element(mapped.shape, producer);
                caller.quad(mapped, element, (OURS << 32) | u64::from(RECEIVE));
                caller.pieces(mapped, element + recv::DMA, None);
                let next = producer.wrapping_add(1) & mapped.shape.mask;
                mapped.ring.set_word(PRODUCER, next);
                caller.done(22);
            }
        });
    }

    /// Takes completions of a few queues.
    pub fn drain(&mut self) {
        for _ in 0..4 {
            self.drain_one();
        }
    }

    fn drain_one(&mut self) {
        self.with_ring(Some(Purpose::Completion), None, |caller, mapped| {
            // `struct ib_uverbs_wc`: a number, a status, an opcode.
            for _ in 0..64 {
                let consumer = mapped.ring.word(CONSUMER) & mapped.shape.mask;
                if consumer == mapped.ring.word(PRODUCER) & mapped.shape.mask {
                    break;
                }
                let entry = mapped.ring.element(mapped.shape, consumer);
                let (number, ours) = (mapped.ring.word(entry), mapped.ring.word(entry + 4));
                let status = mapped.ring.word(entry + 8) as i32;
                if u64::from(ours) == OURS {
                    let which = OPCODES.iter().position(|(opcode, _)| *opcode == number);
                    let line = which.map(|which| caller.world.opcode_lines[which]);
                    let line = line.unwrap_or(caller.world.receive_line);
                    caller.world.ledger.count(line, status);
                }
                mapped
                    .ring
                    .set_word(CONSUMER, (consumer + 1) & mapped.shape.mask);
                caller.done(23);
            }
        });
    }

    /// Changes a word of a ring.
    pub fn disturb(&mut self) {
        self.with_ring(None, None, |caller, mapped| {
            let element = mapped.ring.element(mapped.shape, caller.index(mapped));
            let value = caller.disturbing();
            if caller.random.u8(0..24) == 0 {
                return caller.disturb_any(mapped, value);
            }
            match mapped.purpose {
                Purpose::Send => caller.disturb_send(mapped, element, value),
                Purpose::Receive => caller.disturb_receive(mapped, element, value),
                Purpose::Completion => caller.disturb_completion(mapped, element, value),
            }
        });
    }

    /// An index of an element: mostly one that the kernel is about to read.
    fn index(&mut self, mapped: Mapped) -> u32 {
        let at = match self.random.u8(0..3) {
            0 => self.random.u32(..),
            1 => mapped.ring.word(CONSUMER),
            _ => mapped.ring.word(PRODUCER).wrapping_sub(1),
        };
        at.wrapping_add(self.random.u32(0..3))
    }

    fn disturbing(&mut self) -> u32 {
        match self.random.u8(0..6) {
            0 => self.edge() as u32,
            1 => self.random.u32(0..40),
            2 => self.key(),
            3 => self.qp_number(),
            4 => self.world.arena.address(&mut self.random) as u32,
            _ => 8 * self.random.u32(0..64),
        }
    }

    fn disturb_any(&mut self, mapped: Mapped, value: u32) {
        match self.random.u8(0..3) {
            0 => {
                mapped.ring.set_word(INDEX_MASK, value);
                self.done(18);
            }
            1 => {
                mapped.ring.set_word(ELEMENT_SIZE, value);
                self.done(19);
            }
            _ => {
                let at = self.random.usize(0..mapped.ring.len());
                mapped.ring.set_byte(at, value as u8);
                self.done(20);
            }
        }
    }

    fn disturb_index(&mut self, mapped: Mapped, at: usize, value: u32) {
        let value = if self.random.u8(0..4) == 0 {
            value
        } else {
            mapped
                .ring
                .word(at)
                .wrapping_add(self.random.u32(0..4))
                .wrapping_sub(1)
        };
        mapped.ring.set_word(at, value);
    }

    fn disturb_send(&mut self, mapped: Mapped, element: usize, value: u32) {
        let dma_at = element + send::DMA;
        let operation = self.random.usize(0..11);
        match operation {
            0 => self.disturb_index(mapped, PRODUCER, value),
            1 => self.disturb_index(mapped, CONSUMER, value),
            2 => mapped
                .ring
                .set_word(element + send::OPCODE, self.random.u32(0..17)),
            3 => mapped
                .ring
                .set_word(element + send::FLAGS, self.random.u32(0..64)),
            4 => mapped.ring.set_word(element + send::FLAGS + 4, value),
            5 => mapped
                .ring
                .set_word(element + send::TARGET + 4 * self.random.usize(0..20), value),
            6 => mapped.ring.set_word(dma_at + dma::LENGTH, value),
            7 => mapped.ring.set_word(dma_at + dma::COUNT, value),
            8 => mapped
                .ring
                .set_word(dma_at + dma::ADDR + 4 * self.random.usize(0..16), value),
            9 => {
                let flags = mapped.ring.word(element + send::FLAGS) ^ IBV_SEND_INLINE;
                mapped.ring.set_word(element + send::FLAGS, flags);
            }
            _ => {
                let at = if self.random.bool() {
                    send::STATUS
                } else {
                    send::STATE
                };
                mapped.ring.set_word(element + at, value);
            }
        }
        self.done(operation);
    }

    fn disturb_receive(&mut self, mapped: Mapped, element: usize, value: u32) {
        let dma_at = element + recv::DMA;
        let operation = self.random.usize(11..15);
        match operation {
            11 => self.disturb_index(mapped, PRODUCER, value),
            12 => self.disturb_index(mapped, CONSUMER, value),
            13 => mapped.ring.set_word(dma_at + dma::COUNT, value),
            _ => mapped
                .ring
                .set_word(dma_at + dma::ADDR + 4 * self.random.usize(0..16), value),
        }
        self.done(operation);
    }

    fn disturb_completion(&mut self, mapped: Mapped, element: usize, value: u32) {
        let operation = self.random.usize(15..18);
        match operation {
            15 => self.disturb_index(mapped, PRODUCER, value),
            16 => self.disturb_index(mapped, CONSUMER, value),
            _ => mapped
                .ring
                .set_word(element + 4 * self.random.usize(0..16), value),
        }
        self.done(operation);
    }
}
