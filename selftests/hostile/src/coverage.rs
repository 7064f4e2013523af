// SPDX-License-Identifier: GPL-2.0

//! Which code of the module the calls run, if it was built to tell (KCOV,
//! `Documentation/dev-tools/kcov.rst` of the kernel).

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::fd::AsRawFd,
    path::Path,
    ptr, slice,
    sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed},
};

use anyhow::Context as _;

const KCOV: &str = "/sys/kernel/debug/kcov";
const TEXT: &str = "/sys/module/ib_mrx/sections/.text";
const KCOV_INIT_TRACE: u64 = 0x8008_6301;
const KCOV_ENABLE: u64 = 0x6364;
const KCOV_TRACE_PC: u64 = 0;
/// Places that a thread can pass between two looks.
const PLACES: usize = 1 << 14;
/// More bytes than the code of the module has.
const CODE: usize = 8 << 20;

fn map(len: usize, flags: i32, descriptor: i32) -> io::Result<*mut u8> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping disturbs no other.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, descriptor, 0) };
    match start {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        start => Ok(start.cast()),
    }
}

/// The code of the module, in memory that all processes share.
#[derive(Clone, Copy)]
pub struct Coverage {
    base: usize,
    /// For each byte of the code, whether somebody came there.
    seen: &'static [AtomicU8],
}

impl Coverage {
    pub fn new() -> anyhow::Result<Self> {
        let text = fs::read_to_string(TEXT).context(TEXT)?;
        let base = usize::from_str_radix(text.trim().trim_start_matches("0x"), 16)?;
        let start = map(CODE, libc::MAP_ANONYMOUS | libc::MAP_SHARED, -1)?;
        // SAFETY: zeroed memory of this size, which is never unmapped.
        let seen = unsafe { slice::from_raw_parts(start.cast::<AtomicU8>(), CODE) };
        Ok(Self { base, seen })
    }

    /// Writes the places that were seen, as offsets in the code.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut file = io::BufWriter::new(File::create(path)?);
        for (offset, seen) in self.seen.iter().enumerate() {
            if seen.load(Relaxed) != 0 {
                writeln!(file, "{offset:#x}")?;
            }
        }
        file.flush()
    }
}

/// What the thread that made it runs in the kernel.
pub struct Trace {
    coverage: Coverage,
    /// How many places there are, and then these.
    places: &'static [AtomicUsize],
    /// Open as long as the thread is traced.
    _file: File,
}

impl Trace {
    pub fn new(coverage: Coverage) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(KCOV)?;
        let descriptor = file.as_raw_fd();
        // SAFETY: requests about a file of ours.
        if unsafe { libc::ioctl(descriptor, KCOV_INIT_TRACE, PLACES) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let start = map(PLACES * size_of::<usize>(), libc::MAP_SHARED, descriptor)?;
        // SAFETY: memory of this size, which is never unmapped. The kernel writes
        // to it only while this thread is in the kernel.
        let places = unsafe { slice::from_raw_parts(start.cast::<AtomicUsize>(), PLACES) };
        // SAFETY: as above.
        if unsafe { libc::ioctl(descriptor, KCOV_ENABLE, KCOV_TRACE_PC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            coverage,
            places,
            _file: file,
        })
    }

    /// Looks at where the thread came, and begins anew.
    pub fn collect(&self) {
        let count = self.places[0].swap(0, Relaxed).min(PLACES - 1);
        for place in &self.places[1..=count] {
            let offset = place.load(Relaxed).wrapping_sub(self.coverage.base);
            if let Some(seen) = self.coverage.seen.get(offset) {
                seen.store(1, Relaxed);
            }
        }
    }
}
