// SPDX-License-Identifier: GPL-2.0

//! Makes system calls from what the schema says: most of them right in every
//! detail but the values, the others changed somewhere.

use std::{io, sync::atomic::Ordering::Relaxed};

use mrx::sys::*;

use crate::{
    device::File,
    ledger::Line,
    schema::{
        bytes_of,
        commands::{COMMANDS, MODIFY_MASK, MODIFY_STATE},
        methods::METHODS,
        Command, Field, Kind, Method, Sense, Shape, AH, CHANNEL, CQ, EVENTS, OBJECTS, QP, SRQ,
    },
    scratch::{Piece, Scratch},
    world::World,
};

// What the transitions of queue pairs need (IBTA 1.7, 11.2.5.2), and their ends.
const RESET: (u32, u8) = (IBV_QP_STATE, IBV_QPS_RESET as u8);
const TO_INIT: u32 = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
const INIT: (u32, u8) = (TO_INIT | IBV_QP_ACCESS_FLAGS, IBV_QPS_INIT as u8);
const INIT_UD: (u32, u8) = (TO_INIT | IBV_QP_QKEY, IBV_QPS_INIT as u8);
const TO_RTR: u32 =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RTR: (u32, u8) = (
    TO_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    IBV_QPS_RTR as u8,
);
const RTR_UC: (u32, u8) = (TO_RTR, IBV_QPS_RTR as u8);
const RTR_UD: (u32, u8) = (IBV_QP_STATE, IBV_QPS_RTR as u8);
const RTS: (u32, u8) = (
    IBV_QP_STATE
        | IBV_QP_SQ_PSN
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QPS_RTS as u8,
);
const RTS_OTHERS: (u32, u8) = (IBV_QP_STATE | IBV_QP_SQ_PSN, IBV_QPS_RTS as u8);
/// The Q_Key of queue pairs that are settled.
pub const QKEY: u32 = 0x1122_3344;

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
struct Made {
    /// Kind of object and index of the attribute that will have its handle.
    object: Option<(u16, u64)>,
    ended: Option<(u16, u32)>,
    key: Option<Piece>,
    number: Option<Piece>,
    rings: Option<(crate::schema::Rings, Piece)>,
}

/// A thread that makes calls on an open device.
pub struct Caller<'a> {
    pub world: &'a World,
    pub file: &'a File,
    pub random: fastrand::Rng,
    scratch: Scratch,
}

impl<'a> Caller<'a> {
    pub fn new(world: &'a World, file: &'a File, seed: u64) -> io::Result<Self> {
        Ok(Self {
            world,
            file,
            random: fastrand::Rng::with_seed(seed),
            scratch: Scratch::new()?,
        })
    }

    pub fn descriptor(&self) -> i32 {
        self.file.descriptor.load(Relaxed)
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.u32(0..of) == 0
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.random.usize(0..values.len())]
    }

    // ---- values

    /// A number of this meaning, mostly a good one.
    pub fn value(&mut self, sense: Sense, bytes: usize) -> u64 {
        if self.chance(60) && sense != Sense::Answer && sense != Sense::Gid {
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
            Sense::Address => self.world.arena.address(&mut self.random),
            Sense::Length => self.length(bytes),
            Sense::Handle(object) => self.handle(object).into(),
            Sense::Key => self.key().into(),
            Sense::Access => self.access().into(),
            Sense::UpTo(most) => self.random.u64(0..=most),
            Sense::OneOf(values) => self.of(values),
            Sense::Bits(bits) => self.random.u64(..) & bits,
            Sense::QpNumber => self.qp_number().into(),
            Sense::Channel => {
                let known = self.file.channels.pick(&mut self.random);
                known.filter(|_| self.random.bool()).unwrap_or(u32::MAX).into()
            }
            Sense::Buffer => {
                let known = self.random.choice(&self.world.buffers).copied();
                known.unwrap_or_else(|| self.random.i32(-1..20)) as u32 as u64
            }
            Sense::Gid | Sense::Zero => 0,
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
        match self.random.u8(0..16) {
            0 => 0,
            1 => 1,
            2 if bytes == 8 => self.of(&[u64::MAX, 1 << 63, 1 << 40, u64::MAX - 4095]),
            2 => self.of(&[0xffff_ffff, 0x8000_0000, 0x7fff_ffff, 0x10_0000]),
            3..=6 => 8 * self.random.u64(1..64),
            7..=9 => self.random.u64(1..4096),
            10..=12 => 4096 * self.random.u64(1..16),
            _ => self.random.u64(1..=crate::arena::SLOT as u64),
        }
    }

    pub fn handle(&mut self, object: u16) -> u32 {
        let object = if self.chance(30) {
            self.random.u16(0..OBJECTS as u16)
        } else {
            object
        };
        let known = self.file.handles[usize::from(object)].pick(&mut self.random);
        match self.random.u8(0..24) {
            0 => self.random.u32(0..200),
            1 => self.edge() as u32,
            _ => known.unwrap_or_else(|| self.random.u32(0..8)),
        }
    }

    pub fn key(&mut self) -> u32 {
        let known = self.file.keys.pick(&mut self.random).unwrap_or(0x100);
        match self.random.u8(0..24) {
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
            0 => self.of(&[0, 1, 0xff_ffff]),
            1 => self.random.u32(0..64),
            2 => self.edge() as u32,
            _ => known.unwrap_or(17),
        }
    }

    pub fn gid(&mut self) -> [u8; 16] {
        let own = self.random.choice(&self.world.gids).copied();
        match self.random.u8(0..16) {
            0 => self.random.u128(..).to_ne_bytes(),
            1 => [0; 16],
            // A few groups, so that there are several members.
            2..=5 => {
                let mut group = [0; 16];
                group[..2].copy_from_slice(&[0xff, 0x0e]);
                group[15] = self.random.u8(0..3);
                group
            }
            6 => {
                let mut group = [0; 16];
                group[10..].copy_from_slice(&[0xff, 0xff, 0xe0, 0, 0, self.random.u8(0..3)]);
                group
            }
            _ => own.unwrap_or_default(),
        }
    }

    /// A structure.
    pub fn structure(&mut self, fields: &[Field]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(bytes_of(fields));
        for field in fields {
            if field.sense == Sense::Gid {
                bytes.extend(self.gid());
            } else {
                let value = self.value(field.sense, field.bytes).to_ne_bytes();
                bytes.extend(&value[..field.bytes]);
            }
        }
        bytes
    }

    fn array(&mut self, fields: &[Field], most: usize) -> (Vec<u8>, usize) {
        let count = match self.random.u8(0..8) {
            0 => 0,
            1 => most,
            2..=4 => self.random.usize(1..4),
            _ => self.random.usize(0..=most),
        };
        let mut bytes = Vec::new();
        for _ in 0..count {
            bytes.extend(self.structure(fields));
        }
        (bytes, count)
    }

    // ---- methods

    /// Calls one of the methods.
    pub fn method(&mut self) {
        let which = self.world.choose_method(&mut self.random);
        self.call(&METHODS[which], self.world.method_lines[which]);
    }

    fn call(&mut self, method: &Method, line: Line) {
        if let Some(object) = self.crowded(method) {
            if !self.chance(8) {
                return self.end(object);
            }
        }
        self.scratch.clear();
        let (mut attributes, mut made) = (Vec::with_capacity(MOST), Made::default());
        for attribute in method.attributes {
            if attribute.rare && !self.chance(6) {
                continue;
            }
            let built = self.attribute(attribute.id, attribute.kind, &mut made);
            attributes.push(built);
        }
        self.send(method.object, method.method, attributes, &made, line);
    }

    /// The kind of object that a method makes, if there are many of them already.
    fn crowded(&self, method: &Method) -> Option<u16> {
        let made = method.attributes.iter().find_map(|a| match a.kind {
            Kind::New(object) => Some(object),
            _ => None,
        })?;
        self.file.handles[usize::from(made)].is_crowded().then_some(made)
    }

    /// Ends an object of a kind with its method.
    fn end(&mut self, object: u16) {
        let ends = |method: &Method| {
            let mut kinds = method.attributes.iter().map(|a| a.kind);
            kinds.any(|kind| matches!(kind, Kind::End(ended) if ended == object))
        };
        if let Some(which) = METHODS.iter().position(ends) {
            self.call(&METHODS[which], self.world.method_lines[which]);
        }
    }

    fn attribute(&mut self, id: u32, kind: Kind, made: &mut Made) -> ib_uverbs_attr {
        let (len, data) = match kind {
            Kind::New(object) => {
                made.object = Some((object, id.into()));
                (0, 0)
            }
            Kind::Use(object) => (0, self.handle(object).into()),
            Kind::End(object) => {
                let handle = self.handle(object);
                made.ended = Some((object, handle));
                (0, handle.into())
            }
            Kind::Fd(sense) => (0, self.value(sense, 4)),
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
    fn input(&mut self, bytes: &[u8]) -> (usize, u64) {
        if bytes.len() <= 8 {
            let mut data = [0; 8];
            data[..bytes.len()].copy_from_slice(bytes);
            return (bytes.len(), u64::from_ne_bytes(data));
        }
        let piece = self.scratch.put(bytes);
        let address = if self.chance(60) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(piece)
        };
        (piece.len, address)
    }

    fn output(&mut self, len: usize) -> ((usize, u64), Piece) {
        let piece = self.scratch.room(len);
        let address = if self.chance(60) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(piece)
        };
        ((piece.len, address), piece)
    }

    /// `struct mrx_user_list`
    fn list(&mut self, bytes: &[u8], count: usize, size: usize) -> [u8; 16] {
        let piece = self.scratch.put(bytes);
        let address = if self.chance(40) {
            self.scratch.bad_address(&mut self.random)
        } else {
            self.scratch.address(piece)
        };
        let count = if self.chance(30) {
            self.edge() as u32
        } else {
            count as u32
        };
        let size = if self.chance(40) {
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
    fn send(
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
        if self.chance(5) {
            for _ in 0..self.random.u8(1..4) {
                self.mutate_attributes(&mut attributes);
            }
        }
        let count = attributes.len().min(MOST);
        header.num_attrs = count as u16;
        header.length =
            (size_of::<ib_uverbs_ioctl_hdr>() + count * size_of::<ib_uverbs_attr>()) as u16;
        if self.chance(25) {
            self.mutate_header(&mut header);
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
        let status =
            unsafe { libc::ioctl(self.descriptor(), MRX_VERBS_IOCTL, &raw mut message) };
        let outcome = match status {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        self.world.ledger.count_call(line, &outcome);
        if outcome.is_err() {
            return false;
        }
        let handle = made.object.and_then(|(object, id)| {
            let answers = message.attributes[..count].iter();
            let answer = answers.into_iter().find(|a| u64::from(a.attr_id) == id)?;
            // SAFETY: all members of the union are plain bytes.
            Some((object, unsafe { answer.__bindgen_anon_1.data } as u32))
        });
        let number = made.number.map(|piece| self.scratch.word(piece, 0));
        self.remember(handle, made.ended, number);
        if let Some(piece) = made.key {
            let key = self.scratch.word(piece, 0);
            self.file.keys.add(key, &mut self.random);
        }
        if let (Some((rings, piece)), Some((_, owner))) = (made.rings, handle) {
            self.file.map(rings, &self.scratch.read(piece), owner);
        }
        true
    }

    fn remember(
        &mut self,
        handle: Option<(u16, u32)>,
        ended: Option<(u16, u32)>,
        number: Option<u32>,
    ) {
        match handle {
            Some((CHANNEL, descriptor)) => self.new_channel(descriptor as i32),
            Some((EVENTS, descriptor)) => {
                // SAFETY: a descriptor that was just made.
                unsafe { libc::close(descriptor as i32) };
            }
            Some((object, handle)) if usize::from(object) < OBJECTS => {
                self.file.handles[usize::from(object)].add(handle, &mut self.random);
                if let (QP, Some(number)) = (object, number) {
                    self.file.add_qp(handle, number);
                }
            }
            _ => {}
        }
        if let Some((object, handle)) = ended {
            self.file.handles[usize::from(object)].remove(handle);
        }
    }

    fn new_channel(&mut self, descriptor: i32) {
        if self.file.channels.is_crowded() {
            // SAFETY: a descriptor that was just made.
            unsafe { libc::close(descriptor) };
            return;
        }
        // SAFETY: as above. Reading it shall never wait.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
        self.file.channels.add(descriptor as u32, &mut self.random);
    }

    fn mutate_attributes(&mut self, attributes: &mut Vec<ib_uverbs_attr>) {
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
    fn safe_edge(&mut self, len: u16) -> u64 {
        if len <= 8 && self.random.bool() {
            self.edge()
        } else {
            self.scratch.bad_address(&mut self.random)
        }
    }

    fn mutate_header(&mut self, header: &mut ib_uverbs_ioctl_hdr) {
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

    // ---- commands

    /// Gives one of the commands: written, or wrapped in a method.
    pub fn command(&mut self) {
        let which = self.world.choose_command(&mut self.random);
        self.give(&COMMANDS[which], self.world.command_lines[which]);
    }

    fn give(&mut self, command: &Command, line: Line) {
        if let Some(object) = command.makes {
            let crowded = self.file.handles[usize::from(object)].is_crowded();
            if crowded && !self.chance(8) {
                return self.end(object);
            }
        }
        self.scratch.clear();
        let mut body = self.structure(command.fields);
        match command.shape {
            Shape::Modify => self.shape_modify(&mut body),
            Shape::Post => self.append_requests(command, &mut body),
            _ => {}
        }
        if self.chance(8) {
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
    pub fn give_body(&mut self, command: &Command, body: Vec<u8>, line: Line) {
        if self.chance(4) {
            self.wrapped(command, body, line);
        } else {
            self.written(command, body, line);
        }
    }

    fn written(&mut self, command: &Command, mut body: Vec<u8>, line: Line) {
        let provider = command.rings.map_or(0, |rings| rings.bytes());
        let room = self.scratch.room(command.answer + provider);
        let address = if self.chance(40) {
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
            if command.fields.first().is_some_and(|f| f.sense == Sense::Answer) {
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
        if self.chance(20) {
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
        let status =
            unsafe { libc::write(self.descriptor(), bytes.as_ptr().cast(), bytes.len()) };
        let outcome = if status < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        };
        self.world.ledger.count_call(line, &outcome);
        if outcome.is_ok() {
            // The body follows the head, whatever that is.
            let start = if command.extended { 24 } else { 8 };
            self.learn(command, &bytes[start..], room);
        }
    }

    fn wrapped(&mut self, command: &Command, body: Vec<u8>, line: Line) {
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
        if self.send(object, method, attributes, &made, line) {
            self.learn(command, &body, room);
            if let (Some(piece), Some(rings)) = (provider, command.rings) {
                let owner = self.scratch.word(room, 0);
                self.file.map(rings, &self.scratch.read(piece), owner);
            }
        }
    }

    /// Remembers what a command made or ended.
    fn learn(&mut self, command: &Command, body: &[u8], answer: Piece) {
        let first = self.scratch.word(answer, 0);
        let handle = command.makes.map(|object| (object, first));
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?))
        };
        let ended = match command.shape {
            Shape::Ends(object, at) => word(at).map(|handle| (object, handle)),
            _ => None,
        };
        let number = (command.makes == Some(QP)).then(|| self.scratch.word(answer, 4));
        self.remember(handle, ended, number);
        if command.makes == Some(AH) {
            let number = self.scratch.word(answer, 4);
            self.file.ah_numbers.add(number, &mut self.random);
        }
        if let Some(at) = command.key_at {
            let key = self.scratch.word(answer, at);
            self.file.keys.add(key, &mut self.random);
        }
        let owner = match command.makes {
            Some(CQ | QP | SRQ) => first,
            _ => word(8).unwrap_or(0),
        };
        if let Some(rings) = command.rings.filter(|_| answer.len > command.answer) {
            let answer = self.scratch.read(answer);
            self.file.map(rings, &answer[command.answer..], owner);
        }
    }

    /// Chooses a change of state with the attributes that it needs or may have.
    fn shape_modify(&mut self, body: &mut [u8]) {
        const CHANGES: &[(u32, u8)] = &[
            INIT,
            INIT_UD,
            RTR,
            RTR_UC,
            RTR_UD,
            RTS,
            RTS_OTHERS,
            (IBV_QP_STATE, IBV_QPS_RTS as u8),
            (IBV_QP_STATE, IBV_QPS_SQD as u8),
            (IBV_QP_STATE, IBV_QPS_SQE as u8),
            (IBV_QP_STATE, IBV_QPS_ERR as u8),
            RESET,
            (IBV_QP_ACCESS_FLAGS, 0),
            (IBV_QP_QKEY, 0),
        ];
        let (mask, state) = if self.chance(6) {
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
            body.extend(self.structure(crate::schema::methods::RANGE));
        }
    }

    /// Gets a context, and what is needed to begin with.
    pub fn begin(&mut self) {
        let get = |method: &Method| method.name == "UVERBS_METHOD_GET_CONTEXT";
        if let Some(which) = METHODS.iter().position(get) {
            self.call(&METHODS[which], self.world.method_lines[which]);
        }
        self.settle();
    }

    /// Registers some memory, makes queues, and connects two queue pairs, all as
    /// it should be, so that requests have a chance.
    fn settle(&mut self) {
        let by_name = |name: &str| COMMANDS.iter().position(|command| command.name == name);
        let steps = [
            ("IB_USER_VERBS_CMD_ALLOC_PD", 1),
            ("IB_USER_VERBS_CMD_REG_MR", 3),
            ("IB_USER_VERBS_CMD_CREATE_CQ", 2),
            ("IB_USER_VERBS_CMD_CREATE_QP", 4),
            ("IB_USER_VERBS_CMD_CREATE_AH", 1),
        ];
        for (name, times) in steps {
            for _ in 0..times {
                if let Some(which) = by_name(name) {
                    self.give(&COMMANDS[which], self.world.command_lines[which]);
                }
            }
        }
        self.connect();
    }

    /// Connects two queue pairs with each other, or one with itself.
    pub fn connect(&mut self) {
        let (Some(one), Some(other)) =
            (self.file.qp(&mut self.random), self.file.qp(&mut self.random))
        else {
            return;
        };
        let Some(gid) = self.random.choice(&self.world.gids).copied() else {
            return;
        };
        for (near, far) in [(one, other), (other, one)] {
            // Whatever the queue pair was; then as RC, UC and UD in turn.
            self.modify(near, far, &gid, &[RESET]);
            for steps in [
                [INIT, RTR, RTS],
                [INIT, RTR_UC, RTS_OTHERS],
                [INIT_UD, RTR_UD, RTS_OTHERS],
            ] {
                self.modify(near, far, &gid, &steps);
            }
        }
    }

    /// Changes the state of a queue pair in steps, until one fails.
    fn modify(
        &mut self,
        near: (u32, u32),
        far: (u32, u32),
        gid: &[u8; 16],
        steps: &[(u32, u8)],
    ) {
        let Some(which) = COMMANDS
            .iter()
            .position(|command| command.name == "IB_USER_VERBS_CMD_MODIFY_QP")
        else {
            return;
        };
        for &(mask, state) in steps {
            self.scratch.clear();
            let mut body = vec![0; bytes_of(COMMANDS[which].fields)];
            body[..16].copy_from_slice(gid);
            // The route: an index into our addresses, hops, and that it is global, at port 1.
            body[24] = self.world.index_of(gid);
            body[25] = 64;
            (body[30], body[31]) = (1, 1);
            let words = [near.0, mask, QKEY, 0, 0, far.1, 0xf];
            for (at, value) in words.iter().enumerate() {
                body[64 + 4 * at..68 + 4 * at].copy_from_slice(&value.to_ne_bytes());
            }
            body[MODIFY_STATE] = state;
            // The largest packet; 8 reads either way; the timers and retries are short.
            (body[98], body[101], body[102]) = (3, 8, 8);
            (body[103], body[104], body[105], body[106], body[107]) = (1, 1, 8, 1, 1);
            self.written(&COMMANDS[which], body, self.world.command_lines[which]);
        }
    }
}

fn plain(id: u32, len: usize, data: u64) -> ib_uverbs_attr {
    let mut attribute = ib_uverbs_attr {
        attr_id: id as u16,
        len: len as u16,
        flags: UVERBS_ATTR_F_MANDATORY as u16,
        ..Default::default()
    };
    attribute.__bindgen_anon_1.data = data;
    attribute
}
