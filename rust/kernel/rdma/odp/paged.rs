// SPDX-License-Identifier: GPL-2.0

//! The memory of a region that is paged on demand.

use super::{
    super::{
        memcg::Charged,
        mr::memory::Stretch,
        rwsem::RwSem,
        task, //
    },
    absent::Absent,
    fault::{
        Effort,
        Pages,
        Wanted, //
    },
    patience::wait_elsewhere,
    span::{
        Resident,
        Span,
        SPAN_SHIFT, //
    },
    stats::Stats,
    trace, //
};
use core::ops::Range;
use kernel::{
    mm::{
        Mm,
        MmWithUser,
        MmWithUserAsync, //
    },
    new_mutex,
    page::{
        page_align,
        PAGE_MASK,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::{
        aref::ARef,
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        Mutex, //
    },
    xarray::{
        AllocKind,
        XArray, //
    }, //
};

/// The most pages that are looked for at a time.
const BATCH: usize = 512;

/// Memory of a process that is found when it is needed.
#[pin_data]
pub struct Paged {
    mm: ARef<Mm>,
    /// The addresses of the region's bytes in the process.
    bytes: Range<usize>,
    /// The spans that were ever used, by [`Paged::index`].
    #[pin]
    spans: XArray<Arc<Span>>,
    /// Taken by those who add a span. Nothing that a notifier needs is taken inside of it but what
    /// registering one takes.
    #[pin]
    adding: Mutex<()>,
    /// The region is gone: whoever still looks for pages stops.
    ended: AtomicFlag,
    stats: Arc<Stats>,
}

/// [`Paged`] memory as the region holds it, which ends it by dropping this.
pub struct OnDemand(Arc<Paged>);

/// What to do about pages that nobody has asked for yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Prefetch {
    /// Find them for reading; also for writing where that takes nothing.
    Read,
    /// Find them for writing.
    Write,
    /// Note those that the process has mapped.
    MappedOnly,
}

/// How a prefetch is done.
pub struct Manner<'a> {
    /// What to do.
    pub what: Prefetch,
    /// Whether the region may be written to at all.
    pub writable: bool,
    /// Whether pages are waited for that a program takes its time for.
    pub waits_for_programs: bool,
    /// Asked after every few pages whether to go on.
    pub go_on: &'a dyn Fn() -> bool,
}

impl OnDemand {
    /// The `len` bytes at `addr` of the current process; or all of its memory, if `addr` is 0 and
    /// `len` is `u64::MAX`, in which case they are named by their own addresses.
    ///
    /// No byte need be mapped yet. `EINVAL` if the range wraps around.
    pub fn new(addr: u64, len: u64) -> Result<Self> {
        let current = kernel::current!();
        let mm = current.mm().ok_or(EINVAL)?;
        // SAFETY: The process's own memory; the field does not change any more.
        let top = unsafe { (*mm.as_raw()).__bindgen_anon_1.task_size } & PAGE_MASK;
        let bytes = if is_implicit(addr, len) {
            0..top
        } else {
            let start = usize::try_from(addr).map_err(|_| EINVAL)?;
            let len = usize::try_from(len).map_err(|_| EINVAL)?;
            let end = start.checked_add(len).ok_or(EINVAL)?;
            if end > top {
                return Err(EFAULT);
            }
            start..end
        };
        let paged = Arc::pin_init(
            try_pin_init!(Paged {
                mm: ARef::from(&**mm),
                bytes,
                spans <- XArray::new(AllocKind::Alloc),
                adding <- new_mutex!((), "Paged::adding"),
                ended: AtomicFlag::new(false),
                stats: Arc::new(Stats::new(), GFP_KERNEL_ACCOUNT)?,
            }),
            GFP_KERNEL_ACCOUNT,
        )?;
        Ok(Self(paged))
    }

    /// The memory, for those who may outlive the region.
    pub fn paged(&self) -> &Arc<Paged> {
        &self.0
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        self.0.ended.store(true, Relaxed);
    }
}

/// Whether a registration asks for all of a process's memory.
pub fn is_implicit(addr: u64, len: u64) -> bool {
    addr == 0 && len == u64::MAX
}

impl Paged {
    /// The counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The memory of the process.
    pub(super) fn mm(&self) -> &ARef<Mm> {
        &self.mm
    }

    /// The process's address of byte `offset`.
    #[inline]
    pub(super) fn addr(&self, offset: u64) -> Option<usize> {
        let addr = self.bytes.start.checked_add(offset as usize)?;
        (addr < self.bytes.end).then_some(addr)
    }

    /// The bytes whose pages `bytes` touches.
    pub fn whole_pages(&self, bytes: Range<u64>) -> Range<u64> {
        const PAGE: u64 = PAGE_SIZE as u64;
        // Where pages begin in the region depends on where the region begins in its page.
        let skew = (self.bytes.start & !PAGE_MASK) as u64;
        let before = bytes.start.wrapping_add(skew) % PAGE;
        let after = bytes.end.wrapping_add(skew).wrapping_neg() % PAGE;
        bytes.start.saturating_sub(before)..bytes.end.saturating_add(after)
    }

    /// The bytes from `offset` on that are known and lie next to each other, at most `len`. They
    /// stay as long as what is left in `held`, which is also where to begin next time.
    #[inline]
    pub fn resident(
        self: &Arc<Self>,
        offset: u64,
        len: usize,
        write: bool,
        held: &mut Option<Resident>,
    ) -> Result<Stretch, Absent> {
        let absent = || Absent::new(self, offset, len, write);
        let addr = self.addr(offset).ok_or_else(absent)?;
        if !matches!(held, Some(resident) if resident.covers(addr)) {
            // At most one lock at a time is held by a stream.
            *held = None;
            *held = self.known_span(addr).and_then(RwSem::try_read);
        }
        let stretch = held
            .as_ref()
            .and_then(|resident| resident.stretch(addr, len, write));
        match stretch {
            Some(stretch) => Ok(stretch),
            None => {
                *held = None;
                Err(absent())
            }
        }
    }

    /// The number of the span that `addr`, which is one of the region's addresses, is in. Counted
    /// from the first, so that the array of a region is as flat as can be.
    #[inline]
    fn index(&self, addr: usize) -> usize {
        (addr >> SPAN_SHIFT).wrapping_sub(self.bytes.start >> SPAN_SHIFT)
    }

    fn known_span(&self, addr: usize) -> Option<Arc<Span>> {
        let spans = self.spans.lock();
        spans.get(self.index(addr)).map(Arc::from)
    }

    /// Looks for pages of the `len` bytes from `addr` on that a transfer is about to access, for the
    /// first of them at least, and says how many it found. They may be gone again on return.
    pub(super) fn find_now(
        &self,
        addr: usize,
        len: usize,
        write: bool,
        effort: Effort,
    ) -> Result<usize> {
        let mm = self.users()?;
        let span = self.span(&mm, addr)?;
        let end = page_align(addr.saturating_add(len)).ok_or(EFAULT)?;
        let range = (addr & PAGE_MASK)..end.min(span.end());
        // Also waits until a notifier that was in the way has done its work.
        let absent = RwSem::read(&span)?.absent(range, BATCH, write);
        let (addr, count) = match absent {
            Some(absent) if absent.0 <= addr => absent,
            // The first byte is known by now.
            _ => return Ok(0),
        };
        let mut pages = Pages::new(count)?;
        let wanted = Wanted {
            addr,
            count,
            write,
            effort,
        };
        let found = self.find(&mm, &span, &mut pages, wanted, &|| true);
        trace::fault(addr, count, write, &found);
        let found = found.inspect_err(|_| self.forget(&span))?;
        self.stats.faults.add(found);
        Ok(found)
    }

    /// The span that `addr`, which is one of the region's addresses, is in.
    fn span(&self, mm: &MmWithUser, addr: usize) -> Result<Arc<Span>> {
        if let Some(span) = self.known_span(addr) {
            return Ok(span);
        }
        let _adding = self.adding.lock();
        if let Some(span) = self.known_span(addr) {
            return Ok(span);
        }
        let index = self.index(addr);
        let start = (addr >> SPAN_SHIFT) << SPAN_SHIFT;
        let end = start.saturating_add(1 << SPAN_SHIFT);
        let first = start.max(self.bytes.start & PAGE_MASK);
        let last = end.min(page_align(self.bytes.end).ok_or(EFAULT)?);
        // Also if the caller is a thread of the kernel.
        let _charged = Charged::to(mm);
        let span = Span::new(mm, first..last, self.stats.clone())?;
        let mut spans = self.spans.lock();
        // The lock may be let go of to allocate; nobody else adds meanwhile.
        spans.store(index, span.clone(), GFP_KERNEL_ACCOUNT)?;
        Ok(span)
    }

    /// Gives up a span in which nothing was found, so that looking for what is not there costs no
    /// memory. Whoever uses it meanwhile goes on with it; what they find is only not found again.
    fn forget(&self, span: &Arc<Span>) {
        if !span.is_empty() {
            return;
        }
        let index = self.index(span.start());
        let mut spans = self.spans.lock();
        let is_same = spans
            .get(index)
            .is_some_and(|known| core::ptr::eq(&*known, &**span));
        let forgotten = is_same.then(|| spans.remove(index));
        // The last reference goes without the lock.
        drop(spans);
        drop(forgotten);
    }

    fn users(&self) -> Result<ARef<MmWithUserAsync>> {
        let mm = self.mm.mmget_not_zero().ok_or(EFAULT)?;
        // The last user does not tear the memory down here, in the middle of a transfer.
        Ok(MmWithUser::into_mmput_async(mm))
    }

    /// Looks for pages in `span` and enters them. Returns how many there were, at least one.
    fn find(
        &self,
        mm: &MmWithUser,
        span: &Arc<Span>,
        pages: &mut Pages,
        wanted: Wanted,
        go_on: &dyn Fn() -> bool,
    ) -> Result<usize> {
        loop {
            if self.ended.load(Relaxed) {
                return Err(ENOENT);
            }
            if !go_on() {
                return Err(EIO);
            }
            let sequence = span.sequence();
            let found = pages.find(mm, wanted)?;
            if RwSem::read(span)?.enter(wanted.addr, pages, sequence, wanted.write) {
                return Ok(found);
            }
            if !task::pause() {
                return Err(EINTR);
            }
        }
    }

    /// Finds pages of the `len` bytes from `offset` on before they are needed; returns how many it
    /// had to look for.
    ///
    /// `EFAULT` if a byte is outside of the region or of the address space, or may not be accessed
    /// as asked; `EBUSY` for pages that are not waited for; `ENOENT` if the region is gone; `EIO` if
    /// it is not to go on; `EINTR` if the caller is being killed.
    pub fn prefetch(self: &Arc<Self>, offset: u64, len: u64, manner: &Manner<'_>) -> Result<usize> {
        let Some(last) = len.checked_sub(1) else {
            return Ok(0);
        };
        let start = self.addr(offset).ok_or(EFAULT)?;
        let end = self
            .addr(offset.checked_add(last).ok_or(EFAULT)?)
            .ok_or(EFAULT)?;
        let end = page_align(end.saturating_add(1)).ok_or(EFAULT)?;
        let mm = self.users()?;
        let mut pages = Pages::new(BATCH)?;
        let mut addr = start & PAGE_MASK;
        let mut total = 0usize;
        while addr < end {
            let span = self.span(&mm, addr)?;
            let part = addr..end.min(span.end());
            addr = part.end;
            let found = self.prefetch_in(&mm, &span, &mut pages, part, manner);
            if !matches!(found, Ok(1..)) {
                self.forget(&span);
            }
            total = total.saturating_add(found?);
        }
        Ok(total)
    }

    fn prefetch_in(
        self: &Arc<Self>,
        mm: &MmWithUser,
        span: &Arc<Span>,
        pages: &mut Pages,
        mut part: Range<usize>,
        manner: &Manner<'_>,
    ) -> Result<usize> {
        let write = manner.what == Prefetch::Write;
        let mut total = 0usize;
        loop {
            let absent = RwSem::read(span)?.absent(part.clone(), BATCH, write);
            let Some((addr, count)) = absent else {
                return Ok(total);
            };
            let mut mapped_only = |write| {
                let wanted = Wanted {
                    addr,
                    count,
                    write,
                    effort: Effort::MappedOnly,
                };
                self.find(mm, span, pages, wanted, manner.go_on)
            };
            let mapped = match manner.what {
                Prefetch::Write => Err(EFAULT),
                _ if manner.writable => mapped_only(true),
                _ => Err(EFAULT),
            };
            let found = match (mapped, manner.what) {
                (Err(EFAULT), Prefetch::MappedOnly) => match mapped_only(false) {
                    Err(EFAULT) => Ok(0),
                    found => found,
                },
                (Err(EFAULT), _) => self.find_patiently(mm, span, pages, addr, count, manner),
                (found, _) => found,
            };
            trace::prefetch(addr, count, write, &found);
            let found = found?;
            self.stats.prefetched.add(found);
            total = total.saturating_add(found);
            // Past what was found, or past the page that was not, and where nothing is mapped.
            part.start = addr.saturating_add(found.max(1).saturating_mul(PAGE_SIZE));
            if found == 0 {
                part.start = Pages::next_mapping(mm, part.start)?;
            }
            if !task::pause() {
                return Err(EINTR);
            }
        }
    }

    /// As [`Paged::find`], faulting, and waiting for pages as the `manner` says.
    fn find_patiently(
        self: &Arc<Self>,
        mm: &MmWithUser,
        span: &Arc<Span>,
        pages: &mut Pages,
        addr: usize,
        count: usize,
        manner: &Manner<'_>,
    ) -> Result<usize> {
        let wanted = |effort| Wanted {
            addr,
            count,
            write: manner.what == Prefetch::Write,
            effort,
        };
        let found = self.find(mm, span, pages, wanted(Effort::NoProgram), manner.go_on);
        if !manner.waits_for_programs || found != Err(EBUSY) {
            return found;
        }
        let wanted = wanted(Effort::Fault);
        let (paged, span) = (self.clone(), span.clone());
        let find = move || {
            let mm = paged.users()?;
            let mut pages = Pages::new(wanted.count)?;
            paged.find(&mm, &span, &mut pages, wanted, &|| true)
        };
        let mut go_on = || !task::is_dying() && (manner.go_on)();
        wait_elsewhere(&self.mm, find, &mut go_on).map_err(|e| match e {
            EINTR if !task::is_dying() => EIO,
            e => e,
        })
    }
}
