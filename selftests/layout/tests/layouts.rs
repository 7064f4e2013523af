// SPDX-License-Identifier: GPL-2.0

//! The contract by example: orders, runs, errors.

use mrx_layout::{
    layout::{
        probe, ByteLength, ByteOffset, ByteStride, DatumCount, DescriptorCount, Dimension,
        ErrorClass, InterleavedEntry, Layout, LayoutError, NestingLevel, Position, RepeatCount,
        SgItem, Source, MAX_DIMENSIONS, MAX_NESTING,
    },
    model::Memory,
};

const A: usize = 0;
const B: usize = 1;

fn memory(index: usize, length: u64) -> Source<Memory> {
    Source::Leaf(Memory { index, length })
}

fn nested(layout: Layout<Memory>) -> Source<Memory> {
    Source::Nested(layout.into_arc().unwrap())
}

fn item(source: Source<Memory>, offset: u64, length: u64) -> SgItem<Memory> {
    SgItem {
        source,
        offset: ByteOffset(offset),
        length: ByteLength(length),
    }
}

fn dimension(stride: u64, count: u64) -> Dimension {
    Dimension {
        stride: ByteStride(stride),
        count: DatumCount(count),
    }
}

fn entry(
    source: Source<Memory>,
    offset: u64,
    length: u64,
    repeat: u32,
    dimensions: &[Dimension],
) -> InterleavedEntry<'_, Memory> {
    InterleavedEntry {
        source,
        offset: ByteOffset(offset),
        length: ByteLength(length),
        repeat: RepeatCount(repeat),
        dimensions,
    }
}

/// The runs of a range as (memory, offset, length, stride, count).
fn runs_of(layout: &Layout<Memory>, start: u64, length: u64) -> Vec<(usize, u64, u64, u64, u64)> {
    layout
        .walk(Position(start), ByteLength(length))
        .unwrap()
        .map(|run| {
            let Memory { index, .. } = *run.leaf;
            (index, run.offset.0, run.length.0, run.stride.0, run.count.0)
        })
        .collect()
}

fn runs(layout: &Layout<Memory>) -> Vec<(usize, u64, u64, u64, u64)> {
    runs_of(layout, 0, layout.length().0)
}

/// The order of data of A and B as letters.
fn order(data: [u64; 2], repeats: [u32; 2]) -> String {
    let dimensions = data.map(|count| [dimension(16, count)]);
    let layout = Layout::interleaved(&[
        entry(memory(A, 64), 0, 8, repeats[0], &dimensions[0]),
        entry(memory(B, 64), 0, 8, repeats[1], &dimensions[1]),
    ])
    .unwrap();
    runs(&layout)
        .iter()
        .map(|&(index, _, _, _, count)| ["A", "B"][index].repeat(count as usize))
        .collect()
}

#[test]
fn entries_take_turns() {
    assert_eq!(order([4, 4], [1, 1]), "ABABABAB");
}

#[test]
fn a_turn_takes_as_many_data_as_the_entry_repeats() {
    assert_eq!(order([4, 4], [2, 2]), "AABBAABB");
}

#[test]
fn repeats_may_differ() {
    assert_eq!(order([2, 4], [1, 2]), "ABBABB");
}

#[test]
fn exhausted_entries_are_skipped() {
    assert_eq!(order([1, 4], [1, 1]), "ABBBB");
    assert_eq!(order([4, 1], [1, 1]), "ABAAA");
}

#[test]
fn the_last_turn_takes_what_is_left() {
    assert_eq!(order([3, 4], [2, 1]), "AABABBB");
}

#[test]
fn a_layout_tells_its_length_depth_and_descriptors() {
    let inner = Layout::sg(&[item(memory(A, 8), 0, 8), item(memory(B, 8), 2, 3)]).unwrap();
    assert_eq!(inner.length(), ByteLength(11));
    assert_eq!(inner.depth(), NestingLevel(1));
    assert_eq!(inner.descriptors(), DescriptorCount(2));

    let outer = Layout::sg(&[item(nested(inner), 1, 9)]).unwrap();
    assert_eq!(outer.length(), ByteLength(9));
    assert_eq!(outer.depth(), NestingLevel(2));
    assert_eq!(outer.descriptors(), DescriptorCount(1));
}

#[test]
fn items_that_continue_each_other_are_one_run() {
    let layout = Layout::sg(&[
        item(memory(A, 9), 0, 4),
        item(memory(A, 9), 4, 2),
        item(memory(A, 9), 7, 2),
    ])
    .unwrap();
    assert_eq!(runs(&layout), [(A, 0, 6, 0, 1), (A, 7, 2, 0, 1)]);
    assert_eq!(layout.descriptors(), DescriptorCount(3));
}

#[test]
fn a_range_of_an_sg_layout_cuts_its_first_and_last_run() {
    let layout = Layout::sg(&[item(memory(A, 9), 0, 4), item(memory(B, 9), 5, 4)]).unwrap();
    assert_eq!(runs_of(&layout, 1, 5), [(A, 1, 3, 0, 1), (B, 5, 2, 0, 1)]);
}

#[test]
fn a_nested_sg_layout_is_flattened() {
    let pieces: Vec<_> = (0..60).map(|i| item(memory(A, 600), i * 10, 5)).collect();
    let inner = nested(Layout::sg(&pieces).unwrap());
    let outer = Layout::sg(&[item(inner, 7, 6)]).unwrap();
    // The ends of two pieces, 8 bytes apart.
    assert_eq!(runs(&outer), [(A, 12, 3, 8, 2)]);
    assert!(outer.memory() > 0 && outer.memory() < 1000);
}

#[test]
fn a_large_nested_sg_layout_is_not_copied() {
    // Pieces of one and of two bytes in turn are no run.
    let pieces: Vec<_> = (0..10_000)
        .map(|i| item(memory(A, 40_000), i * 4, 1 + i % 2))
        .collect();
    let inner = nested(Layout::sg(&pieces).unwrap());
    let outer = Layout::sg(&[item(inner, 0, 15_000)]).unwrap();
    assert!(outer.memory() < 1000);
    assert_eq!(runs(&outer).len(), 10_000);
    assert_eq!(runs_of(&outer, 14_998, 2), [(A, 39_996, 2, 0, 1)]);
}

#[test]
fn equal_ranges_at_equal_distances_are_one_run() {
    let items: Vec<_> = (0..10_000)
        .map(|i| item(memory(A, 1 << 20), 7 + i * 100, 64))
        .collect();
    let layout = Layout::sg(&items).unwrap();
    assert_eq!(runs(&layout), [(A, 7, 64, 100, 10_000)]);
    assert!(layout.memory() < 1000);
    assert_eq!(layout.descriptors(), DescriptorCount(10_000));
    assert_eq!(
        runs_of(&layout, 64 * 5000 + 60, 4 + 64 * 3 + 1),
        [
            (A, 7 + 500_000 + 60, 4, 0, 1),
            (A, 7 + 500_100, 64, 100, 3),
            (A, 7 + 500_400, 1, 0, 1)
        ]
    );
}

#[test]
fn a_run_ends_where_distance_length_or_memory_changes() {
    let layout = Layout::sg(&[
        item(memory(A, 999), 0, 4),
        item(memory(A, 999), 10, 4),
        item(memory(A, 999), 20, 4),
        item(memory(A, 999), 31, 4),
        item(memory(A, 999), 41, 5),
        item(memory(B, 999), 51, 5),
        item(memory(B, 999), 51, 5),
        item(memory(B, 999), 51, 5),
        item(memory(B, 999), 50, 5),
    ])
    .unwrap();
    assert_eq!(
        runs(&layout),
        [
            (A, 0, 4, 10, 3),
            (A, 31, 4, 0, 1),
            (A, 41, 5, 0, 1),
            (B, 51, 5, 0, 3),
            (B, 50, 5, 0, 1)
        ]
    );
}

#[test]
fn a_run_of_a_layout_is_walked_piece_by_piece() {
    let row = [dimension(3, 100)];
    let below = nested(Layout::interleaved(&[entry(memory(A, 1000), 0, 1, 1, &row)]).unwrap());
    let items: Vec<_> = (0..3).map(|i| item(below.clone(), i * 10, 2)).collect();
    let layout = Layout::sg(&items).unwrap();
    assert_eq!(
        runs(&layout),
        [(A, 0, 1, 3, 2), (A, 30, 1, 3, 2), (A, 60, 1, 3, 2)]
    );
}

#[test]
fn what_is_cut_out_of_a_run_continues_it() {
    let pieces: Vec<_> = (0..100).map(|i| item(memory(A, 1000), i * 10, 5)).collect();
    let inner = nested(Layout::sg(&pieces).unwrap());
    let halves = [item(inner.clone(), 0, 250), item(inner, 250, 250)];
    assert_eq!(runs(&Layout::sg(&halves).unwrap()), [(A, 0, 5, 10, 100)]);
}

#[test]
fn a_layout_shares_the_order_of_turns_with_one_that_is_like_it() {
    let row = [dimension(16, 5)];
    let at = |offset, repeat| entry(memory(A, 1000), offset, 4, repeat, &row);
    let first = Layout::interleaved(&[at(0, 1), at(200, 2), at(400, 1)]).unwrap();
    // A table of patterns, and nothing for the turns.
    let like = |entries: &[InterleavedEntry<'_, Memory>]| {
        probe::with_allocations(1, || Layout::interleaved_like(entries, Some(&first)))
    };
    let moved = like(&[at(8, 1), at(0, 2), at(100, 1)]).unwrap();
    assert_eq!(
        runs(&moved)[..3],
        [(A, 8, 4, 0, 1), (A, 0, 4, 16, 2), (A, 100, 4, 0, 1)]
    );
    // Other turns are worked out again, which takes memory.
    for other in [
        &[at(8, 1), at(0, 1), at(100, 1)][..],
        &[at(8, 1), at(0, 2)],
        &[at(8, 1), at(0, 2), entry(memory(A, 99), 0, 5, 1, &row)],
        &[at(8, 1), at(0, 2), entry(memory(A, 99), 0, 4, 1, &row[..0])],
    ] {
        assert!(like(other).is_err());
    }
}

#[test]
fn a_row_of_a_single_pattern_is_one_run() {
    let rows = [dimension(16, 100), dimension(10_000, 3)];
    let layout = Layout::interleaved(&[entry(memory(A, 65_536), 4, 8, 1, &rows)]).unwrap();
    assert_eq!(
        runs(&layout),
        [
            (A, 4, 8, 16, 100),
            (A, 10_004, 8, 16, 100),
            (A, 20_004, 8, 16, 100)
        ]
    );
}

#[test]
fn parts_of_data_at_the_ends_of_a_range_are_runs_of_their_own() {
    let row = [dimension(16, 100)];
    let layout = Layout::interleaved(&[entry(memory(A, 65_536), 0, 8, 1, &row)]).unwrap();
    assert_eq!(
        runs_of(&layout, 3, 8 * 4),
        [(A, 3, 5, 0, 1), (A, 16, 8, 16, 3), (A, 64, 3, 0, 1)]
    );
}

#[test]
fn data_without_gaps_are_one_piece() {
    let dense = [dimension(8, 10), dimension(80, 2)];
    let layout = Layout::interleaved(&[entry(memory(A, 1000), 0, 8, 1, &dense)]).unwrap();
    assert_eq!(runs(&layout), [(A, 0, 160, 0, 1)]);
    assert_eq!(runs_of(&layout, 5, 100), [(A, 5, 100, 0, 1)]);
}

#[test]
fn dimensions_that_continue_each_other_are_one_row() {
    let dimensions = [dimension(16, 5), dimension(7, 1), dimension(80, 4)];
    let layout = Layout::interleaved(&[entry(memory(A, 1000), 0, 8, 1, &dimensions)]).unwrap();
    assert_eq!(runs(&layout), [(A, 0, 8, 16, 20)]);
}

#[test]
fn a_stride_may_be_zero_or_less_than_a_datum() {
    let same = [dimension(0, 3)];
    let layout = Layout::interleaved(&[entry(memory(A, 8), 0, 8, 1, &same)]).unwrap();
    assert_eq!(runs(&layout), [(A, 0, 8, 0, 3)]);

    let overlapping = [dimension(1, 3)];
    let layout = Layout::interleaved(&[entry(memory(A, 8), 0, 4, 1, &overlapping)]).unwrap();
    assert_eq!(runs(&layout), [(A, 0, 4, 1, 3)]);
}

#[test]
fn data_of_a_nested_layout_are_resolved_one_by_one() {
    let row = [dimension(4, 4)];
    let inner = Layout::interleaved(&[entry(memory(A, 64), 0, 2, 1, &row)]).unwrap();
    let outer = Layout::interleaved(&[entry(nested(inner), 1, 3, 1, &[dimension(4, 2)])]).unwrap();
    // inner bytes: 0 1 4 5 8 9 12 13; outer data: 1..4 and 5..8.
    assert_eq!(
        runs(&outer),
        [
            (A, 1, 1, 0, 1),
            (A, 4, 2, 0, 1),
            (A, 9, 1, 0, 1),
            (A, 12, 2, 0, 1)
        ]
    );
}

#[test]
fn an_empty_range_has_no_run_and_a_range_outside_is_refused() {
    let layout = Layout::sg(&[item(memory(A, 8), 0, 8)]).unwrap();
    assert_eq!(runs_of(&layout, 8, 0), []);
    let refusal = |start, length| layout.walk(Position(start), ByteLength(length)).err();
    assert_eq!(refusal(9, 0), Some(LayoutError::OutOfRange));
    assert_eq!(refusal(0, 9), Some(LayoutError::OutOfRange));
    assert_eq!(refusal(u64::MAX, 2), Some(LayoutError::OutOfRange));
}

fn sg_error(items: &[SgItem<Memory>]) -> LayoutError {
    let error = Layout::sg(items).err().expect("an error");
    assert_eq!(error.class(), ErrorClass::Input);
    error
}

#[test]
fn an_sg_layout_needs_items() {
    assert_eq!(sg_error(&[]), LayoutError::Empty);
}

#[test]
fn an_item_needs_bytes_and_stays_inside_its_source() {
    let good = || item(memory(A, 8), 0, 8);
    let second = |bad| sg_error(&[good(), bad]);
    let entry = 1;
    let (zero, outside) = (
        LayoutError::ZeroLength { entry },
        LayoutError::OutOfSource { entry },
    );
    assert_eq!(second(item(memory(A, 8), 3, 0)), zero);
    assert_eq!(second(item(memory(A, 8), 3, 6)), outside);
    assert_eq!(second(item(memory(A, 0), 0, 1)), outside);
    let overflow = LayoutError::Overflow { entry };
    assert_eq!(second(item(memory(A, 8), u64::MAX, 1)), overflow);
    assert_eq!(overflow.entry(), Some(1));
}

#[test]
fn the_length_of_a_layout_fits_in_64_bits() {
    let half = || item(memory(A, u64::MAX), 0, 1 << 63);
    let total = LayoutError::TotalOverflow { entry: 1 };
    assert_eq!(sg_error(&[half(), half()]), total);

    let row = [dimension(0, 1 << 63)];
    let half = || entry(memory(A, 1), 0, 1, 1, &row);
    assert_eq!(interleaved_error(&[half(), half()]), total);
}

fn interleaved_error(entries: &[InterleavedEntry<'_, Memory>]) -> LayoutError {
    Layout::interleaved(entries).err().expect("an error")
}

#[test]
fn an_interleaved_layout_needs_entries() {
    assert_eq!(interleaved_error(&[]), LayoutError::Empty);
}

#[test]
fn an_entry_needs_a_length_a_repeat_dimensions_and_counts() {
    let row = [dimension(8, 2)];
    let empty = [dimension(8, 2), dimension(8, 0)];
    let many = [dimension(0, 1); MAX_DIMENSIONS + 1];
    let entry_error = |length, repeat, dimensions: &[Dimension]| {
        interleaved_error(&[
            entry(memory(A, 16), 0, 8, 1, &row),
            entry(memory(A, 16), 0, length, repeat, dimensions),
        ])
    };
    let (index, dimension) = (1, 1);
    let zero = LayoutError::ZeroDatumCount {
        entry: index,
        dimension,
    };
    assert_eq!(
        entry_error(0, 1, &row),
        LayoutError::ZeroLength { entry: index }
    );
    assert_eq!(
        entry_error(8, 0, &row),
        LayoutError::ZeroRepeat { entry: index }
    );
    assert_eq!(
        entry_error(8, 1, &[]),
        LayoutError::NoDimensions { entry: index }
    );
    assert_eq!(entry_error(8, 1, &empty), zero);
    let too_many = LayoutError::TooManyDimensions { entry: index };
    assert_eq!(entry_error(8, 1, &many), too_many);
    assert_eq!(too_many.class(), ErrorClass::Unsupported);
}

#[test]
fn every_datum_lies_inside_its_source() {
    let outside = LayoutError::OutOfSource { entry: 0 };
    let error = |offset, length, dimensions: &[Dimension]| {
        interleaved_error(&[entry(memory(A, 100), offset, length, 1, dimensions)])
    };
    assert_eq!(error(93, 8, &[dimension(0, 1)]), outside);
    assert_eq!(error(0, 8, &[dimension(31, 4)]), outside);
    assert_eq!(error(0, 8, &[dimension(10, 4), dimension(63, 2)]), outside);
    assert!(Layout::interleaved(&[entry(memory(A, 101), 0, 8, 1, &[dimension(31, 4)])]).is_ok());
}

#[test]
fn numbers_that_overflow_are_refused() {
    let overflow = LayoutError::Overflow { entry: 0 };
    let error = |offset, length, dimensions: &[Dimension]| {
        interleaved_error(&[entry(memory(A, u64::MAX), offset, length, 1, dimensions)])
    };
    let huge = u64::MAX;
    assert_eq!(error(huge, 2, &[dimension(0, 1)]), overflow);
    assert_eq!(error(0, 1, &[dimension(huge, 3)]), overflow);
    assert_eq!(error(2, 1, &[dimension(huge - 2, 2)]), overflow);
    assert_eq!(
        error(0, 1, &[dimension(0, 1 << 32), dimension(0, 1 << 32)]),
        overflow
    );
    assert_eq!(error(0, 2, &[dimension(0, 1 << 63)]), overflow);
}

#[test]
fn the_stride_of_a_single_datum_does_not_matter() {
    let row = [dimension(u64::MAX, 1)];
    let layout = Layout::interleaved(&[entry(memory(A, 8), 0, 8, 1, &row)]).unwrap();
    assert_eq!(runs(&layout), [(A, 0, 8, 0, 1)]);
}

#[test]
fn layouts_nest_up_to_a_limit() {
    let row = [dimension(4, 4)];
    let interleaved = |source| Layout::interleaved(&[entry(source, 0, 2, 1, &row)]);
    let mut source = memory(A, 1 << 12);
    for depth in 1..=MAX_NESTING as u32 {
        let offset = u64::from(depth % 2);
        let layout = Layout::sg(&[item(source.clone(), offset, source.length().0 - offset)]);
        let layout = match depth {
            0..=4 => layout.unwrap(),
            5 => interleaved(source).unwrap(),
            _ => layout.unwrap(),
        };
        assert_eq!(layout.depth(), NestingLevel(depth));
        source = nested(layout);
    }
    let Source::Nested(deepest) = &source else {
        panic!("a layout");
    };
    assert_eq!(runs(deepest).len(), 4);

    let too_deep = LayoutError::TooDeep { entry: 1 };
    let items = [item(memory(A, 1), 0, 1), item(source.clone(), 0, 1)];
    assert_eq!(Layout::sg(&items).err(), Some(too_deep));
    let entries = [
        entry(memory(A, 16), 0, 2, 1, &row),
        entry(source, 0, 1, 1, &row),
    ];
    assert_eq!(interleaved_error(&entries), too_deep);
    assert_eq!(too_deep.class(), ErrorClass::Unsupported);
}
