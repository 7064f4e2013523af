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
                Window, //
            },
        }, //
    },
    paged::Prefetch,
    queue, //
};
use crate::bindings;
use core::ops::Range;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Takes an advice about the ranges of `list`. With `IB_UVERBS_ADVISE_MR_FLAG_FLUSH` in `flags`
/// the pages have been found on return; else that is done later, as far as it can be.
///
/// Nothing is done if one of these errors is found: `EOPNOTSUPP` for an unknown advice, `EINVAL`
/// for unknown flags, an empty list, or a region that is not paged on demand; `ENOENT` if no region
/// has the key, `EPERM` if it is one of another domain or may not be written to as the advice
/// wants; `ENOMEM`.
///
/// Only when flushing: `EFAULT` for a range outside of the region, or memory that is not mapped so;
/// `EINTR` if the caller is being killed. Ranges before that one have been prefetched. Otherwise
/// such ranges count as failures of their region.
pub fn advise(domain: &Arc<Domain>, advice: u32, flags: u32, list: &[Sge]) -> Result {
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

    let mut windows = KVVec::with_capacity(list.len(), GFP_KERNEL_ACCOUNT)?;
    for sge in list {
        let key = Key::from_raw(sge.lkey);
        let length = u64::from(sge.length);
        match domain.window(key, sge.addr, length, access) {
            Ok(window) => {
                check_paged(&window)?;
                windows.push(window, GFP_KERNEL_ACCOUNT)?;
            }
            Err(AccessError::NoSuchKey) => return Err(ENOENT),
            Err(AccessError::OutOfBounds) if flush => return Err(EFAULT),
            Err(AccessError::OutOfBounds) => {
                if let Some(region) = domain.find(key) {
                    failed(&region);
                }
            }
            Err(_) => return Err(EPERM),
        }
    }
    if flush {
        windows
            .iter()
            .try_for_each(|window| prefetch(window, what, Manner::Flush))
    } else {
        queue::spawn(move || {
            for window in &windows {
                if prefetch(window, what, Manner::Later).is_err() {
                    failed(window.region());
                }
            }
        })
    }
}

/// Who waits for the pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The one who gave the advice.
    Flush,
    /// Nobody: what takes long because a program takes its time is left out.
    Later,
}

/// `EINVAL` if no range of the window is paged on demand.
fn check_paged(window: &Window) -> Result {
    let mut is_paged = false;
    window.for_each_range(&mut |region, _, _| {
        is_paged = region.paged().is_some();
        Ok(!is_paged)
    })?;
    if !is_paged {
        return Err(EINVAL);
    }
    Ok(())
}

fn prefetch(window: &Window, what: Prefetch, manner: Manner) -> Result {
    // Layouts have many small pieces, of which several often lie in one page.
    let mut last: Option<(Arc<Region>, Range<u64>)> = None;
    window.for_each_range(&mut |region, offset, length| {
        let end = offset.checked_add(length).ok_or(EFAULT)?;
        if let Some((same, pages)) = &last {
            if Arc::ptr_eq(same, region) && pages.start <= offset && end <= pages.end {
                return Ok(true);
            }
        }
        // What is pinned is there.
        if let Some(memory) = region.paged() {
            memory.prefetch(offset, length, what, manner)?;
            last = Some((region.clone(), memory.whole_pages(offset..end)));
        }
        Ok(true)
    })
}

fn failed(region: &Region) {
    if let Some(memory) = region.paged() {
        memory.stats().prefetch_failures.add(1);
    }
}
