// SPDX-License-Identifier: GPL-2.0

//! `ADVISE_MR`: finding pages before they are needed.
//!
//! C header: [`include/uapi/rdma/ib_user_ioctl_verbs.h`](srctree/include/uapi/rdma/ib_user_ioctl_verbs.h)
//! (`enum ib_uverbs_advise_mr_advice`)

use super::{
    super::{
        driver::Sge,
        mr::{
            access::Access,
            key::Key,
            region::{
                Domain,
                Region, //
            },
            window::{
                AccessError,
                RangeVisitor,
                Window, //
            },
        },
        task, //
    },
    paged::{
        Manner,
        Prefetch, //
    },
    queue::ADVICE, //
};
use crate::bindings;
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};

/// Takes an advice about the ranges of `list`. With `IB_UVERBS_ADVISE_MR_FLAG_FLUSH` in `flags`
/// the pages have been found on return; else that is done later, as far as it can be. `go_on` says
/// no when the device is going away.
///
/// Nothing is done if one of these errors is found: `EOPNOTSUPP` for an unknown advice, `EINVAL`
/// for unknown flags, an empty list, or a region that is not paged on demand; `ENOENT` if no region
/// has the key, `EPERM` if it is one of another domain or may not be written to as the advice
/// wants; `ENOMEM`. Also, when flushing, `EFAULT` for a range outside of the region.
///
/// Only when flushing: `EFAULT` for memory that is not mapped so; `ENOENT` if the region is gone
/// meanwhile; `EIO` if the device is going away; `EINTR` if the caller is being killed. Ranges
/// before that one have been prefetched. Otherwise such ranges count as failures of their region.
///
/// What is done later refers to regions, but does not keep them from ending: the deregistration of
/// a region closes its [gate](Region::advice), which waits for what is being done at the moment and
/// lets nothing more be done. That does not take long, since nothing is waited for that a program
/// may take its time for.
pub fn advise(
    domain: &Arc<Domain>,
    advice: u32,
    flags: u32,
    list: &[Sge],
    go_on: &dyn Fn() -> bool,
) -> Result {
    let what = match advice {
        bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH => Prefetch::Read,
        bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE => {
            Prefetch::Write
        }
        bindings::ib_uverbs_advise_mr_advice_IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT => {
            Prefetch::MappedOnly
        }
        _ => return Err(EOPNOTSUPP),
    };
    const FLUSH: u32 = bindings::ib_uverbs_advise_mr_flag_IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    if flags & !FLUSH != 0 || list.is_empty() {
        return Err(EINVAL);
    }
    let flush = flags & FLUSH != 0;
    let access = match what {
        Prefetch::Write => Access::LOCAL_WRITE,
        Prefetch::Read | Prefetch::MappedOnly => Access::LOCAL_READ,
    };

    let mut ranges: KVVec<Named> = KVVec::with_capacity(list.len(), GFP_KERNEL_ACCOUNT)?;
    // The region of the range before, and the first of what it consists of that is paged.
    let mut last: Option<(Arc<Region>, Arc<Region>)> = None;
    for sge in list {
        let (whole, base) = domain.whole(Key::from_raw(sge.lkey), access)?;
        if !matches!(&last, Some((region, _)) if Arc::ptr_eq(region, whole.region())) {
            let paged = first_paged(&whole, go_on)?.ok_or(EINVAL)?;
            last = Some((whole.region().clone(), paged));
        }
        let range = match sge.addr.checked_sub(base) {
            Some(skip) => whole.part(skip, u64::from(sge.length)),
            None => Err(AccessError::OutOfBounds),
        };
        match range {
            Ok(window) => ranges.push(Ok(window), GFP_KERNEL_ACCOUNT)?,
            Err(_) if flush => return Err(EFAULT),
            Err(_) => {
                if let Some((_, paged)) = &last {
                    ranges.push(Err(paged.clone()), GFP_KERNEL_ACCOUNT)?;
                }
            }
        }
    }
    if flush {
        return ranges
            .iter()
            .flatten()
            .try_for_each(|window| prefetch(window, what, go_on));
    }
    let later = Later {
        what,
        ranges,
        next: 0,
        done: 0,
    };
    ADVICE.spawn(move || later.follow())
}

/// A range that advice names; if its region does not have it, what counts that as a failure.
type Named = Result<Window, Arc<Region>>;

/// Advice that is followed later, a little at a time: what is left goes to the end of the queue.
struct Later {
    what: Prefetch,
    ranges: KVVec<Named>,
    /// The range that comes next.
    next: usize,
    /// Bytes of it that are done.
    done: u64,
}

/// How long advice is followed before that of others has its turn.
const TURN: Delta = Delta::from_millis(20);
/// Bytes that are prefetched between two looks at the clock.
const BYTES_AT_A_TIME: u64 = 16 << 20;

impl Later {
    fn follow(mut self) {
        let begun = Instant::<Monotonic>::now();
        let is_over = || begun.elapsed() >= TURN;
        while let Some(range) = self.ranges.get(self.next) {
            if is_over() {
                return self.go_on();
            }
            match range {
                // What could not be done has been counted.
                Ok(window) => match self.rest(window, &is_over) {
                    Err(_) => {}
                    Ok(done) => {
                        self.done += done;
                        if self.done < window.length() {
                            return self.go_on();
                        }
                    }
                },
                Err(paged) => failed(paged),
            }
            self.next += 1;
            self.done = 0;
        }
    }

    /// Prefetches what is left of `window`; says how many bytes of that are done.
    fn rest(&self, window: &Window, is_over: &dyn Fn() -> bool) -> Result<u64> {
        prefetch_later(&window.rest(self.done)?, self.what, is_over)
    }

    fn go_on(self) {
        // Without memory the rest is given up: it was advice.
        let _ = ADVICE.spawn(move || self.follow());
    }
}

/// How many small pieces of a layout are gone through before others may run.
const PIECES_AT_A_TIME: usize = 256;

/// Calls `f` for each range of the window, as [`Window::for_each_range`] does, as long as `go_on`
/// says yes.
fn for_each_range(window: &Window, go_on: &dyn Fn() -> bool, f: &mut RangeVisitor<'_>) -> Result {
    let mut count = 0usize;
    window.for_each_range(&mut |region, offset, length| {
        count = count.wrapping_add(1);
        if count % PIECES_AT_A_TIME == 0 {
            if !task::pause() {
                return Err(EINTR);
            }
            if !go_on() {
                return Err(EIO);
            }
        }
        f(region, offset, length)
    })
}

/// The first region of those that the window consists of that is paged on demand.
fn first_paged(window: &Window, go_on: &dyn Fn() -> bool) -> Result<Option<Arc<Region>>> {
    let mut found = None;
    for_each_range(window, go_on, &mut |region, _, _| {
        if region.paged().is_some() {
            found = Some(region.clone());
        }
        Ok(found.is_none())
    })?;
    Ok(found)
}

/// What came of a part of a region that was to be prefetched.
enum Step {
    /// Its pages, which are these of the region, have been looked at.
    Done(Range<u64>),
    /// Only so many bytes of it, and nothing more is to be done now.
    Stopped(u64),
}

/// What prefetches a part of a region, of which it is given offset and length.
type Prefetcher<'a> = dyn FnMut(&Arc<Region>, u64, u64) -> Result<Step> + 'a;

/// Calls `f` for what the window consists of until it stops, or `is_over` says yes; returns how many
/// bytes of the window are done. Layouts have many small pieces, of which several often lie in one
/// page: those are left out.
fn for_each_part(
    window: &Window,
    go_on: &dyn Fn() -> bool,
    is_over: &dyn Fn() -> bool,
    f: &mut Prefetcher<'_>,
) -> Result<u64> {
    let mut last: Option<(Arc<Region>, Range<u64>)> = None;
    let (mut done, mut count) = (0u64, 0usize);
    for_each_range(window, go_on, &mut |region, offset, length| {
        count = count.wrapping_add(1);
        if count % PIECES_AT_A_TIME == 0 && is_over() {
            return Ok(false);
        }
        let end = offset.checked_add(length).ok_or(EFAULT)?;
        if let Some((same, pages)) = &last {
            if Arc::ptr_eq(same, region) && pages.start <= offset && end <= pages.end {
                done += length;
                return Ok(true);
            }
        }
        match f(region, offset, length)? {
            Step::Done(pages) => {
                done += length;
                last = Some((region.clone(), pages));
                Ok(true)
            }
            Step::Stopped(part) => {
                done += part;
                Ok(false)
            }
        }
    })?;
    Ok(done)
}

/// Prefetches for somebody who waits.
fn prefetch(window: &Window, what: Prefetch, go_on: &dyn Fn() -> bool) -> Result {
    for_each_part(window, go_on, &|| false, &mut |region, offset, length| {
        let Some(memory) = region.paged() else {
            // What is pinned is there.
            return match region.advice().is_closed() {
                true => Err(ENOENT),
                false => Ok(Step::Done(offset..offset)),
            };
        };
        let manner = Manner {
            what,
            writable: region.access().writes(),
            waits_for_programs: true,
            go_on,
        };
        memory.prefetch(offset, length, &manner)?;
        Ok(Step::Done(memory.whole_pages(offset..offset + length)))
    })
    .map(drop)
}

/// Prefetches as much as goes while the regions are there, until `is_over` says yes. Returns how many
/// bytes of the window are done; with an error, the rest is not to be done.
fn prefetch_later(window: &Window, what: Prefetch, is_over: &dyn Fn() -> bool) -> Result<u64> {
    let named = window.region();
    let is_there = || !named.advice().is_closed();
    for_each_part(window, &is_there, is_over, &mut |region, offset, length| {
        // Memory of a region is held only inside of its gate.
        let (Some(_in_named), Some(_in_region)) = (named.advice().enter(), region.advice().enter())
        else {
            return Err(ENOENT);
        };
        let Some(memory) = region.paged() else {
            return Ok(Step::Done(offset..offset));
        };
        let go_on = || is_there() && !region.advice().is_closed();
        let manner = Manner {
            what,
            writable: region.access().writes(),
            waits_for_programs: false,
            go_on: &go_on,
        };
        let mut done = 0;
        while done < length {
            if is_over() {
                return Ok(Step::Stopped(done));
            }
            let part = (length - done).min(BYTES_AT_A_TIME);
            if let Err(e) = memory.prefetch(offset + done, part, &manner) {
                if go_on() {
                    memory.stats().prefetch_failures.add(1);
                }
                return Err(e);
            }
            done += part;
        }
        Ok(Step::Done(memory.whole_pages(offset..offset + length)))
    })
}

fn failed(region: &Region) {
    if let Some(memory) = region.paged() {
        memory.stats().prefetch_failures.add(1);
    }
}
