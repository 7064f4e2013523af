// SPDX-License-Identifier: GPL-2.0

//! The device file, and what is known of the objects behind it.

use std::{
    ffi::CString,
    fs, io,
    sync::{
        atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed},
        Mutex,
    },
};

use mrx_selftest_verbs::harness::rings::{Ring, Shape};

use crate::schema::{Rings, OBJECTS};

/// Handles of one kind, and keys, that are remembered.
const REMEMBERED: usize = 24;
/// Rings that are mapped at a time.
const RINGS: usize = 24;

/// A set of numbers of fixed size, of which an old one makes room for a new one.
pub struct Pool([AtomicU64; REMEMBERED]);

impl Pool {
    fn new() -> Self {
        Self([const { AtomicU64::new(0) }; REMEMBERED])
    }

    pub fn add(&self, number: u32, random: &mut fastrand::Rng) {
        let free = self.0.iter().find(|entry| entry.load(Relaxed) == 0);
        let entry = free.unwrap_or_else(|| &self.0[random.usize(0..REMEMBERED)]);
        entry.store(u64::from(number) + 1, Relaxed);
    }

    pub fn remove(&self, number: u32) {
        for entry in &self.0 {
            let _ = entry.compare_exchange(u64::from(number) + 1, 0, Relaxed, Relaxed);
        }
    }

    /// The first of them.
    pub fn first(&self) -> Option<u32> {
        let entries = self.0.iter().map(|entry| entry.load(Relaxed));
        entries
            .into_iter()
            .find(|entry| *entry != 0)
            .map(|entry| (entry - 1) as u32)
    }

    /// One of them, if there is any.
    pub fn pick(&self, random: &mut fastrand::Rng) -> Option<u32> {
        let start = random.usize(0..REMEMBERED);
        (0..REMEMBERED)
            .map(|n| self.0[(start + n) % REMEMBERED].load(Relaxed))
            .find(|entry| *entry != 0)
            .map(|entry| (entry - 1) as u32)
    }

    pub fn is_crowded(&self) -> bool {
        self.0
            .iter()
            .filter(|entry| entry.load(Relaxed) != 0)
            .count()
            > REMEMBERED * 3 / 4
    }

    fn clear(&self) {
        self.0.iter().for_each(|entry| entry.store(0, Relaxed));
    }
}

/// What a ring is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Send,
    Receive,
    Completion,
}

/// What a key stands for.
#[derive(Clone, Copy)]
pub struct Region {
    pub key: u32,
    /// The address of its first byte.
    pub start: u64,
    pub length: u64,
}

/// A ring that is mapped.
#[derive(Clone, Copy)]
pub struct Mapped {
    pub ring: Ring,
    pub shape: Shape,
    pub purpose: Purpose,
    /// The handle of the queue that it belongs to.
    pub owner: u32,
}

/// An open device file, and what was made with it.
pub struct File {
    pub descriptor: AtomicI32,
    pub handles: [Pool; OBJECTS],
    pub keys: Pool,
    /// Keys of memory windows.
    pub windows: Pool,
    /// Pages of the file at which rings are.
    pub offsets: Pool,
    pub regions: Mutex<Vec<Region>>,
    /// Handle and number of queue pairs.
    pub qps: Mutex<Vec<(u32, u32)>>,
    /// Numbers of address handles in requests.
    pub ah_numbers: Pool,
    /// File descriptors of channels.
    pub channels: Pool,
    /// Whoever holds it may use the rings; nobody unmaps them meanwhile.
    pub rings: Mutex<Vec<Mapped>>,
    /// How often it was opened.
    pub generation: AtomicU32,
}

impl File {
    pub fn new() -> Self {
        Self {
            descriptor: AtomicI32::new(-1),
            handles: std::array::from_fn(|_| Pool::new()),
            keys: Pool::new(),
            windows: Pool::new(),
            offsets: Pool::new(),
            regions: Mutex::new(Vec::new()),
            qps: Mutex::new(Vec::new()),
            ah_numbers: Pool::new(),
            channels: Pool::new(),
            rings: Mutex::new(Vec::new()),
            generation: AtomicU32::new(0),
        }
    }

    /// Opens the device in place of what was open, with all that is live there.
    pub fn open(&self, device: &str) -> io::Result<()> {
        let fresh = open(device)?;
        let old = self.descriptor.load(Relaxed);
        if old < 0 {
            self.descriptor.store(fresh, Relaxed);
        } else {
            // SAFETY: both are descriptors of ours.
            unsafe {
                libc::dup2(fresh, old);
                libc::close(fresh);
            }
        }
        self.forget();
        self.generation.fetch_add(1, Relaxed);
        Ok(())
    }

    fn forget(&self) {
        self.handles.iter().for_each(Pool::clear);
        self.keys.clear();
        self.windows.clear();
        self.ah_numbers.clear();
        if let Ok(mut regions) = self.regions.lock() {
            regions.clear();
        }
        if let Ok(mut qps) = self.qps.lock() {
            qps.clear();
        }
    }

    pub fn add_region(&self, region: Region) {
        if let Ok(mut regions) = self.regions.try_lock() {
            if regions.len() >= REMEMBERED / 2 {
                regions.remove(0);
            }
            regions.push(region);
        }
    }

    /// A region, which may have ended.
    pub fn region(&self, random: &mut fastrand::Rng) -> Option<Region> {
        let regions = self.regions.try_lock().ok()?;
        random.choice(regions.iter()).copied()
    }

    pub fn add_qp(&self, handle: u32, number: u32) {
        if let Ok(mut qps) = self.qps.try_lock() {
            if qps.len() >= REMEMBERED {
                qps.remove(0);
            }
            qps.push((handle, number));
        }
    }

    /// Handle and number of a queue pair, if there is any.
    pub fn qp(&self, random: &mut fastrand::Rng) -> Option<(u32, u32)> {
        let qps = self.qps.try_lock().ok()?;
        random.choice(qps.iter()).copied()
    }

    /// Maps the rings that an answer of the driver names.
    pub fn map(&self, rings: Rings, answer: &[u8], owner: u32) {
        let region = |at: usize| -> Option<(u64, usize)> {
            let offset = u64::from_ne_bytes(answer.get(at..at + 8)?.try_into().ok()?);
            let len = u32::from_ne_bytes(answer.get(at + 8..at + 12)?.try_into().ok()?);
            Some((offset, len as usize))
        };
        match rings {
            Rings::Completion => self.map_one(region(0), Purpose::Completion, owner),
            Rings::Shared => self.map_one(region(0), Purpose::Receive, owner),
            Rings::Pair => {
                self.map_one(region(0), Purpose::Receive, owner);
                self.map_one(region(16), Purpose::Send, owner);
            }
        }
    }

    fn map_one(&self, region: Option<(u64, usize)>, purpose: Purpose, owner: u32) {
        let Some((offset, len)) = region.filter(|(_, len)| (1..1 << 26).contains(len)) else {
            return;
        };
        let Ok(ring) = Ring::map(self.descriptor.load(Relaxed), offset, len) else {
            return;
        };
        let Ok(mut rings) = self.rings.try_lock() else {
            ring.unmap();
            return;
        };
        if rings.len() >= RINGS {
            rings.remove(0).ring.unmap();
        }
        let page = (offset >> 12) as u32;
        self.offsets
            .add(page, &mut fastrand::Rng::with_seed(offset));
        rings.push(Mapped {
            ring,
            shape: ring.shape(),
            purpose,
            owner,
        });
    }
}

/// The device file of a device, by its name now.
fn open(device: &str) -> io::Result<i32> {
    for entry in fs::read_dir("/sys/class/infiniband_verbs")? {
        let entry = entry?;
        let Ok(name) = fs::read_to_string(entry.path().join("ibdev")) else {
            continue;
        };
        if name.trim() == device {
            let file = CString::new(format!(
                "/dev/infiniband/{}",
                entry.file_name().to_string_lossy()
            ))?;
            // SAFETY: a path that ends with a zero.
            let descriptor = unsafe { libc::open(file.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            return Ok(descriptor);
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENODEV))
}

/// The addresses of a device.
pub fn gids(device: &str) -> Vec<[u8; 16]> {
    let read = |index: u32| -> Option<[u8; 16]> {
        let path = format!("/sys/class/infiniband/{device}/ports/1/gids/{index}");
        let text = fs::read_to_string(path).ok()?;
        let digits: String = text.trim().split(':').collect();
        let mut gid = [0; 16];
        for (at, byte) in gid.iter_mut().enumerate() {
            *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
        }
        Some(gid).filter(|gid| gid.iter().any(|byte| *byte != 0))
    };
    (0..8).filter_map(read).collect()
}
