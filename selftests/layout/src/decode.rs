// SPDX-License-Identifier: GPL-2.0

//! Layouts from bytes: every string of bytes stands for some, so that both a fuzzer and a property
//! test can make them up.

use crate::{
    layout::MAX_NESTING,
    model::{Description, Entry, Item, World},
};

/// Numbers from bytes; zeros when those are used up.
pub struct Numbers<'a>(&'a [u8]);

impl<'a> Numbers<'a> {
    /// Numbers from `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    fn raw(&mut self) -> u64 {
        u64::from_le_bytes([(); 8].map(|()| self.byte()))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        match bound {
            1 => 0,
            2..=256 => u64::from(self.byte()) % bound,
            257..=0x1_0000 => u64::from(u16::from_le_bytes([self.byte(), self.byte()])) % bound,
            _ => self.raw() % bound,
        }
    }

    /// Any number, often one at which something overflows.
    pub fn extreme(&mut self) -> u64 {
        let small = u64::from(self.byte());
        match self.byte() % 8 {
            0 | 1 => small % 8,
            2 => small,
            3 => u64::MAX - small % 8,
            4 => (1u64 << (small % 64)).wrapping_sub(1),
            5 => 1u64 << (small % 64),
            6 => u64::MAX / (small + 1),
            _ => self.raw(),
        }
    }
}

/// The most bytes of a layout that is checked byte by byte.
const SMALL: u64 = 4096;

/// Small layouts that the definition allows, over each other and over memory.
pub fn small_world(numbers: &mut Numbers<'_>) -> World {
    let mut world = World::default();
    for _ in 0..1 + numbers.below(3) {
        let length = 1 + numbers.below(200);
        world.add_memory(length);
    }
    for _ in 0..1 + numbers.below(7) {
        let count = 1 + numbers.below(7);
        let description = if numbers.below(2) == 0 {
            Description::Sg(small_items(numbers, &world, count))
        } else {
            let entries = (0..count).map(|_| small_entry(numbers, &world)).collect();
            Description::Interleaved(entries)
        };
        match world.allowed_length(&description) {
            Some(length) if length <= SMALL => {
                world.add(description).expect("a layout that is allowed");
            }
            Some(_) => {}
            None => panic!("decoded a layout that is not allowed: {description:?}"),
        }
    }
    world
}

/// A source that may still be nested in, often the one made last.
fn source(numbers: &mut Numbers<'_>, world: &World) -> usize {
    let last = world.sources.len() - 1;
    let source = match numbers.below(2) {
        0 => last,
        _ => numbers.below(last as u64 + 1) as usize,
    };
    if world.depth(source) as usize == MAX_NESTING {
        0
    } else {
        source
    }
}

fn small_items(numbers: &mut Numbers<'_>, world: &World, count: u64) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for _ in 0..count {
        let continued = items.last().and_then(|last| {
            let end = last.offset + last.length;
            (end < world.length(last.source)).then_some((last.source, end))
        });
        let choice = if continued.is_some() {
            numbers.below(3)
        } else {
            1
        };
        if choice == 2 {
            if let Some(next) = repeated(numbers, world, &items) {
                items.push(next);
                continue;
            }
        }
        let (source, offset) = match continued {
            Some(place) if choice == 0 => place,
            _ => {
                let source = source(numbers, world);
                (source, numbers.below(world.length(source)))
            }
        };
        let length = 1 + numbers.below(world.length(source) - offset);
        items.push(Item {
            source,
            offset,
            length,
        });
    }
    items
}

/// The item that goes on as the last ones do: as long as the last, and as far from it as that is
/// from the one before it.
fn repeated(numbers: &mut Numbers<'_>, world: &World, items: &[Item]) -> Option<Item> {
    let last = items.last()?;
    let before = items.len().checked_sub(2).map(|index| &items[index]);
    let stride = match before.filter(|before| before.source == last.source) {
        Some(before) => last.offset.checked_sub(before.offset)?,
        None => last.length + numbers.below(8),
    };
    let next = Item {
        offset: last.offset + stride,
        ..last.clone()
    };
    (next.offset + next.length <= world.length(next.source)).then_some(next)
}

fn small_entry(numbers: &mut Numbers<'_>, world: &World) -> Entry {
    let source = source(numbers, world);
    let offset = numbers.below(world.length(source));
    let mut room = world.length(source) - offset;
    let length = 1 + numbers.below(room.min(6));
    room -= length;

    let rank = match numbers.below(8) {
        0 => 8,
        n => 1 + n % 3,
    };
    let (mut data, mut next) = (1, length);
    let mut dimensions = Vec::new();
    for _ in 0..rank {
        let most = (48 / data).clamp(1, if rank == 8 { 2 } else { 12 });
        let count = 1 + numbers.below(most);
        let widest = match count {
            1 => room,
            _ => room / (count - 1),
        };
        // Often the stride that continues what the dimensions so far cover.
        let stride = match numbers.below(3) {
            0 if next <= widest => next,
            _ => numbers.below(widest + 1),
        };
        room -= stride * (count - 1);
        data *= count;
        next = stride * count;
        dimensions.push((stride, count));
    }
    Entry {
        first: Item {
            source,
            offset,
            length,
        },
        repeat: 1 + numbers.below(6) as u32,
        dimensions,
    }
}

/// A description of any numbers whatever over the sources of `world`.
pub fn any_description(numbers: &mut Numbers<'_>, world: &World) -> Description {
    let count = numbers.below(5);
    if numbers.below(2) == 0 {
        return Description::Sg((0..count).map(|_| any_item(numbers, world)).collect());
    }
    let entry = |numbers: &mut Numbers<'_>| {
        if numbers.below(4) > 0 {
            return large_entry(numbers, world);
        }
        let first = any_item(numbers, world);
        let rank = match numbers.below(16) {
            0 => 0,
            1 => 9,
            2 => 8,
            n => 1 + n % 3,
        };
        Entry {
            first,
            repeat: numbers.extreme() as u32,
            dimensions: (0..rank)
                .map(|_| (numbers.extreme(), numbers.extreme()))
                .collect(),
        }
    };
    Description::Interleaved((0..count).map(|_| entry(numbers)).collect())
}

/// An entry that is allowed, of as many data as numbers have it.
fn large_entry(numbers: &mut Numbers<'_>, world: &World) -> Entry {
    let source = source(numbers, world);
    let offset = numbers.extreme() % world.length(source);
    let mut room = world.length(source) - offset;
    let length = 1 + numbers.extreme() % room.min(1 << 16);
    room -= length;

    let mut most = (1 << 60) / length;
    let mut dimensions = Vec::new();
    for _ in 0..1 + numbers.below(3) {
        let count = 1 + numbers.extreme() % most;
        let stride = match count {
            1 => numbers.extreme(),
            _ => numbers.extreme() % (room / (count - 1) + 1),
        };
        room -= match count {
            1 => 0,
            _ => stride * (count - 1),
        };
        most /= count;
        dimensions.push((stride, count));
    }
    Entry {
        first: Item {
            source,
            offset,
            length,
        },
        repeat: (numbers.extreme() as u32).max(1),
        dimensions,
    }
}

fn any_item(numbers: &mut Numbers<'_>, world: &World) -> Item {
    let source = source(numbers, world);
    let (offset, length) = (numbers.extreme(), numbers.extreme());
    if numbers.below(2) == 0 {
        return Item {
            source,
            offset,
            length,
        };
    }
    // Inside of the source, so that enough of them are allowed.
    let offset = offset % world.length(source);
    let length = 1 + length % (world.length(source) - offset);
    Item {
        source,
        offset,
        length,
    }
}
