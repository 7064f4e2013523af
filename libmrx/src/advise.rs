// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Advice about memory that is paged on demand.

use std::io;

use crate::{method, sys, Pd, Range};

bitflags::bitflags! {
    /// How an advice is taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Advise: u32 {
        /// Soon after the call, as far as possible.
        const LATER = 0;
        /// Before the call returns, which tells what cannot be done.
        const FLUSH = sys::IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
    }
}

/// What to do about memory that will be needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Find it for being read.
    Prefetch,
    /// Find it for being written to.
    PrefetchWrite,
    /// Only note what the process has mapped already.
    PrefetchNoFault,
}

impl Advice {
    fn number(self) -> u32 {
        match self {
            Self::Prefetch => sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH,
            Self::PrefetchWrite => sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
            Self::PrefetchNoFault => sys::IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT,
        }
    }
}

impl Pd<'_> {
    /// Says that ranges of regions with [`ON_DEMAND`](crate::Access::ON_DEMAND), or of layouts
    /// over such, will be needed soon.
    ///
    /// ```no_run
    /// # use mrx::{Access, Advice, Advise, Pd, Region};
    /// # fn example(pd: &Pd<'_>) -> std::io::Result<()> {
    /// let region = Region::with_memory(pd, 1 << 20, Access::LOCAL_WRITE | Access::ON_DEMAND)?;
    /// pd.advise(Advice::PrefetchWrite, Advise::FLUSH, &[region.range(0..1 << 20)])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `mrx_advise_mr`(3).
    pub fn advise(&self, advice: Advice, flags: Advise, ranges: &[Range<'_>]) -> io::Result<()> {
        let list: Vec<_> = ranges.iter().map(|range| range.sge).collect();
        // SAFETY: the domain and its context are live.
        let (command_fd, handle) = unsafe {
            let pd = self.as_raw().as_ref();
            ((*pd.context).cmd_fd, pd.handle)
        };
        method::advise(command_fd, handle, advice.number(), flags.bits(), &list)
    }
}
