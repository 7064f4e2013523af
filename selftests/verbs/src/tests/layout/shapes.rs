// SPDX-License-Identifier: GPL-2.0

//! What layouts are for: parts of arrays that are moved by one request, with the
//! layout on this side, on the other one, and on both.

use mrx::sys;

use super::{
    interleaved::{places, Model},
    scene::{pair, ZERO_BASED},
};
use crate::harness::{check::same_bytes, memory::ALL, pattern, Mr, Pair, Setup, Sge, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new("shapes: a column, by WRITE and by SEND", |setup| {
        all_ways(setup, &[column()])
    }),
    Test::new("shapes: a block, by WRITE and by SEND", |setup| {
        all_ways(setup, &[block()])
    }),
    Test::new(
        "shapes: a transposed matrix, by WRITE and by SEND",
        |setup| all_ways(setup, &[transposed()]),
    ),
    Test::new(
        "shapes: the halo of a 3-D array, by WRITE and by SEND",
        |setup| all_ways(setup, &halo()),
    ),
];

const CELL: usize = 8;

/// A matrix of cells.
const ROWS: usize = 30;
const COLUMNS: usize = 40;
const ROW: u64 = (COLUMNS * CELL) as u64;

/// A 3-D array of cells, x fastest.
const X: usize = 10;
const Y: usize = 9;
const Z: usize = 12;

/// As many bytes as every array here has.
const LEN: usize = 1200 * CELL;

fn cells(first: usize, count: usize, dimensions: &[(u64, u64)]) -> Model {
    Model {
        first: first * CELL,
        length: count * CELL,
        repeated: 1,
        dimensions: dimensions.to_vec(),
    }
}

fn column() -> Model {
    cells(7, 1, &[(ROW, ROWS as u64)])
}

/// 12 rows of 20 cells.
fn block() -> Model {
    cells(5 * COLUMNS + 9, 20, &[(ROW, 12)])
}

fn transposed() -> Model {
    cells(0, 1, &[(ROW, ROWS as u64), (CELL as u64, COLUMNS as u64)])
}

/// The six faces, one after the other.
fn halo() -> Vec<Model> {
    let (row, plane) = ((X * CELL) as u64, (X * Y * CELL) as u64);
    let (rows, planes) = (Y as u64, Z as u64);
    let last_row = X * (Y - 1);
    let last_plane = X * Y * (Z - 1);
    let mut faces = vec![
        cells(0, X * Y, &[(0, 1)]),
        cells(last_plane, X * Y, &[(0, 1)]),
        cells(0, X, &[(plane, planes)]),
        cells(last_row, X, &[(plane, planes)]),
        cells(0, 1, &[(row, rows), (plane, planes)]),
        cells(X - 1, 1, &[(row, rows), (plane, planes)]),
    ];
    for face in &mut faces {
        // All of a face in one turn.
        face.repeated = X * Y * Z;
    }
    faces
}

/// An array, and a layout over its shape if it has one on this side.
struct End {
    array: Mr,
    layout: Option<Mr>,
    /// Where the bytes that move are, in order.
    places: Vec<usize>,
}

impl End {
    fn new(pair: &Pair, access: u32, shape: Option<&[Model]>, len: usize) -> anyhow::Result<Self> {
        let array = Mr::new(&pair.pd, LEN, access)?;
        let Some(shape) = shape else {
            return Ok(Self {
                array,
                layout: None,
                places: (0..len).collect(),
            });
        };
        let layout = Mr::empty(&pair.pd, ZERO_BASED)?;
        let entries: Vec<_> = shape.iter().map(|model| model.over(&array)).collect();
        layout.set_interleaved(0, &entries)?;
        Ok(Self {
            array,
            layout: Some(layout),
            places: places(shape),
        })
    }

    /// All that moves.
    fn whole(&self) -> Sge {
        match &self.layout {
            Some(layout) => layout.piece(0, self.places.len()),
            None => self.array.sge(0..self.places.len()),
        }
    }

    fn rkey(&self) -> u32 {
        self.layout.as_ref().unwrap_or(&self.array).rkey()
    }
}

/// Moves a shape of one array, or the bytes from its start on, to another.
fn all_ways(setup: &Setup, shape: &[Model]) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let len = places(shape).len();
    // Regions with the addresses of the process, and those that begin at zero.
    for access in [ALL, ZERO_BASED] {
        for (here, there) in [(true, false), (false, true), (true, true)] {
            let of = |side: bool| End::new(&pair, access, side.then_some(shape), len);
            let (from, to) = (of(here)?, of(there)?);
            for send in [false, true] {
                let what =
                    format!("access {access:#x}, layout here {here}, there {there}, SEND {send}");
                move_once(&pair, &from, &to, send, &what)?;
            }
        }
    }
    Ok(())
}

fn move_once(pair: &Pair, from: &End, to: &End, send: bool, what: &str) -> anyhow::Result<()> {
    let bytes = pattern(u64::from(send), LEN);
    let before = pattern(7, LEN);
    from.array.memory.write(0, &bytes);
    to.array.memory.write(0, &before);
    let (here, there) = (from.whole(), to.whole());
    if send {
        pair.b.post_recv(2, &[there])?;
        pair.a.post(&Work::send(1, &[here]))?;
        pair.b
            .recv_cq
            .wait()?
            .ok(2, sys::IBV_WC_RECV)?
            .bytes(from.places.len())?;
    } else {
        pair.a
            .post(&Work::write(1, &[here], there.addr, to.rkey()))?;
    }
    pair.a.send_cq.wait()?.is(1, sys::IBV_WC_SUCCESS)?;

    let mut wanted = before;
    for (&source, &target) in from.places.iter().zip(&to.places) {
        wanted[target] = bytes[source];
    }
    same_bytes(&to.array.memory.all(), &wanted, what)
}
