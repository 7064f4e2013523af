// SPDX-License-Identifier: GPL-2.0

//! What holds for all layouts.

use mrx_layout::{
    decode::{any_description, small_world, Numbers},
    fuzz::{check_extreme, check_small, fuzz_one},
    layout::{probe, LayoutError, Position},
    model::{Description, Entry, Item, World},
};
use proptest::{prelude::*, test_runner::RngSeed};

/// The same cases in every run: trying others is the fuzzer's business.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(0),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(8_000))]

    #[test]
    fn small_layouts_give_the_bytes_that_the_definition_gives(
        data in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        check_small(&data);
    }
}

proptest! {
    #![proptest_config(config(8_000))]

    #[test]
    fn extreme_numbers_are_refused_or_resolved_rightly(
        data in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        check_extreme(&data);
    }
}

/// Strings of up to 600 bytes from a xorshift generator.
fn pseudo_random_inputs(count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut byte = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(move |i| (0..i % 600).map(|_| byte()).collect())
}

#[test]
fn the_fuzz_target_accepts_pseudo_random_inputs() {
    for data in pseudo_random_inputs(4_000) {
        fuzz_one(&data);
    }
}

#[test]
fn the_cases_reach_what_they_are_made_for() {
    let (mut deep, mut strided, mut regular, mut huge) = (0, 0, 0, 0);
    for data in pseudo_random_inputs(2_000) {
        let world = small_world(&mut Numbers::new(&data));
        for index in 0..world.sources.len() {
            if let Some(layout) = world.layout(index) {
                deep += usize::from(layout.depth().0 >= 4);
                let mut runs = layout.walk(Position(0), layout.length()).unwrap();
                let of_ranges = matches!(world.descriptions[index], Description::Sg(_));
                if runs.any(|run| run.count.0 > 1) {
                    strided += 1;
                    regular += usize::from(of_ranges);
                }
            }
        }
        let mut world = World::default();
        world.add_memory(1 << 40);
        let description = any_description(&mut Numbers::new(&data), &world);
        let interleaved = matches!(description, Description::Interleaved(_));
        let length = world.allowed_length(&description).unwrap_or(0);
        huge += usize::from(interleaved && length > 1 << 40);
    }
    assert!(deep > 500, "{deep} layouts of depth 4 and more");
    assert!(strided > 500, "{strided} layouts with strided runs");
    assert!(regular > 200, "{regular} lists of ranges with strided runs");
    assert!(
        huge > 100,
        "{huge} interleaved layouts longer than their memory"
    );
}

#[test]
fn a_layout_is_refused_wherever_memory_runs_out() {
    let mut world = World::default();
    let memory = world.add_memory(1000);
    let item = |offset| Item {
        source: memory,
        offset,
        length: 3,
    };
    let entry = |offset: u64| Entry {
        first: item(offset),
        repeat: 2,
        dimensions: vec![(7, 3 + offset % 5), (100, 4)],
    };
    for description in [
        Description::Sg((0..50).map(|i| item(i * 5)).collect()),
        Description::Interleaved((0..50).map(entry).collect()),
    ] {
        let refusals = (0..1000)
            .map_while(|grants| {
                let result = probe::with_allocations(grants, || world.build(&description).err());
                assert!(matches!(result, None | Some(LayoutError::NoMemory)));
                result
            })
            .count();
        assert!((1..1000).contains(&refusals), "{refusals} allocations");
    }
}
