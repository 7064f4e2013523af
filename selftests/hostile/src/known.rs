// SPDX-License-Identifier: GPL-2.0

//! What is known of the objects behind a device file. It may be out of date:
//! others end objects, too.

use std::sync::{
    atomic::{AtomicU64, Ordering::Relaxed},
    Mutex,
};

use crate::schema::QpKind;

/// Handles of one kind, and keys, that are remembered.
const REMEMBERED: usize = 24;

/// A set of numbers of fixed size, of which an old one makes room for a new one.
pub struct Pool([AtomicU64; REMEMBERED]);

impl Pool {
    pub fn new() -> Self {
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

    /// One of those that are not the first.
    pub fn pick_another(&self, random: &mut fastrand::Rng) -> Option<u32> {
        let first = self.first();
        let entries = self.0.iter().map(|entry| entry.load(Relaxed));
        let numbers = entries.filter(|entry| *entry != 0);
        let numbers = numbers.map(|entry| (entry - 1) as u32);
        random.choice(
            numbers
                .filter(|number| Some(*number) != first)
                .collect::<Vec<_>>(),
        )
    }

    pub fn is_crowded(&self) -> bool {
        self.0
            .iter()
            .filter(|entry| entry.load(Relaxed) != 0)
            .count()
            > REMEMBERED * 3 / 4
    }

    pub fn clear(&self) {
        self.0.iter().for_each(|entry| entry.store(0, Relaxed));
    }
}

/// A thing with a handle.
pub trait Thing: Copy {
    fn handle(&self) -> u32;
}

/// Things, of which the oldest makes room for a new one.
///
/// Nobody waits for another: a process may be a copy of one in which the lock was
/// held.
pub struct Known<T>(Mutex<Vec<T>>);

impl<T: Thing> Known<T> {
    pub fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn with<R>(&self, body: impl FnOnce(&mut Vec<T>) -> R) -> Option<R> {
        Some(body(&mut *self.0.try_lock().ok()?))
    }

    pub fn add(&self, thing: T) {
        self.with(|things| {
            if things.len() >= REMEMBERED {
                things.remove(0);
            }
            things.push(thing);
        });
    }

    /// Changes what is known of a thing.
    pub fn change(&self, handle: u32, body: impl FnOnce(&mut T)) {
        self.with(|things| {
            let thing = things.iter_mut().find(|thing| thing.handle() == handle);
            thing.map(body);
        });
    }

    pub fn forget(&self, handle: u32) {
        self.with(|things| things.retain(|thing| thing.handle() != handle));
    }

    /// One of those that are suitable.
    pub fn pick(&self, random: &mut fastrand::Rng, is_suitable: impl Fn(&T) -> bool) -> Option<T> {
        self.with(|things| {
            let suitable: Vec<_> = things.iter().filter(|thing| is_suitable(thing)).collect();
            random.choice(suitable).copied()
        })?
    }

    pub fn clear(&self) {
        self.with(Vec::clear);
    }
}

/// A region.
#[derive(Clone, Copy)]
pub struct Region {
    pub handle: u32,
    pub key: u32,
    /// The address of its first byte.
    pub start: u64,
    /// Bytes that it has, at least; none while it has no layout.
    pub length: u64,
    pub access: u32,
    /// It can have layouts.
    pub is_indirect: bool,
    /// A request has to be posted before its layout holds.
    pub waits: bool,
}

impl Thing for Region {
    fn handle(&self) -> u32 {
        self.handle
    }
}

/// A queue pair.
#[derive(Clone, Copy)]
pub struct Qp {
    pub handle: u32,
    pub number: u32,
    pub kind: QpKind,
}

impl Thing for Qp {
    fn handle(&self) -> u32 {
        self.handle
    }
}

/// A memory window.
#[derive(Clone, Copy)]
pub struct Window {
    pub handle: u32,
    pub key: u32,
    /// It belongs to the queue pair that bound it, and can be invalidated.
    pub is_of_type_2: bool,
}

impl Thing for Window {
    fn handle(&self) -> u32 {
        self.handle
    }
}

/// That a queue pair is a member of a group.
#[derive(Clone, Copy)]
pub struct Membership {
    pub qp: u32,
    pub group: [u8; 16],
}

impl Thing for Membership {
    fn handle(&self) -> u32 {
        self.qp
    }
}
