// SPDX-License-Identifier: GPL-2.0

//! Regions that users in the kernel fill by work requests: `ib_map_mr_sg`, `IB_WR_REG_MR`,
//! `IB_WR_LOCAL_INV`.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h) (`struct ib_reg_wr`)
//!
//! The pages are noted when they are mapped, at any time and in any context. The region has them
//! from when a work request registers it until one invalidates it; in between it is of no length.

use super::{
    access::Access,
    key::Key,
    memory::{
        Memory,
        Stretch, //
    },
    region::{
        Domain,
        Region, //
    },
};
use kernel::{
    new_spinlock_irq,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc,
        SpinLockIrq, //
    },
};

/// The most pages of a region of this kind.
pub const MAX_PAGES: u32 = 512;

/// Pages of the kernel, which their owner keeps in place while they are registered.
#[pin_data]
pub struct FastPages {
    /// A leaf, with interrupts off: pages are mapped in any context.
    #[pin]
    pages: SpinLockIrq<Pages>,
}

struct Pages {
    /// Kernel addresses.
    list: KVec<u64>,
    page_size: u64,
    /// Where in the first page the region begins.
    first: u64,
    /// Bytes of the region.
    length: u64,
}

impl FastPages {
    /// Makes room for `max` pages.
    pub fn new(max: u32) -> Result<Pin<KBox<Self>>> {
        let list = KVec::with_capacity(max.min(MAX_PAGES) as usize, GFP_KERNEL_ACCOUNT)?;
        KBox::pin_init(
            pin_init!(Self {
                pages <- new_spinlock_irq!(Pages {
                    list,
                    page_size: PAGE_SIZE as u64,
                    first: 0,
                    length: 0,
                }, "FastPages::pages"),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    /// Forgets the pages; those that follow are of `page_size` bytes, a power of two.
    fn start(&self, page_size: u64) -> Result {
        if !page_size.is_power_of_two() {
            return Err(EINVAL);
        }
        let mut pages = self.pages.lock();
        pages.list.clear();
        pages.length = 0;
        pages.page_size = page_size;
        Ok(())
    }

    /// Adds a page. `ENOMEM` if the region has as many as it was made for.
    fn add(&self, addr: u64) -> Result {
        let mut pages = self.pages.lock();
        pages.list.push_within_capacity(addr).map_err(|_| ENOMEM)
    }

    /// The pages become the region that starts at `iova`; its first byte lies in the first page
    /// where it does in a page of the region. `EINVAL` if there are fewer bytes.
    fn register(&self, iova: u64, length: u64) -> Result {
        let mut pages = self.pages.lock();
        let first = iova & (pages.page_size - 1);
        let all = (pages.list.len() as u64).checked_mul(pages.page_size);
        let end = first.checked_add(length).ok_or(EINVAL)?;
        if length == 0 || all.ok_or(EINVAL)? < end {
            return Err(EINVAL);
        }
        pages.first = first;
        pages.length = length;
        Ok(())
    }

    pub(super) fn stretch(&self, offset: u64, len: usize) -> Option<Stretch> {
        let pages = self.pages.lock();
        if offset >= pages.length {
            return None;
        }
        let most = (pages.length - offset).min(len as u64);
        let position = pages.first + offset;
        let mut index = position.checked_div(pages.page_size)? as usize;
        let into = position & (pages.page_size - 1);
        let mut page = *pages.list.get(index)?;
        let addr = page.wrapping_add(into);
        let mut found = pages.page_size - into;
        while found < most {
            index += 1;
            let next = *pages.list.get(index)?;
            if next != page.wrapping_add(pages.page_size) {
                break;
            }
            page = next;
            found += pages.page_size;
        }
        Some(Stretch {
            addr: addr as *mut u8,
            len: found.min(most) as usize,
            io: false,
        })
    }
}

impl Region {
    fn with_pages<R>(&self, f: impl FnOnce(&FastPages) -> Result<R>) -> Result<R> {
        match self.memory.enter().as_deref() {
            Some(Memory::Fast(pages)) => f(pages),
            _ => Err(EINVAL),
        }
    }

    /// Begins a new list of pages of `page_size` bytes. Any context.
    pub fn start_mapping(&self, page_size: u64) -> Result {
        self.with_pages(|pages| pages.start(page_size))
    }

    /// Adds a page at the kernel address `addr`. Any context. `ENOMEM` if there are too many.
    pub fn map_page(&self, addr: u64) -> Result {
        self.with_pages(|pages| pages.add(addr))
    }
}

/// What a work request asks to register.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The region is that of this number; its key becomes this one.
    pub key: Key,
    /// What it may be used for.
    pub access: Access,
    /// The address of its first byte.
    pub iova: u64,
    /// Bytes.
    pub length: u64,
}

impl Domain {
    /// Executes a work request that registers the pages of a region.
    ///
    /// `EINVAL` if there is no such region in the domain, if it is registered or has a layout, even
    /// one that is not bound yet, or if it has fewer pages; `EBUSY` if a layout uses the region.
    pub fn register(self: &Arc<Self>, wanted: &Registration) -> Result {
        let region = self.find(wanted.key).ok_or(EINVAL)?;
        if !Arc::ptr_eq(region.domain(), self) {
            return Err(EINVAL);
        }
        let _layouts = self.layouts.lock();
        if region.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        if region.own_length() != 0 {
            return Err(EINVAL);
        }
        wanted.iova.checked_add(wanted.length).ok_or(EINVAL)?;
        {
            // Both can change only under the lock that is held.
            let state = region.state();
            if state.ended || state.bound.is_some() || state.staged.is_some() {
                return Err(EINVAL);
            }
        }
        region.with_pages(|pages| pages.register(wanted.iova, wanted.length))?;
        let mut state = region.change();
        state.key = wanted.key;
        state.access = wanted.access;
        state.iova = wanted.iova;
        region.length.store(wanted.length, Relaxed);
        Ok(())
    }

    /// Executes a work request, or the part of a message, that takes back what `key` names: a
    /// memory window that is bound on queue pair `qp_num`, or a registered region. When this
    /// returns the key is void, and nobody uses the region's pages any more.
    ///
    /// `EINVAL` if the key names nothing of the domain that can be invalidated, `EBUSY` if
    /// something uses the region.
    pub fn invalidate(self: &Arc<Self>, key: Key, qp_num: u32) -> Result {
        if key.names_window() {
            return self.invalidate_window(key, qp_num);
        }
        let region = self.find(key).ok_or(EINVAL)?;
        if !Arc::ptr_eq(region.domain(), self) {
            return Err(EINVAL);
        }
        let _layouts = self.layouts.lock();
        if region.users.load(Relaxed) != 0 {
            return Err(EBUSY);
        }
        region.with_pages(|_| Ok(()))?;
        {
            let state = region.change();
            if state.key != key || state.ended || state.bound.is_some() {
                return Err(EINVAL);
            }
            region.length.store(0, Relaxed);
            region.generation.add(1, Relaxed);
        }
        region.memory.quiesce();
        Ok(())
    }
}
