// SPDX-License-Identifier: GPL-2.0

//! Completion queues, completions, and completion events.

use std::{
    ffi::CStr,
    fmt, io,
    ptr::{self, NonNull},
    rc::Rc,
    time::Duration,
};

use anyhow::Context as _;
use mrx::{
    sys::{
        self, ibv_comp_channel, ibv_cq, ibv_cq_init_attr_ex, ibv_wc, ibv_wc_opcode, ibv_wc_status,
    },
    ExtendedCq,
};

use super::{
    check::{equal, pointer, status},
    patient, until, Context,
};

/// How long a completion may take.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// A completion.
#[derive(Clone, Copy)]
pub struct Completion(pub ibv_wc);

impl Completion {
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    pub fn status(&self) -> ibv_wc_status {
        self.0.status
    }

    pub fn immediate(&self) -> u32 {
        // SAFETY: both members of the union are the same plain integer.
        u32::from_be(unsafe { self.0.__bindgen_anon_1.imm_data })
    }

    /// Fails unless this is the completion of work request `id`, with `status`.
    #[track_caller]
    pub fn is(&self, id: u64, wanted: ibv_wc_status) -> anyhow::Result<&Self> {
        equal(
            &self.0.wr_id,
            &id,
            format_args!("the wr_id of the completion {self}"),
        )?;
        equal(
            &status_name(self.0.status),
            &status_name(wanted),
            format_args!("the status of the completion of WR {id}"),
        )?;
        Ok(self)
    }

    /// Fails unless this is the successful completion of work request `id`.
    #[track_caller]
    pub fn ok(&self, id: u64, opcode: ibv_wc_opcode) -> anyhow::Result<&Self> {
        self.is(id, sys::IBV_WC_SUCCESS)?;
        equal(
            &self.0.opcode,
            &opcode,
            format_args!("the opcode of the completion of WR {id}"),
        )?;
        Ok(self)
    }

    /// Fails unless the byte count is this.
    #[track_caller]
    pub fn bytes(&self, count: usize) -> anyhow::Result<&Self> {
        let id = self.id();
        equal(
            &(self.0.byte_len as usize),
            &count,
            format_args!("the byte_len of WR {id}"),
        )?;
        Ok(self)
    }
}

impl fmt::Display for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of WR {}: {}", self.0.wr_id, status_name(self.0.status))
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

pub fn status_name(status: ibv_wc_status) -> &'static str {
    // SAFETY: the answer is a string constant for every value.
    unsafe { CStr::from_ptr(sys::ibv_wc_status_str(status)) }
        .to_str()
        .unwrap_or("?")
}

/// A completion queue.
pub struct Cq {
    pub raw: *mut ibv_cq,
    context: Rc<Context>,
    channel: Option<Rc<Channel>>,
}

impl Cq {
    pub fn new(context: &Rc<Context>, depth: u32) -> io::Result<Rc<Self>> {
        Self::make(context, depth, None)
    }

    pub fn with_events(channel: &Rc<Channel>, depth: u32) -> io::Result<Rc<Self>> {
        Self::make(&channel.context, depth, Some(channel.clone()))
    }

    fn make(
        context: &Rc<Context>,
        depth: u32,
        channel: Option<Rc<Channel>>,
    ) -> io::Result<Rc<Self>> {
        let events = channel
            .as_ref()
            .map_or(ptr::null_mut(), |channel| channel.raw);
        // SAFETY: the context and the channel are live.
        let raw =
            unsafe { sys::ibv_create_cq(context.raw, depth as i32, ptr::null_mut(), events, 0) };
        Ok(Rc::new(Self {
            raw: pointer(raw)?,
            context: context.clone(),
            channel,
        }))
    }

    /// A queue with events that can be polled field by field, of these fields of
    /// `enum ibv_create_cq_wc_flags`.
    pub fn extended(channel: &Rc<Channel>, depth: u32, fields: u32) -> io::Result<Rc<Self>> {
        let mut attr = ibv_cq_init_attr_ex {
            cqe: depth,
            channel: channel.raw,
            wc_flags: fields.into(),
            ..Default::default()
        };
        // SAFETY: the channel is live, and so is its context.
        let raw = unsafe { sys::ibv_create_cq_ex(channel.context.raw, &mut attr) };
        Ok(Rc::new(Self {
            // One structure begins with the other.
            raw: pointer(raw)?.cast(),
            context: channel.context.clone(),
            channel: Some(channel.clone()),
        }))
    }

    /// A queue made by [`extended`](Self::extended), to be polled in batches.
    pub fn batches(&self) -> ExtendedCq<'_> {
        let raw = NonNull::new(self.raw.cast()).expect("it was made");
        // SAFETY: the queue lives for as long as it is borrowed, and a test has
        // one thread.
        unsafe { ExtendedCq::from_raw(raw) }
    }

    /// The next completion, if there is one.
    pub fn poll(&self) -> anyhow::Result<Option<Completion>> {
        let mut wc = ibv_wc::default();
        // SAFETY: the queue is live, and there is room for one completion.
        match unsafe { sys::ibv_poll_cq(self.raw, 1, &mut wc) } {
            0 => Ok(None),
            1 => Ok(Some(Completion(wc))),
            error => anyhow::bail!("polling a CQ returned {error}"),
        }
    }

    /// The next completion, or a failure when none comes in time.
    pub fn wait(&self) -> anyhow::Result<Completion> {
        self.wait_at_most(DEADLINE)
    }

    pub fn wait_at_most(&self, limit: Duration) -> anyhow::Result<Completion> {
        until(limit, || self.poll().transpose())
            .with_context(|| format!("no completion within {:?}", patient(limit)))?
    }

    /// The next `count` completions.
    pub fn wait_for(&self, count: usize) -> anyhow::Result<Vec<Completion>> {
        (0..count)
            .map(|n| {
                self.wait()
                    .with_context(|| format!("completion {n} of {count}"))
            })
            .collect()
    }

    /// Fails unless these work requests are flushed next, in this order.
    pub fn flushes(&self, ids: impl IntoIterator<Item = u64>) -> anyhow::Result<()> {
        for id in ids {
            let completion = self
                .wait()
                .with_context(|| format!("the flush of WR {id}"))?;
            completion.is(id, sys::IBV_WC_WR_FLUSH_ERR)?;
        }
        Ok(())
    }

    /// Fails if a completion comes within the time.
    #[track_caller]
    pub fn stays_empty(&self, time: Duration) -> anyhow::Result<()> {
        let place = std::panic::Location::caller();
        match until(time, || self.poll().transpose()).transpose()? {
            None => Ok(()),
            Some(completion) => anyhow::bail!("an unexpected completion {completion} ({place})"),
        }
    }

    /// Asks for an event at the next completion, or at the next solicited one.
    pub fn arm(&self, solicited_only: bool) -> io::Result<()> {
        // SAFETY: the queue is live.
        status(unsafe { sys::ibv_req_notify_cq(self.raw, solicited_only.into()) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that use it hold an `Rc`.
        let status = unsafe { sys::ibv_destroy_cq(self.raw) };
        if status != 0 {
            println!(
                "a CQ cannot be destroyed: {}",
                io::Error::from_raw_os_error(status)
            );
        }
        // Only now, as the queue may have had either of them to its end.
        let _ = (&self.context, &self.channel);
    }
}

/// Where completion events arrive.
pub struct Channel {
    raw: *mut ibv_comp_channel,
    context: Rc<Context>,
}

impl Channel {
    pub fn new(context: &Rc<Context>) -> io::Result<Rc<Self>> {
        // SAFETY: the context is open.
        let raw = pointer(unsafe { sys::ibv_create_comp_channel(context.raw) })?;
        Ok(Rc::new(Self {
            raw,
            context: context.clone(),
        }))
    }

    /// Whether an event comes within the time. It is taken and acknowledged.
    pub fn event(&self, limit: Duration) -> anyhow::Result<bool> {
        // SAFETY: the channel is live.
        let fd = unsafe { (*self.raw).fd };
        let mut ready = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        match unsafe { libc::poll(&mut ready, 1, patient(limit).as_millis() as i32) } {
            0 => return Ok(false),
            1 => {}
            _ => return Err(io::Error::last_os_error()).context("poll a completion channel"),
        }
        let (mut cq, mut private) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: an event is there to be read; the CQ that it names is live,
        // as destruction of a CQ waits for its events to be acknowledged.
        unsafe {
            status(sys::ibv_get_cq_event(self.raw, &mut cq, &mut private)).context("get event")?;
            sys::ibv_ack_cq_events(cq, 1);
        }
        Ok(true)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: the queues that use it hold an `Rc`.
        unsafe { sys::ibv_destroy_comp_channel(self.raw) };
    }
}
