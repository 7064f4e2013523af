// SPDX-License-Identifier: GPL-2.0

//! Changes rings anywhere while the kernel reads them.

use mrx::sys::IBV_SEND_INLINE;
use mrx_selftest_verbs::harness::rings::{
    dma, recv, send, CONSUMER, ELEMENT_SIZE, INDEX_MASK, PRODUCER,
};

use crate::{
    caller::Caller,
    device::{Mapped, Purpose},
};

impl Caller<'_> {
    /// Changes a word of a ring.
    pub fn disturb(&mut self) {
        // Any value, of any kind of thing.
        self.misbehave();
        self.with_ring(
            |_| true,
            |caller, mapped| {
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
            },
        );
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
