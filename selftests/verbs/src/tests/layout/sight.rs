// SPDX-License-Identifier: GPL-2.0

//! What a person sees of regions and layouts: `rdma -dd resource show mr`.

use std::process::Command;

use anyhow::Context as _;

use super::scene::{pair, ZERO_BASED};
use crate::harness::{ensure_eq, layout::Entry, memory::ALL, Mr, Setup, Sge, Test, Work};

pub const TESTS: &[Test] = &[
    Test::new(
        "sight: rdma shows memory, users, layout, descriptors and nesting of a region",
        properties,
    ),
    Test::new(
        "sight: rdma shows the length of a layout as that of its region",
        length,
    ),
];

/// What `rdma` says of the region that has this key: a word after each name.
struct Shown(Vec<String>);

impl Shown {
    fn of(setup: &Setup, region: &Mr) -> anyhow::Result<Self> {
        let output = Command::new("rdma")
            .args(["-dd", "resource", "show", "mr", "dev", &setup.device])
            .output()
            .context("run rdma (of iproute2)")?;
        anyhow::ensure!(output.status.success(), "rdma resource show mr failed");
        let text = String::from_utf8_lossy(&output.stdout);
        // A region is a line, and what its driver has to say of it may be more.
        let key = format!("lkey {:#x}", region.lkey());
        let mut lines = text.lines().skip_while(|line| !line.contains(&key));
        let first = lines
            .next()
            .with_context(|| format!("no {key} in:\n{text}"))?;
        let more = lines.take_while(|line| line.starts_with(char::is_whitespace));
        let words = std::iter::once(first).chain(more);
        Ok(Self(
            words
                .flat_map(str::split_whitespace)
                .map(str::to_owned)
                .collect(),
        ))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|word| word == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    /// Fails unless the names have these values, and the last of the names none.
    fn is(&self, wanted: &[(&str, &str)], none: &[&str]) -> anyhow::Result<()> {
        for &(name, value) in wanted {
            ensure_eq!(self.get(name), Some(value), "{name} in {:?}", self.0);
        }
        for name in none {
            ensure_eq!(self.get(name), None, "{name} in {:?}", self.0);
        }
        Ok(())
    }
}

fn properties(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let region = pair.region(1000, ALL)?;
    let inner = Mr::empty(&pair.pd, ZERO_BASED)?;
    let outer = Mr::indirect(&pair.pd, 7, ALL)?;
    let plain = [
        ("drv_memory", "pinned"),
        ("drv_users", "0"),
        ("mrlen", "1000"),
    ];
    let none = ["drv_layout", "drv_descriptors", "drv_nesting"];
    Shown::of(setup, &region)?.is(&plain, &none)?;
    Shown::of(setup, &inner)?.is(&[("drv_memory", "none"), ("drv_users", "0")], &none)?;

    inner.set_layout(&[region.sge(0..10), region.sge(50..60), region.sge(5..8)])?;
    outer.set_interleaved(
        0,
        &[
            Entry::new(inner.piece(0, 1), 1, &[(2, 5)]),
            Entry::new(region.sge(0..4), 1, &[(8, 2)]),
        ],
    )?;
    // Once for the three ranges, which is one look-up, and once for the pattern.
    Shown::of(setup, &region)?.is(&[("drv_users", "2")], &none)?;
    Shown::of(setup, &inner)?.is(
        &[
            ("drv_memory", "none"),
            ("drv_users", "1"),
            ("drv_layout", "sg"),
            ("drv_descriptors", "3"),
            ("drv_nesting", "1"),
        ],
        &[],
    )?;
    Shown::of(setup, &outer)?.is(
        &[
            ("drv_users", "0"),
            ("drv_layout", "interleaved"),
            ("drv_descriptors", "2"),
            ("drv_nesting", "2"),
        ],
        &[],
    )
}

fn length(setup: &Setup) -> anyhow::Result<()> {
    let pair = pair(setup)?;
    let region = pair.region(1000, ALL)?;
    let holder = Mr::empty(&pair.pd, ZERO_BASED)?;
    let shows = |length: &str| Shown::of(setup, &holder)?.is(&[("mrlen", length)], &[]);
    shows("0")?;
    let ranges = |len| -> [Sge; 2] { [region.sge(0..len), region.sge(100..100 + len)] };
    holder.set_layout(&ranges(20))?;
    shows("40")?;
    // A layout that waits is none yet.
    let stage = mrx::sys::IBV_MR_SET_LAYOUT_WITH_POST_WR;
    holder.set_layout_with(stage, &ranges(33))?;
    shows("40")?;
    pair.a.post(&Work::bind(5, holder.lkey()))?;
    pair.a.send_cq.wait()?.is(5, mrx::sys::IBV_WC_SUCCESS)?;
    shows("66")
}
