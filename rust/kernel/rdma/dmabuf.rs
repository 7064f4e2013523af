// SPDX-License-Identifier: GPL-2.0

//! Buffers of other drivers (dma-buf), accessed by the CPU.
//!
//! C header: [`include/linux/dma-buf.h`](srctree/include/linux/dma-buf.h)
//!
//! The bytes are reached through `dma_buf_vmap`, between `dma_buf_begin_cpu_access` and
//! `dma_buf_end_cpu_access`, as the interface wants it of CPUs. The pages behind a scatter list are
//! not for importers to touch, and the core's `ib_umem_dmabuf` is made of those; it also attaches
//! the DMA device of the RDMA device, of which a software device has none.
//!
//! # Moving and revoking
//!
//! The attachment is a dynamic one: an exporter that moves or revokes the buffer calls
//! [`Buffer::invalidate`] before. That waits for the copies that run, and gives the mapping up. The
//! next access asks for a new one, which an exporter that revoked the buffer refuses.
//!
//! # Locks
//!
//! The buffer's reservation lock is taken before [`Buffer::lock`]: the exporter holds it where it
//! calls `invalidate`. So nothing that may take it (mapping, beginning and ending CPU access) is
//! called by those who hold `Buffer::lock` as readers, of this buffer or of another.

use super::{
    mr::memory::Stretch,
    rwsem::{
        HasRwSem,
        OwnedRead,
        RwSem, //
    },
};
use crate::bindings;
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    c_str,
    device::{
        Bound,
        Device, //
    },
    error::to_result,
    faux,
    prelude::*,
    static_lock_class,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Relaxed,
            Release, //
        },
        Arc, //
    }, //
};

/// The device that is attached to buffers, while there is one.
static IMPORTER: Atomic<*mut bindings::device> = Atomic::new(core::ptr::null_mut());

/// A device to attach to buffers: exporters want one. It does no DMA.
pub struct Importer(faux::Registration);

impl Importer {
    /// Makes the device.
    ///
    /// # Safety
    ///
    /// Called once. All regions are gone before the result is dropped.
    pub unsafe fn new() -> Result<Self> {
        let device = faux::Registration::new(c_str!("mrx_dmabuf"), None)?;
        let raw: &Device<Bound> = device.as_ref().as_ref();
        // A `Device` is a `struct device`, transparently.
        IMPORTER.store(core::ptr::from_ref(raw).cast_mut().cast(), Release);
        Ok(Self(device))
    }
}

impl Drop for Importer {
    fn drop(&mut self) {
        IMPORTER.store(core::ptr::null_mut(), Release);
        let _ = &self.0;
    }
}

/// A part of a buffer.
///
/// # Invariants
///
/// A reference to `dmabuf` is owned. `mapping` is changed only under its reservation lock; `base`
/// only under that and as writer of `lock`. While `base` is not 0, it is the kernel address of the
/// part's first byte, and `mapping` is a mapping of the buffer that covers the part.
#[pin_data(PinnedDrop)]
pub struct Buffer {
    dmabuf: NonNull<bindings::dma_buf>,
    offset: usize,
    len: usize,
    base: Atomic<usize>,
    /// What is mapped is memory of a device. Changed as `base`.
    is_io: AtomicFlag,
    mapping: UnsafeCell<bindings::iosys_map>,
    /// The region is gone: the buffer is not mapped any more.
    ended: AtomicFlag,
    /// Held for reading while bytes are accessed, for writing while the mapping changes.
    #[pin]
    lock: RwSem,
}

// SAFETY: The buffer's functions may be called by any thread; what is changed through shared
// references is guarded by locks.
unsafe impl Send for Buffer {}
// SAFETY: As above.
unsafe impl Sync for Buffer {}

impl HasRwSem for Buffer {
    fn rwsem(&self) -> &RwSem {
        &self.lock
    }
}

/// A part of a buffer as its region holds it, which ends it by dropping this.
///
/// # Invariants
///
/// `attachment` is one of `buffer`, with a pointer to it.
pub struct Imported {
    buffer: Arc<Buffer>,
    attachment: NonNull<bindings::dma_buf_attachment>,
}

// SAFETY: An attachment may be ended by any thread.
unsafe impl Send for Imported {}
// SAFETY: Only the buffer is used through shared references.
unsafe impl Sync for Imported {}

static ATTACH_OPS: bindings::dma_buf_attach_ops = bindings::dma_buf_attach_ops {
    // Nothing is done with addresses for DMA.
    allow_peer2peer: true,
    invalidate_mappings: Some(Buffer::invalidate),
};

/// The reservation lock of a buffer, held.
struct Reserved<'a>(&'a Buffer);

impl<'a> Reserved<'a> {
    fn new(buffer: &'a Buffer) -> Self {
        // SAFETY: The buffer is alive. Without a context the lock is an ordinary one, and taking it
        // cannot fail.
        unsafe { bindings::dma_resv_lock(buffer.dmabuf.as_ref().resv, core::ptr::null_mut()) };
        Self(buffer)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` took the lock in this thread.
        unsafe { bindings::dma_resv_unlock(self.0.dmabuf.as_ref().resv) };
    }
}

impl Imported {
    /// The `len` bytes at `offset` of the buffer that the current process knows as `fd`. It is
    /// mapped once, to see whether it can be.
    ///
    /// `EBADF` if `fd` is none, `EINVAL` if it is something else or the range is not inside of the
    /// buffer; `EOPNOTSUPP` if the exporter lets no CPU access the buffer; the errors of the
    /// exporter.
    pub fn new(fd: i32, offset: u64, len: u64) -> Result<Self> {
        let importer = IMPORTER.load(Acquire);
        if importer.is_null() {
            return Err(ENODEV);
        }
        let offset = usize::try_from(offset).map_err(|_| EINVAL)?;
        let len = usize::try_from(len).map_err(|_| EINVAL)?;
        let end = offset.checked_add(len).ok_or(EINVAL)?;
        // SAFETY: May be called with any number.
        let dmabuf = kernel::error::from_err_ptr(unsafe { bindings::dma_buf_get(fd) })?;
        let dmabuf = NonNull::new(dmabuf).ok_or(EBADF)?;
        let made = Arc::pin_init(
            pin_init!(Buffer {
                dmabuf,
                offset,
                len,
                base: Atomic::new(0),
                is_io: AtomicFlag::new(false),
                mapping: UnsafeCell::new(Default::default()),
                ended: AtomicFlag::new(false),
                lock <- RwSem::new(c_str!("Buffer::lock"), static_lock_class!()),
            }),
            GFP_KERNEL_ACCOUNT,
        );
        let buffer = made.inspect_err(|_| {
            // SAFETY: The reference is still ours.
            unsafe { bindings::dma_buf_put(dmabuf.as_ptr()) };
        })?;
        // SAFETY: The buffer is alive; its size and its operations do not change.
        let (size, can_map) = unsafe {
            let dmabuf = dmabuf.as_ref();
            (dmabuf.size, (*dmabuf.ops).vmap.is_some())
        };
        if len == 0 || end > size {
            return Err(EINVAL);
        }
        if !can_map {
            return Err(EOPNOTSUPP);
        }
        // SAFETY: Buffer and device are alive. The pointer to the buffer is used only by the
        // callback, which is not called any more after the attachment has ended, before which the
        // buffer is not dropped.
        let attachment = kernel::error::from_err_ptr(unsafe {
            bindings::dma_buf_dynamic_attach(
                dmabuf.as_ptr(),
                importer,
                &ATTACH_OPS,
                Arc::as_ptr(&buffer).cast_mut().cast(),
            )
        })?;
        let imported = Self {
            buffer,
            attachment: NonNull::new(attachment).ok_or(ENOMEM)?,
        };
        imported.buffer.map()?;
        Ok(imported)
    }

    /// The bytes from `offset` on, at most `len`. They stay as long as what is left in `held`.
    #[inline]
    pub fn mapped(
        &self,
        offset: u64,
        len: usize,
        write: bool,
        held: &mut Option<Mapped>,
        access: &Option<CpuAccess>,
    ) -> Result<Stretch, Unmapped> {
        let buffer = &self.buffer;
        let unmapped = || Unmapped {
            buffer: buffer.clone(),
            write,
        };
        if !matches!(access, Some(access) if access.is_for(buffer, write)) {
            return Err(unmapped());
        }
        if held.is_none() {
            *held = RwSem::try_read(buffer.clone());
        }
        let base = match held {
            Some(held) => held.base.load(Relaxed),
            None => 0,
        };
        let left = (buffer.len as u64).saturating_sub(offset);
        if base == 0 || left == 0 {
            *held = None;
            return Err(unmapped());
        }
        Ok(Stretch {
            addr: base.wrapping_add(offset as usize) as *mut u8,
            len: len.min(left as usize),
            io: buffer.is_io.load(Relaxed),
        })
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let buffer = &self.buffer;
        {
            let reserved = Reserved::new(buffer);
            buffer.ended.store(true, Relaxed);
            buffer.unmap(&reserved);
        }
        // SAFETY: By the type invariant the attachment is one of the buffer, and ours to end.
        unsafe { bindings::dma_buf_detach(buffer.dmabuf.as_ptr(), self.attachment.as_ptr()) };
    }
}

/// The right to access a mapping, which stays while this lives.
pub type Mapped = OwnedRead<Buffer>;

impl Buffer {
    /// Maps the buffer, unless it is mapped. May wait for the exporter.
    fn map(&self) -> Result {
        let _reserved = Reserved::new(self);
        if self.ended.load(Relaxed) {
            return Err(ENOENT);
        }
        if self.base.load(Relaxed) != 0 {
            return Ok(());
        }
        let dmabuf = self.dmabuf.as_ptr();
        let mut mapping = bindings::iosys_map::default();
        // SAFETY: The buffer is alive and its reservation lock is held. The exporter's moves of
        // the bytes to where they are now are waited for.
        unsafe {
            to_result(bindings::dma_buf_vmap(dmabuf, &mut mapping))?;
            let moved = bindings::dma_resv_wait_timeout(
                (*dmabuf).resv,
                bindings::dma_resv_usage_DMA_RESV_USAGE_KERNEL,
                true,
                isize::MAX as usize,
            );
            if moved < 0 {
                bindings::dma_buf_vunmap(dmabuf, &mut mapping);
                return Err(EINTR);
            }
            *self.mapping.get() = mapping;
            let base = mapping.__bindgen_anon_1.vaddr as usize;
            let _writer = self.lock.write();
            self.is_io.store(mapping.is_iomem, Relaxed);
            self.base.store(base.wrapping_add(self.offset), Relaxed);
        }
        Ok(())
    }

    /// Gives the mapping up, after waiting for those who use it.
    fn unmap(&self, _reserved: &Reserved<'_>) {
        // SAFETY: The caller holds the reservation lock.
        unsafe { self.unmap_reserved() };
    }

    /// # Safety
    ///
    /// The buffer's reservation lock is held.
    unsafe fn unmap_reserved(&self) {
        if self.base.load(Relaxed) == 0 {
            return;
        }
        {
            let _writer = self.lock.write();
            self.base.store(0, Relaxed);
        }
        // SAFETY: The reservation lock is held. By the type invariant the buffer was mapped, and
        // nobody uses the mapping any more.
        unsafe { bindings::dma_buf_vunmap(self.dmabuf.as_ptr(), self.mapping.get()) };
    }

    /// The exporter is about to move or revoke the buffer.
    ///
    /// # Safety
    ///
    /// To be called by the exporter, under the reservation lock, for an attachment of ours.
    unsafe extern "C" fn invalidate(attachment: *mut bindings::dma_buf_attachment) {
        // SAFETY: See `Imported::new`, which put the pointer there.
        unsafe {
            let buffer = &*(*attachment).importer_priv.cast::<Self>();
            buffer.unmap_reserved();
        }
    }
}

#[pinned_drop]
impl PinnedDrop for Buffer {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant the reference is ours. The mapping went with the region.
        unsafe { bindings::dma_buf_put(self.dmabuf.as_ptr()) };
    }
}

/// A buffer that must be mapped, or asked for CPU access, before it can be accessed.
pub struct Unmapped {
    buffer: Arc<Buffer>,
    write: bool,
}

impl Unmapped {
    /// Begins CPU access, unless `access` is just that and the buffer is mapped; then maps it. It
    /// may be unmapped again on return. May wait for the exporter; nothing may be held.
    ///
    /// After a move, access begins anew: an exporter that has revoked the buffer can refuse that
    /// with an error, but `dma_buf_vmap` warns of the exporter if it refuses the mapping.
    ///
    /// `EINTR` or `ERESTARTSYS` if a signal is pending.
    pub fn find(&self, access: &mut Option<CpuAccess>) -> Result {
        let begun = matches!(access, Some(access) if access.is_for(&self.buffer, self.write));
        if !begun || self.buffer.base.load(Relaxed) == 0 {
            *access = None;
            *access = Some(CpuAccess::begin(&self.buffer, self.write)?);
        }
        self.buffer.map()?;
        // Waits for a writer that was in the way.
        RwSem::read(&self.buffer).map(drop)
    }
}

/// The time in which a CPU accesses a buffer, between `begin_cpu_access` and `end_cpu_access`. To be
/// dropped with no lock held.
///
/// # Invariants
///
/// The former has succeeded.
pub struct CpuAccess {
    buffer: Arc<Buffer>,
    write: bool,
}

impl CpuAccess {
    fn begin(buffer: &Arc<Buffer>, write: bool) -> Result<Self> {
        // SAFETY: The buffer is alive.
        to_result(unsafe {
            bindings::dma_buf_begin_cpu_access(buffer.dmabuf.as_ptr(), direction(write))
        })?;
        // INVARIANT: It has just succeeded.
        Ok(Self {
            buffer: buffer.clone(),
            write,
        })
    }

    #[inline]
    fn is_for(&self, buffer: &Arc<Buffer>, write: bool) -> bool {
        Arc::ptr_eq(&self.buffer, buffer) && self.write == write
    }
}

impl Drop for CpuAccess {
    fn drop(&mut self) {
        // SAFETY: By the type invariant CPU access has begun, in the same direction.
        unsafe {
            bindings::dma_buf_end_cpu_access(self.buffer.dmabuf.as_ptr(), direction(self.write))
        };
    }
}

/// The direction, as `DMA_BUF_IOCTL_SYNC` has it for the same.
fn direction(write: bool) -> bindings::dma_data_direction {
    if write {
        bindings::dma_data_direction::DMA_TO_DEVICE
    } else {
        bindings::dma_data_direction::DMA_FROM_DEVICE
    }
}
