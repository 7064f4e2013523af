// SPDX-License-Identifier: GPL-2.0

//! Makes system calls from what the schema says: most of them right in every
//! detail, the others changed somewhere, or everywhere.

mod commands;
mod connect;
mod learn;
mod methods;
mod values;

use std::{io, sync::atomic::Ordering::Relaxed};

use crate::{
    coverage::Trace,
    device::File,
    ledger::Line,
    peer::Buffer,
    schema::{Kind, Method, QpKind, PD},
    scratch::Scratch,
    world::World,
};

/// The Q_Key of queue pairs that are settled.
pub const QKEY: u32 = 0x1122_3344;

/// What was chosen for the call that is being made, as far as other choices, or
/// what becomes of the call, depend on it.
#[derive(Clone, Copy, Default)]
struct Chosen {
    address: u64,
    length: u64,
    access: u32,
    gid: [u8; 16],
    qp_kind: Option<QpKind>,
    /// Bytes of all ranges of regions.
    total: u64,
    /// Dimensions that the entries of a list want.
    dimensions: usize,
}

/// What a request binds.
#[derive(Clone, Copy)]
pub enum Binding {
    /// A memory window, whose key becomes this one.
    Window { handle: u32, key: u32 },
    /// A layout that waits.
    Layout { handle: u32 },
}

/// A thread that makes calls on an open device.
pub struct Caller<'a> {
    pub world: &'a World,
    pub file: &'a File,
    pub random: fastrand::Rng,
    /// The file was opened by another process, in which commands are not written.
    pub is_heir: bool,
    scratch: Scratch,
    chosen: Chosen,
    /// So many mistakes may still be made in the call that is being made.
    mistakes: u32,
    /// Handles in the call that is being made.
    used: Vec<(u16, u32)>,
    /// The last request that was posted to bind something.
    pub binding: Option<Binding>,
    /// The last memory of a peer client that was mapped.
    pub buffer: Option<Buffer>,
    trace: Option<Trace>,
}

impl<'a> Caller<'a> {
    pub fn new(world: &'a World, file: &'a File, seed: u64) -> io::Result<Self> {
        Ok(Self {
            world,
            file,
            random: fastrand::Rng::with_seed(seed),
            is_heir: false,
            scratch: Scratch::new()?,
            chosen: Chosen::default(),
            mistakes: 0,
            used: Vec::new(),
            binding: None,
            buffer: None,
            trace: None,
        })
    }

    /// Has the kernel tell which code the calls of this thread run, if somebody
    /// wants to know.
    pub fn trace(&mut self) {
        if let Some(coverage) = self.world.coverage {
            self.trace = Trace::new(coverage).ok();
        }
    }

    /// Counts a system call on the device by what it returned.
    pub fn count(&self, line: Line, outcome: &io::Result<()>) {
        self.world.ledger.count_call(line, outcome);
        if let Some(trace) = &self.trace {
            trace.collect();
        }
    }

    pub fn descriptor(&self) -> i32 {
        self.file.descriptor.load(Relaxed)
    }

    /// Begins a call: a right one, or one with a mistake, or with many. What is
    /// right but for one thing gets furthest.
    pub fn make_up_mind(&mut self) {
        self.mistakes = match self.random.u8(0..16) {
            0..9 => 0,
            9..14 => 1,
            _ => u32::MAX,
        };
    }

    /// Begins a call that shall be right, as far as it can be told.
    pub fn behave(&mut self) {
        self.mistakes = 0;
    }

    /// Begins something that need not be right in anything.
    pub fn misbehave(&mut self) {
        self.mistakes = u32::MAX;
    }

    /// Whether to make a mistake here, where one is made once in so many times.
    pub fn errs(&mut self, of: u32) -> bool {
        let errs = self.mistakes > 0 && self.random.u32(0..of) == 0;
        if errs && self.mistakes != u32::MAX {
            self.mistakes -= 1;
        }
        errs
    }

    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.random.usize(0..values.len())]
    }

    /// The kind of object that a method makes, if there are many of them already.
    fn crowded(&self, method: &Method) -> Option<u16> {
        let made = method.attributes.iter().find_map(|a| match a.kind {
            Kind::New(object) => Some(object),
            _ => None,
        })?;
        self.file.handles[usize::from(made)]
            .is_crowded()
            .then_some(made)
    }

    fn new_channel(&mut self, descriptor: i32) {
        if self.world.device_goes || self.file.channels.is_crowded() {
            // SAFETY: a descriptor that was just made.
            unsafe { libc::close(descriptor) };
            return;
        }
        // SAFETY: as above. Reading it shall never wait.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
        self.file.channels.add(descriptor as u32, &mut self.random);
    }

    /// One of the handles may name nothing any more, or something else.
    fn suspect(&mut self, outcome: &io::Result<()>) {
        let Err(error) = outcome else { return };
        let forgets = match error.raw_os_error() {
            Some(libc::ENOENT) => self.random.u8(0..4) == 0,
            Some(libc::EINVAL) => self.random.u8(0..16) == 0,
            _ => false,
        };
        if !forgets {
            return;
        }
        match self.random.choice(&self.used) {
            // Others would be used with it no more, which are of this domain.
            Some((PD, _)) if self.random.u8(0..32) != 0 => {}
            Some(&(_, handle)) => self.file.forget_object(handle, false),
            None => {}
        }
    }
}
