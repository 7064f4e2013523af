// SPDX-License-Identifier: GPL-2.0

//! What all threads of a hostile process have in common.

use crate::{
    arena::Arena,
    coverage::Coverage,
    ledger::{Group, Ledger, Line},
    schema::{commands::COMMANDS, methods::METHODS},
};

/// Lines of the ledger that belong to no call.
#[derive(Clone, Copy)]
pub struct Lines {
    pub wrong_head: Line,
    pub opened: Line,
    pub mapped: Line,
    pub closed: Line,
    pub duplicate: Line,
    pub peer: Line,
    pub taken_back: Line,
    pub events: Line,
    pub unmap: Line,
    pub protect: Line,
    pub advise: Line,
    pub replace: Line,
    pub fork: Line,
    pub exec: Line,
    pub leave: Line,
    pub killed: Line,
}

/// The opcodes of requests in rings, with their names.
pub const OPCODES: &[(u32, &str)] = &[
    (0, "RDMA_WRITE"),
    (1, "RDMA_WRITE_WITH_IMM"),
    (2, "SEND"),
    (3, "SEND_WITH_IMM"),
    (4, "RDMA_READ"),
    (5, "ATOMIC_CMP_AND_SWP"),
    (6, "ATOMIC_FETCH_AND_ADD"),
    (7, "LOCAL_INV"),
    (8, "BIND_MW"),
    (9, "SEND_WITH_INV"),
    (11, "BIND_MR (DRIVER1)"),
    (14, "FLUSH"),
    (15, "ATOMIC_WRITE"),
    // What no ring may hold.
    (10, "TSO"),
    (12, "MASKED_ATOMIC_CMP_AND_SWP"),
    (0x20, "REG_MR (of the kernel)"),
    (0x100, "RDMA_READ_WITH_INV (of the kernel)"),
];

/// So many of them, the first, may be in the rings of a process.
pub const VALID: usize = 13;

/// What is done to rings.
pub const OPERATIONS: &[&str] = &[
    "send: producer",
    "send: consumer",
    "send: opcode",
    "send: flags",
    "send: immediate or key",
    "send: remote address, key, or destination",
    "send: length",
    "send: number of pieces",
    "send: a piece",
    "send: inline data",
    "send: status or state",
    "receive: producer",
    "receive: consumer",
    "receive: number of pieces",
    "receive: a piece",
    "completion: producer",
    "completion: consumer",
    "completion: an entry",
    "any: index mask",
    "any: element size",
    "any: a byte",
    "a request posted",
    "a receive posted",
    "a completion taken",
];

/// Those of them that are no mischief.
pub const POSTED_REQUEST: usize = OPERATIONS.len() - 3;
pub const POSTED_RECEIVE: usize = OPERATIONS.len() - 2;
pub const TAKEN: usize = OPERATIONS.len() - 1;

/// What the threads of a process share.
pub struct World {
    pub ledger: &'static Ledger,
    pub lines: Lines,
    pub method_lines: Vec<Line>,
    pub command_lines: Vec<Line>,
    pub opcode_lines: Vec<Line>,
    pub receive_line: Line,
    pub operation_lines: Vec<Line>,
    pub arena: Arena,
    pub gids: Vec<[u8; 16]>,
    /// File descriptors of dma-bufs.
    pub buffers: Vec<i32>,
    /// Regions end where their memory does, so that canaries may be writable.
    pub confined: bool,
    /// The device may go. Linux 7.3 then puts a file that is no more when a channel of
    /// completions is named first in a call (`rdma_lookup_get_uobject`), so there are none.
    pub device_goes: bool,
    /// Somebody wants to know which code of the module runs.
    pub coverage: Option<Coverage>,
}

/// The lines of the ledger.
#[derive(Clone)]
pub struct Index {
    pub lines: Lines,
    pub methods: Vec<Line>,
    pub commands: Vec<Line>,
    pub opcodes: Vec<Line>,
    pub receive: Line,
    pub operations: Vec<Line>,
}

impl Index {
    /// Adds all lines to the ledger.
    pub fn new(ledger: &mut Ledger) -> Self {
        let group = |handled| match handled {
            true => Group::Handled,
            false => Group::Core,
        };
        let methods = METHODS.iter();
        let commands = COMMANDS.iter();
        Self {
            methods: methods
                .map(|method| ledger.line(group(method.has_handler), method.name))
                .collect(),
            commands: commands
                .map(|command| ledger.line(group(command.has_handler), command.name))
                .collect(),
            opcodes: OPCODES
                .iter()
                .enumerate()
                .map(|(at, (_, name))| match at {
                    ..VALID => ledger.line(Group::Request, name),
                    _ => ledger.line(Group::Forbidden, name),
                })
                .collect(),
            receive: ledger.line(Group::Request, "a receive"),
            operations: OPERATIONS
                .iter()
                .map(|name| ledger.line(Group::Ring, name))
                .collect(),
            lines: Lines {
                wrong_head: ledger.line(Group::Core, "a method with a wrong header"),
                opened: ledger.line(Group::Game, "open the device in place of an open file"),
                mapped: ledger.line(Group::Game, "map the device file anywhere"),
                closed: ledger.line(Group::Game, "use a closed descriptor"),
                duplicate: ledger.line(Group::Game, "use a duplicate and close it"),
                peer: ledger.line(Group::Game, "map peer memory in place of memory"),
                taken_back: ledger.line(Group::Game, "take peer memory back"),
                events: ledger.line(Group::Game, "read a channel"),
                unmap: ledger.line(Group::Game, "unmap memory and map it again"),
                protect: ledger.line(Group::Game, "mprotect"),
                advise: ledger.line(Group::Game, "madvise"),
                replace: ledger.line(Group::Game, "map a file in place of memory"),
                fork: ledger.line(Group::Game, "fork, and use the device in the child"),
                exec: ledger.line(Group::Game, "exec with everything live"),
                leave: ledger.line(Group::Game, "exit with everything live"),
                killed: ledger.line(Group::Game, "SIGKILL"),
            },
        }
    }
}

impl World {
    pub fn choose_method(&self, random: &mut fastrand::Rng) -> usize {
        choose(METHODS.iter().map(|method| method.weight), random)
    }

    pub fn choose_command(&self, random: &mut fastrand::Rng) -> usize {
        choose(COMMANDS.iter().map(|command| command.weight), random)
    }

    /// The place of an address in the table of the device.
    pub fn index_of(&self, gid: &[u8; 16]) -> u8 {
        self.gids.iter().position(|own| own == gid).unwrap_or(0) as u8
    }
}

/// One of these, by their weights.
fn choose(weights: impl Iterator<Item = u32> + Clone, random: &mut fastrand::Rng) -> usize {
    let mut left = random.u32(0..weights.clone().sum());
    for (at, weight) in weights.enumerate() {
        if left < weight {
            return at;
        }
        left -= weight;
    }
    0
}
