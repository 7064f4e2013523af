// SPDX-License-Identifier: GPL-2.0

//! Commands: written, or wrapped in a method.

use std::io;

use mrx::sys::*;

use super::{
    connect::CHANGES,
    methods::{plain, Made},
    Caller,
};
use crate::{
    known::Membership,
    ledger::Line,
    schema::{
        commands::{COMMANDS, MODIFY_MASK, MODIFY_STATE},
        methods::RANGE,
        Command, Sense, Shape,
    },
};

impl Caller<'_> {
    /// Gives one of the commands: written, or wrapped in a method.
    pub fn command(&mut self) {
        self.make_up_mind();
        let which = self.world.choose_command(&mut self.random);
        self.give(&COMMANDS[which], self.world.command_lines[which]);
    }

    pub(super) fn give(&mut self, command: &Command, line: Line) {
        if let Some(object) = command.makes {
            let crowded = self.file.handles[usize::from(object)].is_crowded();
            if crowded && self.random.u8(0..8) != 0 {
                return self.end(object);
            }
        }
        let needed = command.fields.iter().filter_map(|field| match field.sense {
            Sense::Handle(object) => Some(object),
            _ => None,
        });
        if self.makes_up_for(needed) {
            return;
        }
        self.start_anew();
        let mut body = self.structure(command.fields);
        body.append(&mut self.structure(command.tail));
        match command.shape {
            Shape::Modify => self.shape_modify(&mut body),
            Shape::Post => self.append_requests(command, &mut body),
            Shape::Leaves => self.choose_membership(&mut body),
            // A region that is all of memory, paged on demand.
            Shape::Registers(at) if !self.world.confined && self.random.u8(0..30) == 0 => {
                self.chosen.access = 0x4f;
                body[at..at + 8].copy_from_slice(&0_u64.to_ne_bytes());
                body[at + 8..at + 16].copy_from_slice(&u64::MAX.to_ne_bytes());
                body[at + 16..at + 24].copy_from_slice(&0_u64.to_ne_bytes());
                body[at + 28..at + 32].copy_from_slice(&0x4f_u32.to_ne_bytes());
            }
            _ => {}
        }
        if self.errs(8) {
            for _ in 0..self.random.u8(1..4) {
                let at = self.random.usize(0..body.len());
                // The address of the answer stays what it is.
                if at >= 8 || command.extended {
                    body[at] = self.random.u8(..);
                }
            }
        }
        self.give_body(command, body, line);
    }

    /// Gives a command of which only this is left to choose: how it is given.
    pub fn give_body(&mut self, command: &Command, body: Vec<u8>, line: Line) -> bool {
        // Whoever inherits a file may not write to it.
        let wraps = if self.is_heir { 7 } else { 2 };
        if self.random.u8(0..8) < wraps {
            self.wrapped(command, body, line)
        } else {
            self.written(command, body, line)
        }
    }

    fn written(&mut self, command: &Command, mut body: Vec<u8>, line: Line) -> bool {
        let provider = command.rings.map_or(0, |rings| rings.bytes());
        let room = self.scratch.room(command.answer + provider);
        let address = if self.errs(40) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(room)
        };
        let (unit, flag, mut head) = if command.extended {
            let mut head = address.to_ne_bytes().to_vec();
            head.extend(0_u16.to_ne_bytes());
            head.extend(((provider / 8) as u16).to_ne_bytes());
            head.extend(0_u32.to_ne_bytes());
            (8, 0x8000_0000, head)
        } else {
            if command
                .fields
                .first()
                .is_some_and(|f| f.sense == Sense::Answer)
            {
                body[..8].copy_from_slice(&address.to_ne_bytes());
            }
            (4, 0, Vec::new())
        };
        let answer = if command.extended {
            command.answer
        } else {
            command.answer + provider
        };
        let fixed = if command.extended { 0 } else { 8 };
        let mut in_words = ((body.len() + fixed) / unit) as u16;
        let mut out_words = (answer / unit) as u16;
        let mut number = command.number | flag;
        if self.errs(20) {
            match self.random.u8(0..4) {
                0 => in_words = self.random.u16(..),
                1 => out_words = self.of(&[0, 1, 2, 0xffff]),
                2 => number ^= 1 << self.random.u32(0..32),
                _ if !head.is_empty() => {
                    let at = self.random.usize(8..16);
                    head[at] = self.random.u8(..);
                }
                _ => drop(body.pop()),
            }
        }
        let mut bytes = number.to_ne_bytes().to_vec();
        bytes.extend(in_words.to_ne_bytes());
        bytes.extend(out_words.to_ne_bytes());
        bytes.append(&mut head);
        bytes.append(&mut body);
        // SAFETY: the kernel reads these bytes, and writes where they tell it to,
        // which is memory that is ours to give away.
        let status = unsafe { libc::write(self.descriptor(), bytes.as_ptr().cast(), bytes.len()) };
        let outcome = if status < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        };
        self.count(line, &outcome);
        if outcome.is_ok() {
            // The body follows the head, whatever that is.
            let start = if command.extended { 24 } else { 8 };
            self.learn(command, &bytes[start..], room);
        } else {
            self.suspect(&outcome);
        }
        outcome.is_ok()
    }

    fn wrapped(&mut self, command: &Command, body: Vec<u8>, line: Line) -> bool {
        let provider = command.rings.map(|rings| self.scratch.room(rings.bytes()));
        let number = command.number | if command.extended { 0x8000_0000 } else { 0 };
        let piece = self.scratch.put(&body);
        let room = self.scratch.room(command.answer);
        let address = self.scratch.address(piece);
        let mut attributes = vec![
            plain(UVERBS_ATTR_CORE_IN, piece.len, address),
            plain(UVERBS_ATTR_WRITE_CMD, 8, number.into()),
        ];
        if body.len() <= 8 {
            let mut data = [0; 8];
            data[..body.len()].copy_from_slice(&body);
            attributes[0] = plain(UVERBS_ATTR_CORE_IN, body.len(), u64::from_ne_bytes(data));
        }
        if command.answer > 0 {
            attributes.push(plain(
                UVERBS_ATTR_CORE_OUT,
                room.len,
                self.scratch.address(room),
            ));
        }
        if let Some(piece) = provider {
            let address = self.scratch.address(piece);
            attributes.push(plain(UVERBS_ATTR_UHW_OUT, piece.len, address));
        }
        let made = Made::default();
        let (object, method) = (UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
        if !self.send(object, method, attributes, &made, line) {
            return false;
        }
        self.learn(command, &body, room);
        if let (Some(piece), Some(rings)) = (provider, command.rings) {
            let owner = self.scratch.word(room, 0);
            self.file.map(rings, &self.scratch.read(piece), owner);
        }
        true
    }

    /// Chooses a group that a queue pair is a member of.
    fn choose_membership(&mut self, body: &mut [u8]) {
        if self.errs(3) {
            return;
        }
        let joined = self.file.memberships.pick(&mut self.random, |_| true);
        if let Some(Membership { qp, group }) = joined {
            body[..16].copy_from_slice(&group);
            body[16..20].copy_from_slice(&qp.to_ne_bytes());
        }
    }

    /// Chooses a change of state with the attributes that it needs or may have.
    fn shape_modify(&mut self, body: &mut [u8]) {
        let (mask, state) = if self.errs(6) {
            (self.edge() as u32 & 0x1f_ffff, self.random.u8(0..9))
        } else {
            self.of(CHANGES)
        };
        body[MODIFY_MASK..MODIFY_MASK + 4].copy_from_slice(&mask.to_ne_bytes());
        body[MODIFY_STATE] = state;
    }

    /// Requests as the commands to post carry them, and their pieces.
    fn append_requests(&mut self, command: &Command, body: &mut Vec<u8>) {
        let receives = command.number != 28;
        let (requests, pieces) = (self.random.u32(0..4), self.random.u32(0..6));
        body[12..16].copy_from_slice(&requests.to_ne_bytes());
        body[16..20].copy_from_slice(&pieces.to_ne_bytes());
        for _ in 0..requests {
            body.extend(self.random.u64(..).to_ne_bytes());
            body.extend(self.random.u32(0..4).to_ne_bytes());
            if receives {
                body.extend([0; 4]);
                continue;
            }
            body.extend(self.random.u32(0..16).to_ne_bytes());
            body.extend(self.random.u32(0..32).to_ne_bytes());
            body.extend(self.key().to_ne_bytes());
            for _ in 0..2 {
                body.extend(self.world.arena.address(&mut self.random).to_ne_bytes());
                body.extend(self.key().to_ne_bytes());
                body.extend([0; 4]);
            }
        }
        for _ in 0..pieces {
            body.extend(self.structure(RANGE));
        }
    }
}
