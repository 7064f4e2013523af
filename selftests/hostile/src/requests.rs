// SPDX-License-Identifier: GPL-2.0

//! Requests that are written to rings: most of them right in every detail.

use std::ops::RangeInclusive;

use mrx::sys::*;
use mrx_selftest_verbs::harness::rings::{dma, recv, send, CONSUMER, PRODUCER};

use crate::{
    caller::{Binding, Caller, QKEY},
    device::{Mapped, Purpose},
    known::{Qp, Region, Window},
    rings::{OURS, RECEIVE},
    schema::{QpKind, FLUSH_GLOBAL, RIGHTS},
    world::{OPCODES, VALID},
};

/// Bytes of the ranges of a request, of which there are at most three.
const SHORT: u32 = 64;
const LONG: u32 = 4096;
/// `IB_FLUSH_GLOBAL`, and where the level is.
const FLUSH_TYPE: u32 = 1;
const FLUSH_LEVEL: u32 = 8;

impl Caller<'_> {
    /// Connects two queue pairs and lets them exchange something at once, before
    /// anybody breaks them.
    pub fn converse(&mut self) {
        let Some((near, far)) = self.connect() else {
            return;
        };
        // Nobody writes to the rings meanwhile.
        self.with_rings(|caller, rings| {
            let of = |purpose: Purpose, qp: Qp| {
                let mut rings = rings.iter();
                let is = |mapped: &&Mapped| mapped.purpose == purpose && mapped.owner == qp.handle;
                rings.find(is).copied()
            };
            let Some(sends) = of(Purpose::Send, near) else {
                return;
            };
            let receives = of(Purpose::Receive, far);
            // As they are after a reset, whoever wrote there since.
            sends.ring.set_word(PRODUCER, 0);
            if let Some(receives) = receives {
                receives.ring.set_word(PRODUCER, 0);
            }
            let completions = rings.iter();
            let completions = completions.filter(|m| m.purpose == Purpose::Completion);
            for mapped in completions.clone() {
                // What was there, or is only said to be.
                mapped.ring.set_word(CONSUMER, mapped.ring.word(PRODUCER));
            }
            for _ in 0..caller.random.u8(4..20) {
                if let Some(receives) = receives {
                    caller.post_receive(receives);
                }
                caller.make_up_mind();
                caller.post_one(sends, Some(near.kind), Some(far));
                caller.doorbell(near.handle);
                let mut has_failed = false;
                for &mapped in completions.clone() {
                    has_failed |= caller.take_completions(mapped);
                }
                if has_failed {
                    break;
                }
            }
        });
    }

    /// Posts a few requests by hand, and rings the doorbell.
    pub fn post_by_hand(&mut self) {
        let sends = |mapped: &Mapped| mapped.purpose == Purpose::Send;
        let owner = self.with_ring(sends, |caller, mapped| {
            let is = |qp: &Qp| qp.handle == mapped.owner;
            let qp = caller.file.qps.pick(&mut caller.random, is);
            for _ in 0..caller.random.u8(1..4) {
                caller.make_up_mind();
                caller.post_one(mapped, qp.map(|qp| qp.kind), None);
            }
            mapped.owner
        });
        if let Some(owner) = owner {
            self.doorbell(owner);
        }
    }

    /// Posts a few receives by hand.
    pub fn receive_by_hand(&mut self) {
        let receives = |mapped: &Mapped| mapped.purpose == Purpose::Receive;
        self.with_ring(receives, |caller, mapped| {
            for _ in 0..caller.random.u8(1..6) {
                caller.post_receive(mapped);
            }
        });
    }

    fn post_receive(&mut self, mapped: Mapped) {
        self.make_up_mind();
        let element = mapped
            .ring
            .element(mapped.shape, mapped.ring.word(PRODUCER));
        mapped.ring.set_word(element, RECEIVE);
        mapped.ring.set_word(element + 4, OURS);
        self.pieces(mapped, element + recv::DMA, 0..=3, LONG);
        self.produce(mapped);
    }

    /// A request that a queue pair of this kind may have, mostly.
    fn opcode(&mut self, kind: Option<QpKind>) -> u32 {
        if self.errs(12) {
            return OPCODES[self.random.usize(0..OPCODES.len())].0;
        }
        match kind {
            None | Some(QpKind::Reliable) => OPCODES[self.random.usize(0..VALID)].0,
            Some(QpKind::Unreliable) => self.of(&[0, 1, 2, 3, 7, 8, 11]),
            Some(QpKind::Datagrams) => self.of(&[2, 3]),
        }
    }

    fn post_one(&mut self, mapped: Mapped, kind: Option<QpKind>, far: Option<Qp>) {
        let opcode = self.opcode(kind);
        let element = mapped
            .ring
            .element(mapped.shape, mapped.ring.word(PRODUCER));
        let ring = mapped.ring;
        ring.set_word(element, opcode);
        ring.set_word(element + 4, OURS);
        ring.set_word(element + send::OPCODE, opcode);
        let mut flags = IBV_SEND_SIGNALED;
        if self.random.u8(0..6) == 0 {
            flags |= self.of(&[IBV_SEND_FENCE, IBV_SEND_SOLICITED, IBV_SEND_INLINE]);
        }
        if self.errs(8) {
            flags = self.random.u32(0..64);
        }
        ring.set_word(element + send::FLAGS, flags);
        // What comes along, or is taken back.
        let word = match opcode {
            7 | 9 => self.window_key(true),
            _ => self.key(),
        };
        ring.set_word(element + send::FLAGS + 4, word);
        let (count, most) = match opcode {
            5 | 6 | 15 => (1..=1, 8),
            _ => (0..=3, SHORT),
        };
        let length = self.pieces(mapped, element + send::DMA, count, most);
        let target = element + send::TARGET;
        match (opcode, kind) {
            (2 | 3, Some(QpKind::Datagrams)) => self.destination(mapped, target, far),
            (5 | 6, _) => self.atomic(mapped, target),
            (8, _) => self.bind_window(mapped, target),
            (11, _) => self.bind_layout(mapped, element + send::DMA + dma::LKEY),
            (14, _) => self.flush(mapped, target, length),
            _ => {
                let (address, key) = self.remote(length, RIGHTS);
                quad(mapped, target, address);
                ring.set_word(target + 8, key);
            }
        }
        self.produce(mapped);
    }

    /// Ranges of regions, as many and as long. The answer are their bytes.
    fn pieces(
        &mut self,
        mapped: Mapped,
        dma_at: usize,
        count: RangeInclusive<u32>,
        most: u32,
    ) -> u32 {
        let count = match self.random.u8(0..4) {
            0 => self.random.u32(count),
            _ => 1,
        };
        let mut total = 0_u32;
        for piece in 0..count as usize {
            let at = dma_at + 16 * piece;
            let (address, length, key) = self.range(most, RIGHTS);
            let length = match most {
                8 | LONG if !self.errs(12) => most,
                _ => length,
            };
            quad(mapped, at + dma::ADDR, address);
            mapped.ring.set_word(at + dma::SGE_LENGTH, length);
            mapped.ring.set_word(at + dma::LKEY, key);
            total = total.wrapping_add(length);
        }
        let count = match self.errs(30) {
            true => self.edge() as u32,
            false => count,
        };
        mapped.ring.set_word(dma_at + dma::LENGTH, total);
        mapped.ring.set_word(dma_at + dma::RESIDUE, total);
        mapped.ring.set_word(dma_at + dma::COUNT, count);
        mapped.ring.set_word(dma_at + dma::CURRENT, 0);
        total
    }

    /// Address and key of so many bytes of a region that has these rights.
    fn remote(&mut self, length: u32, rights: u32) -> (u64, u32) {
        let length = u64::from(length);
        let has = |region: &Region| region.access & rights == rights && region.length >= length;
        let region = self.file.regions.pick(&mut self.random, has);
        let Some(region) = region.filter(|_| !self.errs(8)) else {
            let (address, _, key) = self.range(SHORT, 0);
            return (address, key);
        };
        let room = (region.length - length).min(LONG.into());
        let offset = self.random.u64(0..=room) & !7;
        let address = region.start.wrapping_add(offset);
        // Through a window that may be bound to it, now and then.
        match self.random.u8(0..8) {
            0 => (address, self.window_key(false)),
            _ => (address, region.key),
        }
    }

    fn window_key(&mut self, of_type_2: bool) -> u32 {
        let is = |window: &Window| window.is_of_type_2 || !of_type_2;
        let window = self.file.windows.pick(&mut self.random, is);
        match window.filter(|_| !self.errs(8)) {
            Some(window) => window.key,
            None => self.key(),
        }
    }

    fn atomic(&mut self, mapped: Mapped, at: usize) {
        let (address, key) = self.remote(8, RIGHTS);
        let address = address + u64::from(self.errs(12)) * 4;
        quad(mapped, at, address);
        quad(mapped, at + 8, self.random.u64(0..2));
        quad(mapped, at + 16, 7);
        mapped.ring.set_word(at + 24, key);
    }

    fn flush(&mut self, mapped: Mapped, at: usize, length: u32) {
        let (address, key) = self.remote(length, FLUSH_GLOBAL);
        let kind = match self.errs(8) {
            true => self.random.u32(0..4),
            false => FLUSH_TYPE,
        };
        quad(mapped, at, address);
        mapped.ring.set_word(at + 8, length);
        mapped.ring.set_word(at + 12, key);
        let level = u32::from(self.random.bool());
        mapped.ring.set_word(at + 16, kind | (level << FLUSH_LEVEL));
    }

    fn bind_window(&mut self, mapped: Mapped, at: usize) {
        let window = self.file.windows.pick(&mut self.random, |_| true);
        let old = window.map_or_else(|| self.key(), |window| window.key);
        let new = (old & !0xff) | (old.wrapping_add(1) & 0xff);
        let rights = RIGHTS | IBV_ACCESS_MW_BIND;
        let (address, length, key) = self.range(LONG, rights);
        let access = match self.errs(8) {
            true => self.access(),
            false => self.of(&[
                IBV_ACCESS_REMOTE_WRITE,
                IBV_ACCESS_REMOTE_READ,
                RIGHTS & !IBV_ACCESS_LOCAL_WRITE,
            ]),
        };
        quad(mapped, at, address);
        quad(mapped, at + 8, length.into());
        for (word, value) in [key, old, new, access].into_iter().enumerate() {
            mapped.ring.set_word(at + 16 + 4 * word, value);
        }
        self.binding = window.map(|window| Binding::Window {
            handle: window.handle,
            key: new,
        });
    }

    fn bind_layout(&mut self, mapped: Mapped, key_at: usize) {
        let waits = |region: &Region| region.waits;
        let region = self.file.regions.pick(&mut self.random, waits);
        let Some(region) = region.filter(|_| !self.errs(8)) else {
            return;
        };
        mapped.ring.set_word(key_at, region.key);
        self.binding = Some(Binding::Layout {
            handle: region.handle,
        });
    }

    /// Where a datagram goes.
    fn destination(&mut self, mapped: Mapped, at: usize, far: Option<Qp>) {
        let number = match far.filter(|_| !self.errs(8)) {
            Some(far) => far.number,
            None => self.qp_number(),
        };
        let (number, gid) = match self.random.u8(0..4) {
            0 => (0xff_ffff, self.group()),
            _ => (number, self.gid()),
        };
        let ah = self.file.ah_numbers.pick(&mut self.random);
        let ah = ah.filter(|_| self.random.u8(0..4) == 0).unwrap_or(0);
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
}

fn quad(mapped: Mapped, at: usize, value: u64) {
    mapped.ring.set_word(at, value as u32);
    mapped.ring.set_word(at + 4, (value >> 32) as u32);
}
