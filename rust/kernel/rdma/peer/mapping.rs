// SPDX-License-Identifier: GPL-2.0

//! A range of a client's memory that somebody uses.

use super::{
    callbacks::ClientContext,
    pages::{
        Entries,
        Pages,
        Range, //
    },
    private::{
        self,
        ContextId, //
    },
    registry,
    ticket,
    users::Use, //
};
use crate::{
    bindings::sg_table,
    rdma::log::warn_ratelimited, //
};
use core::{
    cell::UnsafeCell,
    convert::Infallible,
    mem::{
        self,
        MaybeUninit, //
    }, //
};
use kernel::{
    device::Device,
    new_condvar,
    new_mutex,
    new_spinlock,
    prelude::*,
    sync::{
        aref::ARef,
        Arc,
        CondVar,
        Mutex,
        SpinLock,
        UniqueArc, //
    }, //
};

/// Who uses a mapping.
pub trait Importer: Send + Sync {
    /// Ends all access for good. Returns when none is under way. Called more than once.
    ///
    /// The client may hold locks of its own, so this waits for nothing but copies.
    fn revoke(&self);
}

/// What is to be mapped.
pub struct Request {
    /// The first byte, in the address space of the current process.
    pub addr: usize,
    /// How many bytes.
    pub len: usize,
    /// Whether they will be written to.
    pub writable: bool,
    /// For whom the client maps them.
    pub device: ARef<Device>,
    /// The verbs context of the process.
    pub context: Option<ContextId>,
}

/// Where a mapping is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It is being made, and has no user.
    Starting,
    /// It has a user, or had one until the client took the range back.
    InUse,
    /// Its owner is done with it.
    Ending,
}

/// What is left to undo.
#[derive(Default)]
struct Undo {
    dma_unmap: bool,
    put_pages: bool,
    /// So many pages are counted in the statistics.
    uncount: Option<u64>,
}

struct State {
    phase: Phase,
    /// The client has invalidated the range.
    invalidated: bool,
    undo: Undo,
    /// Somebody is at a step that he took off `undo`.
    undoing: bool,
    importer: Option<Arc<dyn Importer>>,
}

/// What the owner of a mapping shares with invalidations.
#[pin_data]
pub(super) struct Shared {
    client: Use,
    context: ClientContext,
    ticket: u64,
    request: Request,
    /// Passed to the client only, and only by one thread at a time: the one that makes the mapping,
    /// then the one that has set [`State::undoing`].
    table: UnsafeCell<sg_table>,
    /// Guards what has been done and is left to do. A leaf lock.
    #[pin]
    state: SpinLock<State>,
    /// Held while the entries of the table are read, and for nothing else: nothing sleeps under it.
    #[pin]
    reading: Mutex<()>,
    /// A step of undoing is over.
    #[pin]
    undone: CondVar,
}

// SAFETY: The table is used by one thread at a time, see there; all else is `Send`.
unsafe impl Send for Shared {}
// SAFETY: As above, and all else is `Sync`.
unsafe impl Sync for Shared {}

/// A range of a client's memory, pinned and mapped. Unmapped, unpinned and released when dropped,
/// as far as that has not been done.
pub struct Mapping {
    shared: Arc<Shared>,
    pages: u64,
}

impl Mapping {
    /// Has the owner of a range pin and map it, and says where the bytes are.
    ///
    /// `None` if nobody owns it; `EFAULT` if the owner took it back meanwhile; the errors of the
    /// owner; `EINVAL` if what it says of the range makes no sense.
    pub fn new(request: Request) -> Result<Option<(Self, Pages)>> {
        // First, so that nothing can fail between acquiring a range and the duty to release it.
        let room = UniqueArc::<Shared>::new_uninit(GFP_KERNEL)?;
        let data = request.context.and_then(private::find);
        let private = data.as_ref().map(|data| (data.as_ptr(), data.name()));
        let mut number = 0;
        loop {
            let Some(client) = registry::next_after(number) else {
                return Ok(None);
            };
            number = client.number;
            if let Some(context) = client.callbacks.acquire(request.addr, request.len, private) {
                let mut mapping = Self {
                    shared: Shared::fill(room, client, context, request),
                    pages: 0,
                };
                let pages = mapping.shared.start()?;
                mapping.pages = pages.count;
                return Ok(Some((mapping, pages)));
            }
        }
    }

    /// Gives the mapping its user, who must not let anybody reach the bytes before, or another one
    /// than it had, whose access has ended.
    ///
    /// `EFAULT` if the client has taken the range back already.
    pub fn attach(&self, importer: Arc<dyn Importer>) -> Result {
        // What this leaves over, which may be a last reference, is not to be dropped under the lock.
        let mut importer = Some(importer);
        let first = {
            let mut state = self.shared.state.lock();
            let first = match state.phase {
                _ if state.invalidated => return Err(EFAULT),
                Phase::Starting => true,
                Phase::InUse => false,
                Phase::Ending => return Err(EFAULT),
            };
            state.phase = Phase::InUse;
            mem::swap(&mut state.importer, &mut importer);
            if first {
                state.undo.uncount = Some(self.pages);
            }
            first
        };
        if first {
            let statistics = &self.shared.client.statistics;
            statistics.alloc_mrs.add(1);
            statistics.reg_pages.add(self.pages);
            statistics.reg_bytes.add(self.shared.request.len as u64);
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl Shared {
    fn fill(
        room: UniqueArc<MaybeUninit<Self>>,
        client: Use,
        context: ClientContext,
        request: Request,
    ) -> Arc<Self> {
        let ticket = if client.invalidates {
            ticket::next()
        } else {
            ticket::NONE
        };
        let made: Result<_, Infallible> = room.pin_init_with(pin_init!(Self {
            client,
            context,
            ticket,
            request,
            table: UnsafeCell::new(sg_table::default()),
            state <- new_spinlock!(State {
                phase: Phase::Starting,
                invalidated: false,
                undo: Undo::default(),
                undoing: false,
                importer: None,
            }, "Mapping::state"),
            reading <- new_mutex!((), "Mapping::reading"),
            undone <- new_condvar!("Mapping::undone"),
        }));
        match made {
            Ok(shared) => shared.into(),
            Err(never) => match never {},
        }
    }

    /// Has the range pinned and mapped. What has been done when this fails is undone by
    /// [`Shared::end`].
    fn start(self: &Arc<Self>) -> Result<Pages> {
        self.try_start().inspect_err(|e| {
            warn_ratelimited!(
                "peer-memory client {}: cannot register {} bytes at {:#x}: {:?}\n",
                self.client.name(),
                self.request.len,
                self.request.addr,
                e
            );
        })
    }

    fn try_start(self: &Arc<Self>) -> Result<Pages> {
        let Request { addr, len, .. } = self.request;
        let client = &self.client.callbacks;
        if self.ticket != ticket::NONE {
            self.client.tickets.insert(self.ticket, self.clone())?;
        }
        // SAFETY: The mapping is being made by this thread, which is the only one that uses the
        // table until it is attached or ends.
        let table = unsafe { &mut *self.table.get() };

        let writable = self.request.writable;
        client.get_pages(self.context, addr, len, writable, table, self.ticket)?;
        self.did(|undo| undo.put_pages = true)?;
        let page_size = client.get_page_size(self.context);
        self.did(|_| ())?;
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mapped = client.dma_map(self.context, table, &self.request.device)?;
        self.did(|undo| undo.dma_unmap = true)?;
        let range = Range {
            addr,
            len,
            page_size,
            mapped,
        };
        let mut entries = Entries::with_room_for(table)?;
        {
            let _reading = self.reading.lock();
            self.did(|_| ())?;
            // SAFETY: The client has mapped the table, and an invalidation, after which it may free
            // it, waits for the lock.
            unsafe { entries.copy(table) };
        }
        Pages::find(&entries, &range)
    }

    /// Notes what has to be undone from now on. `EFAULT` if the client has taken the range back.
    fn did(&self, note: impl FnOnce(&mut Undo)) -> Result {
        let mut state = self.state.lock();
        note(&mut state.undo);
        if state.invalidated {
            return Err(EFAULT);
        }
        Ok(())
    }

    /// Takes a step off the list of what is left to undo.
    fn next_step(&self) -> Next {
        let mut state = self.state.lock();
        if state.undoing {
            return Next::Elsewhere;
        }
        let State {
            undo,
            invalidated,
            undoing,
            ..
        } = &mut *state;
        if *invalidated && self.client.unmaps {
            // The client has done so itself.
            undo.dma_unmap = false;
            undo.put_pages = false;
        }
        let step = if mem::take(&mut undo.dma_unmap) {
            Step::DmaUnmap
        } else if mem::take(&mut undo.put_pages) {
            Step::PutPages
        } else if let Some(pages) = undo.uncount.take() {
            Step::Uncount(pages)
        } else {
            return Next::Nothing;
        };
        *undoing = true;
        Next::Step(step)
    }

    /// Undoes what is left to undo, but for the release. `false` if somebody else is at it, perhaps
    /// in the very callback that has led here; he does the rest.
    ///
    /// The mapping is not being made any more.
    fn undo(&self) -> bool {
        loop {
            match self.next_step() {
                Next::Nothing => return true,
                Next::Elsewhere => return false,
                Next::Step(step) => self.take(step),
            }
            self.state.lock().undoing = false;
            self.undone.notify_all();
        }
    }

    /// Takes a step that [`Shared::next_step`] has given to this thread.
    fn take(&self, step: Step) {
        let client = &self.client.callbacks;
        // SAFETY: Nobody makes the mapping any more, and `undoing` was set for this thread, so nobody
        // else uses the table now.
        let table = unsafe { &mut *self.table.get() };
        match step {
            Step::DmaUnmap => {
                let undone = client.dma_unmap(self.context, table, &self.request.device);
                if let Err(e) = undone {
                    warn_ratelimited!(
                        "peer-memory client {}: dma_unmap fails: {:?}\n",
                        self.client.name(),
                        e
                    );
                }
            }
            Step::PutPages => client.put_pages(self.context, table),
            Step::Uncount(pages) => {
                let statistics = &self.client.statistics;
                statistics.dereg_pages.add(pages);
                statistics.dereg_bytes.add(self.request.len as u64);
            }
        }
    }

    /// The client takes the range back.
    ///
    /// The client may hold any lock of its own, so this waits for nothing but copies: not for a
    /// callback that somebody else is in.
    pub(super) fn take_back(&self) {
        let (importer, phase) = {
            let mut state = self.state.lock();
            if !mem::replace(&mut state.invalidated, true) {
                self.client.statistics.free_callbacks.add(1);
            }
            (state.importer.clone(), state.phase)
        };
        if phase == Phase::Starting {
            // Nothing reaches the bytes, and nothing will: the thread that makes the mapping sees
            // that it is invalidated, and undoes what it has done. Whoever reads the table has not
            // seen that yet, or is done when the lock is free.
            drop(self.reading.lock());
            return;
        }
        // At the end there is no importer, and access has ended before.
        if let Some(importer) = importer {
            importer.revoke();
        }
        self.undo();
    }

    /// Undoes what is left to undo, and releases the range. Called once, by the owner's drop.
    fn end(&self) {
        let importer = {
            let mut state = self.state.lock();
            state.phase = Phase::Ending;
            state.importer.take()
        };
        // The range is released last, and not by an invalidation, whose caller may hold a lock that
        // `release` takes.
        while !self.undo() {
            let mut state = self.state.lock();
            while state.undoing {
                self.undone.wait(&mut state);
            }
        }
        // Until here a client that unmaps itself may say that there is nothing left to undo.
        if self.ticket != ticket::NONE {
            self.client.tickets.remove(self.ticket);
        }
        self.client.callbacks.release(self.context);
        if importer.is_some() {
            self.client.statistics.dealloc_mrs.add(1);
        }
        drop(importer);
    }
}

/// What is to be undone next.
enum Next {
    Step(Step),
    /// Somebody else is at a step, and does what is left.
    Elsewhere,
    Nothing,
}

/// A step of undoing a mapping.
enum Step {
    DmaUnmap,
    PutPages,
    /// Count so many pages as unmapped.
    Uncount(u64),
}
