// SPDX-License-Identifier: GPL-2.0

//! What a client can be asked, made safe to call.
//!
//! C header: [`include/rdma/peer_mem.h`](srctree/include/rdma/peer_mem.h)

use crate::bindings::{
    self,
    peer_memory_client,
    peer_memory_client_ex,
    peer_memory_client_private,
    sg_table, //
};
use core::{
    mem::offset_of,
    ptr::NonNull, //
};
use kernel::{
    device::Device,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    str::CStr, //
};

const NAME_MAX: usize = bindings::IB_PEER_MEMORY_NAME_MAX as usize;
const VERSION_MAX: usize = bindings::IB_PEER_MEMORY_VER_MAX as usize;

/// The text in a fixed array of C, up to a zero byte that must be there.
#[derive(Clone, Copy)]
pub(super) struct Text<const N: usize>([u8; N]);

impl<const N: usize> Text<N> {
    pub(super) fn new(raw: [c_char; N]) -> Self {
        Self(raw)
    }

    /// The text, or `None` if nothing ends it.
    pub(super) fn ended(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.0).ok()
    }

    /// The text; empty if nothing ends it.
    pub(super) fn get(&self) -> &CStr {
        self.ended().unwrap_or(c"")
    }
}

/// The name of a client.
pub(super) type Name = Text<NAME_MAX>;
/// The version of a client.
pub(super) type Version = Text<VERSION_MAX>;

/// What a client means by a range; ours only to hand back.
#[derive(Clone, Copy)]
pub(super) struct ClientContext(*mut c_void);

// SAFETY: The pointer is never followed here, and clients are called from any thread by contract.
unsafe impl Send for ClientContext {}
// SAFETY: As above.
unsafe impl Sync for ClientContext {}

/// The callbacks of a client.
///
/// # Invariants
///
/// The functions are those of a client that registered and is not gone, and obey the C header.
pub(super) struct Callbacks {
    acquire:
        unsafe extern "C" fn(c_ulong, usize, *mut c_void, *mut c_char, *mut *mut c_void) -> c_int,
    get_pages: unsafe extern "C" fn(
        c_ulong,
        usize,
        c_int,
        c_int,
        *mut sg_table,
        *mut c_void,
        u64,
    ) -> c_int,
    dma_map: unsafe extern "C" fn(
        *mut sg_table,
        *mut c_void,
        *mut bindings::device,
        c_int,
        *mut c_int,
    ) -> c_int,
    dma_unmap: unsafe extern "C" fn(*mut sg_table, *mut c_void, *mut bindings::device) -> c_int,
    put_pages: unsafe extern "C" fn(*mut sg_table, *mut c_void),
    get_page_size: unsafe extern "C" fn(*mut c_void) -> c_ulong,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    private_data: Option<PrivateData>,
}

/// What a client can be asked of verbs contexts.
struct PrivateData {
    get: unsafe extern "C" fn(u64) -> *mut c_void,
    put: unsafe extern "C" fn(*mut c_void),
}

/// The structure of C behind `device`.
fn as_raw(device: &Device) -> *mut bindings::device {
    // A `Device` is nothing but that structure.
    core::ptr::from_ref(device).cast_mut().cast()
}

/// What a client says of itself.
pub(super) struct Description {
    pub(super) name: Name,
    pub(super) version: Version,
    pub(super) callbacks: Callbacks,
    /// Ranges that it invalidates are its own to unmap and to unpin.
    pub(super) unmaps: bool,
}

/// The result of a callback: an errno, or `EINVAL` for what is none.
fn errno(ret: c_int) -> Result {
    to_result(ret.min(0))?;
    if ret == 0 {
        Ok(())
    } else {
        Err(EINVAL)
    }
}

impl Description {
    /// Reads what a client registers. `EINVAL`, and the reason in the log, if it is not right.
    ///
    /// # Safety
    ///
    /// `client` points to a structure as the C header says. Its functions may be called as the
    /// header says for as long as the result is used.
    pub(super) unsafe fn read(client: *const peer_memory_client) -> Result<Self> {
        // SAFETY: By the requirements of this function.
        let raw = unsafe { &*client };
        let name = Name::new(raw.name);
        match name.ended().map(CStr::to_bytes) {
            None => {
                pr_err!("a peer-memory client has a name that nothing ends\n");
                return Err(EINVAL);
            }
            Some(b"" | b"." | b"..") => {
                pr_err!("a peer-memory client has no name\n");
                return Err(EINVAL);
            }
            Some(_) => {}
        }

        let (text, variant) = match raw.version {
            [text @ .., variant] => (text, variant),
        };
        let mut version = [0; VERSION_MAX];
        for (to, from) in version.iter_mut().zip(text) {
            *to = from;
        }
        let mut private = None;
        let unmaps = match u32::from(variant) {
            bindings::peer_memory_variant_PEER_MEM_CLASSIC => false,
            bindings::peer_memory_variant_PEER_MEM_EXTENDED => {
                // SAFETY: The variant says that this is the structure.
                unsafe { read_extension(client.cast(), &name)? }
            }
            bindings::peer_memory_variant_PEER_MEM_PRIVATE_DATA => {
                // SAFETY: The variant says that this is the structure.
                private = Some(unsafe { &*client.cast::<peer_memory_client_private>() });
                false
            }
            _ => {
                pr_err!(
                    "peer-memory client {}: variant {} in the last byte of its version is unknown\n",
                    name.get(),
                    variant
                );
                return Err(EINVAL);
            }
        };

        let missing = |what: &str| {
            pr_err!("peer-memory client {} has no {}\n", name.get(), what);
            EINVAL
        };
        let private_data = match private {
            None => None,
            Some(private) => Some(PrivateData {
                get: private
                    .get_context_private_data
                    .ok_or_else(|| missing("get_context_private_data"))?,
                put: private
                    .put_context_private_data
                    .ok_or_else(|| missing("put_context_private_data"))?,
            }),
        };
        // INVARIANT: By the requirements of this function.
        let callbacks = Callbacks {
            acquire: raw.acquire.ok_or_else(|| missing("acquire"))?,
            get_pages: raw.get_pages.ok_or_else(|| missing("get_pages"))?,
            put_pages: raw.put_pages.ok_or_else(|| missing("put_pages"))?,
            get_page_size: raw.get_page_size.ok_or_else(|| missing("get_page_size"))?,
            dma_map: raw.dma_map.ok_or_else(|| missing("dma_map"))?,
            dma_unmap: raw.dma_unmap.ok_or_else(|| missing("dma_unmap"))?,
            release: raw.release,
            private_data,
        };
        Ok(Self {
            name,
            version: Version::new(version),
            callbacks,
            unmaps,
        })
    }
}

/// Reads whether an extended client unmaps what it invalidates.
///
/// # Safety
///
/// `client` points to an extended client.
unsafe fn read_extension(client: *const peer_memory_client_ex, name: &Name) -> Result<bool> {
    const LEAST: usize = offset_of!(peer_memory_client_ex, flags) + size_of::<u32>();
    const MOST: usize = size_of::<peer_memory_client_ex>();
    // SAFETY: By the requirements of this function.
    let size = unsafe { (*client).ex_size };
    let flags = match size {
        // Clients of today register so to say that they are classic after all.
        0 => 0,
        // SAFETY: The size says that the flags are there.
        LEAST..=MOST => unsafe { (*client).flags },
        _ => {
            pr_err!(
                "peer-memory client {}: an extension of {} bytes is unknown\n",
                name.get(),
                size
            );
            return Err(EINVAL);
        }
    };
    let unmaps = bindings::peer_memory_flags_PEER_MEM_INVALIDATE_UNMAPS;
    if flags & !unmaps != 0 {
        pr_err!(
            "peer-memory client {}: flags {:#x} are unknown\n",
            name.get(),
            flags & !unmaps
        );
        return Err(EINVAL);
    }
    Ok(flags & unmaps != 0)
}

impl Callbacks {
    /// Whether the range is the client's, and what it means by it then.
    /// `private` is what some client gave for the process's context, and the name of that client.
    pub(super) fn acquire(
        &self,
        addr: usize,
        len: usize,
        private: Option<(*mut c_void, &CStr)>,
    ) -> Option<ClientContext> {
        let mut context = core::ptr::null_mut();
        let (data, name) = match private {
            Some((data, name)) => (data, name.as_char_ptr().cast_mut()),
            None => (core::ptr::null_mut(), core::ptr::null_mut()),
        };
        // SAFETY: By the type invariant; clients do not write to the name.
        let ret = unsafe { (self.acquire)(addr, len, data, name, &mut context) };
        (ret == 1).then_some(ClientContext(context))
    }

    /// Has the range pinned.
    pub(super) fn get_pages(
        &self,
        context: ClientContext,
        addr: usize,
        len: usize,
        writable: bool,
        table: &mut sg_table,
        ticket: u64,
    ) -> Result {
        // As for host memory in the days of this interface: always for writing, which breaks
        // copy-on-write, and by force where the process itself could not write.
        let (write, force) = (1, c_int::from(!writable));
        // SAFETY: By the type invariant; `context` is of a range that this client acquired.
        errno(unsafe { (self.get_pages)(addr, len, write, force, table, context.0, ticket) })
    }

    /// Bytes of a page of the range.
    pub(super) fn get_page_size(&self, context: ClientContext) -> usize {
        // SAFETY: As in `get_pages`.
        unsafe { (self.get_page_size)(context.0) }
    }

    /// Has the range mapped for `device`. Returns how many entries have an address.
    pub(super) fn dma_map(
        &self,
        context: ClientContext,
        table: &mut sg_table,
        device: &Device,
    ) -> Result<c_int> {
        let mut mapped = 0;
        // SAFETY: As in `get_pages`; the range is pinned.
        errno(unsafe { (self.dma_map)(table, context.0, as_raw(device), 0, &mut mapped) })?;
        Ok(mapped)
    }

    /// Undoes [`Callbacks::dma_map`].
    pub(super) fn dma_unmap(
        &self,
        context: ClientContext,
        table: &mut sg_table,
        device: &Device,
    ) -> Result {
        // SAFETY: As in `get_pages`; the range is mapped.
        errno(unsafe { (self.dma_unmap)(table, context.0, as_raw(device)) })
    }

    /// Undoes [`Callbacks::get_pages`].
    pub(super) fn put_pages(&self, context: ClientContext, table: &mut sg_table) {
        // SAFETY: As in `get_pages`; the range is pinned.
        unsafe { (self.put_pages)(table, context.0) };
    }

    /// What the client keeps for the context that it knows by `id`. `EOPNOTSUPP` if it keeps
    /// nothing for contexts, `EINVAL` if nothing for this one.
    pub(super) fn get_private_data(&self, id: u64) -> Result<NonNull<c_void>> {
        let private = self.private_data.as_ref().ok_or(EOPNOTSUPP)?;
        // SAFETY: By the type invariant.
        let data = from_err_ptr(unsafe { (private.get)(id) })?;
        NonNull::new(data).ok_or(EINVAL)
    }

    /// Undoes [`Callbacks::get_private_data`].
    pub(super) fn put_private_data(&self, data: NonNull<c_void>) {
        if let Some(private) = &self.private_data {
            // SAFETY: By the type invariant; the client gave the data, and the caller gives it up.
            unsafe { (private.put)(data.as_ptr()) };
        }
    }

    /// Undoes [`Callbacks::acquire`].
    pub(super) fn release(&self, context: ClientContext) {
        if let Some(release) = self.release {
            // SAFETY: By the type invariant; the caller acquired the range and gives it up.
            unsafe { release(context.0) };
        }
    }
}
