// SPDX-License-Identifier: GPL-2.0

//! Data that a client keeps for a process's verbs context.
//!
//! For clients that cannot tell by an address alone whose it is: the process says for its context
//! which client it deals with and by which number that client knows it, and every acquisition
//! through the context bears what the client gave for the number.

use super::{
    callbacks::Name,
    registry,
    users::Use, //
};
use crate::bindings::{
    ib_ucontext,
    mrx_peer_context, //
};
use core::{
    mem,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        global_lock,
        Arc, //
    },
    transmute::FromBytes, //
};

// SAFETY: The structure has no padding, and any bytes are valid for it.
unsafe impl FromBytes for mrx_peer_context {}

/// Names a process's context, as long as that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ContextId(usize);

impl ContextId {
    /// The name of `context`; `None` for callers in the kernel, who have none.
    pub fn of(context: *mut ib_ucontext) -> Option<Self> {
        NonNull::new(context).map(|context| Self(context.as_ptr() as usize))
    }
}

/// What a client gave, until nobody uses it any more.
pub(super) struct PrivateData {
    client: Use,
    data: NonNull<c_void>,
    name: Name,
}

// SAFETY: The pointer is only handed back to the client, which may be called from any thread.
unsafe impl Send for PrivateData {}
// SAFETY: As above.
unsafe impl Sync for PrivateData {}

impl PrivateData {
    /// The data.
    pub(super) fn as_ptr(&self) -> *mut c_void {
        self.data.as_ptr()
    }

    /// The name of the client.
    pub(super) fn name(&self) -> &CStr {
        self.name.get()
    }
}

impl Drop for PrivateData {
    fn drop(&mut self) {
        self.client.callbacks.put_private_data(self.data);
    }
}

global_lock! {
    // SAFETY: Initialised by `init`, before anything else of this file is used.
    unsafe(uninit) static CONTEXTS: Mutex<KVec<(ContextId, Arc<PrivateData>)>> = KVec::new();
}

/// # Safety
///
/// Called once, before anything else of this file.
pub(super) unsafe fn init() {
    // SAFETY: By the requirements of this function.
    unsafe { CONTEXTS.init() };
}

/// Frees the list of contexts, which is empty by now.
pub(super) fn end() {
    *CONTEXTS.lock() = KVec::new();
}

/// The data of a context, if it has some.
pub(super) fn find(context: ContextId) -> Option<Arc<PrivateData>> {
    let contexts = CONTEXTS.lock();
    let (_, data) = contexts.iter().find(|(other, _)| *other == context)?;
    Some(data.clone())
}

/// Takes the data of a context away, to be dropped by the caller, who holds no lock.
fn take(context: ContextId) -> Option<Arc<PrivateData>> {
    let mut taken = None;
    CONTEXTS.lock().retain(|(other, data)| {
        let keep = *other != context;
        if !keep {
            taken = Some(data.clone());
        }
        keep
    });
    taken
}

/// Sets which client a context deals with, and by which number.
///
/// `EINVAL` for a name that nothing ends, `ENOENT` if there is no such client, `EOPNOTSUPP` if it
/// keeps no data of contexts; the errors of the client.
pub fn set(context: ContextId, what: &mrx_peer_context) -> Result {
    let name = Name::new(what.name);
    let client = registry::by_name(name.ended().ok_or(EINVAL)?).ok_or(ENOENT)?;
    let data = client.callbacks.get_private_data(what.id)?;
    let data = Arc::new(PrivateData { client, data, name }, GFP_KERNEL)?;
    let old = {
        let mut contexts = CONTEXTS.lock();
        contexts.reserve(1, GFP_KERNEL)?;
        match contexts.iter_mut().find(|(other, _)| *other == context) {
            Some((_, old)) => Some(mem::replace(old, data)),
            None => {
                contexts
                    .push_within_capacity((context, data))
                    .map_err(|_| ENOMEM)?;
                None
            }
        }
    };
    // Asks the client to put what it gave, so not under the lock.
    drop(old);
    Ok(())
}

/// A context is being closed, and nobody uses it any more.
pub fn forget(context: ContextId) {
    drop(take(context));
}
