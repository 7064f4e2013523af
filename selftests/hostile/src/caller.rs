// SPDX-License-Identifier: GPL-2.0

//! Makes system calls from what the schema says: most of them right in every
//! detail but the values, the others changed somewhere.

mod commands;
mod connect;
mod methods;
mod values;

use std::{io, sync::atomic::Ordering::Relaxed};

use crate::{
    device::File,
    schema::{Kind, Method, CHANNEL, EVENTS, OBJECTS, QP},
    scratch::Scratch,
    world::World,
};

/// The Q_Key of queue pairs that are settled.
pub const QKEY: u32 = 0x1122_3344;

/// A thread that makes calls on an open device.
pub struct Caller<'a> {
    pub world: &'a World,
    pub file: &'a File,
    pub random: fastrand::Rng,
    scratch: Scratch,
    /// The last address and length that were chosen.
    last: (u64, u64),
    /// Dimensions that the entries of a list want.
    dimensions: usize,
    /// The call that is being made shall be right, as far as it can be told.
    tame: bool,
    /// Handles in the call that is being made.
    used: Vec<(u16, u32)>,
}

impl<'a> Caller<'a> {
    pub fn new(world: &'a World, file: &'a File, seed: u64) -> io::Result<Self> {
        Ok(Self {
            world,
            file,
            random: fastrand::Rng::with_seed(seed),
            scratch: Scratch::new()?,
            last: (0, 0),
            dimensions: 0,
            tame: false,
            used: Vec::new(),
        })
    }

    pub fn descriptor(&self) -> i32 {
        self.file.descriptor.load(Relaxed)
    }

    /// Whether to do something wrong, once in so many times.
    fn chance(&mut self, of: u32) -> bool {
        !self.tame && self.random.u32(0..of) == 0
    }

    fn of<T: Copy>(&mut self, values: &[T]) -> T {
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

    fn remember(
        &mut self,
        handle: Option<(u16, u32)>,
        ended: Option<(u16, u32)>,
        number: Option<u32>,
    ) {
        match handle {
            Some((CHANNEL, descriptor)) => self.new_channel(descriptor as i32),
            Some((EVENTS, descriptor)) => {
                // SAFETY: a descriptor that was just made.
                unsafe { libc::close(descriptor as i32) };
            }
            Some((object, handle)) if usize::from(object) < OBJECTS => {
                self.file.handles[usize::from(object)].add(handle, &mut self.random);
                if let (QP, Some(number)) = (object, number) {
                    self.file.add_qp(handle, number);
                }
            }
            _ => {}
        }
        if let Some((object, handle)) = ended {
            self.file.handles[usize::from(object)].remove(handle);
        }
    }

    fn new_channel(&mut self, descriptor: i32) {
        if self.file.channels.is_crowded() {
            // SAFETY: a descriptor that was just made.
            unsafe { libc::close(descriptor) };
            return;
        }
        // SAFETY: as above. Reading it shall never wait.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
        self.file.channels.add(descriptor as u32, &mut self.random);
    }

    /// One of the handles may name nothing any more.
    fn forget_stale(&mut self, outcome: &io::Result<()>) {
        let Err(error) = outcome else { return };
        if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINVAL)) || self.chance(3) {
            return;
        }
        if let Some((object, handle)) = self.random.choice(&self.used) {
            self.file.handles[usize::from(*object)].remove(*handle);
        }
    }
}
