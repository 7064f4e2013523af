// SPDX-License-Identifier: GPL-2.0

//! A strided array into a strided array: one WRITE from layout to layout, or
//! pack, WRITE and unpack, or a WRITE for each block. All in one process and
//! one thread, which spares packing the word to the other side that it can
//! unpack.

use std::rc::Rc;

use mrx_demo::verbs::{Memory, Pattern, Region, Work};

use super::Bench;
use crate::{
    flow::{rate, Flow},
    link::Loop,
    report::{bytes, grouped, Unit},
};

pub const TABLE: &str = "Strided to strided";
pub const INTERLEAVED: &str = "interleaved";
pub const SG: &str = "SG";
pub const PACKING: &str = "packing";
pub const BLOCKS: &str = "WR each";

/// Blocks at equal distances.
#[derive(Clone, Copy)]
struct Shape {
    blocks: usize,
    block: usize,
    stride: usize,
}

const SHAPES: [Shape; 2] = [
    Shape {
        blocks: 4096,
        block: 256,
        stride: 1024,
    },
    Shape {
        blocks: 4096,
        block: 64,
        stride: 256,
    },
];

impl Shape {
    fn span(self) -> usize {
        self.blocks * self.stride
    }

    fn packed(self) -> usize {
        self.blocks * self.block
    }

    fn row(self) -> String {
        let Self {
            blocks,
            block,
            stride,
        } = self;
        format!(
            "{} x {}, stride {}",
            grouped(blocks as u64),
            bytes(block),
            bytes(stride)
        )
    }

    /// Copies the blocks of `strided` to one range, or back.
    fn pack(self, strided: &Memory, packed: &Memory, back: bool) {
        assert!(self.span() <= strided.size() && self.packed() <= packed.size());
        for n in 0..self.blocks {
            let spread = strided.start().wrapping_add(n * self.stride);
            let dense = packed.start().wrapping_add(n * self.block);
            let (from, to) = if back {
                (dense, spread)
            } else {
                (spread, dense)
            };
            // SAFETY: both ranges are inside their mappings, by the assertion.
            unsafe { std::ptr::copy_nonoverlapping(from, to, self.block) };
        }
    }
}

/// An array with gaps, and room for it without.
struct Array {
    memory: Rc<Memory>,
    region: Region,
    packed: Rc<Memory>,
    packed_region: Region,
}

impl Array {
    fn new(ends: &Loop, shape: Shape) -> anyhow::Result<Self> {
        let (memory, region) = ends.region(shape.span())?;
        let (packed, packed_region) = ends.region(shape.packed())?;
        Ok(Self {
            memory,
            region,
            packed,
            packed_region,
        })
    }

    /// A region with a layout over the blocks.
    fn layout(&self, ends: &Loop, shape: Shape, kind: &str) -> anyhow::Result<Region> {
        let region = Region::empty(&ends.device)?;
        let range = |n: usize| self.region.range(n * shape.stride, shape.block);
        if kind == SG {
            region.set_layout(&(0..shape.blocks).map(range).collect::<Vec<_>>())?;
        } else {
            let dimensions = vec![(shape.stride as u64, shape.blocks as u64)];
            region.set_pattern(&[Pattern {
                first: range(0),
                dimensions,
            }])?;
        }
        Ok(region)
    }
}

/// One source and one target on one device.
struct Scene {
    ends: Loop,
    shape: Shape,
    source: Array,
    target: Array,
}

impl Scene {
    fn new(device: &str, shape: Shape) -> anyhow::Result<Self> {
        let ends = Loop::new(device)?;
        let (source, target) = (Array::new(&ends, shape)?, Array::new(&ends, shape)?);
        Ok(Self {
            ends,
            shape,
            source,
            target,
        })
    }

    /// Runs one way to do it: first once to see that all blocks arrive.
    fn measure(
        &self,
        bench: &mut Bench,
        subject: &'static str,
        mut run: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut bytes = vec![0; self.shape.span()];
        fastrand::fill(&mut bytes);
        self.source.memory.write(&bytes);
        self.target.memory.write(&vec![0; bytes.len()]);
        run()?;
        let found = self.target.memory.read();
        for (is, due) in found
            .chunks(self.shape.stride)
            .zip(bytes.chunks(self.shape.stride))
        {
            let (block, gap) = is.split_at(self.shape.block);
            anyhow::ensure!(
                block == &due[..block.len()],
                "{subject}: wrong data arrived"
            );
            anyhow::ensure!(
                gap.iter().all(|&byte| byte == 0),
                "{subject}: a gap was written"
            );
        }
        let value = 1e6 / rate(bench.time, run)?;
        bench
            .report
            .add(TABLE, self.shape.row(), subject, value, Unit::Microseconds);
        Ok(())
    }

    fn through_layouts(&self, bench: &mut Bench, kind: &'static str) -> anyhow::Result<()> {
        let from = self.source.layout(&self.ends, self.shape, kind)?;
        let to = self.target.layout(&self.ends, self.shape, kind)?;
        let range = from.range(0, self.shape.packed());
        let mut work = Work::write(range, to.start(), to.rkey());
        let qp = &self.ends.qp;
        self.measure(bench, kind, || {
            qp.post(&mut work)?;
            qp.sent.wait_for(1)
        })
    }

    fn packing(&self, bench: &mut Bench, subject: &'static str) -> anyhow::Result<()> {
        let (from, to, qp) = (&self.source, &self.target, &self.ends.qp);
        let range = from.packed_region.range(0, self.shape.packed());
        let mut work = Work::write(range, to.packed_region.start(), to.packed_region.rkey());
        self.measure(bench, subject, || {
            self.shape.pack(&from.memory, &from.packed, false);
            qp.post(&mut work)?;
            qp.sent.wait_for(1)?;
            self.shape.pack(&to.memory, &to.packed, true);
            Ok(())
        })
    }

    fn a_request_each(&self, bench: &mut Bench, subject: &'static str) -> anyhow::Result<()> {
        let (from, to, key) = (
            &self.source.region,
            self.target.region.start(),
            self.target.region.rkey(),
        );
        let mut works: Vec<_> = (0..self.shape.blocks)
            .map(|n| n * self.shape.stride)
            .map(|at| Work::write(from.range(at, self.shape.block), to + at as u64, key))
            .collect();
        let flow = Flow {
            window: 128,
            list: 32,
        };
        self.measure(bench, subject, || flow.once(&self.ends.qp, &mut works))
    }
}

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for shape in SHAPES {
        let scene = Scene::new(&bench.mrx.clone(), shape)?;
        scene.through_layouts(bench, INTERLEAVED)?;
        scene.through_layouts(bench, SG)?;
        scene.packing(bench, PACKING)?;
        scene.a_request_each(bench, BLOCKS)?;
        if let Some(device) = bench.rxe.clone() {
            let scene = Scene::new(&device, shape)?;
            scene.packing(bench, "rxe packing")?;
            scene.a_request_each(bench, "rxe WR each")?;
        }
    }
    for (shape, against_packing) in SHAPES.into_iter().zip([1.3, 1.0]) {
        for subject in [INTERLEAVED, SG] {
            let goals = [(PACKING, against_packing), (BLOCKS, 1.0)];
            for (other, goal) in goals {
                bench.report.hold(TABLE, &shape.row(), subject, other, goal);
            }
        }
    }
    Ok(())
}
