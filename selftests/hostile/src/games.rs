// SPDX-License-Identifier: GPL-2.0

//! Games with memory, files and processes, while other threads use the device.

use std::{ffi::CStr, io, ptr, sync::atomic::Ordering::Relaxed};

use crate::{
    arena::{PAGE, SLOT},
    caller::Caller,
    ledger::{errno_of, Line},
    peer::Buffer,
};

/// A program that does nothing.
const NOTHING: &CStr = c"/bin/true";
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

impl Caller<'_> {
    fn played(&self, line: Line, status: i64) {
        let outcome = match status {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        self.world.ledger.count(line, errno_of(&outcome));
        self.world.ledger.totals().games.fetch_add(1, Relaxed);
    }

    /// Some pages of a slot.
    fn pages(&mut self) -> (*mut u8, usize) {
        let slot = self.world.arena.slot(self.random.usize(0..64));
        let (first, count) = (self.random.usize(0..16), self.random.usize(1..=16));
        let count = count.min(SLOT / PAGE - first);
        (slot.wrapping_add(first * PAGE), count * PAGE)
    }

    /// One game.
    pub fn play(&mut self, device: &str) {
        let lines = self.world.lines;
        if self.random.u8(0..250) == 0 {
            let outcome = self.file.open(device);
            return self.world.ledger.count(lines.opened, errno_of(&outcome));
        }
        match self.random.u8(0..30) {
            0..4 => self.remap(lines.unmap),
            4..8 => {
                let (start, len) = self.pages();
                let rights = [libc::PROT_NONE, libc::PROT_READ, READ_WRITE, READ_WRITE];
                let rights = rights[self.random.usize(0..rights.len())];
                // SAFETY: pages of a slot, which nobody but the device uses.
                let status = unsafe { libc::mprotect(start.cast(), len, rights) };
                self.played(lines.protect, status.into());
            }
            8..13 => {
                let (start, len) = self.pages();
                let advice = [
                    libc::MADV_DONTNEED,
                    libc::MADV_FREE,
                    libc::MADV_WILLNEED,
                    libc::MADV_DONTFORK,
                    libc::MADV_DOFORK,
                    libc::MADV_HUGEPAGE,
                    libc::MADV_COLD,
                    libc::MADV_PAGEOUT,
                    libc::MADV_POPULATE_WRITE,
                ];
                let advice = advice[self.random.usize(0..advice.len())];
                // SAFETY: as above.
                let status = unsafe { libc::madvise(start.cast(), len, advice) };
                self.played(lines.advise, status.into());
            }
            13 => self.replace(lines.replace),
            14 => self.replace_with_peer(lines.peer, lines.taken_back),
            // A child that got the context of a file would do so unknown to us.
            15 if self.file.has_context.load(Relaxed) => self.fork(device),
            16..20 => self.duplicate(lines.duplicate, lines.closed),
            20..24 => self.map_anywhere(lines.mapped),
            _ => self.read_channel(lines.events),
        }
    }

    fn map_over(&self, start: *mut u8, len: usize, rights: i32, descriptor: i32) -> i64 {
        let flags = libc::MAP_FIXED
            | match descriptor {
                -1 => libc::MAP_ANONYMOUS | libc::MAP_PRIVATE,
                _ => libc::MAP_SHARED,
            };
        // SAFETY: pages of a slot, which nobody but the device uses.
        let status = unsafe { libc::mmap(start.cast(), len, rights, flags, descriptor, 0) };
        if status == libc::MAP_FAILED {
            -1
        } else {
            0
        }
    }

    /// Takes memory away for a moment. The addresses stay taken, so that nothing
    /// else comes to be there.
    fn remap(&mut self, line: Line) {
        let (start, len) = self.pages();
        let status = self.map_over(start, len, libc::PROT_NONE, -1);
        if self.random.bool() {
            std::thread::yield_now();
        }
        self.map_over(start, len, READ_WRITE, -1);
        self.played(line, status);
    }

    fn replace(&mut self, line: Line) {
        let (start, len) = self.pages();
        // SAFETY: a name that ends with a zero.
        let file = unsafe { libc::memfd_create(c"slot".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return self.played(line, -1);
        }
        // Now and then shorter than what is mapped: pages at its end do not exist.
        let size = if self.random.u8(0..4) == 0 {
            len / 2
        } else {
            len
        };
        // SAFETY: a file of ours.
        unsafe { libc::ftruncate(file, size as i64) };
        let status = self.map_over(start, len, READ_WRITE, file);
        self.played(line, status);
        // SAFETY: as above.
        unsafe { libc::close(file) };
    }

    /// Puts memory of a peer client there, which may be taken back at any time.
    fn replace_with_peer(&mut self, line: Line, taken_back: Line) {
        let (start, len) = self.pages();
        let Some(buffer) = Buffer::new(&mut self.random, len) else {
            return self.replace(self.world.lines.replace);
        };
        let status = self.map_over(start, len, READ_WRITE, buffer.descriptor());
        self.played(line, status);
        if let Some(old) = self.buffer.replace(buffer) {
            if self.random.bool() {
                self.played(taken_back, old.take_back().into());
            }
        }
    }

    /// A child that uses the device through what it inherited, and ends in one
    /// way or another.
    fn fork(&mut self, device: &str) {
        let lines = self.world.lines;
        // SAFETY: the child makes system calls, and allocates, which the C
        // library allows after a fork.
        match unsafe { libc::fork() } {
            0 => {
                let seed = self.random.u64(..);
                // SAFETY: a request to the kernel about this process.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                self.be_a_child(device, seed);
            }
            child => self.played(lines.fork, child.into()),
        }
        // Those that ended before.
        // SAFETY: children of ours; nobody needs their status.
        while unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG) } > 0 {}
    }

    fn be_a_child(&mut self, device: &str, seed: u64) -> ! {
        if let Ok(mut child) = Caller::new(self.world, self.file, seed) {
            child.is_heir = true;
            child.trace();
            for _ in 0..child.random.u32(0..60) {
                match child.random.u8(0..8) {
                    0..3 => child.method(),
                    3..6 => child.command(),
                    6 => child.post_by_hand(),
                    _ => {
                        let (start, len) = child.pages();
                        child.map_over(start, len, READ_WRITE, -1);
                    }
                }
            }
            if child.random.u8(0..8) == 0 {
                let _ = child.file.open(device);
            }
            child.depart();
        }
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(0) }
    }

    /// Ends the process with everything live.
    pub fn depart(&mut self) -> ! {
        let (ledger, lines) = (self.world.ledger, self.world.lines);
        match self.random.u8(0..9) {
            // A new program takes longer than all else that a child does.
            0 => {
                ledger.count(lines.exec, 0);
                let arguments = [NOTHING.as_ptr(), ptr::null()];
                // SAFETY: strings that end with a zero, and a list that ends with null.
                unsafe { libc::execv(NOTHING.as_ptr(), arguments.as_ptr()) };
            }
            1..5 => {
                ledger.count(lines.killed, 0);
                // SAFETY: ends this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            }
            _ => ledger.count(lines.leave, 0),
        }
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(0) }
    }

    /// Makes a call on a duplicate of the descriptor, and one after closing it.
    fn duplicate(&mut self, line: Line, closed: Line) {
        // SAFETY: a descriptor of ours.
        let other = unsafe { libc::dup(self.descriptor()) };
        if other < 0 {
            return self.played(line, -1);
        }
        let header = [0_u64; 3];
        let call = || {
            // SAFETY: the kernel reads a head of 24 bytes, and finds no method there.
            unsafe { libc::ioctl(other, mrx::sys::MRX_VERBS_IOCTL, header.as_ptr()) }
        };
        call();
        // SAFETY: the descriptor that was just made.
        let status = unsafe { libc::close(other) };
        self.played(line, status.into());
        let status = call();
        self.played(closed, status.into());
    }

    /// Maps the device file at any offset, with any rights.
    fn map_anywhere(&mut self, line: Line) {
        let rights = [
            READ_WRITE,
            libc::PROT_READ,
            libc::PROT_NONE,
            READ_WRITE | libc::PROT_EXEC,
        ];
        let rights = rights[self.random.usize(0..rights.len())];
        let flags = [libc::MAP_SHARED, libc::MAP_SHARED, libc::MAP_PRIVATE];
        let flags = flags[self.random.usize(0..flags.len())];
        let known = self.file.offsets.pick(&mut self.random);
        let offset = match known {
            Some(page) if self.random.u8(0..4) != 0 => PAGE as u64 * u64::from(page),
            _ if self.random.bool() => self.edge() & !(PAGE as u64 - 1),
            _ => PAGE as u64 * self.random.u64(0..64),
        };
        let len = match self.random.u8(0..4) {
            0 => self.random.usize(1..1 << 30),
            _ => PAGE * self.random.usize(1..16),
        };
        let descriptor = self.descriptor();
        // SAFETY: a new mapping disturbs no other.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                rights,
                flags,
                descriptor,
                offset as i64,
            )
        };
        if start == libc::MAP_FAILED {
            return self.played(line, -1);
        }
        self.played(line, 0);
        // In pieces, and now and then with other rights in between.
        // SAFETY: the mapping that was just made.
        unsafe {
            if self.random.bool() {
                libc::mprotect(start, PAGE, libc::PROT_READ);
                let half = (len / 2) & !(PAGE - 1);
                libc::munmap(start.byte_add(half), (len - half).max(1));
            }
            libc::munmap(start, len);
        }
    }

    /// Reads an event of a channel, if there is one.
    fn read_channel(&mut self, line: Line) {
        let Some(channel) = self.file.channels.pick(&mut self.random) else {
            return;
        };
        let mut event = [0_u8; 64];
        let len = self.random.usize(0..64);
        // SAFETY: the buffer has as many bytes. The descriptor does not wait.
        let status = unsafe { libc::read(channel as i32, event.as_mut_ptr().cast(), len) };
        self.played(line, status as i64);
    }
}
