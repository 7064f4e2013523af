// SPDX-License-Identifier: GPL-2.0

//! The clients there are, and the functions by which they come and go.
//!
//! C header: [`include/rdma/peer_mem.h`](srctree/include/rdma/peer_mem.h)

use super::{
    callbacks::Description,
    client::Client,
    private,
    sysfs::Parent,
    ticket,
    users::Use, //
};
use crate::bindings::{
    invalidate_peer_memory,
    peer_memory_client, //
};
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        global_lock,
        Arc, //
    }, //
};

global_lock! {
    // SAFETY: Initialised by `Service::new`, before any client can call in.
    //
    // Invalidations take it, which may come from where memory is reclaimed: nothing is allocated
    // under it.
    unsafe(uninit) static CLIENTS: Mutex<KVec<Arc<Client>>> = KVec::new();
}

global_lock! {
    // SAFETY: As above.
    //
    // Taken by those who add a client, before CLIENTS.
    unsafe(uninit) static ADDING: Mutex<()> = ();
}

/// The number of the client that registered last.
static LAST: Atomic<u64> = Atomic::new(0);

/// The service, as long as the module is there.
pub struct Service {
    _parent: Parent,
}

impl Service {
    /// Starts the service.
    ///
    /// # Safety
    ///
    /// Called once, before any other function of the service.
    pub unsafe fn new() -> Self {
        // SAFETY: By the requirements of this function.
        unsafe {
            CLIENTS.init();
            ADDING.init();
            private::init();
        }
        Self {
            _parent: Parent::new(),
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // Whoever registered needs the module's symbols, so nobody is left.
        *CLIENTS.lock() = KVec::new();
        private::end();
    }
}

/// The client with the least number above `number`, ready to be asked.
pub(super) fn next_after(number: u64) -> Option<Use> {
    CLIENTS
        .lock()
        .iter()
        .filter(|client| client.number > number)
        .find_map(Use::of)
}

/// The client of this name, unless it is going.
pub(super) fn by_name(name: &CStr) -> Option<Use> {
    CLIENTS
        .lock()
        .iter()
        .find(|client| client.name() == name)
        .and_then(Use::of)
}

/// The client of handle `number`, also if it is going.
pub(super) fn find(number: u64) -> Option<Arc<Client>> {
    CLIENTS
        .lock()
        .iter()
        .find(|client| client.number == number)
        .cloned()
}

fn register(description: Description, invalidates: bool) -> Result<Arc<Client>> {
    let _adding = ADDING.lock();
    let name = description.name;
    let (taken, count) = {
        let clients = CLIENTS.lock();
        let taken = clients.iter().any(|client| client.name() == name.get());
        (taken, clients.len())
    };
    if taken {
        pr_err!("there is a peer-memory client {} already\n", name.get());
        return Err(EEXIST);
    }
    let number = LAST.fetch_add(1, Relaxed) + 1;
    let made = KVec::with_capacity(count + 1, GFP_KERNEL)
        .map_err(Error::from)
        .and_then(|room| Ok((Client::new(number, description, invalidates)?, room)));
    let Ok((client, mut room)) = made else {
        pr_err!("no memory for peer-memory client {}\n", name.get());
        return Err(ENOMEM);
    };
    // Nobody else adds a client, so there is room for all.
    let mut clients = CLIENTS.lock();
    for known in clients.drain_all() {
        let _ = room.push_within_capacity(known);
    }
    let _ = room.push_within_capacity(client.clone());
    core::mem::swap(&mut *clients, &mut room);
    drop(clients);
    Ok(client)
}

fn unregister(number: u64) {
    let Some(client) = find(number).filter(|client| client.users.close()) else {
        pr_err!(
            "peer-memory client of handle {} is not registered\n",
            number
        );
        return;
    };
    client.users.wait();
    client.hide();
    CLIENTS.lock().retain(|other| !Arc::ptr_eq(other, &client));
    pr_info!("peer-memory client {} has gone\n", client.name());
}

/// # Safety
///
/// See the C header: `client` is valid, and `invalidate` is null or a place for a function.
#[no_mangle]
unsafe extern "C" fn ib_register_peer_memory_client(
    client: *const peer_memory_client,
    invalidate: *mut invalidate_peer_memory,
) -> *mut c_void {
    if client.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: By the requirements of this function.
    let Ok(description) = (unsafe { Description::read(client) }) else {
        return core::ptr::null_mut();
    };
    if !invalidate.is_null() {
        // Before the client is asked for anything. It needs the handle, too, to call it.
        // SAFETY: By the requirements of this function.
        unsafe { *invalidate = Some(ticket::ib_invalidate_peer_memory) };
    }
    let Ok(client) = register(description, !invalidate.is_null()) else {
        return core::ptr::null_mut();
    };
    pr_info!(
        "peer-memory client {} has registered{}\n",
        client.name(),
        match (client.invalidates, client.unmaps) {
            (false, _) => "",
            (true, false) => ", and can take memory back",
            (true, true) => ", and can take memory back and unmaps it",
        }
    );
    // Not a pointer: a handle that is used too late finds nothing.
    client.number as *mut c_void
}

/// # Safety
///
/// See the C header. Nothing is required of a handle.
#[no_mangle]
unsafe extern "C" fn ib_unregister_peer_memory_client(handle: *mut c_void) {
    unregister(handle as u64);
}
