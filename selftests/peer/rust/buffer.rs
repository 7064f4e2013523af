// SPDX-License-Identifier: GPL-2.0

//! A buffer: memory, the ranges of it that the registry has, and what was counted.

use crate::{
    bindings::{
        mrx_peer_alloc,
        mrx_peer_counters,
        mrx_peer_fault, //
        mrx_peer_step_MRX_PEER_NO_STEP as NO_STEP,
    },
    memory::Memory,
    range::Range,
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SetOnce, //
    }, //
};

/// What the lock of a buffer guards, that the callbacks take as well.
pub struct State {
    /// The ranges that have been acquired and not released.
    pub ranges: KVec<Arc<Range>>,
    pub fault: mrx_peer_fault,
    pub counters: mrx_peer_counters,
}

/// A buffer of an open file.
#[pin_data]
pub struct Buffer {
    memory: SetOnce<Memory>,
    #[pin]
    pub state: Mutex<State>,
}

impl Buffer {
    /// Makes a buffer that has no memory yet.
    pub fn new() -> Result<Arc<Self>> {
        let fault = mrx_peer_fault {
            fail: NO_STEP,
            delay: NO_STEP,
            invalidate: NO_STEP,
            ..Default::default()
        };
        Arc::pin_init(
            pin_init!(Self {
                memory: SetOnce::new(),
                state <- new_mutex!(State {
                    ranges: KVec::new(),
                    fault,
                    counters: Default::default(),
                }, "Buffer::state"),
            }),
            GFP_KERNEL,
        )
    }

    /// Gives it memory. `EBUSY` if it has some.
    pub fn allocate(self: &Arc<Self>, alloc: mrx_peer_alloc) -> Result {
        if self.memory.as_ref().is_some() {
            return Err(EBUSY);
        }
        let memory = Memory::new(self, alloc)?;
        if self.memory.populate(memory) {
            Ok(())
        } else {
            Err(EBUSY)
        }
    }

    /// The memory. `EINVAL` if it has none yet.
    pub fn memory(&self) -> Result<&Memory> {
        self.memory.as_ref().ok_or(EINVAL)
    }

    /// Counts a call of a callback.
    pub fn count(&self, step: u32, good: bool) {
        let counters = &mut self.state.lock().counters;
        if let Some(calls) = counters.calls.get_mut(step as usize) {
            *calls += 1;
        }
        if let Some(calls) = counters.good.get_mut(step as usize) {
            *calls += u64::from(good);
        }
    }

    /// Notes that a call broke the rules.
    pub fn violation(&self, what: &CStr) {
        pr_err!("{}\n", what);
        let counters = &mut self.state.lock().counters;
        counters.violations += 1;
        if counters.violations == 1 {
            copy(&mut counters.violation, what.to_bytes());
        }
    }
}

/// Copies a text, as much as there is room for with a zero byte behind it.
pub fn copy(to: &mut [u8], from: &[u8]) {
    to.fill(0);
    let room = to.len().saturating_sub(1);
    for (to, from) in to.iter_mut().zip(from).take(room) {
        *to = *from;
    }
}
