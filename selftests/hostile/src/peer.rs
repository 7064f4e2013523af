// SPDX-License-Identifier: GPL-2.0

//! The client of peer memory of `selftests/peer`, if it is loaded: memory that is
//! not the kernel's to pin, and that its owner takes back.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::AsRawFd,
};

/// `struct mrx_peer_register`
#[repr(C)]
struct Register {
    name: [u8; 64],
    version: [u8; 16],
    slot: u32,
    missing: u32,
    invalidates: u32,
    ex_flags: u32,
    ex_size: u64,
}

/// `struct mrx_peer_alloc`
#[repr(C)]
struct Alloc {
    size: u64,
    flavour: u32,
    owners: u32,
}

const REGISTER: u64 = 0x4068_5001;
const ALLOC: u64 = 0x4010_5003;
const INVALIDATE: u64 = 0x5005;
const _: () = assert!(size_of::<Register>() == 0x68 && size_of::<Alloc>() == 0x10);

/// Flavours of memory: contiguous, scattered, and without `struct page`.
const FLAVOURS: [u32; 3] = [0, 1, 3];

/// The names that the client is registered by. The second keeps data of contexts.
pub const CLIENTS: [&[u8]; 2] = [b"mrx_c_0", b"mrx_private"];

fn open() -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).open("/dev/mrx_peer_c")
}

/// Registers the client, if it is loaded. Whoever unloads it ends that.
pub fn register() -> io::Result<bool> {
    let Ok(client) = open() else {
        return Ok(false);
    };
    for (slot, name) in (0..).zip(CLIENTS) {
        let mut how = Register {
            name: [0; 64],
            version: *b"1.0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            slot,
            missing: 0,
            invalidates: 1,
            ex_flags: 0,
            ex_size: 0,
        };
        how.name[..name.len()].copy_from_slice(name);
        // The version of the interface with data of contexts.
        how.version[15] = if slot == 1 { 2 } else { 0 };
        // SAFETY: the structure that the client reads, and a file of ours.
        let status = unsafe { libc::ioctl(client.as_raw_fd(), REGISTER, &raw const how) };
        let error = io::Error::last_os_error();
        // Whoever was here before may have done so.
        if status != 0 && error.kind() != io::ErrorKind::ResourceBusy {
            return Err(error);
        }
    }
    Ok(true)
}

/// Memory of the client.
pub struct Buffer(File);

impl Buffer {
    /// So many bytes that one of the clients, or both, call their own.
    pub fn new(random: &mut fastrand::Rng, size: usize) -> Option<Self> {
        let file = open().ok()?;
        let alloc = Alloc {
            size: size as u64,
            flavour: FLAVOURS[random.usize(0..FLAVOURS.len())],
            owners: random.u32(1..4),
        };
        // SAFETY: the structure that the client reads, and a file of ours.
        let status = unsafe { libc::ioctl(file.as_raw_fd(), ALLOC, &raw const alloc) };
        (status == 0).then_some(Self(file))
    }

    pub fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Takes all of it back from whoever uses it.
    pub fn take_back(&self) -> i32 {
        // SAFETY: a number, and a file of ours.
        unsafe { libc::ioctl(self.descriptor(), INVALIDATE, 0) }
    }
}
