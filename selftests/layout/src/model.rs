// SPDX-License-Identifier: GPL-2.0

//! Layouts as plain descriptions, and two ways to resolve them that share nothing with the module:
//! [`World::bytes`] lists every byte from the definition, and [`World::locate`] finds one byte of
//! a layout of any size by counting in 128 bits.

use crate::layout::{
    Arc, ByteLength, ByteOffset, ByteStride, DatumCount, Dimension, InterleavedEntry, Layout,
    LayoutError, Leaf, RepeatCount, SgItem, Source,
};

/// A region that is no layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Which one.
    pub index: usize,
    /// Its bytes.
    pub length: u64,
}

impl Leaf for Memory {
    fn length(&self) -> ByteLength {
        ByteLength(self.length)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.index == other.index
    }
}

/// A byte of a [`Memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Byte {
    /// Index of the memory.
    pub memory: usize,
    /// Offset in the memory.
    pub offset: u64,
}

/// A range of a source.
#[derive(Clone, Debug)]
pub struct Item {
    /// Index of the source in the [`World`].
    pub source: usize,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A pattern in a source.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The first datum.
    pub first: Item,
    /// Data for each turn.
    pub repeat: u32,
    /// Stride and count, innermost first.
    pub dimensions: Vec<(u64, u64)>,
}

/// A source, described.
#[derive(Clone, Debug)]
pub enum Description {
    /// Memory of so many bytes.
    Memory(u64),
    /// A concatenation.
    Sg(Vec<Item>),
    /// Patterns in turn.
    Interleaved(Vec<Entry>),
}

/// Sources, each of which may refer to those before it.
#[derive(Default)]
pub struct World {
    /// The descriptions.
    pub descriptions: Vec<Description>,
    /// The same, as the module under test builds them.
    pub sources: Vec<Source<Memory>>,
}

impl Entry {
    /// The number of data, or `None` if even 128 bits do not hold it.
    pub fn data(&self) -> Option<u128> {
        self.dimensions
            .iter()
            .try_fold(1u128, |product, &(_, count)| {
                product.checked_mul(count.into())
            })
    }

    /// Where datum `index` begins.
    pub fn datum(&self, mut index: u128) -> u128 {
        let mut offset = u128::from(self.first.offset);
        for &(stride, count) in &self.dimensions {
            offset += (index % u128::from(count)) * u128::from(stride);
            index /= u128::from(count);
        }
        offset
    }

    /// The offsets of all data in order, by counting like an odometer.
    fn all_data(&self) -> Vec<u64> {
        let mut digits = vec![0; self.dimensions.len()];
        let mut offsets = Vec::new();
        loop {
            let along = |(digit, (stride, _)): (&u64, &(u64, u64))| digit * stride;
            let reach: u64 = digits.iter().zip(&self.dimensions).map(along).sum();
            offsets.push(self.first.offset + reach);

            let mut carry = true;
            for (digit, &(_, count)) in digits.iter_mut().zip(&self.dimensions) {
                if carry {
                    *digit += 1;
                    carry = *digit == count;
                    if carry {
                        *digit = 0;
                    }
                }
            }
            if carry {
                return offsets;
            }
        }
    }
}

impl World {
    /// Adds memory of `length` bytes and returns its index.
    pub fn add_memory(&mut self, length: u64) -> usize {
        let index = self.sources.len();
        self.descriptions.push(Description::Memory(length));
        self.sources.push(Source::Leaf(Memory { index, length }));
        index
    }

    /// Adds a layout and returns its index, or why the module refused it.
    pub fn add(&mut self, description: Description) -> Result<usize, LayoutError> {
        let layout = self.build(&description)?;
        self.descriptions.push(description);
        self.sources.push(Source::Nested(layout.into_arc()?));
        Ok(self.sources.len() - 1)
    }

    /// The layout that `description` stands for.
    pub fn build(&self, description: &Description) -> Result<Layout<Memory>, LayoutError> {
        match description {
            Description::Memory(_) => panic!("memory is no layout"),
            Description::Sg(items) => {
                let items: Vec<_> = items.iter().map(|item| self.sg_item(item)).collect();
                Layout::sg(&items)
            }
            Description::Interleaved(entries) => {
                let dimensions: Vec<Vec<_>> = entries.iter().map(dimensions).collect();
                let entries: Vec<_> = entries
                    .iter()
                    .zip(&dimensions)
                    .map(|(entry, dimensions)| InterleavedEntry {
                        source: self.sources[entry.first.source].clone(),
                        offset: ByteOffset(entry.first.offset),
                        length: ByteLength(entry.first.length),
                        repeat: RepeatCount(entry.repeat),
                        dimensions,
                    })
                    .collect();
                // Every layout is tried as the next one on the region that had the last.
                let last = (0..self.sources.len())
                    .rev()
                    .find_map(|index| self.layout(index));
                Layout::interleaved_like(&entries, last.map(|layout| &**layout))
            }
        }
    }

    fn sg_item(&self, item: &Item) -> SgItem<Memory> {
        SgItem {
            source: self.sources[item.source].clone(),
            offset: ByteOffset(item.offset),
            length: ByteLength(item.length),
        }
    }

    /// The layout with index `index`, if that is one.
    pub fn layout(&self, index: usize) -> Option<&Arc<Layout<Memory>>> {
        match &self.sources[index] {
            Source::Leaf(_) => None,
            Source::Nested(layout) => Some(layout),
        }
    }

    /// The bytes of source `index`.
    pub fn length(&self, index: usize) -> u64 {
        self.sources[index].length().0
    }

    /// How many layouts lie below source `index`, itself included.
    pub fn depth(&self, index: usize) -> u32 {
        let above = |sources: &mut dyn Iterator<Item = usize>| {
            1 + sources.map(|source| self.depth(source)).max().unwrap_or(0)
        };
        match &self.descriptions[index] {
            Description::Memory(_) => 0,
            Description::Sg(items) => above(&mut items.iter().map(|item| item.source)),
            Description::Interleaved(entries) => {
                above(&mut entries.iter().map(|entry| entry.first.source))
            }
        }
    }

    /// Whether the definition allows `description`, and how many bytes it then spans.
    pub fn allowed_length(&self, description: &Description) -> Option<u64> {
        let inside = |item: &Item, last: u128| {
            let end = last.checked_add(item.length.into())?;
            (item.length > 0 && end <= self.length(item.source).into()).then_some(())
        };
        let mut total = 0u128;
        match description {
            Description::Memory(length) => total = (*length).into(),
            Description::Sg(items) => {
                for item in items {
                    inside(item, item.offset.into())?;
                    total += u128::from(item.length);
                }
            }
            Description::Interleaved(entries) => {
                for entry in entries {
                    let data = entry.data().filter(|&data| data > 0)?;
                    if entry.repeat == 0 || !(1..=8).contains(&entry.dimensions.len()) {
                        return None;
                    }
                    inside(&entry.first, entry.last_datum()?)?;
                    total = total.checked_add(data.checked_mul(entry.first.length.into())?)?;
                }
            }
        }
        u64::try_from(total).ok().filter(|&total| total > 0)
    }

    /// Every byte of every source, in order.
    pub fn bytes(&self) -> Vec<Vec<Byte>> {
        let mut all = Vec::new();
        for index in 0..self.sources.len() {
            all.push(self.bytes_of(index, &all));
        }
        all
    }

    /// Every byte of source `index`, given those of the sources before it.
    fn bytes_of(&self, index: usize, sources: &[Vec<Byte>]) -> Vec<Byte> {
        let range = |source: usize, offset: u64, length: u64| {
            sources[source][offset as usize..(offset + length) as usize].to_vec()
        };
        match &self.descriptions[index] {
            &Description::Memory(length) => (0..length)
                .map(|offset| Byte {
                    memory: index,
                    offset,
                })
                .collect(),
            Description::Sg(items) => items
                .iter()
                .flat_map(|item| range(item.source, item.offset, item.length))
                .collect(),
            Description::Interleaved(entries) => {
                let datum = |(entry, offset): (usize, u64)| {
                    let first = &entries[entry].first;
                    range(first.source, offset, first.length)
                };
                in_turn(entries).into_iter().flat_map(datum).collect()
            }
        }
    }

    /// The byte at `position` of source `index`.
    pub fn locate(&self, index: usize, position: u64) -> Byte {
        match &self.descriptions[index] {
            Description::Memory(_) => Byte {
                memory: index,
                offset: position,
            },
            Description::Sg(items) => {
                let mut left = position;
                for item in items {
                    if left < item.length {
                        return self.locate(item.source, item.offset + left);
                    }
                    left -= item.length;
                }
                panic!("position {position} is not in the layout");
            }
            Description::Interleaved(entries) => {
                let (entry, offset) = locate_in_turn(entries, position.into());
                self.locate(entry.first.source, offset as u64)
            }
        }
    }
}

impl Entry {
    /// Where the last datum begins, or `None` if even 128 bits do not hold it.
    fn last_datum(&self) -> Option<u128> {
        self.dimensions.iter().try_fold(
            u128::from(self.first.offset),
            |offset, &(stride, count)| {
                let reach = u128::from(stride).checked_mul(u128::from(count).checked_sub(1)?)?;
                offset.checked_add(reach)
            },
        )
    }
}

fn dimensions(entry: &Entry) -> Vec<Dimension> {
    let dimension = |&(stride, count): &(u64, u64)| Dimension {
        stride: ByteStride(stride),
        count: DatumCount(count),
    };
    entry.dimensions.iter().map(dimension).collect()
}

/// The data of all entries as (entry, offset), in the order that rounds give them.
fn in_turn(entries: &[Entry]) -> Vec<(usize, u64)> {
    let mut queues: Vec<_> = entries.iter().map(|e| e.all_data().into_iter()).collect();
    let mut order = Vec::new();
    while queues.iter().any(|queue| queue.len() > 0) {
        for (index, queue) in queues.iter_mut().enumerate() {
            let turn = queue.take(entries[index].repeat as usize);
            order.extend(turn.map(|offset| (index, offset)));
        }
    }
    order
}

/// The entry that has the byte at `position`, and its offset in the entry's source.
fn locate_in_turn(entries: &[Entry], position: u128) -> (&Entry, u128) {
    let data_before =
        |entry: &Entry, round: u128| entry.data().unwrap().min(round * u128::from(entry.repeat));
    let bytes_before = |round: u128| -> u128 {
        let bytes = |entry: &Entry| data_before(entry, round) * u128::from(entry.first.length);
        entries.iter().map(bytes).sum()
    };

    // The last round that begins at or before the position.
    let (mut low, mut high) = (0u128, 1u128 << 64);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if bytes_before(middle) <= position {
            low = middle;
        } else {
            high = middle;
        }
    }

    let mut left = position - bytes_before(low);
    for entry in entries {
        let before = data_before(entry, low);
        let length = u128::from(entry.first.length);
        let bytes = (data_before(entry, low + 1) - before) * length;
        if left < bytes {
            return (entry, entry.datum(before + left / length) + left % length);
        }
        left -= bytes;
    }
    panic!("position {position} is not in the layout");
}
