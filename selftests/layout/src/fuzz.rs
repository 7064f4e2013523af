// SPDX-License-Identifier: GPL-2.0

//! One call for a fuzzer.

use crate::{
    check::{check_acceptance, check_layouts, check_places},
    decode::{any_description, small_world, Numbers},
    model::World,
};

/// Makes layouts from `data` and checks them; panics if the module is wrong about one.
///
/// Depending on the first byte these are small ones that are checked byte by byte, or such with
/// extreme numbers, most of which must be refused.
pub fn fuzz_one(data: &[u8]) {
    match data.split_first() {
        Some((kind, rest)) if kind % 2 == 0 => check_small(rest),
        Some((_, rest)) => check_extreme(rest),
        None => {}
    }
}

/// Makes small layouts from `data` and checks every byte of them.
pub fn check_small(data: &[u8]) {
    let mut numbers = Numbers::new(data);
    let world = small_world(&mut numbers);
    check_layouts(&world, &mut numbers);
}

/// Makes layouts of extreme numbers from `data`, checks that they are accepted or refused rightly
/// and that those accepted give the right bytes where it looks.
pub fn check_extreme(data: &[u8]) {
    let mut numbers = Numbers::new(data);
    let mut world = World::default();
    for _ in 0..1 + numbers.below(3) {
        let length = numbers.extreme().max(1);
        world.add_memory(length);
    }
    for _ in 0..1 + numbers.below(6) {
        let description = any_description(&mut numbers, &world);
        if let Some(index) = check_acceptance(&mut world, description) {
            check_places(&world, index, &mut numbers);
        }
    }
}
