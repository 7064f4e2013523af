// SPDX-License-Identifier: GPL-2.0

//! Numbers and structures for calls: mostly good ones.

use mrx::sys::IBV_ACCESS_ON_DEMAND;

use super::Caller;
use crate::{
    arena::{PAGE, SLOT},
    known::Region,
    peer,
    schema::{bytes_of, object_of, Field, QpKind, Sense, OBJECTS, QP_TYPES, RIGHTS},
};

impl Caller<'_> {
    /// A number of this meaning, mostly a good one.
    pub fn value(&mut self, sense: Sense, bytes: usize) -> u64 {
        if sense != Sense::Answer && self.errs(100) {
            return self.edge();
        }
        match sense {
            Sense::Answer if self.errs(25) => self.scratch.bad_address(&mut self.random),
            Sense::Answer => {
                let room = self.scratch.room(512);
                self.scratch.address(room)
            }
            Sense::Address if self.errs(12) => self.of(&[
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
            Sense::Address => {
                self.chosen.address = self.address();
                self.chosen.address
            }
            Sense::Length => {
                self.chosen.length = self.length(bytes);
                self.chosen.length
            }
            Sense::Again => self.chosen.address,
            Sense::Dimensions if self.errs(16) => self.of(&[0, 8, 9, 0xffff_ffff]),
            Sense::Dimensions => {
                let count = self.of(&[1, 1, 1, 2, 2, 3]);
                self.chosen.dimensions += count;
                count as u64
            }
            Sense::Handle(object) => self.handle(object).into(),
            Sense::Access => {
                self.chosen.access = self.access();
                self.chosen.access.into()
            }
            Sense::BufferAccess => {
                let access = self.access();
                self.chosen.access = match self.errs(8) {
                    true => access,
                    false => access & RIGHTS,
                };
                self.chosen.access.into()
            }
            Sense::UpTo(most) => self.random.u64(0..=most),
            Sense::OneOf(_, others) if !others.is_empty() && self.errs(8) => self.of(others),
            Sense::OneOf(usual, _) => self.of(usual),
            Sense::QpType => {
                let (usual, others) = QP_TYPES;
                let kind = self.value(Sense::OneOf(usual, others), bytes);
                self.chosen.qp_kind = QpKind::of(kind);
                kind
            }
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
                let known = known.filter(|_| !self.errs(12));
                known.unwrap_or_else(|| self.random.i32(-1..20)) as u32 as u64
            }
            Sense::GidIndex if self.errs(12) => self.of(&[2, 16, 255]),
            Sense::GidIndex => self.world.index_of(&self.chosen.gid).into(),
            Sense::Gid | Sense::Group | Sense::Client | Sense::Range(..) | Sense::Zero => 0,
            Sense::Any => self.random.u64(..),
        }
    }

    /// An address in a slot, from which on there is something.
    fn address(&mut self) -> u64 {
        if self.errs(6) {
            return self.world.arena.address(&mut self.random);
        }
        let slot = self.world.arena.slot(self.random.usize(0..64));
        let offset = match self.random.u8(0..4) {
            0 => 8 * self.random.usize(0..SLOT / 16),
            1 => PAGE * self.random.usize(0..SLOT / PAGE),
            _ => 0,
        };
        slot.expose_provenance() as u64 + offset as u64
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
        if self.errs(10) {
            return match self.random.u8(0..4) {
                0 => 0,
                1 => SLOT as u64 + 1,
                _ if bytes == 8 => self.of(&[u64::MAX, 1 << 63, 1 << 40, u64::MAX - 4095]),
                _ => self.of(&[0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x10_0000]),
            };
        }
        let length = match self.random.u8(0..8) {
            0 => 1,
            1 => 8 * self.random.u64(1..64),
            2 => self.random.u64(1..4096),
            3..6 => 4096 * self.random.u64(1..=16),
            _ => self.random.u64(1..=SLOT as u64),
        };
        length.min(self.world.arena.left(self.chosen.address))
    }

    /// The handle of something of this kind.
    pub fn handle(&mut self, chosen_by: u16) -> u32 {
        let pool = &self.file.handles[usize::from(object_of(chosen_by))];
        let known = self.file.handle(chosen_by, &mut self.random);
        let known = known.unwrap_or_default();
        let handle = if self.errs(20) {
            match self.random.u8(0..4) {
                0 => self.random.u32(0..200),
                1 => self.edge() as u32,
                2 => pool.pick(&mut self.random).unwrap_or_default(),
                _ => {
                    let other = self.random.usize(0..OBJECTS);
                    let other = self.file.handles[other].pick(&mut self.random);
                    other.unwrap_or(known)
                }
            }
        } else {
            known
        };
        self.used.push((object_of(chosen_by), handle));
        handle
    }

    pub fn key(&mut self) -> u32 {
        let known = self.file.keys.pick(&mut self.random).unwrap_or(0x100);
        if !self.errs(6) {
            return known;
        }
        match self.random.u8(0..4) {
            0 => 0,
            1 => self.edge() as u32,
            // Another variant of a key, and that of another region.
            2 => known ^ self.random.u32(0..256),
            _ => known.wrapping_add(self.random.u32(0..8) << 8),
        }
    }

    pub fn access(&mut self) -> u32 {
        let access = if self.errs(8) {
            let edge = self.edge() as u32;
            // Of another's writing without one's own, among others.
            self.of(&[2, 4, 8, 0x2f, 0x13f, 0x20f, edge])
        } else {
            // All rights, mostly, and what may be added to them.
            self.of(&[
                0xf, 0xf, 0x1f, 0x1f, 0x10f, 0x11f, 0x4f, 0x4f, 0x5f, 0x14f, 0x15f, 7, 1, 0,
            ])
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
        let known = self.file.qps.pick(&mut self.random, |_| true);
        let known = known.map_or(17, |qp| qp.number);
        if !self.errs(8) {
            return known;
        }
        match self.random.u8(0..3) {
            0 => self.of(&[0, 1, 0xff_ffff]),
            1 => self.random.u32(0..64),
            _ => self.edge() as u32,
        }
    }

    pub fn gid(&mut self) -> [u8; 16] {
        let own = self.random.choice(&self.world.gids).copied();
        let gid = if self.errs(8) {
            match self.random.u8(0..3) {
                0 => self.random.u128(..).to_ne_bytes(),
                1 => [0; 16],
                _ => self.group(),
            }
        } else {
            own.unwrap_or_default()
        };
        self.chosen.gid = gid;
        gid
    }

    /// A multicast group: one of a few, so that there are several members.
    pub fn group(&mut self) -> [u8; 16] {
        if self.errs(8) {
            return self.random.u128(..).to_ne_bytes();
        }
        let mut group = [0; 16];
        match self.random.bool() {
            true => group[10..].copy_from_slice(&[0xff, 0xff, 0xe0, 0, 0, 1]),
            false => group[..2].copy_from_slice(&[0xff, 0x0e]),
        }
        group
    }

    /// A name of a client of peer memory, with what is behind it.
    fn client(&mut self) -> [u8; 64] {
        let name: &[u8] = if self.errs(3) {
            self.of(&[b"".as_slice(), b"nobody", peer::CLIENTS[0], &[b'x'; 64]])
        } else {
            peer::CLIENTS[1]
        };
        let mut bytes = [0; 64];
        bytes[..name.len()].copy_from_slice(name);
        bytes
    }

    /// A range of a region that has these rights, mostly inside it.
    pub fn range(&mut self, most: u32, rights: u32) -> (u64, u32, u32) {
        let has = |region: &Region| region.length > 0 && region.access & rights == rights;
        let region = match self.errs(20) {
            true => self.file.regions.pick(&mut self.random, |r| r.length > 0),
            false => self.file.regions.pick(&mut self.random, has),
        };
        let Some(region) = region.filter(|_| !self.errs(20)) else {
            let address = self.value(Sense::Address, 8);
            let length = self.value(Sense::Length, 4) as u32;
            return (address, length, self.key());
        };
        // What is at a stride behind the range is to be in the region, too.
        let offset = match self.random.u8(0..4) {
            0 => self.random.u64(0..region.length) & !7,
            1 => self.random.u64(0..region.length.div_ceil(4)) & !7,
            _ => 0,
        };
        let room = (region.length - offset).min(most.into());
        let length = match self.random.u8(0..4) {
            0 => room,
            1 => room.min(8),
            _ => self.random.u64(1..=room),
        };
        let length = match self.errs(20) {
            true => self.of(&[0, room + 1, 0x8000_0000]),
            false => length,
        };
        self.chosen.total += length;
        (region.start.wrapping_add(offset), length as u32, region.key)
    }

    /// A structure.
    pub fn structure(&mut self, fields: &[Field]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bytes_of(fields));
        for field in fields {
            match field.sense {
                Sense::Gid => bytes.extend(self.gid()),
                Sense::Group => bytes.extend(self.group()),
                Sense::Client => bytes.extend(self.client()),
                Sense::Range(most, rights) => {
                    let (address, length, key) = self.range(most, rights);
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
            0 => most,
            1..=5 => self.random.usize(1..4),
            _ => self.random.usize(1..=most),
        };
        // The dimensions that the entries of the list before have.
        let wanted = std::mem::take(&mut self.chosen.dimensions);
        let count = match wanted {
            _ if self.errs(16) => self.of(&[0, most, wanted + 1]),
            0 => count,
            _ => wanted.min(64),
        };
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(self.structure(fields));
        }
        (bytes, count)
    }
}
