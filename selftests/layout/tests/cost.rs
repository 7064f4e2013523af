// SPDX-License-Identifier: GPL-2.0

//! What random access, walking and memory cost. Counted, not timed.

use mrx_layout::{
    layout::{
        probe, ByteLength, ByteOffset, ByteStride, DatumCount, Dimension, InterleavedEntry, Layout,
        Position, RepeatCount, SgItem, Source, Walker,
    },
    model::Memory,
};

const HUNDRED_MILLION: u64 = 100_000_000;

fn memory(length: u64) -> Source<Memory> {
    Source::Leaf(Memory { index: 0, length })
}

/// Entry `i` has `patterns(i)`: the number of data of 8 bytes, and the repeat.
fn interleaved(entries: usize, patterns: impl Fn(u64) -> (u64, u32)) -> Layout<Memory> {
    let patterns: Vec<_> = (0..entries as u64).map(patterns).collect();
    let dimensions: Vec<_> = patterns
        .iter()
        .map(|&(count, _)| {
            [Dimension {
                stride: ByteStride(16),
                count: DatumCount(count),
            }]
        })
        .collect();
    let entries: Vec<_> = patterns
        .iter()
        .zip(&dimensions)
        .map(|(&(_, repeat), dimensions)| InterleavedEntry {
            source: memory(1 << 40),
            offset: ByteOffset(0),
            length: ByteLength(8),
            repeat: RepeatCount(repeat),
            dimensions,
        })
        .collect();
    Layout::interleaved(&entries).unwrap()
}

fn sg(items: u64) -> Layout<Memory> {
    let items: Vec<_> = (0..items)
        .map(|i| SgItem {
            source: memory(1 << 40),
            offset: ByteOffset(i * 100),
            length: ByteLength(1 + i % 64),
        })
        .collect();
    Layout::sg(&items).unwrap()
}

/// The most table rows that reading one byte looks at, over places from start to end.
fn dearest_access(layout: &Layout<Memory>) -> u64 {
    let last = layout.length().0 - 1;
    (0..=1000)
        .map(|i| (u128::from(last) * i / 1000) as u64)
        .map(|at| {
            let read = || layout.walk(Position(at), ByteLength(1)).unwrap().count();
            let (visits, runs) = probe::visits(read);
            assert_eq!(runs, 1);
            visits
        })
        .max()
        .unwrap()
}

/// Table rows looked at, and runs given, by a walk of a whole layout.
fn whole_walk(layout: &Layout<Memory>) -> (u64, usize) {
    probe::visits(|| layout.walk(Position(0), layout.length()).unwrap().count())
}

#[test]
fn a_place_among_65536_items_is_found_by_bisection() {
    let layout = sg(65_536);
    // 17 to find it, and the one that is there.
    assert!(dearest_access(&layout) <= 17 + 1);
    assert!(layout.memory() <= 65_536 * 64);
    let (visits, runs) = whole_walk(&layout);
    assert_eq!(runs, 65_536);
    assert!(visits <= 17 + 65_536, "{visits} visits");
}

#[test]
fn a_hundred_million_data_cost_as_much_memory_and_time_as_ten() {
    let (few, many) = (
        interleaved(1, |_| (10, 1)),
        interleaved(1, |_| (HUNDRED_MILLION, 1)),
    );
    assert_eq!(many.length().0, 8 * HUNDRED_MILLION);
    assert_eq!(many.memory(), few.memory());
    assert!(many.memory() < 300, "{} bytes", many.memory());
    assert_eq!(dearest_access(&many), 2);
    assert_eq!(whole_walk(&many), (2, 1));
}

#[test]
fn a_hundred_million_data_of_two_entries_in_turn_are_found_directly() {
    let layout = interleaved(2, |i| (HUNDRED_MILLION, 1 + i as u32));
    assert!(layout.memory() < 600, "{} bytes", layout.memory());
    assert!(dearest_access(&layout) <= 5);
}

#[test]
fn uniform_entries_share_one_phase() {
    let layout = interleaved(1024, |_| (1000, 1));
    assert!(layout.memory() < 1024 * 160, "{} bytes", layout.memory());
    assert!(dearest_access(&layout) <= 1 + 11);
}

#[test]
fn entries_that_all_end_in_different_rounds_are_found_in_logarithmic_time() {
    let layout = interleaved(1024, |i| (10 + (i * 7919) % 100_003, 1 + (i % 5) as u32));
    // 12 to find the phase among 2,048, 11 for the tree.
    assert!(dearest_access(&layout) <= 23);
    assert!(layout.memory() < 1024 * 1024, "{} bytes", layout.memory());
}

#[test]
fn walking_does_not_search_for_each_datum() {
    let layout = interleaved(1024, |_| (50, 1));
    let (visits, runs) = whole_walk(&layout);
    assert_eq!(runs, 1024 * 50);
    assert!(visits <= 12 * 50, "{visits} visits");
}

#[test]
fn skipping_many_exhausted_entries_costs_as_little_as_few_entries() {
    let long = |i: u64| i % 500 == 0;
    let layout = interleaved(1000, |i| (if long(i) { 10_000 } else { 1 }, 1));
    let (visits, runs) = whole_walk(&layout);
    assert!(runs >= 20_000);
    assert!(visits <= 2 * runs as u64, "{visits} visits, {runs} runs");
}

#[test]
fn a_walker_fits_a_kernel_stack() {
    let size = size_of::<Walker<'_, Memory>>();
    assert!(size <= 640, "{size} bytes");
}

/// 65,536 pieces of one byte and of two in turn, with gaps between them: no two are one run.
fn uneven() -> Layout<Memory> {
    let items: Vec<_> = (0..65_536)
        .map(|i| SgItem {
            source: memory(1 << 20),
            offset: ByteOffset(i * 4),
            length: ByteLength(1 + i % 2),
        })
        .collect();
    Layout::sg(&items).unwrap()
}

/// Where in memory a byte of [`uneven`] is.
fn in_memory(at: u64) -> u64 {
    [0, 4, 5][(at % 3) as usize] + at / 3 * 8
}

/// Ranges of `length` bytes of `source`, which begin at these places.
fn ranges_of(source: &Source<Memory>, starts: &[u64], length: u64) -> Layout<Memory> {
    let items: Vec<_> = starts
        .iter()
        .map(|&start| SgItem {
            source: source.clone(),
            offset: ByteOffset(start),
            length: ByteLength(length),
        })
        .collect();
    Layout::sg(&items).unwrap()
}

/// Names the whole of a layout of such ranges of [`uneven`] over and over. That costs a search or
/// two for each item, and once what is copied.
fn name_over_and_over(starts: &[u64], length: u64) {
    let below = ranges_of(
        &Source::Nested(uneven().into_arc().unwrap()),
        starts,
        length,
    );
    let whole = below.length().0;
    let below = Source::Nested(below.into_arc().unwrap());
    let mut random = fastrand::Rng::with_seed(1);
    for items in [1_000, 30_000] {
        let (visits, layout) = probe::visits(|| ranges_of(&below, &vec![0; items], whole));
        assert!(
            visits <= 64 * items as u64,
            "{visits} visits for {items} items"
        );
        for at in (0..100).map(|_| random.u64(0..layout.length().0)) {
            let at_below = at % whole;
            let start = starts[(at_below / length) as usize];
            let mut runs = layout.walk(Position(at), ByteLength(1)).unwrap();
            let wanted = in_memory(start + at_below % length);
            assert_eq!(runs.next().map(|run| run.offset.0), Some(wanted));
        }
    }
}

#[test]
fn a_layout_of_many_runs_is_named_over_and_over_in_linear_time() {
    // Four pieces each, which is what an item may become: there are 65,536 runs.
    let starts: Vec<_> = (0..16_384).rev().map(|i| i * 6).collect();
    name_over_and_over(&starts, 6);
}

#[test]
fn a_run_of_many_pieces_is_named_over_and_over_in_linear_time() {
    // Too many pieces each, so that they stay ranges of the layout below: there is one run.
    let starts: Vec<_> = (0..5_000).map(|i| i * 3).collect();
    name_over_and_over(&starts, 80_000);
}
