// SPDX-License-Identifier: GPL-2.0

//! Comparisons of the module with the model. Each panics where they differ.

use crate::{
    decode::Numbers,
    layout::{ByteLength, ErrorClass, Layout, LayoutError, Position, Run, MAX_NESTING},
    model::{Byte, Description, Memory, World},
};
use std::collections::HashMap;

/// Checks what every run promises.
fn check_run(run: &Run<'_, Memory>) {
    assert!(run.length.0 > 0 && run.count.0 > 0);
    assert!(run.count.0 > 1 || run.stride.0 == 0, "stride of one piece");
    let last = u128::from(run.count.0 - 1) * u128::from(run.stride.0);
    let end = u128::from(run.offset.0) + last + u128::from(run.length.0);
    assert!(end <= run.leaf.length.into(), "a run leaves its memory");
}

/// Every byte of a range, as walking gives them.
pub fn walked(layout: &Layout<Memory>, start: u64, length: u64) -> Vec<Byte> {
    let mut bytes = Vec::new();
    let mut walker = layout
        .walk(Position(start), ByteLength(length))
        .expect("a range that is in the layout");
    for run in walker.by_ref() {
        check_run(&run);
        for piece in run.offsets() {
            bytes.extend((piece.0..piece.0 + run.length.0).map(|offset| Byte {
                memory: run.leaf.index,
                offset,
            }));
        }
    }
    assert_eq!(walker.remaining(), ByteLength(0), "the walk ended early");
    bytes
}

/// Checks everything about the layouts of a small world, with ranges from `numbers`.
pub fn check_layouts(world: &World, numbers: &mut Numbers<'_>) {
    for (index, bytes) in world.bytes().iter().enumerate() {
        if let Some(layout) = world.layout(index) {
            check_layout(world, index, layout, bytes, numbers);
        }
    }
}

fn check_layout(
    world: &World,
    index: usize,
    layout: &Layout<Memory>,
    bytes: &[Byte],
    numbers: &mut Numbers<'_>,
) {
    let length = bytes.len() as u64;

    assert_eq!(layout.length().0, length);
    assert_eq!(layout.depth().0, world.depth(index));
    assert_eq!(walked(layout, 0, length), bytes, "the whole");
    for _ in 0..4 {
        let start = numbers.below(length + 1);
        let part = numbers.below(length - start + 1);
        let expected = &bytes[start as usize..(start + part) as usize];
        assert_eq!(
            walked(layout, start, part),
            expected,
            "from {start}, {part} bytes"
        );
        check_refusal(layout, start, part);
    }
    let at = numbers.below(length);
    assert_eq!(
        world.locate(index, at),
        bytes[at as usize],
        "the two models"
    );
    check_copies(layout, bytes);
}

fn check_refusal(layout: &Layout<Memory>, start: u64, part: u64) {
    let length = layout.length().0;
    for (start, part) in [
        (start, length - start + 1),
        (start, u64::MAX - part),
        (length + 1, 0),
        (u64::MAX - part, part + 1),
    ] {
        let refused = layout.walk(Position(start), ByteLength(part)).err();
        assert_eq!(
            refused,
            Some(LayoutError::OutOfRange),
            "from {start}, {part} bytes"
        );
    }
}

/// Checks that bytes written through the layout and read back are those that were written last.
fn check_copies(layout: &Layout<Memory>, bytes: &[Byte]) {
    let mut memory = HashMap::new();
    let mut expected = memory.clone();
    let mut position = 0u32;
    for run in layout.walk(Position(0), layout.length()).unwrap() {
        for piece in run.offsets() {
            for offset in piece.0..piece.0 + run.length.0 {
                memory.insert((run.leaf.index, offset), position);
                position += 1;
            }
        }
    }
    for (position, byte) in (0u32..).zip(bytes) {
        expected.insert((byte.memory, byte.offset), position);
    }
    assert_eq!(memory, expected, "scatter");

    let gathered = walked(layout, 0, layout.length().0);
    for (position, byte) in (0u32..).zip(&gathered) {
        let last = memory[&(byte.memory, byte.offset)];
        assert!(last == position || bytes[last as usize] == *byte, "gather");
    }
}

/// Checks that a description is accepted or refused rightly, and returns the index if it is
/// accepted.
pub fn check_acceptance(world: &mut World, description: Description) -> Option<usize> {
    let allowed = world.allowed_length(&description);
    match world.add(description) {
        Ok(index) => {
            assert_eq!(Some(world.length(index)), allowed);
            Some(index)
        }
        Err(error) => {
            assert_eq!(allowed, None, "{error:?}");
            assert_ne!(error.class(), ErrorClass::Memory);
            None
        }
    }
}

/// Checks places of layout `index`, which may have any size, against the model.
pub fn check_places(world: &World, index: usize, numbers: &mut Numbers<'_>) {
    const RUNS: usize = 50;
    let Some(layout) = world.layout(index) else {
        return;
    };
    let length = layout.length().0;
    assert!(layout.depth().0 as usize <= MAX_NESTING);
    for start in [0, length - 1, numbers.extreme() % length] {
        let part = 1 + numbers.extreme() % (length - start);
        let mut walker = layout.walk(Position(start), ByteLength(part)).unwrap();
        let mut position = start;
        for run in walker.by_ref().take(RUNS) {
            check_run(&run);
            for piece in [0, run.count.0 / 2, run.count.0 - 1] {
                for byte in [0, run.length.0 - 1] {
                    let expected = Byte {
                        memory: run.leaf.index,
                        offset: run.offset.0 + piece * run.stride.0 + byte,
                    };
                    let at = position + piece * run.length.0 + byte;
                    assert_eq!(world.locate(index, at), expected, "at {at}");
                }
            }
            position += run.total().0;
        }
        assert_eq!(walker.remaining().0, part - (position - start));
    }
}
