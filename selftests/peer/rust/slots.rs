// SPDX-License-Identifier: GPL-2.0

//! The clients that a test has registered.

use crate::{
    bindings::{
        mrx_peer_register,
        peer_memory_variant_PEER_MEM_EXTENDED as EXTENDED,
        MRX_PEER_SLOTS, //
    },
    provider::{
        Invalidator,
        Registration,
        TakesBack, //
    },
    range::Slot, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        global_lock, //
    }, //
};

const SLOTS: usize = MRX_PEER_SLOTS as usize;

/// A client that is registered: kept only to be dropped.
trait Registered: Send {}

impl<const SLOT: usize> Registered for Registration<Slot<SLOT>> {}

/// A slot.
struct Entry {
    registration: Option<KBox<dyn Registered>>,
    invalidator: Option<(Invalidator, bool)>,
}

const EMPTY: Entry = Entry {
    registration: None,
    invalidator: None,
};

global_lock! {
    // SAFETY: Initialised by `init`, before anything else of this file is used.
    unsafe(uninit) static ENTRIES: Mutex<[Entry; SLOTS]> = [EMPTY; SLOTS];
}

static ASKED: [Atomic<i64>; SLOTS] = [const { Atomic::new(0) }; SLOTS];

/// # Safety
///
/// Called once, before anything else of this file.
pub unsafe fn init() {
    // SAFETY: By the requirements of this function.
    unsafe { ENTRIES.init() };
}

/// Counts that the client of a slot was asked.
pub fn asked(slot: usize) {
    if let Some(count) = ASKED.get(slot) {
        count.add(1, Relaxed);
    }
}

/// How often the client of a slot was asked.
pub fn times_asked(slot: usize) -> Result<isize> {
    Ok(ASKED.get(slot).ok_or(EINVAL)?.load(Relaxed) as isize)
}

/// What takes back ranges of a client that can do so, and whether it unmaps them itself.
pub fn invalidator(slot: usize) -> Option<(Invalidator, bool)> {
    ENTRIES.lock().get(slot)?.invalidator
}

fn register_slot<const SLOT: usize>(
    name: &CStr,
    version: &CStr,
    takes_back: TakesBack,
) -> Result<(KBox<dyn Registered>, Invalidator)> {
    let registration = Registration::<Slot<SLOT>>::new(name, version, takes_back)?;
    let invalidator = registration.invalidator();
    let boxed: KBox<dyn Registered> = KBox::new(registration, GFP_KERNEL)?;
    Ok((boxed, invalidator))
}

/// Registers a client.
pub fn register(how: &mrx_peer_register) -> Result {
    let name = CStr::from_bytes_until_nul(&how.name).map_err(|_| EINVAL)?;
    let version = CStr::from_bytes_until_nul(&how.version).map_err(|_| EINVAL)?;
    let slot = how.slot as usize;
    let extended = how
        .version
        .last()
        .is_some_and(|&v| u32::from(v) == EXTENDED);
    let takes_back = match (how.invalidates != 0, extended) {
        (false, _) => TakesBack::Never,
        (true, false) => TakesBack::Classic,
        (true, true) => TakesBack::AndUnmaps,
    };
    let mut entries = ENTRIES.lock();
    let entry = entries.get_mut(slot).ok_or(EINVAL)?;
    if entry.registration.is_some() {
        return Err(EBUSY);
    }
    if let Some(count) = ASKED.get(slot) {
        count.store(0, Relaxed);
    }
    let register = match slot {
        0 => register_slot::<0>,
        1 => register_slot::<1>,
        2 => register_slot::<2>,
        3 => register_slot::<3>,
        4 => register_slot::<4>,
        5 => register_slot::<5>,
        6 => register_slot::<6>,
        7 => register_slot::<7>,
        8 => register_slot::<8>,
        9 => register_slot::<9>,
        _ => return Err(EINVAL),
    };
    let (registration, invalidator) = register(name, version, takes_back)?;
    entry.registration = Some(registration);
    entry.invalidator = (takes_back != TakesBack::Never)
        .then_some((invalidator, takes_back == TakesBack::AndUnmaps));
    Ok(())
}

/// Unregisters a client, which waits for its ranges. Its ranges can be taken back meanwhile.
pub fn unregister(slot: usize) -> Result {
    let registration = {
        let mut entries = ENTRIES.lock();
        let entry = entries.get_mut(slot).ok_or(EINVAL)?;
        entry.registration.take().ok_or(ENOENT)?
    };
    drop(registration);
    Ok(())
}

/// Unregisters all.
pub fn unregister_all() {
    for slot in 0..SLOTS {
        let _ = unregister(slot);
    }
}
