// SPDX-License-Identifier: GPL-2.0

//! Patterns.

use mrx::sys;

use super::scene::{fetch, gather, pair, put, small, ZERO_BASED};
use crate::harness::{
    check::same_bytes, ensure_eq, layout::Entry, memory::ALL, pattern, Mr, Setup, Sge, Test,
};

pub const TESTS: &[Test] = &[
    Test::new(
        "patterns: A and B of four data, 1:1, give ABABABAB",
        one_to_one,
    ),
    Test::new(
        "patterns: A and B of four data, 2:2, give AABBAABB",
        two_to_two,
    ),
    Test::new(
        "patterns: A of two and B of four data, 1:2, give ABBABB",
        one_to_two,
    ),
    Test::new("patterns: an entry that is used up is skipped", uneven),
    Test::new("patterns: a column of a matrix", column),
    Test::new(
        "patterns: a transposed matrix, written and read",
        transposed,
    ),
    Test::new(
        "patterns: random patterns of up to eight dimensions move as their bytes",
        random_patterns,
    ),
    Test::new("patterns: a pattern over a list of ranges", over_ranges),
    Test::new("patterns: a pattern is read back as it was set", read_back),
    Test::new(
        "patterns: wrong entries are refused, and change nothing",
        refusals,
    ),
    Test::new(
        "patterns: more dimensions or entries than the device can are refused",
        limits,
    ),
];

/// The data of an entry as offsets from its first datum, in order.
fn offsets(dimensions: &[(u64, u64)]) -> Vec<u64> {
    let mut all = vec![0];
    for &(stride, count) in dimensions {
        all = (0..count)
            .flat_map(|n| all.iter().map(move |at| at + n * stride))
            .collect();
    }
    all
}

/// An entry over one region, to compute its bytes.
pub struct Model {
    pub first: usize,
    pub length: usize,
    pub repeated: usize,
    pub dimensions: Vec<(u64, u64)>,
}

impl Model {
    /// The entry as it is set.
    pub fn over(&self, region: &Mr) -> Entry {
        let first = region.sge(self.first..self.first + self.length);
        Entry::new(first, self.repeated as i32, &self.dimensions)
    }
}

/// The bytes that a pattern over these entries is, one after the other, as
/// offsets in what the entries are over.
pub fn places(entries: &[Model]) -> Vec<usize> {
    let mut left: Vec<_> = entries
        .iter()
        .map(|entry| offsets(&entry.dimensions).into_iter())
        .collect();
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        for (entry, left) in entries.iter().zip(&mut left) {
            for offset in left.take(entry.repeated) {
                let at = entry.first + offset as usize;
                bytes.extend(at..at + entry.length);
            }
        }
        if bytes.len() == before {
            return bytes;
        }
    }
}

/// Regions of A's and B's, as entries of data of one byte each.
fn letters(setup: &Setup, a: (i32, u64), b: (i32, u64), wanted: &str) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let (of_a, of_b) = (pair.filled(b"AAAA", ALL)?, pair.filled(b"BBBB", ALL)?);
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let entry =
        |region: &Mr, (repeated, count)| Entry::new(region.sge(0..1), repeated, &[(1, count)]);
    holder.set_interleaved(0, &[entry(&of_a, a), entry(&of_b, b)])?;
    let found = fetch(&pair, &holder, 0, wanted.len())?;
    ensure_eq!(String::from_utf8_lossy(&found), wanted);
    ensure_eq!(holder.layout_info()?.length as usize, wanted.len());
    same_bytes(
        &gather(&pair, &holder, 0, wanted.len())?,
        wanted.as_bytes(),
        "as local key",
    )
}

fn one_to_one(setup: &Setup) -> anyhow::Result<()> {
    letters(setup, (1, 4), (1, 4), "ABABABAB")
}

fn two_to_two(setup: &Setup) -> anyhow::Result<()> {
    letters(setup, (2, 4), (2, 4), "AABBAABB")
}

fn one_to_two(setup: &Setup) -> anyhow::Result<()> {
    letters(setup, (1, 2), (2, 4), "ABBABB")
}

fn uneven(setup: &Setup) -> anyhow::Result<()> {
    letters(setup, (1, 1), (1, 4), "ABBBB")?;
    letters(setup, (3, 4), (1, 3), "AAABABB")
}

fn column(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    // 20 rows of 30 cells of 4 bytes: the 7th column.
    let bytes = pattern(1, 20 * 30 * 4);
    let matrix = pair.filled(&bytes, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    holder.set_interleaved(0, &[Entry::new(matrix.sge(28..32), 1, &[(120, 20)])])?;
    let wanted: Vec<_> = (0..20)
        .flat_map(|row| &bytes[row * 120 + 28..row * 120 + 32])
        .copied()
        .collect();
    same_bytes(&fetch(&pair, &holder, 0, 80)?, &wanted, "the column")
}

fn transposed(setup: &Setup) -> anyhow::Result<()> {
    const ROWS: usize = 60;
    const COLUMNS: usize = 40;
    let pair = pair(setup)?;
    let matrix = pair.region(ROWS * COLUMNS * 8, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let row = (COLUMNS * 8) as u64;
    let dimensions = [(row, ROWS as u64), (8, COLUMNS as u64)];
    holder.set_interleaved(0, &[Entry::new(matrix.sge(0..8), 1, &dimensions)])?;
    let bytes = pattern(1, ROWS * COLUMNS * 8);
    put(&pair, &holder, 0, &bytes)?;
    let mut wanted = vec![0; bytes.len()];
    for (n, cell) in bytes.chunks(8).enumerate() {
        let at = (n % ROWS * COLUMNS + n / ROWS) * 8;
        wanted[at..at + 8].copy_from_slice(cell);
    }
    same_bytes(&matrix.memory.all(), &wanted, "the matrix")?;
    same_bytes(
        &gather(&pair, &holder, 100, 9000)?,
        &bytes[100..9100],
        "a part of it",
    )
}

fn random_patterns(setup: &Setup) -> anyhow::Result<()> {
    const LEN: usize = 200_000;
    let pair = pair(setup)?;
    let bytes = pattern(setup.seed, LEN);
    let source = pair.filled(&bytes, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let mut random = fastrand::Rng::with_seed(setup.seed);
    for round in 0..25 {
        let entries: Vec<_> = (0..random.usize(1..=6))
            .map(|_| Model {
                dimensions: (0..random.usize(1..=8))
                    .map(|_| (random.u64(0..3000), random.u64(1..=3)))
                    .collect(),
                first: random.usize(0..100_000),
                length: random.usize(1..=40),
                repeated: random.usize(1..=5),
            })
            .collect();
        let wanted: Vec<_> = places(&entries).iter().map(|&at| bytes[at]).collect();
        let set: Vec<_> = entries.iter().map(|entry| entry.over(&source)).collect();
        holder.set_interleaved(0, &set)?;
        ensure_eq!(
            holder.layout_info()?.length as usize,
            wanted.len(),
            "the length, round {round}"
        );
        let what = format!("round {round}");
        same_bytes(&fetch(&pair, &holder, 0, wanted.len())?, &wanted, &what)?;
        for _ in 0..4 {
            let len = random.usize(1..=wanted.len());
            let at = random.usize(0..=wanted.len() - len);
            let what = format!("round {round}, {len} bytes at {at}");
            same_bytes(
                &gather(&pair, &holder, at, len)?,
                &wanted[at..at + len],
                &what,
            )?;
        }
    }
    Ok(())
}

fn over_ranges(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let scene = small(&pair, Mr::empty(&pair.pd, ZERO_BASED)?)?;
    let upper = Mr::empty(&pair.pd, ZERO_BASED)?;
    // Every third byte, across the seam at 60.
    upper.set_interleaved(0, &[Entry::new(scene.holder.piece(1, 1), 1, &[(3, 33)])])?;
    let wanted: Vec<_> = scene
        .expected(0, 100)
        .into_iter()
        .skip(1)
        .step_by(3)
        .take(33)
        .collect();
    same_bytes(&fetch(&pair, &upper, 0, 33)?, &wanted, "as remote key")?;
    same_bytes(&gather(&pair, &upper, 0, 33)?, &wanted, "as local key")
}

fn read_back(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let region = pair.region(10_000, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let set = [
        Entry::new(region.sge(0..5), 2, &[(10, 4), (100, 3)]),
        Entry::new(region.sge(7..8), 1, &[(0, 9)]),
        Entry::new(region.sge(50..60), 7, &[(10, 2), (20, 2), (40, 2)]),
    ];
    holder.set_interleaved(0, &set)?;
    let flat = |entries: &[Entry]| -> Vec<_> {
        let one = |entry: &Entry| {
            let Sge { addr, length, lkey } = entry.first;
            (addr, length, lkey, entry.repeated, entry.dimensions.clone())
        };
        entries.iter().map(one).collect()
    };
    ensure_eq!(holder.layout_info()?.kind, sys::MRX_LAYOUT_INTERLEAVED);
    ensure_eq!(flat(&holder.interleaved_layout()?), flat(&set));
    Ok(())
}

fn refusals(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let region = pair.filled(&pattern(1, 1000), ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    holder.set_interleaved(0, &[Entry::new(region.sge(0..10), 1, &[(20, 50)])])?;
    let length = holder.layout_info()?.length as usize;
    let before = (holder.rkey(), fetch(&pair, &holder, 0, length)?);
    let first = region.sge(0..10);
    let cases: Vec<(&str, Vec<Entry>)> = vec![
        ("no entries", vec![]),
        ("no dimensions", vec![Entry::new(first, 1, &[])]),
        (
            "a datum of no bytes",
            vec![Entry::new(Sge { length: 0, ..first }, 1, &[(20, 5)])],
        ),
        ("no repetitions", vec![Entry::new(first, 0, &[(20, 5)])]),
        (
            "negative repetitions",
            vec![Entry::new(first, -1, &[(20, 5)])],
        ),
        (
            "a dimension of no data",
            vec![Entry::new(first, 1, &[(20, 5), (100, 0)])],
        ),
        (
            "an unknown key",
            vec![Entry::new(
                Sge {
                    lkey: 0x7777_7777,
                    ..first
                },
                1,
                &[(20, 5)],
            )],
        ),
        (
            "the last datum outside",
            vec![Entry::new(region.sge(1..11), 1, &[(99, 11)])],
        ),
        (
            "a stride that overflows",
            vec![Entry::new(first, 1, &[(u64::MAX, 3)])],
        ),
        (
            "counts that overflow",
            vec![Entry::new(first, 1, &[(0, u64::MAX), (0, u64::MAX)])],
        ),
        (
            "a first datum outside",
            vec![Entry::new(region.piece(995, 10), 1, &[(20, 1)])],
        ),
        (
            "itself",
            vec![Entry::new(holder.piece(0, 10), 1, &[(20, 1)])],
        ),
    ];
    for (what, entries) in cases {
        match holder.set_interleaved(0, &entries) {
            Ok(()) => anyhow::bail!("{what}: accepted"),
            Err(refusal) => ensure_eq!(refusal.code, sys::IBV_MR_SET_LAYOUT_ERR_INPUT, "{what}"),
        }
        let after = (holder.rkey(), fetch(&pair, &holder, 0, length)?);
        anyhow::ensure!(after == before, "{what}: the old layout has changed");
    }
    Ok(())
}

fn limits(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let caps = pair.context.layout_caps()?;
    let region = pair.region(1000, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let first = region.sge(0..1);
    let dimensions = |count: u32| vec![(1, 1); count as usize];
    let most = caps.max_mr_stride_dimension;
    holder.set_interleaved(0, &[Entry::new(first, 1, &dimensions(most))])?;
    let entries = |count: u32| vec![Entry::new(first, 1, &[(1, 2)]); count as usize];
    holder.set_interleaved(0, &entries(caps.max_num_interleaved))?;
    let too_much = [
        vec![Entry::new(first, 1, &dimensions(most + 1))],
        entries(caps.max_num_interleaved + 1),
    ];
    for (n, entries) in too_much.iter().enumerate() {
        anyhow::ensure!(
            holder.set_interleaved(0, entries).is_err(),
            "case {n} was accepted"
        );
    }
    Ok(())
}
