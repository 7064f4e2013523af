// SPDX-License-Identifier: GPL-2.0

//! The device file, and the rings of its queues.

use std::{
    ffi::CString,
    fs, io,
    sync::{
        atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed},
        Mutex,
    },
};

use mrx_selftest_verbs::harness::rings::{Ring, Shape};

use crate::{
    known::{Known, Membership, Pool, Qp, Region, Window},
    schema::{object_of, QpKind, Rings, DATAGRAMS, LAYOUT, OBJECTS, OTHER_PD, PD},
};

/// Rings that are mapped at a time.
const RINGS: usize = 64;

/// What a ring is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    Send,
    Receive,
    Completion,
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
    /// Pages of the file at which rings are.
    pub offsets: Pool,
    pub regions: Known<Region>,
    pub windows: Known<Window>,
    pub qps: Known<Qp>,
    /// What made queue pairs members of groups.
    pub memberships: Known<Membership>,
    /// Numbers of address handles in requests.
    pub ah_numbers: Pool,
    /// File descriptors of channels.
    pub channels: Pool,
    /// Whoever holds it may use the rings; nobody unmaps them meanwhile.
    pub rings: Mutex<Vec<Mapped>>,
    /// How often it was opened.
    pub generation: AtomicU32,
    /// It has a context, or somebody is asking for one.
    pub has_context: AtomicBool,
    pub is_sought: AtomicBool,
}

impl File {
    pub fn new() -> Self {
        Self {
            descriptor: AtomicI32::new(-1),
            handles: std::array::from_fn(|_| Pool::new()),
            keys: Pool::new(),
            offsets: Pool::new(),
            regions: Known::new(),
            windows: Known::new(),
            qps: Known::new(),
            memberships: Known::new(),
            ah_numbers: Pool::new(),
            channels: Pool::new(),
            rings: Mutex::new(Vec::new()),
            generation: AtomicU32::new(0),
            has_context: AtomicBool::new(false),
            is_sought: AtomicBool::new(false),
        }
    }

    /// Opens the device in place of what was open, with all that is live there.
    pub fn open(&self, device: &str) -> io::Result<()> {
        let fresh = open(device)?;
        // Before the new file is there, so that nobody asks it twice.
        self.has_context.store(false, Relaxed);
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
        self.ah_numbers.clear();
        self.channels.clear();
        self.regions.clear();
        self.windows.clear();
        self.qps.clear();
        self.memberships.clear();
        if let Ok(mut rings) = self.rings.try_lock() {
            rings.drain(..).for_each(|mapped| mapped.ring.unmap());
        }
    }

    /// The handle of something of this kind, if there is any.
    pub fn handle(&self, chosen_by: u16, random: &mut fastrand::Rng) -> Option<u32> {
        let pool = &self.handles[usize::from(object_of(chosen_by))];
        match chosen_by {
            LAYOUT => {
                let region = self.regions.pick(random, |region| region.is_indirect)?;
                Some(region.handle)
            }
            DATAGRAMS => {
                let qp = self.qps.pick(random, |qp| qp.kind == QpKind::Datagrams)?;
                Some(qp.handle)
            }
            OTHER_PD => pool.pick_another(random),
            // What is used together must be of one protection domain.
            PD if random.u8(0..100) != 0 => pool.first(),
            _ => pool.pick(random),
        }
    }

    /// An object has ended; what is still mapped of it may be used on, or not.
    pub fn forget_object(&self, handle: u32, unmap: bool) {
        self.handles.iter().for_each(|pool| pool.remove(handle));
        self.regions.forget(handle);
        self.windows.forget(handle);
        self.qps.forget(handle);
        self.memberships.forget(handle);
        if !unmap {
            return;
        }
        if let Ok(mut rings) = self.rings.try_lock() {
            rings.retain(|mapped| {
                let stays = mapped.owner != handle;
                if !stays {
                    mapped.ring.unmap();
                }
                stays
            });
        }
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
