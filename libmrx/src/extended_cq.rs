// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause

//! Completion queues that are polled in batches, field by field.

use std::{
    io,
    marker::PhantomData,
    ptr::NonNull,
    thread::{self, ThreadId},
};

use crate::{
    object::non_null,
    sys::{
        self, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_poll_cq_attr, ibv_wc_opcode,
        ibv_wc_status,
    },
    Context,
};

bitflags::bitflags! {
    /// What can be read of the completions of a queue, besides what every
    /// completion has.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Fields: u32 {
        /// [`Completion::byte_len`]
        const BYTE_LEN = sys::IBV_WC_EX_WITH_BYTE_LEN;
        /// [`Completion::immediate`] and [`Completion::invalidated_rkey`]
        const IMM = sys::IBV_WC_EX_WITH_IMM;
        /// [`Completion::qp_num`]
        const QP_NUM = sys::IBV_WC_EX_WITH_QP_NUM;
        /// [`Completion::src_qp`]
        const SRC_QP = sys::IBV_WC_EX_WITH_SRC_QP;
        /// [`Completion::slid`]
        const SLID = sys::IBV_WC_EX_WITH_SLID;
        /// [`Completion::sl`]
        const SL = sys::IBV_WC_EX_WITH_SL;
        /// [`Completion::dlid_path_bits`]
        const DLID_PATH_BITS = sys::IBV_WC_EX_WITH_DLID_PATH_BITS;
    }
}

/// A completion queue that is polled in batches, each of them a [`Batch`].
///
/// ```no_run
/// # use mrx::{Context, ExtendedCq, Fields};
/// # fn main() -> std::io::Result<()> {
/// let context = Context::open("rxe_mrx0")?;
/// let mut cq = ExtendedCq::new(&context, 128, Fields::BYTE_LEN | Fields::QP_NUM)?;
/// // ... queue pairs on `cq.as_raw()`, and work ...
/// let mut batch = cq.batch()?;
/// while let Some(completion) = batch.next_poll()? {
///     println!("{}: {:?} bytes", completion.wr_id(), completion.byte_len());
/// }
/// drop(batch); // here it ends, or wherever else it goes, whatever happened in it
/// # Ok(())
/// # }
/// ```
///
/// There is one batch of a queue at a time:
///
/// ```compile_fail,E0499
/// # fn example(cq: &mut mrx::ExtendedCq<'_>) -> std::io::Result<()> {
/// let first = cq.batch()?;
/// let second = cq.batch()?; // error: `*cq` is borrowed by `first`
/// drop(first);
/// # Ok(())
/// # }
/// ```
///
/// and the queue does not end in it:
///
/// ```compile_fail,E0505
/// # fn example(mut cq: mrx::ExtendedCq<'_>) -> std::io::Result<()> {
/// let batch = cq.batch()?;
/// drop(cq); // error: `cq` is borrowed by `batch`
/// drop(batch);
/// # Ok(())
/// # }
/// ```
pub struct ExtendedCq<'a> {
    raw: NonNull<ibv_cq_ex>,
    owned: bool,
    /// The thread in which the provider is in a batch: a completion can be read.
    open: Option<ThreadId>,
    context: PhantomData<&'a Context>,
}

// SAFETY: libibverbs may be called from every thread; a batch, which stays in
// its thread, borrows the queue.
unsafe impl Send for ExtendedCq<'_> {}

impl<'a> ExtendedCq<'a> {
    /// A queue of at least so many entries, of whose completions these fields
    /// can be read.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if the provider cannot have one of the fields, and what
    /// `ibv_create_cq_ex` reports.
    pub fn new(context: &'a Context, entries: u32, fields: Fields) -> io::Result<Self> {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: entries,
            wc_flags: fields.bits().into(),
            ..Default::default()
        };
        // SAFETY: the device is open.
        let raw = unsafe { sys::ibv_create_cq_ex(context.as_raw().as_ptr(), &mut attr) };
        Ok(Self {
            raw: non_null(raw)?,
            owned: true,
            open: None,
            context: PhantomData,
        })
    }

    /// A queue that somebody else made, and destroys.
    ///
    /// # Safety
    ///
    /// `raw` is a queue and stays one for as long as the answer lives, and
    /// nobody else polls it.
    pub unsafe fn from_raw(raw: NonNull<ibv_cq_ex>) -> Self {
        Self {
            raw,
            owned: false,
            open: None,
            context: PhantomData,
        }
    }

    /// The structure of libibverbs, to make queue pairs with. To poll it by
    /// `ibv_poll_cq` during a batch may wait for ever.
    pub fn as_raw(&self) -> NonNull<ibv_cq> {
        // verbs.h: the one begins with what the other is.
        self.raw.cast()
    }

    /// Begins a batch. Nothing is taken from the queue before
    /// [`next_poll`](Batch::next_poll).
    ///
    /// # Errors
    ///
    /// `EDEADLK` if a batch of another thread was forgotten: its provider may
    /// hold a lock that only that thread can give back.
    pub fn batch(&mut self) -> io::Result<Batch<'_, 'a>> {
        self.end_forgotten()?;
        Ok(Batch {
            thread: thread::current().id(),
            cq: self,
            stays: PhantomData,
        })
    }

    /// Goes to the first completion of the queue, which can be read then.
    /// Returns whether there is one.
    fn start(&mut self, thread: ThreadId) -> io::Result<bool> {
        let mut attr = ibv_poll_cq_attr::default();
        // SAFETY: the queue is live, and every provider fills the pointer.
        let status = match unsafe { self.raw.as_ref() }.start_poll {
            // SAFETY: no batch is open.
            Some(start_poll) => unsafe { start_poll(self.raw.as_ptr(), &mut attr) },
            None => libc::EOPNOTSUPP,
        };
        match status {
            0 => self.open = Some(thread),
            libc::ENOENT => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        Ok(self.open.is_some())
    }

    /// Ends the batch of the provider, if one is open, in the thread that began
    /// it.
    fn end(&mut self) {
        if self.open.take().is_some() {
            // SAFETY: the queue is live.
            if let Some(end_poll) = unsafe { self.raw.as_ref() }.end_poll {
                // SAFETY: a batch was open.
                unsafe { end_poll(self.raw.as_ptr()) };
            }
        }
    }

    /// Ends the batch whose guard was forgotten, if there is one.
    fn end_forgotten(&mut self) -> io::Result<()> {
        match self.open {
            Some(thread) if thread != thread::current().id() => {
                Err(io::Error::from_raw_os_error(libc::EDEADLK))
            }
            _ => {
                self.end();
                Ok(())
            }
        }
    }
}

impl Drop for ExtendedCq<'_> {
    fn drop(&mut self) {
        // A provider does not expect that a queue ends in the middle of a batch.
        if self.end_forgotten().is_ok() && self.owned {
            // SAFETY: made by `new`; whoever made a queue pair with it holds it.
            unsafe { sys::ibv_destroy_cq(self.as_raw().as_ptr()) };
        }
    }
}

/// A batch of completions, which ends with this guard.
///
/// It stays in the thread that began it, since a provider may hold a lock
/// meanwhile.
///
/// ```compile_fail,E0277
/// # fn example(cq: &mut mrx::ExtendedCq<'_>) -> std::io::Result<()> {
/// let batch = cq.batch()?;
/// std::thread::scope(|scope| {
///     scope.spawn(move || drop(batch)); // error: it cannot be sent
/// });
/// # Ok(())
/// # }
/// ```
///
/// What was not asked for stays in the queue.
#[must_use = "only `next_poll` takes completions from the queue"]
pub struct Batch<'q, 'a> {
    cq: &'q mut ExtendedCq<'a>,
    thread: ThreadId,
    stays: PhantomData<*const ()>,
}

impl Batch<'_, '_> {
    /// The next completion, or `None` if there is none now. The one before it
    /// is gone then:
    ///
    /// ```compile_fail,E0499
    /// # fn example(mut batch: mrx::Batch<'_, '_>) -> std::io::Result<()> {
    /// let first = batch.next_poll()?;
    /// let second = batch.next_poll()?;
    /// println!("{:?}", first.map(|it| it.wr_id())); // error: `batch` was borrowed by `first`
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// and so it is when the batch has ended:
    ///
    /// ```compile_fail,E0597
    /// # fn example(cq: &mut mrx::ExtendedCq<'_>) -> std::io::Result<()> {
    /// let mut kept = None;
    /// {
    ///     let mut batch = cq.batch()?;
    ///     kept = batch.next_poll()?; // error: `batch` does not live long enough
    /// }
    /// println!("{}", kept.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the provider reports, but for `ENOENT`, which is `None`.
    pub fn next_poll(&mut self) -> io::Result<Option<Completion<'_>>> {
        // To go on is to end and to start again. `ibv_next_poll` would have to
        // be followed by `ibv_end_poll` when it finds nothing, by its manual
        // page; but librxe has given up its lock by then, and older versions of
        // it have ended the batch, so that one more end would drop a completion
        // that is yet to come. This works with all of them.
        self.cq.end();
        Ok(self.cq.start(self.thread)?.then_some(Completion {
            cq: self.cq.raw,
            batch: PhantomData,
        }))
    }
}

impl Drop for Batch<'_, '_> {
    fn drop(&mut self) {
        self.cq.end();
    }
}

/// The completion that a batch stands at.
///
/// What was not among the [`Fields`] of the queue reads as `None`. Of a request
/// that failed, only [`wr_id`](Self::wr_id), [`status`](Self::status),
/// [`qp_num`](Self::qp_num) and [`vendor_err`](Self::vendor_err) mean anything.
pub struct Completion<'b> {
    cq: NonNull<ibv_cq_ex>,
    batch: PhantomData<&'b ExtendedCq<'b>>,
}

/// Calls a reader that the provider may have left out.
macro_rules! read {
    ($completion:expr, $reader:ident) => {{
        let cq = $completion.cq;
        // SAFETY: the queue is live, and its batch stands at a completion for
        // as long as that is borrowed.
        unsafe { cq.as_ref().$reader.map(|read| read(cq.as_ptr())) }
    }};
}

impl Completion<'_> {
    /// What the work request was called by its poster.
    pub fn wr_id(&self) -> u64 {
        // SAFETY: as in `read`.
        unsafe { self.cq.as_ref() }.wr_id
    }

    /// How it ended.
    pub fn status(&self) -> ibv_wc_status {
        // SAFETY: as in `read`.
        unsafe { self.cq.as_ref() }.status
    }

    /// What it did.
    pub fn opcode(&self) -> Option<ibv_wc_opcode> {
        read!(self, read_opcode)
    }

    /// What the provider has to say of an error.
    pub fn vendor_err(&self) -> Option<u32> {
        read!(self, read_vendor_err)
    }

    /// `enum ibv_wc_flags`
    pub fn wc_flags(&self) -> Option<u32> {
        read!(self, read_wc_flags)
    }

    /// How many bytes came.
    pub fn byte_len(&self) -> Option<u32> {
        read!(self, read_byte_len)
    }

    /// The immediate data, if some came.
    pub fn immediate(&self) -> Option<u32> {
        self.has(sys::IBV_WC_WITH_IMM)
            .then(|| read!(self, read_imm_data).map(u32::from_be))?
    }

    /// The key that the peer invalidated, if it did.
    pub fn invalidated_rkey(&self) -> Option<u32> {
        self.has(sys::IBV_WC_WITH_INV)
            .then(|| read!(self, read_imm_data))?
    }

    fn has(&self, flag: u32) -> bool {
        self.wc_flags().is_some_and(|flags| flags & flag != 0)
    }

    /// The queue pair on this side.
    pub fn qp_num(&self) -> Option<u32> {
        read!(self, read_qp_num)
    }

    /// The queue pair that a datagram is from.
    pub fn src_qp(&self) -> Option<u32> {
        read!(self, read_src_qp)
    }

    /// The local identifier that a datagram is from; there are none on Ethernet.
    pub fn slid(&self) -> Option<u32> {
        read!(self, read_slid)
    }

    /// The service level of a datagram.
    pub fn sl(&self) -> Option<u8> {
        read!(self, read_sl)
    }

    /// Which of its local identifiers the port was reached by; there are none on
    /// Ethernet.
    pub fn dlid_path_bits(&self) -> Option<u8> {
        read!(self, read_dlid_path_bits)
    }
}
