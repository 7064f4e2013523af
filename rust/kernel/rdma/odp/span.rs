// SPDX-License-Identifier: GPL-2.0

//! The pages of a part of a process's address space, as far as they are known.
//!
//! C header: [`include/linux/mmu_notifier.h`](srctree/include/linux/mmu_notifier.h)

use super::{
    super::{
        mr::memory::Stretch,
        rwsem::{
            HasRwSem,
            OwnedRead,
            RwSem, //
        }, //
    },
    fault::Pages,
    queue::PROMPT,
    stats::Stats,
    trace, //
};
use crate::bindings;
use core::ops::Range;
use kernel::{
    c_str,
    container_of,
    error::to_result,
    impl_has_work,
    mm::MmWithUser,
    new_work,
    page::{
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    types::Opaque,
    workqueue::{
        Work,
        WorkItem, //
    }, //
};

/// Bytes of address space in a span, as a power of two. A change of mappings makes all faults in
/// the span start over and waits for all copies in it, so it must not be large; each span costs a
/// notifier, so it must not be small either.
pub const SPAN_SHIFT: usize = 24;

/// A page in the table: its kernel address, and in the lowest bit whether it may be written to. 0
/// is no page.
struct Entry(Atomic<usize>);

const WRITABLE: usize = 1;

impl Entry {
    /// The kernel address, if there is a page that may be used as asked.
    #[inline]
    fn get(&self, write: bool) -> Option<usize> {
        // SAFETY: The pointer is valid and aligned. This is `load(Relaxed)`, as `READ_ONCE()` is in
        // C, but no call to a helper for each page of each transfer.
        let value = unsafe { self.0.as_ptr().read_volatile() };
        let usable = if write {
            value & WRITABLE != 0
        } else {
            value != 0
        };
        usable.then_some(value & !WRITABLE)
    }

    /// Enters a page. One that may be written to already stays so.
    fn set(&self, addr: usize, write: bool) {
        let value = addr | if write { WRITABLE } else { 0 };
        if self.0.load(Relaxed) & !WRITABLE != addr || write {
            self.0.store(value, Relaxed);
        }
    }
}

/// Pages of a part of a process's address space.
///
/// # Invariants
///
/// While the lock is held for reading, every entry of `pages` is the kernel address of the page
/// that the process has mapped at that place, and writable pages are marked dirty; see the
/// documentation of [`odp`](super). The notifier is registered from when the span is made until it
/// is dropped.
///
/// Removing the notifier waits for changes of mappings that are under way, and those may wait for
/// readers of other spans. So whoever drops the last reference is no reader: see
/// [`HasRwSem::give_up`].
#[pin_data(PinnedDrop)]
pub struct Span {
    /// The address of the first page.
    start: usize,
    pages: KVVec<Entry>,
    stats: Arc<Stats>,
    /// Held for reading while pages are used or entered, for writing while they are taken away.
    /// The latter happens wherever mappings change, also while memory is reclaimed: nothing that
    /// allocates may run under it.
    #[pin]
    lock: RwSem,
    /// Drops the last reference.
    #[pin]
    end: Work<Self>,
    #[pin]
    notifier: Opaque<bindings::mmu_interval_notifier>,
}

// SAFETY: The notifier is removed only in `drop`, from whatever thread.
unsafe impl Send for Span {}
// SAFETY: What is changed through shared references is atomic, the lock, or the notifier, whose
// functions take locks of their own.
unsafe impl Sync for Span {}

impl HasRwSem for Span {
    fn rwsem(&self) -> &RwSem {
        &self.lock
    }

    #[inline]
    fn give_up(this: Arc<Self>) {
        if let Some(last) = Arc::into_unique_or_drop(this) {
            PROMPT.enqueue(Arc::from(last));
        }
    }
}

impl_has_work! {
    impl HasWork<Self> for Span { self.end }
}

impl WorkItem for Span {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>) {
        drop(this);
    }
}

/// The table of the notifier.
static NOTIFIER_OPS: NotifierOps = NotifierOps(bindings::mmu_interval_notifier_ops {
    invalidate: Some(Span::invalidate),
    invalidate_start: None,
    invalidate_finish: None,
});

/// So that the table can be in a static.
struct NotifierOps(bindings::mmu_interval_notifier_ops);
// SAFETY: Only function pointers, which never change.
unsafe impl Sync for NotifierOps {}

impl Span {
    /// Begins to watch the whole pages `range` of `mm`. No page is known yet.
    pub fn new(mm: &MmWithUser, range: Range<usize>, stats: Arc<Stats>) -> Result<Arc<Self>> {
        let len = range.end.checked_sub(range.start).ok_or(EINVAL)?;
        let count = len >> PAGE_SHIFT;
        let mut pages = KVVec::with_capacity(count, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..count {
            pages.push(Entry(Atomic::new(0)), GFP_KERNEL_ACCOUNT)?;
        }
        Arc::pin_init(
            try_pin_init!(Self {
                start: range.start,
                pages,
                stats,
                lock <- RwSem::new(c_str!("Span::lock"), static_lock_class!()),
                end <- new_work!("Span::end"),
                // The last field: from now on the notifier may be called, for which all other
                // fields must be there.
                // SAFETY: The slot stays where it is, as part of a pinned structure. The `mm` has
                // users. The table is a static.
                notifier <- Opaque::try_ffi_init(|notifier| to_result(unsafe {
                    bindings::mmu_interval_notifier_insert(
                        notifier,
                        mm.as_raw(),
                        range.start,
                        len,
                        &raw const NOTIFIER_OPS.0,
                    )
                })),
            }),
            GFP_KERNEL_ACCOUNT,
        )
    }

    fn entry(&self, addr: usize) -> Option<&Entry> {
        let offset = addr.checked_sub(self.start)?;
        self.pages.get(offset >> PAGE_SHIFT)
    }

    /// The address of the first page.
    pub fn start(&self) -> usize {
        self.start
    }

    /// Whether no page is known, at the moment.
    pub fn is_empty(&self) -> bool {
        self.pages.iter().all(|entry| entry.0.load(Relaxed) == 0)
    }

    /// The address behind the last page.
    pub fn end(&self) -> usize {
        self.start
            .saturating_add(self.pages.len().saturating_mul(PAGE_SIZE))
    }

    /// Whether the page of `addr` is in the table.
    #[inline]
    pub fn covers(&self, addr: usize) -> bool {
        self.start <= addr && addr < self.end()
    }

    /// The number to look for pages under. May wait while mappings change.
    pub fn sequence(&self) -> usize {
        // SAFETY: By the type invariant the notifier is registered.
        unsafe { bindings::mmu_interval_read_begin(self.notifier.get()) }
    }

    /// Takes pages away.
    ///
    /// # Safety
    ///
    /// To be called by the memory manager as the callback of a span's notifier.
    unsafe extern "C" fn invalidate(
        notifier: *mut bindings::mmu_interval_notifier,
        range: *const bindings::mmu_notifier_range,
        sequence: usize,
    ) -> bool {
        // SAFETY: The notifier is the field of a span: it is registered as the last field of the
        // span is made and removed before the first one is dropped. `Opaque` is transparent.
        let span = unsafe {
            let notifier = notifier.cast::<Opaque<bindings::mmu_interval_notifier>>();
            &*container_of!(notifier, Self, notifier)
        };
        // SAFETY: The memory manager passes a valid range.
        let (start, end, may_wait) = unsafe {
            (
                (*range).start,
                (*range).end,
                bindings::mrx_notifier_may_wait(range),
            )
        };
        let lock = if may_wait {
            span.lock.write()
        } else {
            match span.lock.try_write() {
                Some(lock) => lock,
                None => return false,
            }
        };
        // SAFETY: This is the callback, and the lock is held under which numbers are compared.
        unsafe { bindings::mrx_interval_set_seq(notifier, sequence) };
        let first = start.saturating_sub(span.start) >> PAGE_SHIFT;
        let last = end.saturating_sub(span.start).div_ceil(PAGE_SIZE);
        let mut gone = 0usize;
        let count = last.saturating_sub(first);
        for entry in span.pages.iter().skip(first).take(count) {
            if entry.0.load(Relaxed) != 0 {
                entry.0.store(0, Relaxed);
                gone = gone.saturating_add(1);
            }
        }
        drop(lock);
        span.stats.invalidations.add(gone);
        trace::invalidate(start..end, gone);
        true
    }
}

/// A span whose pages stay as they are while this lives.
pub type Resident = OwnedRead<Span>;

impl Resident {
    /// The known bytes from `addr` on that lie next to each other, at most `len`; `None` if the
    /// first is not known or not writable as asked.
    #[inline]
    pub fn stretch(&self, addr: usize, len: usize, write: bool) -> Option<Stretch> {
        let into = addr & (PAGE_SIZE - 1);
        let first = addr.checked_sub(self.start)? >> PAGE_SHIFT;
        let mut entries = self.pages.get(first..)?.iter();
        let begin = entries.next()?.get(write)?;
        let mut got = PAGE_SIZE - into;
        let mut next = begin.wrapping_add(PAGE_SIZE);
        while got < len {
            match entries.next().and_then(|entry| entry.get(write)) {
                Some(page) if page == next => {
                    got += PAGE_SIZE;
                    next = next.wrapping_add(PAGE_SIZE);
                }
                _ => break,
            }
        }
        Some(Stretch {
            addr: begin.wrapping_add(into) as *mut u8,
            len: got.min(len),
            io: false,
        })
    }

    /// The first page of `range` that is not known, or not writable as asked, and how many such
    /// pages follow each other, at most `most`.
    pub fn absent(&self, range: Range<usize>, most: usize, write: bool) -> Option<(usize, usize)> {
        let missing = |addr: &usize| match self.entry(*addr) {
            Some(entry) => entry.get(write).is_none(),
            None => false,
        };
        let first = range.clone().step_by(PAGE_SIZE).find(missing)?;
        let count = (first..range.end)
            .step_by(PAGE_SIZE)
            .take(most)
            .take_while(missing)
            .count();
        Some((first, count))
    }

    /// Enters `pages`, which were found under `sequence` for the addresses from `addr` on. `false`
    /// if mappings have changed since.
    pub fn enter(&self, addr: usize, pages: &Pages, sequence: usize, write: bool) -> bool {
        // SAFETY: The notifier is registered, and the lock is held.
        if unsafe { bindings::mrx_interval_read_retry(self.notifier.get(), sequence) } {
            return false;
        }
        let mut addr = addr;
        for page in pages.addresses() {
            if let Some(entry) = self.entry(addr) {
                entry.set(page, write);
            }
            addr = addr.wrapping_add(PAGE_SIZE);
        }
        true
    }
}

#[pinned_drop]
impl PinnedDrop for Span {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant the notifier is registered. Nobody uses the span any more,
        // so this is not inside of its callback.
        unsafe { bindings::mmu_interval_notifier_remove(self.notifier.get()) };
    }
}
