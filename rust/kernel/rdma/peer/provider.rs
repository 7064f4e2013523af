// SPDX-License-Identifier: GPL-2.0

//! Peer-memory clients that are written in Rust.
//!
//! C header: [`include/rdma/peer_mem.h`](srctree/include/rdma/peer_mem.h)
//!
//! This file is part of the module of a client, not of the registry's: it needs the kernel's crate,
//! and `crate::bindings` with what bindgen makes of the C header.
//!
//! A client implements [`Provider`] and keeps a [`Registration`]:
//!
//! ```ignore
//! struct Gpu;
//!
//! impl Provider for Gpu {
//!     type Range = Allocation;
//!     ...
//! }
//!
//! let registration = Registration::<Gpu>::new(c"gpu", c"1.0", TakesBack::Never)?;
//! ```

use crate::bindings::{
    self,
    peer_memory_client_ex,
    scatterlist,
    sg_table, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    num::NonZeroU64,
    ptr::NonNull, //
};
use kernel::{
    device::Device,
    error::to_result,
    page::PAGE_SIZE,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// Names a range to the registry. Never used for another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ticket(NonZeroU64);

impl Ticket {
    /// The number.
    pub fn number(self) -> u64 {
        self.0.get()
    }
}

/// A range that is to be pinned.
pub struct Request {
    /// The first byte, in the address space of the process that registered it.
    pub addr: usize,
    /// How many bytes.
    pub len: usize,
    /// Always, today: the pages will be written to.
    pub write: bool,
    /// As if they were writable for the process, which may only read them.
    pub force: bool,
    /// To take the range back with; `None` if the client said that it never does.
    pub ticket: Option<Ticket>,
}

/// A driver that offers memory of its device.
///
/// The functions are called from any thread, with no lock held. They may sleep, and they may take
/// ranges back. For one range they are called in the order in which they stand here, `dma_unmap` and
/// `put_pages` also by the thread that takes the range back.
pub trait Provider: Sized + 'static {
    /// What the client remembers of a range.
    type Range: Send + Sync + 'static;

    /// Whether `len` bytes at `addr` of the current process are of the client's memory, and what it
    /// remembers of them then.
    fn acquire(addr: usize, len: usize) -> Option<Arc<Self::Range>>;

    /// Pins the range.
    fn get_pages(range: &Arc<Self::Range>, request: &Request) -> Result;

    /// Bytes of a page, a power of two.
    fn page_size(range: &Arc<Self::Range>) -> usize {
        let _ = range;
        PAGE_SIZE
    }

    /// Describes the range in `table`, by pages or by addresses for `device`, from the start of the
    /// page on that it begins in. Returns how many entries have an address for `device`.
    ///
    /// The table is left empty if this fails.
    fn dma_map(range: &Arc<Self::Range>, table: &mut Table<'_>, device: &Device) -> Result<u32>;

    /// Undoes `dma_map`, but for the table.
    fn dma_unmap(range: &Arc<Self::Range>, table: &mut Table<'_>, device: &Device) -> Result;

    /// Undoes `get_pages`, and frees the table. Not called for a range that the client has unmapped
    /// itself, whose table is freed when it is released.
    fn put_pages(range: &Arc<Self::Range>, table: &mut Table<'_>) {
        let _ = range;
        table.free();
    }

    /// Nobody needs the range any more.
    fn release(range: Arc<Self::Range>) {
        drop(range);
    }
}

/// A table of memory that is being described to the registry.
pub struct Table<'a>(&'a mut sg_table);

impl Table<'_> {
    /// Makes room for `entries`, of which each is given by `fill`. `EINVAL` for no entries, or if
    /// there is room already.
    pub fn fill(
        &mut self,
        entries: u32,
        mut fill: impl FnMut(u32, &mut Entry<'_>) -> Result,
    ) -> Result {
        if entries == 0 || !self.0.sgl.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: The table is empty.
        to_result(unsafe { bindings::sg_alloc_table(self.0, entries, bindings::GFP_KERNEL) })?;
        let mut entry = self.0.sgl;
        for index in 0..entries {
            // SAFETY: The table has so many entries, and this is the one of `index`.
            let (current, next) = unsafe { (&mut *entry, bindings::sg_next(entry)) };
            if let Err(e) = fill(index, &mut Entry(current)) {
                self.free();
                return Err(e);
            }
            entry = next;
        }
        Ok(())
    }

    /// Frees the entries.
    pub fn free(&mut self) {
        // SAFETY: The table is empty or was allocated.
        unsafe { bindings::sg_free_table(self.0) };
        *self.0 = sg_table::default();
    }

    /// Maps the pages of all entries for `device`. Returns how many entries have an address then.
    pub fn map(&mut self, device: &Device) -> Result<u32> {
        let device = core::ptr::from_ref(device).cast_mut().cast();
        let both = bindings::dma_data_direction::DMA_BIDIRECTIONAL;
        // SAFETY: The table is sound, and the registry keeps the device.
        let mapped = unsafe {
            bindings::dma_map_sg_attrs(device, self.0.sgl, self.0.orig_nents as c_int, both, 0)
        };
        if mapped == 0 {
            Err(EIO)
        } else {
            Ok(mapped)
        }
    }

    /// Undoes [`Table::map`].
    pub fn unmap(&mut self, device: &Device) {
        let device = core::ptr::from_ref(device).cast_mut().cast();
        let both = bindings::dma_data_direction::DMA_BIDIRECTIONAL;
        // SAFETY: As in `map`, which was called with the same entries.
        unsafe {
            bindings::dma_unmap_sg_attrs(device, self.0.sgl, self.0.orig_nents as c_int, both, 0)
        };
    }
}

/// An entry of a table.
pub struct Entry<'a>(&'a mut scatterlist);

impl Entry<'_> {
    /// The entry is `len` bytes of a page, or of pages next to each other, from `offset` on.
    ///
    /// # Safety
    ///
    /// `page` stays the client's until `put_pages`, or until the client has taken the range back.
    pub unsafe fn set_page(&mut self, page: NonNull<bindings::page>, offset: u32, len: u32) {
        // The low bits say where the table ends or goes on.
        self.0.page_link = (self.0.page_link & 3) | page.as_ptr() as c_ulong;
        self.0.offset = offset;
        self.0.length = len;
    }

    /// The entry is `len` bytes at `addr` for the device, and has no page.
    ///
    /// # Safety
    ///
    /// The address may be accessed until `dma_unmap`, or until the client has taken the range back.
    pub unsafe fn set_address(&mut self, addr: u64, len: u32) {
        self.0.length = len;
        self.0.dma_address = addr;
        // Where there is no such field, `length` is the length for the device as well.
        #[cfg(CONFIG_NEED_SG_DMA_LENGTH)]
        {
            self.0.dma_length = len;
        }
    }
}

/// Whether a client takes ranges back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TakesBack {
    /// Never: what is registered stays until it is deregistered.
    Never,
    /// At any moment; `dma_unmap` and `put_pages` are called then.
    Classic,
    /// At any moment; the client itself unmaps and unpins a range after it has taken it back.
    AndUnmaps,
}

/// Takes ranges back.
///
/// # Invariants
///
/// The function is one of a registry that this module needs, which cannot go before it. A handle
/// that is gone, and a ticket that is gone, name nothing to it.
#[derive(Clone, Copy)]
pub struct Invalidator {
    handle: *mut c_void,
    invalidate: bindings::invalidate_peer_memory,
}

// SAFETY: The handle is no pointer to anything here, and the function may be called by any thread.
unsafe impl Send for Invalidator {}
// SAFETY: As above.
unsafe impl Sync for Invalidator {}

impl Invalidator {
    /// Takes a range back. When this returns, nothing reaches the range any more, and nothing will.
    ///
    /// May sleep, and may be called with any lock held that `dma_unmap` and `put_pages` do not take,
    /// or that they know to be held.
    pub fn invalidate(&self, ticket: Ticket) {
        if let Some(invalidate) = self.invalidate {
            // SAFETY: By the type invariant; nothing is required of a ticket.
            unsafe { invalidate(self.handle, ticket.number()) };
        }
    }
}

/// What the registry calls the context of a range.
struct Context<P: Provider> {
    range: Arc<P::Range>,
    /// The entries that `dma_map` has made, until `put_pages` has freed them. A client that unmaps
    /// a range itself is not asked to. For one range the registry calls one callback at a time,
    /// so that one thread at a time uses this.
    entries: UnsafeCell<sg_table>,
}

impl<P: Provider> Drop for Context<P> {
    fn drop(&mut self) {
        Table(self.entries.get_mut()).free();
    }
}

/// A client that is registered, until this is dropped.
///
/// Dropping it waits until all ranges of the client have been released, so not in one of the
/// client's own functions.
pub struct Registration<P: Provider> {
    invalidator: Invalidator,
    _client: KBox<peer_memory_client_ex>,
    _provider: PhantomData<fn() -> P>,
}

impl<P: Provider> Registration<P> {
    /// Registers a client. `EINVAL` if the registry refuses it, and the reason in the log.
    pub fn new(name: &CStr, version: &CStr, takes_back: TakesBack) -> Result<Self> {
        let mut client = KBox::new(peer_memory_client_ex::default(), GFP_KERNEL)?;
        let ex = &mut *client;
        copy_text(&mut ex.client.name, name)?;
        copy_text(&mut ex.client.version, version)?;
        ex.client.acquire = Some(Self::acquire);
        ex.client.get_pages = Some(Self::get_pages);
        ex.client.get_page_size = Some(Self::get_page_size);
        ex.client.dma_map = Some(Self::dma_map);
        ex.client.dma_unmap = Some(Self::dma_unmap);
        ex.client.put_pages = Some(Self::put_pages);
        ex.client.release = Some(Self::release);
        if takes_back == TakesBack::AndUnmaps {
            if let Some(last) = ex.client.version.last_mut() {
                *last = bindings::peer_memory_variant_PEER_MEM_EXTENDED as u8;
            }
            ex.ex_size = size_of::<peer_memory_client_ex>();
            ex.flags = bindings::peer_memory_flags_PEER_MEM_INVALIDATE_UNMAPS;
        }
        let mut invalidate: bindings::invalidate_peer_memory = None;
        let place = match takes_back {
            TakesBack::Never => core::ptr::null_mut(),
            _ => &raw mut invalidate,
        };
        // SAFETY: The client is as the C header says, and stays where it is. The functions are of
        // this module, which the registration does not outlive.
        let handle = unsafe { bindings::ib_register_peer_memory_client(&ex.client, place) };
        if handle.is_null() {
            return Err(EINVAL);
        }
        Ok(Self {
            invalidator: Invalidator { handle, invalidate },
            _client: client,
            _provider: PhantomData,
        })
    }

    /// To take ranges back with.
    pub fn invalidator(&self) -> Invalidator {
        self.invalidator
    }

    /// # Safety
    ///
    /// `context` is of a range that has been acquired, and is not released for the lifetime of the
    /// result.
    unsafe fn context<'a>(context: *mut c_void) -> &'a Context<P> {
        // SAFETY: By the requirements of this function what `acquire` gave away is still there.
        unsafe { &*context.cast() }
    }

    /// # Safety
    ///
    /// To be called by the registry, as all that follow.
    unsafe extern "C" fn acquire(
        addr: c_ulong,
        len: usize,
        _data: *mut c_void,
        _name: *mut c_char,
        context: *mut *mut c_void,
    ) -> c_int {
        let Some(range) = P::acquire(addr, len) else {
            return 0;
        };
        let Ok(room) = KBox::<Context<P>>::new_uninit(GFP_KERNEL) else {
            P::release(range);
            return 0;
        };
        let fresh = KBox::write(
            room,
            Context {
                range,
                entries: UnsafeCell::new(sg_table::default()),
            },
        );
        // SAFETY: The registry passes a place for the context.
        unsafe { *context = KBox::into_raw(fresh).cast() };
        1
    }

    /// # Safety
    ///
    /// See [`Registration::acquire`].
    unsafe extern "C" fn get_pages(
        addr: c_ulong,
        len: usize,
        write: c_int,
        force: c_int,
        _table: *mut sg_table,
        context: *mut c_void,
        ticket: u64,
    ) -> c_int {
        let request = Request {
            addr,
            len,
            write: write != 0,
            force: force != 0,
            ticket: NonZeroU64::new(ticket).map(Ticket),
        };
        // SAFETY: The registry passes the context of an acquired range.
        let range = unsafe { &Self::context(context).range };
        P::get_pages(range, &request).map_or_else(|e| e.to_errno(), |()| 0)
    }

    /// # Safety
    ///
    /// See [`Registration::acquire`].
    unsafe extern "C" fn get_page_size(context: *mut c_void) -> c_ulong {
        // SAFETY: As in `get_pages`.
        P::page_size(unsafe { &Self::context(context).range })
    }

    /// # Safety
    ///
    /// See [`Registration::acquire`].
    unsafe extern "C" fn dma_map(
        table: *mut sg_table,
        context: *mut c_void,
        device: *mut bindings::device,
        _dmasync: c_int,
        mapped: *mut c_int,
    ) -> c_int {
        // SAFETY: As in `get_pages`; table and device are valid during the call.
        let (context, table, device) = unsafe {
            (
                Self::context(context),
                &mut *table,
                Device::from_raw(device),
            )
        };
        let count = P::dma_map(&context.range, &mut Table(table), device);
        if count.is_ok() {
            // SAFETY: Nothing else uses the entries now.
            unsafe { *context.entries.get() = *table };
        }
        let count = count.and_then(|count| Ok(c_int::try_from(count)?));
        match count {
            Ok(count) => {
                // SAFETY: The registry passes a place for the number.
                unsafe { *mapped = count };
                0
            }
            Err(e) => e.to_errno(),
        }
    }

    /// # Safety
    ///
    /// See [`Registration::acquire`].
    unsafe extern "C" fn dma_unmap(
        table: *mut sg_table,
        context: *mut c_void,
        device: *mut bindings::device,
    ) -> c_int {
        // SAFETY: As in `dma_map`.
        let (context, table, device) = unsafe {
            (
                Self::context(context),
                &mut *table,
                Device::from_raw(device),
            )
        };
        let undone = P::dma_unmap(&context.range, &mut Table(table), device);
        undone.map_or_else(|e| e.to_errno(), |()| 0)
    }

    /// # Safety
    ///
    /// See [`Registration::acquire`].
    unsafe extern "C" fn put_pages(table: *mut sg_table, context: *mut c_void) {
        // SAFETY: As in `dma_map`.
        let (context, table) = unsafe { (Self::context(context), &mut *table) };
        P::put_pages(&context.range, &mut Table(table));
        // SAFETY: Nothing else uses the entries now.
        unsafe { *context.entries.get() = *table };
    }

    /// # Safety
    ///
    /// See [`Registration::acquire`].
    unsafe extern "C" fn release(context: *mut c_void) {
        // SAFETY: The registry releases what was acquired once, and does not use it any more.
        let context = unsafe { KBox::from_raw(context.cast::<Context<P>>()) };
        P::release(context.range.clone());
    }
}

impl<P: Provider> Drop for Registration<P> {
    fn drop(&mut self) {
        // SAFETY: The handle is that of this registration.
        unsafe { bindings::ib_unregister_peer_memory_client(self.invalidator.handle) };
    }
}

/// Copies `text` with the byte that ends it. `EINVAL` if it does not fit.
fn copy_text(to: &mut [c_char], text: &CStr) -> Result {
    let bytes = text.to_bytes_with_nul();
    let room = to.get_mut(..bytes.len()).ok_or(EINVAL)?;
    room.copy_from_slice(bytes);
    Ok(())
}
