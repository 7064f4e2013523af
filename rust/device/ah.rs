// SPDX-License-Identifier: GPL-2.0

//! Address handles: where datagrams go.

use crate::rdma::{
    addressing::Path,
    id_table::IdTable,
    mr::region::Domain,
    udata::Udata, //
};
use core::ops::Range;
use kernel::{
    alloc::Flags,
    new_spinlock_irq,
    prelude::*,
    sync::{
        Arc,
        SpinLockIrq, //
    },
    transmute::AsBytes, //
};

/// The address handles of processes on a device, by number.
pub type AhTable = IdTable<Ah>;

/// The numbers of address handles; 0 stands for none.
pub const NUMBERS: Range<u32> = 1..1 << 20;

/// An address handle.
#[pin_data]
pub struct Ah {
    domain: Arc<Domain>,
    /// Where a process's handle is found. Users in the kernel name handles by themselves, and make
    /// and end them in any context, where the table must not be touched.
    place: Option<(Arc<AhTable>, u32)>,
    /// A leaf, with interrupts off.
    #[pin]
    path: SpinLockIrq<Path>,
}

/// `struct rxe_create_ah_resp`.
#[repr(C)]
struct CreateResponse {
    ah_num: u32,
    reserved: u32,
}

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for CreateResponse {}

impl Ah {
    /// Makes a handle; for a process, in `table`.
    pub fn new(
        table: &Arc<AhTable>,
        domain: &Arc<Domain>,
        path: &Path,
        flags: Flags,
        udata: Option<Udata<'_>>,
    ) -> Result<Arc<Self>> {
        // A provider library that has no room for the number puts the path into its requests.
        let udata = udata.filter(|udata| udata.wants_response::<CreateResponse>());
        let reserved = udata.map(|_| table.reserve()).transpose()?;
        let number = reserved.as_ref().map(|reserved| reserved.id());
        let ah = Arc::pin_init(
            pin_init!(Self {
                domain: domain.clone(),
                place: number.map(|number| (table.clone(), number)),
                path <- new_spinlock_irq!(*path, "Ah::path"),
            }),
            flags,
        )?;
        if let (Some(udata), Some(ah_num), Some(reserved)) = (udata, number, reserved) {
            udata.respond(&CreateResponse {
                ah_num,
                reserved: 0,
            })?;
            reserved.fill(ah.clone());
        }
        Ok(ah)
    }

    /// Where it leads.
    pub fn path(&self) -> Path {
        *self.path.lock()
    }

    /// Changes where it leads.
    pub fn set_path(&self, path: &Path) {
        *self.path.lock() = *path;
    }

    /// Whether requests of `domain` may use it.
    pub fn is_of(&self, domain: &Arc<Domain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// Ends the handle.
    pub fn destroy(&self) {
        if let Some((table, number)) = &self.place {
            drop(table.remove(*number));
        }
    }
}
