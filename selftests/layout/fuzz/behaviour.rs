// SPDX-License-Identifier: GPL-2.0

//! What an input makes the module do, seen from outside: which kinds of layouts come about over
//! which, what is refused and why, and which shapes the runs of a layout have. An input that does
//! something new is worth changing further.

use mrx_layout::{
    check::check_places,
    decode::{any_description, small_world, Numbers},
    layout::{ByteLength, LayoutError, Position},
    model::{Description, World},
};
use std::{
    collections::{hash_map::DefaultHasher, HashSet},
    hash::{Hash, Hasher},
    mem::discriminant,
};

/// The most runs of a layout that are looked at.
const RUNS: usize = 200;

/// What has been seen so far.
#[derive(Default)]
pub struct Behaviours(HashSet<u64>);

impl Behaviours {
    /// Whether `input` does something that none before it did.
    pub fn is_new(&mut self, input: &[u8]) -> bool {
        let mut new = false;
        visit(input, &mut |world, index, outcome| {
            let mut hasher = DefaultHasher::new();
            match outcome {
                Outcome::Accepted => accepted(world, index, &mut hasher),
                Outcome::Refused(description, error) => {
                    shape(description).hash(&mut hasher);
                    discriminant(error).hash(&mut hasher);
                    error.entry().map(|entry| entry > 0).hash(&mut hasher);
                }
            }
            new |= self.0.insert(hasher.finish());
        });
        new
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// The layouts of `input` in words, one a line.
pub fn describe(input: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut memories = 0;
    visit(input, &mut |world, index, outcome| {
        for (index, memory) in world.descriptions.iter().enumerate().skip(memories) {
            if let Description::Memory(length) = memory {
                lines.push(format!("{index}: memory of {length} bytes"));
                memories = index + 1;
            }
        }
        lines.push(match outcome {
            Outcome::Accepted => format!(
                "{index}: {:?}, {} bytes",
                world.descriptions[index],
                world.length(index)
            ),
            Outcome::Refused(description, error) => format!("{description:?}: {error:?}"),
        });
    });
    lines
}

/// What became of a description.
enum Outcome<'a> {
    /// It is the layout with the index that is given along with this.
    Accepted,
    Refused(&'a Description, &'a LayoutError),
}

/// Makes the layouts that `mrx_layout::fuzz::fuzz_one` makes of `input`.
fn visit(input: &[u8], see: &mut dyn FnMut(&World, usize, Outcome<'_>)) {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    let mut numbers = Numbers::new(rest);
    if kind % 2 == 0 {
        let world = small_world(&mut numbers);
        for index in 0..world.sources.len() {
            if world.layout(index).is_some() {
                see(&world, index, Outcome::Accepted);
            }
        }
        return;
    }
    let mut world = World::default();
    for _ in 0..1 + numbers.below(3) {
        let length = numbers.extreme().max(1);
        world.add_memory(length);
    }
    for _ in 0..1 + numbers.below(6) {
        let description = any_description(&mut numbers, &world);
        match world.add(description.clone()) {
            Ok(index) => {
                see(&world, index, Outcome::Accepted);
                check_places(&world, index, &mut numbers);
            }
            Err(error) => see(&world, 0, Outcome::Refused(&description, &error)),
        }
    }
}

/// Kind and size, roughly.
fn shape(description: &Description) -> (u8, usize) {
    match description {
        Description::Memory(_) => (0, 0),
        Description::Sg(items) => (1, items.len().min(2)),
        Description::Interleaved(entries) => (2, entries.len().min(2)),
    }
}

/// The shape of a layout, of what it lies over and of its runs.
fn accepted(world: &World, index: usize, hasher: &mut DefaultHasher) {
    let description = &world.descriptions[index];
    shape(description).hash(hasher);
    world.depth(index).hash(hasher);
    let below = |source: usize| shape(&world.descriptions[source]).0;
    match description {
        Description::Memory(_) => {}
        Description::Sg(items) => {
            let kinds = items
                .iter()
                .fold(0, |kinds, item| kinds | (1 << below(item.source)));
            kinds.hash(hasher);
        }
        Description::Interleaved(entries) => {
            let kinds = entries
                .iter()
                .fold(0, |kinds, e| kinds | (1 << below(e.first.source)));
            kinds.hash(hasher);
            let most = entries.iter().map(|e| e.dimensions.len()).max();
            most.map(|most| most.min(3)).hash(hasher);
            entries
                .windows(2)
                .any(|two| two[0].repeat != two[1].repeat)
                .hash(hasher);
            entries
                .windows(2)
                .any(|two| two[0].data() != two[1].data())
                .hash(hasher);
        }
    }
    let Some(layout) = world.layout(index) else {
        return;
    };
    let length = layout.length();
    (length.0.ilog2() / 12).hash(hasher);
    let mut shapes = 0u32;
    if let Ok(walk) = layout.walk(Position(0), ByteLength(length.0)) {
        for run in walk.take(RUNS) {
            let stride = match run.stride.0 {
                0 => 0,
                stride if stride < run.length.0 => 1,
                stride if stride == run.length.0 => 2,
                _ => 3,
            };
            shapes |= 1 << (stride + 4 * u32::from(run.count.0 > 1));
        }
    }
    shapes.hash(hasher);
}
