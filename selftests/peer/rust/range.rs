// SPDX-License-Identifier: GPL-2.0

//! The callbacks: a peer-memory client as an author of one would write it, but that each is counted
//! and checked, and misbehaves when told to.

use crate::{
    bindings::{
        self,
        mrx_peer_step_MRX_PEER_ACQUIRE as ACQUIRE,
        mrx_peer_step_MRX_PEER_DMA_MAP as DMA_MAP,
        mrx_peer_step_MRX_PEER_DMA_UNMAP as DMA_UNMAP,
        mrx_peer_step_MRX_PEER_GET_PAGES as GET_PAGES,
        mrx_peer_step_MRX_PEER_GET_PAGE_SIZE as GET_PAGE_SIZE,
        mrx_peer_step_MRX_PEER_PUT_PAGES as PUT_PAGES,
        mrx_peer_step_MRX_PEER_RELEASE as RELEASE, //
    },
    buffer::{
        copy,
        Buffer, //
    },
    memory::Memory,
    provider::{
        Provider,
        Request,
        Table,
        Ticket, //
    },
    slots, //
};
use kernel::{
    device::Device,
    new_mutex,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

/// How far a range has come.
#[derive(Default)]
struct Progress {
    ticket: Option<Ticket>,
    got: bool,
    mapped: bool,
    /// The pages have been mapped for the device.
    dma_pages: bool,
    /// The client, which unmaps itself, takes it back. From now on it may be released, even before
    /// the call that takes it back returns.
    leaving: bool,
    /// The client has unmapped and unpinned it itself.
    revoked: bool,
}

/// A range that the registry has acquired.
#[pin_data]
pub struct Range {
    buffer: Arc<Buffer>,
    client: usize,
    addr: usize,
    offset: usize,
    len: usize,
    #[pin]
    progress: Mutex<Progress>,
}

impl Range {
    /// Takes the range back. Returns whether it had a ticket.
    pub fn take_back(&self) -> bool {
        let Some((invalidator, unmaps)) = slots::invalidator(self.client) else {
            return false;
        };
        let ticket = {
            let mut progress = self.progress.lock();
            let Some(ticket) = progress.ticket else {
                return false;
            };
            progress.leaving |= unmaps;
            ticket
        };
        invalidator.invalidate(ticket);
        if unmaps {
            self.progress.lock().revoked = true;
        }
        self.buffer.state.lock().counters.invalidations += 1;
        true
    }

    /// Does what the test asked for at this step.
    fn misbehave(&self, step: u32) -> Result {
        let fault = self.buffer.state.lock().fault;
        if fault.delay == step {
            fsleep(Delta::from_millis(i64::from(fault.delay_ms)));
        }
        if fault.invalidate == step {
            self.take_back();
        }
        if fault.fail == step {
            return Err(Error::from_errno(fault.error));
        }
        Ok(())
    }

    fn violation_unless(&self, holds: bool, what: &CStr) {
        if !holds {
            self.buffer.violation(what);
        }
    }

    /// Whether the registry unmaps what the client has unmapped before, which is counted.
    fn is_late(&self) -> bool {
        let late = self.progress.lock().revoked;
        self.buffer.state.lock().counters.late += u64::from(late);
        late
    }

    fn fill(&self, table: &mut Table<'_>, device: &Device) -> Result<u32> {
        let memory = self.buffer.memory()?;
        let shape = self.buffer.state.lock().fault.table;
        let first = self.offset / PAGE_SIZE;
        let mut count = (self.offset + self.len).div_ceil(PAGE_SIZE) - first;
        match shape {
            bindings::mrx_peer_table_MRX_PEER_TABLE_EMPTY => return Ok(0),
            bindings::mrx_peer_table_MRX_PEER_TABLE_SHORT => count -= 1,
            bindings::mrx_peer_table_MRX_PEER_TABLE_OVERSIZED => count = memory.pages() - first,
            _ => {}
        }
        let at_address = shape == bindings::mrx_peer_table_MRX_PEER_TABLE_AT_ADDRESS;
        table.fill(count as u32, |index, entry| {
            let page = first + index as usize;
            let skip = match (index, at_address) {
                (0, true) => self.offset % PAGE_SIZE,
                _ => 0,
            };
            let (offset, len) = (skip as u32, (PAGE_SIZE - skip) as u32);
            // SAFETY: The range keeps the buffer until it is released, and the buffer its memory.
            unsafe {
                if memory.has_pages() {
                    entry.set_page(memory.page(page)?, offset, len);
                } else {
                    // The device reaches memory by its physical address; see `Device memory` in
                    // Documentation/peer-memory.md.
                    entry.set_address(memory.phys(page)? + u64::from(offset), len);
                }
            }
            Ok(())
        })?;
        if !memory.has_pages() {
            return Ok(count as u32);
        }
        let mapped = table.map(device).inspect_err(|_| table.free())?;
        self.progress.lock().dma_pages = true;
        Ok(match shape {
            bindings::mrx_peer_table_MRX_PEER_TABLE_NMAP_NEGATIVE => 0,
            bindings::mrx_peer_table_MRX_PEER_TABLE_NMAP_HUGE => i32::MAX as u32,
            _ => mapped,
        })
    }
}

/// The client of slot `SLOT`.
pub struct Slot<const SLOT: usize>;

impl<const SLOT: usize> Provider for Slot<SLOT> {
    type Range = Range;

    fn acquire(addr: usize, len: usize) -> Option<Arc<Range>> {
        slots::asked(SLOT);
        let (buffer, offset) = {
            let current = current!();
            let mm = current.mm()?.mmap_read_lock();
            let vma = mm.vma_lookup(addr)?;
            if len > vma.end() - addr {
                return None;
            }
            Memory::of_vma(vma, addr)?
        };
        if buffer.memory().ok()?.owners() & (1 << SLOT) == 0 {
            return None;
        }
        let kept = buffer.clone();
        let range = Arc::pin_init(
            pin_init!(Range {
                buffer: kept,
                client: SLOT,
                addr,
                offset,
                len,
                progress <- new_mutex!(Progress::default(), "Range::progress"),
            }),
            GFP_KERNEL,
        )
        .ok()?;
        let listed = range
            .misbehave(ACQUIRE)
            .and_then(|()| Ok(buffer.state.lock().ranges.push(range.clone(), GFP_KERNEL)?));
        buffer.count(ACQUIRE, listed.is_ok());
        listed.ok()?;
        buffer.state.lock().counters.active += 1;
        Some(range)
    }

    fn get_pages(range: &Arc<Range>, request: &Request) -> Result {
        let buffer = &range.buffer;
        {
            let mut progress = range.progress.lock();
            let fresh = !progress.got && !progress.mapped;
            let same = request.addr == range.addr && request.len == range.len;
            progress.ticket = request.ticket;
            drop(progress);
            range.violation_unless(
                fresh && same,
                c"get_pages: not of a range that was acquired",
            );
            let due = slots::invalidator(SLOT).is_some();
            range.violation_unless(
                request.ticket.is_some() == due,
                c"get_pages: a ticket where none is due, or none",
            );
        }
        {
            let counters = &mut buffer.state.lock().counters;
            counters.write = u32::from(request.write);
            counters.force = u32::from(request.force);
            counters.ticket = request.ticket.map_or(0, Ticket::number);
        }
        let done = range.misbehave(GET_PAGES);
        range.progress.lock().got = done.is_ok();
        buffer.count(GET_PAGES, done.is_ok());
        done
    }

    fn page_size(range: &Arc<Range>) -> usize {
        let got = range.progress.lock().got;
        range.violation_unless(got, c"get_page_size: nothing is pinned");
        let _ = range.misbehave(GET_PAGE_SIZE);
        range.buffer.count(GET_PAGE_SIZE, true);
        match range.buffer.state.lock().fault.page_size {
            0 => PAGE_SIZE,
            odd => odd as usize,
        }
    }

    fn dma_map(range: &Arc<Range>, table: &mut Table<'_>, device: &Device) -> Result<u32> {
        let ready = {
            let progress = range.progress.lock();
            progress.got && !progress.mapped
        };
        range.violation_unless(ready, c"dma_map: not pinned, or mapped already");
        copy(
            &mut range.buffer.state.lock().counters.device,
            device.name().to_bytes(),
        );
        let mapped = range
            .misbehave(DMA_MAP)
            .and_then(|()| range.fill(table, device));
        range.progress.lock().mapped = mapped.is_ok();
        range.buffer.count(DMA_MAP, mapped.is_ok());
        mapped
    }

    fn dma_unmap(range: &Arc<Range>, table: &mut Table<'_>, device: &Device) -> Result {
        let late = range.is_late();
        let done = range.misbehave(DMA_UNMAP);
        let (mapped, dma_pages) = {
            let mut progress = range.progress.lock();
            (
                core::mem::take(&mut progress.mapped),
                core::mem::take(&mut progress.dma_pages),
            )
        };
        range.violation_unless(late || mapped, c"dma_unmap: not mapped");
        if dma_pages && !late {
            table.unmap(device);
        }
        range.buffer.count(DMA_UNMAP, done.is_ok());
        done
    }

    fn put_pages(range: &Arc<Range>, table: &mut Table<'_>) {
        let late = range.is_late();
        let _ = range.misbehave(PUT_PAGES);
        let ready = {
            let mut progress = range.progress.lock();
            core::mem::take(&mut progress.got) && !progress.mapped
        };
        range.violation_unless(late || ready, c"put_pages: not pinned, or mapped still");
        table.free();
        range.buffer.count(PUT_PAGES, true);
    }

    fn release(range: Arc<Range>) {
        let _ = range.misbehave(RELEASE);
        let (idle, leaving) = {
            let progress = range.progress.lock();
            (!progress.got && !progress.mapped, progress.leaving)
        };
        range.violation_unless(idle || leaving, c"release: pinned or mapped still");
        let buffer = &range.buffer;
        buffer.count(RELEASE, true);
        let mut state = buffer.state.lock();
        state.ranges.retain(|other| !Arc::ptr_eq(other, &range));
        state.counters.active -= 1;
    }
}
