// SPDX-License-Identifier: GPL-2.0

//! Calls of methods, changed in some places now and then.

use std::io;

use mrx::sys::*;

use super::{learn::Answer, Caller, Chosen};
use crate::{
    ledger::Line,
    schema::{
        bytes_of, commands::COMMANDS, methods::METHODS, object_of, Command, Kind, Method, Presence,
        Rings, LAYOUT,
    },
    scratch::Piece,
};

/// More attributes than any method has, even when some are doubled.
const MOST: usize = 40;

/// The head of a message and its attributes, in the one piece that the kernel reads.
#[repr(C)]
struct Message {
    header: ib_uverbs_ioctl_hdr,
    attributes: [ib_uverbs_attr; MOST],
}
/// What a call will have made, when it succeeds.
#[derive(Default)]
pub(super) struct Made {
    /// Kind of object and index of the attribute that will have its handle.
    object: Option<(u16, u32)>,
    ended: Option<(u16, u32)>,
    key: Option<Piece>,
    number: Option<Piece>,
    rings: Option<(Rings, Piece)>,
}

impl Caller<'_> {
    /// Calls one of the methods.
    pub fn method(&mut self) {
        self.make_up_mind();
        let which = self.world.choose_method(&mut self.random);
        self.call(&METHODS[which], self.world.method_lines[which]);
    }

    pub(super) fn call(&mut self, method: &Method, line: Line) {
        if let Some(object) = self.crowded(method) {
            if self.random.u8(0..8) != 0 {
                return self.end(object);
            }
        }
        let needed = method.attributes.iter();
        let needed = needed.filter(|a| a.presence == Presence::Always);
        let needed = needed.filter_map(|attribute| match attribute.kind {
            Kind::Use(object) | Kind::End(object) => Some(object),
            _ => None,
        });
        if self.makes_up_for(needed) {
            return;
        }
        self.start_anew();
        let (mut attributes, mut made) = (Vec::with_capacity(MOST), Made::default());
        for attribute in method.attributes {
            let is_there = match attribute.presence {
                Presence::Always => true,
                Presence::Optional => self.can_be_there(attribute.kind),
                Presence::Mistaken => self.errs(12),
            };
            if !is_there {
                continue;
            }
            let built = self.attribute(attribute.id, attribute.kind, &mut made);
            attributes.push(built);
        }
        self.send(method.object, method.method, attributes, &made, line);
    }

    /// Whether to say something about an option, of which there is something to say.
    fn can_be_there(&mut self, kind: Kind) -> bool {
        let exists = match kind {
            Kind::Use(object) => self.file.handle(object, &mut self.random).is_some(),
            Kind::Fd(_) => self.file.channels.first().is_some(),
            _ => true,
        };
        exists && self.random.u8(0..3) == 0
    }

    /// Forgets the last call.
    pub(super) fn start_anew(&mut self) {
        self.scratch.clear();
        self.used.clear();
        self.chosen = Chosen::default();
    }

    /// Whether something was made instead of a call, of which it needs one and
    /// there is none.
    pub(super) fn makes_up_for(&mut self, mut needed: impl Iterator<Item = u16>) -> bool {
        if self.mistakes == u32::MAX {
            return false;
        }
        let file = self.file;
        let lacking = needed.find(|object| file.handle(*object, &mut self.random).is_none());
        lacking.is_some_and(|object| self.makes(object))
    }

    /// Whether something can be made, and is.
    fn makes(&mut self, object: u16) -> bool {
        let creates = |method: &Method| method.name == "MRX_METHOD_MR_CREATE";
        let makes =
            |command: &Command| command.makes == Some(object_of(object)) && command.has_handler;
        if object == LAYOUT {
            if let Some(which) = METHODS.iter().position(creates) {
                self.call(&METHODS[which], self.world.method_lines[which]);
                return true;
            }
        }
        let Some(which) = COMMANDS.iter().position(makes) else {
            return false;
        };
        self.give(&COMMANDS[which], self.world.command_lines[which]);
        true
    }

    /// Ends an object of a kind with its method.
    pub(super) fn end(&mut self, object: u16) {
        let ends = |method: &Method| {
            let mut kinds = method.attributes.iter().map(|a| a.kind);
            kinds.any(|kind| matches!(kind, Kind::End(ended) if object_of(ended) == object))
        };
        if let Some(which) = METHODS.iter().position(ends) {
            self.call(&METHODS[which], self.world.method_lines[which]);
        }
    }

    pub(super) fn attribute(&mut self, id: u32, kind: Kind, made: &mut Made) -> ib_uverbs_attr {
        let (len, data) = match kind {
            Kind::New(object) => {
                made.object = Some((object, id));
                (0, 0)
            }
            Kind::Use(object) => (0, self.handle(object).into()),
            Kind::End(object) => {
                let handle = self.handle(object);
                made.ended = Some((object, handle));
                (0, handle.into())
            }
            Kind::Fd(sense) => (0, self.value(sense, 4) as i32 as u64),
            Kind::Constant(sense) => (8, self.value(sense, 8)),
            Kind::In(fields) => {
                let bytes = self.structure(fields);
                self.input(&bytes)
            }
            Kind::Array(fields, most) => {
                let (bytes, _) = self.array(fields, most);
                self.input(&bytes)
            }
            Kind::List(fields, most) => {
                let (bytes, count) = self.array(fields, most);
                let list = self.list(&bytes, count, bytes_of(fields));
                self.input(&list)
            }
            Kind::Room(fields, most) => {
                let size = bytes_of(fields);
                let list = self.list(&vec![0; most * size], most, size);
                self.input(&list)
            }
            Kind::Out(len) => self.output(len).0,
            Kind::OutKey => {
                let (built, piece) = self.output(4);
                made.key = Some(piece);
                built
            }
            Kind::OutQpNumber => {
                let (built, piece) = self.output(4);
                made.number = Some(piece);
                built
            }
            Kind::OutRings(rings) => {
                let (built, piece) = self.output(rings.bytes());
                made.rings = Some((rings, piece));
                built
            }
        };
        let mut attribute = ib_uverbs_attr {
            attr_id: id as u16,
            len: len as u16,
            flags: UVERBS_ATTR_F_MANDATORY as u16,
            ..Default::default()
        };
        attribute.__bindgen_anon_1.data = data;
        attribute
    }

    /// Length and data of an attribute that the kernel reads.
    pub(super) fn input(&mut self, bytes: &[u8]) -> (usize, u64) {
        if bytes.len() <= 8 {
            let mut data = [0; 8];
            data[..bytes.len()].copy_from_slice(bytes);
            return (bytes.len(), u64::from_ne_bytes(data));
        }
        let piece = self.scratch.put(bytes);
        let address = if self.errs(60) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(piece)
        };
        (piece.len, address)
    }

    pub(super) fn output(&mut self, len: usize) -> ((usize, u64), Piece) {
        let piece = self.scratch.room(len);
        let address = if self.errs(60) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(piece)
        };
        ((piece.len, address), piece)
    }

    /// `struct mrx_user_list`
    pub(super) fn list(&mut self, bytes: &[u8], count: usize, size: usize) -> [u8; 16] {
        let piece = self.scratch.put(bytes);
        let address = if self.errs(40) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(piece)
        };
        let count = if self.errs(30) {
            self.edge() as u32
        } else {
            count as u32
        };
        let size = if self.errs(40) {
            self.random.u32(0..64)
        } else {
            size as u32
        };
        let mut list = [0; 16];
        list[..8].copy_from_slice(&address.to_ne_bytes());
        list[8..12].copy_from_slice(&count.to_ne_bytes());
        list[12..].copy_from_slice(&size.to_ne_bytes());
        list
    }

    /// Makes the call, changed in some places now and then, and remembers what
    /// it made.
    pub(super) fn send(
        &mut self,
        object: u32,
        method: u32,
        mut attributes: Vec<ib_uverbs_attr>,
        made: &Made,
        line: Line,
    ) -> bool {
        let mut header = ib_uverbs_ioctl_hdr {
            object_id: object as u16,
            method_id: method as u16,
            driver_id: RDMA_DRIVER_RXE,
            ..Default::default()
        };
        let mut line = line;
        if self.errs(8) {
            for _ in 0..self.random.u8(1..4) {
                self.mutate_attributes(&mut attributes);
            }
        }
        let count = attributes.len().min(MOST);
        header.num_attrs = count as u16;
        header.length =
            (size_of::<ib_uverbs_ioctl_hdr>() + count * size_of::<ib_uverbs_attr>()) as u16;
        if self.errs(25) {
            self.mutate_header(&mut header);
            // See there.
            if u32::from(header.method_id) == UVERBS_METHOD_GET_CONTEXT {
                header.method_id = 0;
            }
            line = self.world.lines.wrong_head;
        }
        let mut message = Message {
            header,
            attributes: [ib_uverbs_attr::default(); MOST],
        };
        message.attributes[..count].copy_from_slice(&attributes[..count]);
        // SAFETY: the kernel reads at most what the length says, which may be
        // more than the message has: then the rest of it are bytes of this stack.
        // It writes to the message and to addresses that are ours to give away.
        let status = unsafe { libc::ioctl(self.descriptor(), MRX_VERBS_IOCTL, &raw mut message) };
        let outcome = match status {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        self.count(line, &outcome);
        if outcome.is_err() {
            self.suspect(&outcome);
            return false;
        }
        let attribute = |id: u32| -> Option<u32> {
            let answers = message.attributes[..count].iter();
            let answer = answers.into_iter().find(|a| u32::from(a.attr_id) == id)?;
            // SAFETY: all members of the union are plain bytes.
            Some(unsafe { answer.__bindgen_anon_1.data } as u32)
        };
        let new = made
            .object
            .and_then(|(object, id)| Some((object, attribute(id)?)));
        let flags = attribute(MRX_ATTR_SET_LAYOUT_FLAGS).unwrap_or(0);
        self.learn_from_method(&Answer {
            object,
            method,
            made: new,
            ended: made.ended,
            number: made.number.map(|piece| self.scratch.word(piece, 0)),
            key: made.key.map(|piece| self.scratch.word(piece, 0)),
            waits: flags & MRX_SET_LAYOUT_WITH_POST_WR != 0,
        });
        if let (Some((rings, piece)), Some((_, owner))) = (made.rings, new) {
            self.file.map(rings, &self.scratch.read(piece), owner);
        }
        true
    }

    pub(super) fn mutate_attributes(&mut self, attributes: &mut Vec<ib_uverbs_attr>) {
        let kind = self.random.u8(0..10);
        if attributes.is_empty() || kind == 0 {
            let mut extra = ib_uverbs_attr {
                attr_id: self.of(&[0, 1, 20, 0x1000, 0x1001, 0x1010, 0xffff]),
                flags: self.random.u16(0..3),
                len: self.of(&[0, 4, 8, 16]),
                ..Default::default()
            };
            extra.__bindgen_anon_1.data = self.edge();
            return attributes.push(extra);
        }
        let at = self.random.usize(0..attributes.len());
        match kind {
            1 => drop(attributes.remove(at)),
            2 => attributes.push(attributes[at]),
            3 => attributes[at].attr_id = self.of(&[0, 1, 2, 3, 4, 0x1000, 0x1002, 0x1003]),
            4 => attributes[at].flags = self.of(&[0, 1, 2, 0xffff]),
            5 => {
                let len = attributes[at].len;
                attributes[at].len =
                    self.of(&[0, 1, 4, 8, 9, 0xffff, len.wrapping_sub(1), len + 1, len / 2]);
            }
            6 => {
                let other = self.random.usize(0..attributes.len());
                attributes.swap(at, other);
            }
            7 => attributes[at].__bindgen_anon_1.data = self.scratch.bad_address(&mut self.random),
            _ => attributes[at].__bindgen_anon_1.data = self.safe_edge(attributes[at].len),
        }
    }

    /// A number that, taken for an address, does not lead to memory of this
    /// process that is needed for anything else.
    pub(super) fn safe_edge(&mut self, len: u16) -> u64 {
        if len <= 8 && self.random.bool() {
            self.edge()
        } else {
            self.scratch.bad_address(&mut self.random)
        }
    }

    pub(super) fn mutate_header(&mut self, header: &mut ib_uverbs_ioctl_hdr) {
        match self.random.u8(0..7) {
            0 => header.object_id = self.random.u16(0..24),
            1 => header.method_id = self.of(&[0, 1, 2, 3, 4, 5, 6, 0x1000, 0x1001, 0x1002, 0x1005]),
            2 => header.driver_id = self.random.u32(0..24),
            3 => header.num_attrs = self.of(&[0, 1, header.num_attrs + 1, 0xffff]),
            4 => header.length = self.of(&[0, 8, 24, 25, header.length + 16, header.length - 8]),
            5 => header.reserved1 = self.edge(),
            _ => header.reserved2 = self.edge() as u32,
        }
    }
}

/// An attribute that the kernel must understand.
pub(super) fn plain(id: u32, len: usize, data: u64) -> ib_uverbs_attr {
    let mut attribute = ib_uverbs_attr {
        attr_id: id as u16,
        len: len as u16,
        flags: UVERBS_ATTR_F_MANDATORY as u16,
        ..Default::default()
    };
    attribute.__bindgen_anon_1.data = data;
    attribute
}
