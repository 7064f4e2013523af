// SPDX-License-Identifier: GPL-2.0

//! A layout, its regions, and what they must hold.

use mrx::sys;

use crate::harness::{
    check::same_bytes, memory::ALL, pattern, Link, Mr, Pair, QpOptions, Setup, Sge, Work,
};

/// All rights, with addresses from zero.
pub const ZERO_BASED: u32 = ALL | sys::IBV_ACCESS_ZERO_BASED;

/// A pair of queue pairs of a device that has layouts.
pub fn pair(setup: &Setup) -> anyhow::Result<Pair> {
    let pair = Pair::with(setup, &QpOptions::default(), &Link::default())?;
    pair.context.layout_caps()?;
    Ok(pair)
}

/// A place in the memory of one of the regions.
#[derive(Clone, Copy)]
struct Place {
    region: u32,
    offset: u32,
}

/// A region with a layout over others, and a byte-by-byte model of it: which
/// byte of which region each byte of the layout is, and what that byte holds.
pub struct Scene {
    pub holder: Mr,
    pub regions: Vec<Mr>,
    pub ranges: Vec<Sge>,
    places: Vec<Place>,
    images: Vec<Vec<u8>>,
}

impl Scene {
    /// An empty model over regions that hold patterns.
    pub fn new(holder: Mr, regions: Vec<Mr>) -> Self {
        let images = regions.iter().map(|region| region.memory.all()).collect();
        Self {
            holder,
            regions,
            ranges: Vec::new(),
            places: Vec::new(),
            images,
        }
    }

    /// Appends a range of a region.
    pub fn push(&mut self, region: usize, at: usize, len: usize) {
        self.ranges.push(self.regions[region].sge(at..at + len));
        let place = |offset: usize| Place {
            region: region as u32,
            offset: offset as u32,
        };
        self.places.extend((at..at + len).map(place));
    }

    pub fn set(&self) -> anyhow::Result<()> {
        Ok(self.holder.set_layout(&self.ranges)?)
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// What a part of the layout must hold.
    pub fn expected(&self, at: usize, len: usize) -> Vec<u8> {
        let byte = |place: &Place| self.images[place.region as usize][place.offset as usize];
        self.places[at..at + len].iter().map(byte).collect()
    }

    /// Notes that these bytes were written to a part of the layout.
    pub fn wrote(&mut self, at: usize, bytes: &[u8]) {
        for (place, byte) in self.places[at..].iter().zip(bytes) {
            self.images[place.region as usize][place.offset as usize] = *byte;
        }
    }

    /// Compares all memory with the model.
    pub fn check(&self) -> anyhow::Result<()> {
        for (n, (region, image)) in self.regions.iter().zip(&self.images).enumerate() {
            same_bytes(&region.memory.all(), image, &format!("region {n}"))?;
        }
        Ok(())
    }
}

/// Fetches a part of a region through its remote key.
pub fn fetch(pair: &Pair, region: &Mr, at: usize, len: usize) -> anyhow::Result<Vec<u8>> {
    let plain = pair.region(len, ALL)?;
    pair.a.post(&Work::read(
        90,
        &[plain.whole()],
        region.at(at),
        region.rkey(),
    ))?;
    pair.a
        .send_cq
        .wait()?
        .ok(90, sys::IBV_WC_RDMA_READ)?
        .bytes(len)?;
    Ok(plain.memory.all())
}

/// Writes to a part of a region through its remote key.
pub fn put(pair: &Pair, region: &Mr, at: usize, bytes: &[u8]) -> anyhow::Result<()> {
    let plain = pair.filled(bytes, ALL)?;
    pair.a.post(&Work::write(
        91,
        &[plain.whole()],
        region.at(at),
        region.rkey(),
    ))?;
    pair.a.send_cq.wait()?.ok(91, sys::IBV_WC_RDMA_WRITE)?;
    Ok(())
}

/// Gathers a part of a region through its local key.
pub fn gather(pair: &Pair, region: &Mr, at: usize, len: usize) -> anyhow::Result<Vec<u8>> {
    let plain = pair.region(len, ALL)?;
    pair.a.post(&Work::write(
        92,
        &[region.piece(at, len)],
        plain.at(0),
        plain.rkey(),
    ))?;
    pair.a.send_cq.wait()?.ok(92, sys::IBV_WC_RDMA_WRITE)?;
    Ok(plain.memory.all())
}

/// Scatters bytes to a part of a region through its local key.
pub fn scatter(pair: &Pair, region: &Mr, at: usize, bytes: &[u8]) -> anyhow::Result<()> {
    let plain = pair.filled(bytes, ALL)?;
    let piece = [region.piece(at, bytes.len())];
    pair.a
        .post(&Work::read(93, &piece, plain.at(0), plain.rkey()))?;
    pair.a
        .send_cq
        .wait()?
        .ok(93, sys::IBV_WC_RDMA_READ)?
        .bytes(bytes.len())?;
    Ok(())
}

/// Two regions of 100 bytes, and a holder over the last 60 of the first and
/// the first 40 of the second.
pub fn small(pair: &Pair, holder: Mr) -> anyhow::Result<Scene> {
    let regions = vec![
        Mr::filled(&pair.pd, &pattern(1, 100), ALL)?,
        Mr::filled(&pair.pd, &pattern(2, 100), ALL)?,
    ];
    let mut scene = Scene::new(holder, regions);
    scene.push(0, 40, 60);
    scene.push(1, 0, 40);
    scene.set()?;
    Ok(scene)
}
