// SPDX-License-Identifier: GPL-2.0

//! A client.

use super::{
    callbacks::{
        Callbacks,
        Description,
        Name, //
    },
    sysfs::{
        Folder,
        Statistics, //
    },
    ticket::Tickets,
    users::Users, //
};
use kernel::{
    new_mutex,
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        Mutex, //
    }, //
};

/// A client, from its registration until nobody refers to it any more.
#[pin_data]
pub(super) struct Client {
    /// Ascending in the order of registration, never used again, and never 0.
    pub(super) number: u64,
    name: Name,
    pub(super) callbacks: Callbacks,
    /// It can take ranges back.
    pub(super) invalidates: bool,
    /// Ranges that it takes back are its own to unmap and to unpin.
    pub(super) unmaps: bool,
    #[pin]
    pub(super) users: Users,
    #[pin]
    pub(super) tickets: Tickets,
    /// Shows `statistics`, so it goes first.
    #[pin]
    folder: Mutex<Option<Folder>>,
    #[pin]
    pub(super) statistics: Statistics,
}

impl Client {
    /// Makes the client of `description`.
    pub(super) fn new(
        number: u64,
        description: Description,
        invalidates: bool,
    ) -> Result<Arc<Self>> {
        let client = Arc::pin_init(
            try_pin_init!(Self {
                number,
                name: description.name,
                callbacks: description.callbacks,
                invalidates,
                unmaps: description.unmaps,
                users <- Users::new(),
                tickets <- Tickets::new(),
                folder <- new_mutex!(None, "Client::folder"),
                statistics <- Statistics::new(description.version),
            }),
            GFP_KERNEL,
        )?;
        // SAFETY: The statistics are pinned with the client, and the folder that shows them is
        // removed before they are dropped: by `hide`, or as the field in front of them.
        let folder = unsafe { Folder::new(client.name(), &client.statistics) }?;
        *client.folder.lock() = folder;
        Ok(client)
    }

    /// The name.
    pub(super) fn name(&self) -> &CStr {
        self.name.get()
    }

    /// Removes the folder in sysfs.
    pub(super) fn hide(&self) {
        let folder = self.folder.lock().take();
        // Waits for readers, so not under the lock.
        drop(folder);
    }
}
