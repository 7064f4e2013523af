// SPDX-License-Identifier: GPL-2.0

//! Numbers and structures for calls: mostly good ones.

use mrx::sys::IBV_ACCESS_ON_DEMAND;

use super::Caller;
use crate::{
    arena::SLOT,
    schema::{bytes_of, Field, Sense, OBJECTS, PD},
};

impl Caller<'_> {
    /// A number of this meaning, mostly a good one.
    pub fn value(&mut self, sense: Sense, bytes: usize) -> u64 {
        if self.chance(100) && sense != Sense::Answer {
            return self.edge();
        }
        match sense {
            Sense::Answer if self.chance(25) => self.scratch.bad_address(&mut self.random),
            Sense::Answer => {
                let room = self.scratch.room(512);
                self.scratch.address(room)
            }
            Sense::Address if self.chance(12) => self.of(&[
                0,
                1,
                0xfff,
                0x1000,
                0x7fff_ffff_f000,
                1 << 47,
                0xffff_8880_0000_0000,
                u64::MAX - 4095,
                u64::MAX,
            ]),
            Sense::Address if self.tame => {
                let slot = self.world.arena.slot(self.random.usize(0..64));
                self.last.0 = slot.expose_provenance() as u64;
                self.last.0
            }
            Sense::Address => {
                self.last.0 = self.world.arena.address(&mut self.random);
                self.last.0
            }
            Sense::Length => {
                self.last.1 = self.length(bytes);
                self.last.1
            }
            Sense::Again => self.last.0,
            Sense::Dimensions => {
                let count = match self.random.u8(0..16) {
                    0 if !self.tame => self.of(&[0, 8, 9, 0xffff_ffff]),
                    1..4 => 2,
                    4 => 3,
                    _ => 1,
                };
                self.dimensions += count as usize;
                count
            }
            Sense::Handle(object) => self.handle(object).into(),
            Sense::Access => self.access().into(),
            Sense::UpTo(most) => self.random.u64(0..=most),
            // The good ones come first.
            Sense::OneOf(values) if self.tame => self.of(&values[..values.len().div_ceil(2)]),
            Sense::OneOf(values) => self.of(values),
            Sense::Bits(bits) if self.tame => self.random.u64(..) & bits & 1,
            Sense::Bits(bits) => self.random.u64(..) & bits,
            Sense::QpNumber => self.qp_number().into(),
            Sense::Channel => {
                let known = self.file.channels.pick(&mut self.random);
                known
                    .filter(|_| self.random.bool())
                    .unwrap_or(u32::MAX)
                    .into()
            }
            Sense::Buffer => {
                let known = self.random.choice(&self.world.buffers).copied();
                known.unwrap_or_else(|| self.random.i32(-1..20)) as u32 as u64
            }
            Sense::Gid | Sense::Group | Sense::Range(_) | Sense::Zero => 0,
            Sense::Any => self.random.u64(..),
        }
    }

    /// A number at the edge of something.
    pub fn edge(&mut self) -> u64 {
        let shift = self.random.u32(0..64);
        match self.random.u8(0..4) {
            0 => 1 << shift,
            1 => (1_u64 << shift).wrapping_sub(1),
            2 => u64::MAX << shift,
            _ => self.random.u64(..),
        }
    }

    fn length(&mut self, bytes: usize) -> u64 {
        let least = if self.tame { 3 } else { 0 };
        match self.random.u8(least..16) {
            0 => 0,
            1 => 1,
            2 if bytes == 8 => self.of(&[u64::MAX, 1 << 63, 1 << 40, u64::MAX - 4095]),
            2 => self.of(&[0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x10_0000]),
            3..=6 => 8 * self.random.u64(1..64),
            7..=9 => self.random.u64(1..4096),
            10..=12 => 4096 * self.random.u64(1..16),
            _ => self.random.u64(1..=SLOT as u64),
        }
    }

    pub fn handle(&mut self, object: u16) -> u32 {
        let object = if self.chance(30) {
            self.random.u16(0..OBJECTS as u16)
        } else {
            object
        };
        let pool = &self.file.handles[usize::from(object)];
        // What is used together must be of one protection domain.
        let known = match pool.first() {
            Some(first) if object == PD && !self.chance(8) => Some(first),
            _ => pool.pick(&mut self.random),
        };
        let handle = match self.random.u8(0..40) {
            _ if self.tame => known.unwrap_or_default(),
            0 => self.random.u32(0..200),
            1 => self.edge() as u32,
            _ => known.unwrap_or_else(|| self.random.u32(0..8)),
        };
        self.used.push((object, handle));
        handle
    }

    pub fn key(&mut self) -> u32 {
        let known = self.file.keys.pick(&mut self.random).unwrap_or(0x100);
        match self.random.u8(0..24) {
            _ if self.tame => known,
            0 => 0,
            1 => self.edge() as u32,
            // Another variant of a key, and that of another region.
            2 => known ^ self.random.u32(0..256),
            3 => known.wrapping_add(self.random.u32(0..8) << 8),
            _ => known,
        }
    }

    pub fn access(&mut self) -> u32 {
        let access = self.of(&[
            0xf, 0xf, 0xf, 0x1f, 0x1f, 0x2f, 0x3f, 0x4f, 0x4f, 0x5f, 0x10f, 0x11f, 0x13f, 1, 0, 7,
            4, 2, 8, 0x6f,
        ]);
        let access = if self.chance(12) {
            self.edge() as u32
        } else {
            access
        };
        if self.world.confined {
            // A region that is paged could be of any length, and then whatever
            // is there belongs to it.
            access & !IBV_ACCESS_ON_DEMAND
        } else {
            access
        }
    }

    pub fn qp_number(&mut self) -> u32 {
        let known = self.file.qp(&mut self.random).map(|(_, number)| number);
        match self.random.u8(0..20) {
            _ if self.tame => known.unwrap_or(17),
            0 => self.of(&[0, 1, 0xff_ffff]),
            1 => self.random.u32(0..64),
            2 => self.edge() as u32,
            _ => known.unwrap_or(17),
        }
    }

    pub fn gid(&mut self) -> [u8; 16] {
        let own = self.random.choice(&self.world.gids).copied();
        match self.random.u8(0..16) {
            _ if self.tame => own.unwrap_or_default(),
            0 => self.random.u128(..).to_ne_bytes(),
            1 => [0; 16],
            2..=4 => self.group(),
            _ => own.unwrap_or_default(),
        }
    }

    /// A multicast group: one of a few, so that there are several members.
    pub fn group(&mut self) -> [u8; 16] {
        let mut group = [0; 16];
        match self.random.u8(0..8) {
            0 if !self.tame => return self.random.u128(..).to_ne_bytes(),
            1..3 => group[10..].copy_from_slice(&[0xff, 0xff, 0xe0, 0, 0, 1]),
            _ => group[..2].copy_from_slice(&[0xff, 0x0e]),
        }
        group
    }

    /// A range of a region, mostly inside it.
    pub fn range(&mut self, most: u32) -> (u64, u32, u32) {
        let region = self.file.region(&mut self.random);
        let Some(region) = region.filter(|region| region.length > 0 && !self.chance(30)) else {
            let address = self.value(Sense::Address, 8);
            let length = self.value(Sense::Length, 4) as u32;
            return (address, length, self.key());
        };
        let offset = self.random.u64(0..region.length) & !7;
        let room = (region.length - offset).min(most.into());
        let length = match self.random.u8(0..4) {
            0 => room,
            1 => room.min(8),
            _ => self.random.u64(1..=room),
        };
        (region.start.wrapping_add(offset), length as u32, region.key)
    }

    /// A structure.
    pub fn structure(&mut self, fields: &[Field]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bytes_of(fields));
        for field in fields {
            match field.sense {
                Sense::Gid => bytes.extend(self.gid()),
                Sense::Group => bytes.extend(self.group()),
                Sense::Range(most) => {
                    let (address, length, key) = self.range(most);
                    bytes.extend(address.to_ne_bytes());
                    bytes.extend(length.to_ne_bytes());
                    bytes.extend(key.to_ne_bytes());
                }
                sense => {
                    let value = self.value(sense, field.bytes).to_ne_bytes();
                    bytes.extend(&value[..field.bytes]);
                }
            }
        }
        bytes
    }

    pub(super) fn array(&mut self, fields: &[Field], most: usize) -> (Vec<u8>, usize) {
        let count = match self.random.u8(0..8) {
            0 if self.chance(4) => 0,
            0 => most,
            1..=5 => self.random.usize(1..4),
            _ => self.random.usize(1..=most),
        };
        let is_of_dimensions = bytes_of(fields) == 16 && self.dimensions > 0;
        let count = match is_of_dimensions && !self.chance(10) {
            true => std::mem::take(&mut self.dimensions).min(64),
            false => count,
        };
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(self.structure(fields));
        }
        (bytes, count)
    }
}
