// SPDX-License-Identifier: GPL-2.0

//! What the methods and commands of uverbs are made of: which attribute and
//! which word means what. From this, calls are made that are almost right.

use mrx::sys::*;

pub mod commands;
pub mod methods;

/// What a number means, which says what would be a good one.
#[derive(Clone, Copy, PartialEq)]
pub enum Sense {
    /// Where the answer goes.
    Answer,
    /// Of the caller's memory.
    Address,
    /// Of bytes at an address.
    Length,
    /// The same address as before.
    Again,
    /// A range of a region that has these rights, in one: an address, a length up
    /// to this, and a key.
    Range(u32, u32),
    /// How many dimensions an entry has, which are in a list of their own.
    Dimensions,
    /// Of an object of this kind.
    Handle(u16),
    /// What a region may be used for.
    Access,
    /// The same of a buffer, which has no more than rights.
    BufferAccess,
    /// Anything from 0 to this.
    UpTo(u64),
    /// One of the first, which are usual; the others are too large, or wrong.
    OneOf(&'static [u64], &'static [u64]),
    /// Any of these bits.
    Bits(u64),
    /// Of a queue pair.
    QpNumber,
    /// A file descriptor for completion events, or -1.
    Channel,
    /// A file descriptor of a buffer.
    Buffer,
    /// The type of a queue pair.
    QpType,
    /// A GID: the 16 bytes are made in one.
    Gid,
    /// The place of that GID in the table of the device.
    GidIndex,
    /// That of a multicast group.
    Group,
    /// The name of a client of peer memory: the 64 bytes are made in one.
    Client,
    /// Zero, as it must be.
    Zero,
    /// Nobody looks at it.
    Any,
}

/// A number in a structure.
#[derive(Clone, Copy)]
pub struct Field {
    pub bytes: usize,
    pub sense: Sense,
}

pub const fn quad(sense: Sense) -> Field {
    Field { bytes: 8, sense }
}

pub const fn word(sense: Sense) -> Field {
    Field { bytes: 4, sense }
}

pub const fn half(sense: Sense) -> Field {
    Field { bytes: 2, sense }
}

pub const fn byte(sense: Sense) -> Field {
    Field { bytes: 1, sense }
}

pub const GID: Field = Field {
    bytes: 16,
    sense: Sense::Gid,
};

/// What an attribute of a method carries.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Room for the handle of a new object.
    New(u16),
    /// A handle.
    Use(u16),
    /// A handle that is none afterwards.
    End(u16),
    /// A file descriptor of an object.
    Fd(Sense),
    /// Eight bytes in the attribute.
    Constant(Sense),
    /// A structure.
    In(&'static [Field]),
    /// An array of up to so many structures.
    Array(&'static [Field], usize),
    /// `struct mrx_user_list`, of up to so many structures.
    List(&'static [Field], usize),
    /// The same, as room for so many structures.
    Room(&'static [Field], usize),
    /// Room for so many bytes.
    Out(usize),
    /// Room for a key.
    OutKey,
    /// Room for a number of a queue pair.
    OutQpNumber,
    /// Room for what the driver answers.
    OutRings(Rings),
}

/// Which rings an answer of the driver names.
#[derive(Clone, Copy, PartialEq)]
pub enum Rings {
    Completion,
    /// The receive ring and the send ring.
    Pair,
    Shared,
}

impl Rings {
    /// Bytes of the answer.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Completion => 16,
            Self::Pair => 32,
            Self::Shared => 24,
        }
    }
}

/// Whether an attribute is there.
#[derive(Clone, Copy, PartialEq)]
pub enum Presence {
    Always,
    /// It may be left out.
    Optional,
    /// The module has no use for it.
    Mistaken,
}

#[derive(Clone, Copy)]
pub struct Attribute {
    pub id: u32,
    pub kind: Kind,
    pub presence: Presence,
}

const fn attribute(id: u32, kind: Kind, presence: Presence) -> Attribute {
    Attribute { id, kind, presence }
}

pub const fn with(id: u32, kind: Kind) -> Attribute {
    attribute(id, kind, Presence::Always)
}

pub const fn perhaps(id: u32, kind: Kind) -> Attribute {
    attribute(id, kind, Presence::Optional)
}

pub const fn wrongly(id: u32, kind: Kind) -> Attribute {
    attribute(id, kind, Presence::Mistaken)
}

/// A method of the ioctl tree.
#[derive(Clone, Copy)]
pub struct Method {
    pub name: &'static str,
    pub object: u32,
    pub method: u32,
    pub attributes: &'static [Attribute],
    /// How often it is called, compared with others.
    pub weight: u32,
    /// The module has a handler that it should reach; if not, the core refuses
    /// for want of one.
    pub has_handler: bool,
}

/// A command that is written.
pub struct Command {
    pub name: &'static str,
    pub number: u32,
    pub extended: bool,
    pub fields: &'static [Field],
    /// What the driver wants to know besides.
    pub tail: &'static [Field],
    /// Bytes of the core's answer.
    pub answer: usize,
    /// What the driver adds to it.
    pub rings: Option<Rings>,
    /// The kind of object whose handle begins the answer.
    pub makes: Option<u16>,
    /// Where a key is in the answer.
    pub key_at: Option<usize>,
    pub shape: Shape,
    pub weight: u32,
    pub has_handler: bool,
}

/// What does not follow from the fields one by one.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    Plain,
    /// Registers memory: a start and a length at this offset.
    Registers(usize),
    /// The handle at this offset is none afterwards.
    Ends(u16, usize),
    /// A change of state, with the attributes that belong to it.
    Modify,
    /// Requests follow, and their pieces.
    Post,
    /// A queue pair becomes a member of a group.
    Joins,
    /// It is one no longer.
    Leaves,
}

/// All of `parts`, one part behind the other.
pub const fn joined<T: Copy, const N: usize>(parts: &[&[T]]) -> [T; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut of = 0;
        while of < parts[part].len() {
            all[at] = parts[part][of];
            (at, of) = (at + 1, of + 1);
        }
        part += 1;
    }
    assert!(at == N);
    all
}

/// Bytes of a structure.
pub fn bytes_of(fields: &[Field]) -> usize {
    fields.iter().map(|field| field.bytes).sum()
}

pub const PD: u16 = UVERBS_OBJECT_PD as u16;
pub const CHANNEL: u16 = UVERBS_OBJECT_COMP_CHANNEL as u16;
pub const CQ: u16 = UVERBS_OBJECT_CQ as u16;
pub const QP: u16 = UVERBS_OBJECT_QP as u16;
pub const SRQ: u16 = UVERBS_OBJECT_SRQ as u16;
pub const AH: u16 = UVERBS_OBJECT_AH as u16;
pub const MR: u16 = UVERBS_OBJECT_MR as u16;
pub const MW: u16 = UVERBS_OBJECT_MW as u16;
pub const FLOW: u16 = UVERBS_OBJECT_FLOW as u16;
pub const XRCD: u16 = UVERBS_OBJECT_XRCD as u16;
pub const TABLE: u16 = UVERBS_OBJECT_RWQ_IND_TBL as u16;
pub const WQ: u16 = UVERBS_OBJECT_WQ as u16;
pub const ACTION: u16 = UVERBS_OBJECT_FLOW_ACTION as u16;
pub const DM: u16 = UVERBS_OBJECT_DM as u16;
pub const COUNTERS: u16 = UVERBS_OBJECT_COUNTERS as u16;
pub const EVENTS: u16 = UVERBS_OBJECT_ASYNC_EVENT as u16;
/// More than there are kinds of objects, known or not.
pub const OBJECTS: usize = 24;
/// What handles are chosen by besides: regions that can have a layout, queue pairs
/// of datagrams, and domains but for the one that most objects are of.
pub const LAYOUT: u16 = OBJECTS as u16;
pub const DATAGRAMS: u16 = LAYOUT + 1;
pub const OTHER_PD: u16 = LAYOUT + 2;

/// The kind of object that a handle is of.
pub const fn object_of(chosen_by: u16) -> u16 {
    match chosen_by {
        LAYOUT => MR,
        DATAGRAMS => QP,
        OTHER_PD => PD,
        object => object,
    }
}

/// What a queue pair can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpKind {
    Reliable,
    Unreliable,
    Datagrams,
}

impl QpKind {
    /// By the number of its type.
    pub const fn of(number: u64) -> Option<Self> {
        match number {
            2 => Some(Self::Reliable),
            3 => Some(Self::Unreliable),
            4 => Some(Self::Datagrams),
            _ => None,
        }
    }
}

/// The rights that let somebody reach bytes.
pub const RIGHTS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC;
/// `IB_ACCESS_FLUSH_GLOBAL`, which headers older than the library lack.
pub const FLUSH_GLOBAL: u32 = 1 << 8;

pub const CLIENT: Field = Field {
    bytes: 64,
    sense: Sense::Client,
};

pub const GROUP: Field = Field {
    bytes: 16,
    sense: Sense::Group,
};

/// A range in a structure: three numbers, of 8, 4 and 4 bytes.
pub const fn range(most: u32, rights: u32) -> Field {
    Field {
        bytes: 16,
        sense: Sense::Range(most, rights),
    }
}

pub const QP_TYPES: (&[u64], &[u64]) = (&[2, 2, 2, 3, 4, 4], &[0, 1, 5, 8, 9, 10, 255]);
pub const PORT: Sense = Sense::OneOf(&[1], &[0, 2, 255]);
pub const VECTOR: Sense = Sense::OneOf(&[0], &[1, 0xffff_ffff]);
/// Depths of queues.
pub const DEPTH: Sense = Sense::OneOf(
    &[1, 4, 8, 16, 16, 32, 32, 64, 64, 128],
    &[0, 2, 256, 1000, 16384, 16385, 0xffff_ffff],
);
/// Receives of a shared queue below which its owner is told.
pub const LIMIT: Sense = Sense::OneOf(&[0, 0, 0, 1, 2], &[16, 16384, 0xffff_ffff]);
/// Depths of completion queues.
pub const ENTRIES: Sense = Sense::OneOf(
    &[16, 64, 64, 64, 256, 256],
    &[
        0,
        1,
        3,
        4096,
        1 << 14,
        (1 << 20) + 1,
        0x7fff_ffff,
        0xffff_ffff,
    ],
);
/// Numbers of scatter/gather elements.
pub const PIECES: Sense = Sense::OneOf(&[1, 2, 4, 4, 4, 8], &[0, 16, 32, 33, 0xffff_ffff]);
/// Bytes of inline data.
pub const INLINE: Sense = Sense::OneOf(
    &[0, 16, 64, 64, 128, 256],
    &[400, 512, 513, 1024, 0xffff_ffff],
);
