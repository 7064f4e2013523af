// SPDX-License-Identifier: GPL-2.0

//! What the two processes have, and what each transfer has to do to it: plain
//! copies in user space, which the device's work is compared with.

use std::{collections::HashMap, fmt};

/// What one character of the picture stands for.
pub const CELL: usize = 512;

/// Bytes of each buffer, and of the region over two of them.
pub const LENGTH: usize = 24 * CELL;

/// The two buffers of a process.
pub type Buffers = [Vec<u8>; 2];

/// One of the two processes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that was started.
    Left,
    /// The one that it forks.
    Right,
}

impl Side {
    pub const BOTH: [Self; 2] = [Self::Left, Self::Right];

    pub fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }

    /// Bytes of a piece. The sides differ, so that nothing fits by accident.
    pub const fn piece(self) -> usize {
        match self {
            Self::Left => 2 * CELL,
            Self::Right => 3 * CELL,
        }
    }

    /// The pieces of the region in order: which buffer, and where in it. They
    /// alternate between the buffers, and leave every other piece of both out.
    pub fn pieces(self) -> impl Iterator<Item = (usize, usize)> {
        (0..LENGTH / self.piece()).map(move |n| (n % 2, n * self.piece()))
    }

    /// What the buffers hold before a transfer; all cells differ.
    pub fn contents(self, seed: u64) -> Buffers {
        let mut random = fastrand::Rng::with_seed((seed << 1) | u64::from(self == Self::Left));
        [(); 2].map(|()| {
            std::iter::repeat_with(|| random.u8(..))
                .take(LENGTH)
                .collect()
        })
    }

    /// The bytes of the region, in order.
    fn gather(self, buffers: &Buffers) -> Vec<u8> {
        self.pieces()
            .flat_map(|(buffer, at)| &buffers[buffer][at..at + self.piece()])
            .copied()
            .collect()
    }

    /// Writes all bytes of the region.
    fn scatter(self, buffers: &mut Buffers, bytes: &[u8]) {
        for ((buffer, at), piece) in self.pieces().zip(bytes.chunks(self.piece())) {
            buffers[buffer][at..at + piece.len()].copy_from_slice(piece);
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Left => "left",
            Self::Right => "right",
        })
    }
}

/// How data moves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// SEND, into a posted receive
    Send,
    /// RDMA WRITE
    Write,
    /// RDMA READ
    Read,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Send => "SEND",
            Self::Write => "WRITE",
            Self::Read => "READ",
        })
    }
}

/// One transfer of a whole region into the other.
#[derive(Clone, Copy)]
pub struct Transfer {
    pub way: Way,
    pub from: Side,
    /// What the contents before it are made from.
    pub seed: u64,
}

impl Transfer {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        [Way::Send, Way::Write, Way::Read]
            .into_iter()
            .flat_map(|way| Side::BOTH.map(|from| (way, from)))
            .zip(1..)
            .map(|((way, from), seed)| Self { way, from, seed })
    }

    /// Who posts it: the source, except that a READ is asked for.
    pub fn poster(self) -> Side {
        if self.way == Way::Read {
            self.from.other()
        } else {
            self.from
        }
    }

    /// What the buffers of a side hold afterwards.
    pub fn expected(self, side: Side) -> Buffers {
        let mut buffers = side.contents(self.seed);
        if side != self.from {
            let bytes = self.from.gather(&self.from.contents(self.seed));
            side.scatter(&mut buffers, &bytes);
        }
        buffers
    }

    /// A picture of the buffers of a side, a line each: cells of the source's
    /// region are letters, capitals in the second buffer; what the side had
    /// before is a dot; and anything else is a question mark.
    pub fn picture(self, side: Side, buffers: &Buffers) -> [String; 2] {
        let (source, own) = (self.from.contents(self.seed), side.contents(self.seed));
        let mut names = HashMap::new();
        for cell in own.iter().flat_map(|buffer| buffer.chunks(CELL)) {
            names.insert(cell, '.');
        }
        for (n, (buffer, at)) in self.from.pieces().enumerate() {
            let letter = char::from(b"aA"[buffer] + (n / 2) as u8);
            for cell in source[buffer][at..at + self.from.piece()].chunks(CELL) {
                names.insert(cell, letter);
            }
        }
        [0, 1].map(|buffer| {
            let cells = buffers[buffer].chunks(CELL);
            cells
                .map(|cell| names.get(cell).copied().unwrap_or('?'))
                .collect()
        })
    }
}
