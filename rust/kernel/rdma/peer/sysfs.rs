// SPDX-License-Identifier: GPL-2.0

//! `/sys/kernel/mm/memory_peers`: a folder for each client.
//!
//! C headers: [`include/linux/kobject.h`](srctree/include/linux/kobject.h),
//! [`include/linux/sysfs.h`](srctree/include/linux/sysfs.h)
//!
//! Communication libraries look for the folder of a client to find out whether it is there.

use super::callbacks::Version;
use crate::bindings::{
    self,
    attribute,
    kobj_attribute,
    kobject, //
};
use core::ptr::NonNull;
use kernel::{
    c_str,
    error::to_result,
    prelude::*,
    str::CStr,
    sync::atomic::{
        Acquire,
        Atomic,
        Relaxed,
        Release, //
    },
    types::Opaque, //
};

const READABLE: bindings::umode_t = 0o444;

/// A number that a file shows.
///
/// # Invariants
///
/// `attribute` comes first, and its `show` is [`Counter::show`].
#[repr(C)]
pub(super) struct Counter {
    attribute: Opaque<kobj_attribute>,
    value: Atomic<u64>,
}

/// A text that a file shows.
///
/// # Invariants
///
/// `attribute` comes first, and its `show` is [`Label::show`].
#[repr(C)]
struct Label {
    attribute: Opaque<kobj_attribute>,
    text: Version,
}

type Show = unsafe extern "C" fn(*mut kobject, *mut kobj_attribute, *mut c_char) -> isize;

fn new_attribute(name: &'static CStr, show: Show) -> Opaque<kobj_attribute> {
    let mut fresh = kobj_attribute::default();
    fresh.attr.name = name.as_char_ptr();
    fresh.attr.mode = READABLE;
    fresh.__bindgen_anon_1.show = Some(show);
    // SAFETY: The attribute is ours alone.
    unsafe { bindings::mrx_sysfs_attr_init(&mut fresh.attr) };
    Opaque::new(fresh)
}

impl Counter {
    fn new(name: &'static CStr) -> Self {
        // INVARIANT: The attribute has the function.
        Self {
            attribute: new_attribute(name, Self::show),
            value: Atomic::new(0u64),
        }
    }

    /// Counts `more`.
    pub(super) fn add(&self, more: u64) {
        self.value.fetch_add(more, Relaxed);
    }

    /// # Safety
    ///
    /// To be called by sysfs for an attribute of a `Counter`, with a page to write to.
    unsafe extern "C" fn show(
        _kobj: *mut kobject,
        attr: *mut kobj_attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: By the type invariant the attribute is the start of a counter, which sysfs keeps
        // until the file is removed.
        let value = unsafe { (*attr.cast::<Self>()).value.load(Relaxed) };
        // SAFETY: `buf` is the page that sysfs passes.
        unsafe { bindings::sysfs_emit(buf, c_str!("%llu\n").as_char_ptr(), value) as isize }
    }
}

impl Label {
    fn new(name: &'static CStr, text: Version) -> Self {
        // INVARIANT: The attribute has the function.
        Self {
            attribute: new_attribute(name, Self::show),
            text,
        }
    }

    /// # Safety
    ///
    /// To be called by sysfs for an attribute of a `Label`, with a page to write to.
    unsafe extern "C" fn show(
        _kobj: *mut kobject,
        attr: *mut kobj_attribute,
        buf: *mut c_char,
    ) -> isize {
        // SAFETY: As in `Counter::show`.
        let text = unsafe { (*attr.cast::<Self>()).text.get().as_char_ptr() };
        // SAFETY: `buf` is the page that sysfs passes, and `text` ends with a zero byte.
        unsafe { bindings::sysfs_emit(buf, c_str!("%s\n").as_char_ptr(), text) as isize }
    }
}

/// What a client has done, in numbers.
#[pin_data]
pub(super) struct Statistics {
    version: Label,
    /// Ranges that were mapped.
    pub(super) alloc_mrs: Counter,
    /// Ranges, of those, that were released.
    pub(super) dealloc_mrs: Counter,
    /// Pages that were mapped, of the size that the client says.
    pub(super) reg_pages: Counter,
    /// Pages, of those, that were unmapped.
    pub(super) dereg_pages: Counter,
    /// Bytes that were mapped.
    pub(super) reg_bytes: Counter,
    /// Bytes, of those, that were unmapped.
    pub(super) dereg_bytes: Counter,
    /// Ranges that the client took back.
    pub(super) free_callbacks: Counter,
    #[pin]
    _pinned: core::marker::PhantomPinned,
}

// SAFETY: sysfs only reads the attributes, and the rest is atomic or never changes.
unsafe impl Send for Statistics {}
// SAFETY: As above.
unsafe impl Sync for Statistics {}

impl Statistics {
    pub(super) fn new(version: Version) -> impl PinInit<Self> {
        pin_init!(Self {
            version: Label::new(c_str!("version"), version),
            alloc_mrs: Counter::new(c_str!("num_alloc_mrs")),
            dealloc_mrs: Counter::new(c_str!("num_dealloc_mrs")),
            reg_pages: Counter::new(c_str!("num_reg_pages")),
            dereg_pages: Counter::new(c_str!("num_dereg_pages")),
            reg_bytes: Counter::new(c_str!("num_reg_bytes")),
            dereg_bytes: Counter::new(c_str!("num_dereg_bytes")),
            free_callbacks: Counter::new(c_str!("num_free_callbacks")),
            _pinned: core::marker::PhantomPinned,
        })
    }

    /// The attributes, as a list that C reads.
    fn attributes(&self) -> [*const attribute; 9] {
        let raw = |attribute: &Opaque<kobj_attribute>| attribute.get().cast_const().cast();
        [
            raw(&self.version.attribute),
            raw(&self.alloc_mrs.attribute),
            raw(&self.dealloc_mrs.attribute),
            raw(&self.reg_pages.attribute),
            raw(&self.dereg_pages.attribute),
            raw(&self.reg_bytes.attribute),
            raw(&self.dereg_bytes.attribute),
            raw(&self.free_callbacks.attribute),
            core::ptr::null(),
        ]
    }
}

/// The folder that holds all others, or null.
static PARENT: Atomic<usize> = Atomic::new(0);

/// The folder that holds all others, while this exists.
pub(super) struct Parent(Option<NonNull<kobject>>);

// SAFETY: sysfs objects may be put from any thread.
unsafe impl Send for Parent {}
// SAFETY: A shared reference is of no use.
unsafe impl Sync for Parent {}

impl Parent {
    /// Makes the folder. Without it clients work all the same.
    pub(super) fn new() -> Self {
        // SAFETY: The helper returns null or an object with a reference of ours, which is given
        // back; the new folder has its own reference to its parent.
        let parent = unsafe {
            let mm = bindings::mrx_mm_kobj();
            let parent = if mm.is_null() {
                core::ptr::null_mut()
            } else {
                bindings::kobject_create_and_add(c_str!("memory_peers").as_char_ptr(), mm)
            };
            bindings::kobject_put(mm);
            parent
        };
        if parent.is_null() {
            pr_warn!("there is no /sys/kernel/mm/memory_peers\n");
        }
        PARENT.store(parent as usize, Release);
        Self(NonNull::new(parent))
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        PARENT.store(0, Release);
        if let Some(parent) = self.0 {
            // SAFETY: `new` made the object.
            unsafe { bindings::kobject_put(parent.as_ptr()) };
        }
    }
}

/// The folder of a client.
pub(super) struct Folder(NonNull<kobject>);

// SAFETY: sysfs objects may be removed from any thread.
unsafe impl Send for Folder {}

impl Folder {
    /// Makes the folder `name` that shows `statistics`; `None` if there is no folder to put it in.
    ///
    /// # Safety
    ///
    /// `statistics` stay where they are until the result has been dropped.
    pub(super) unsafe fn new(name: &CStr, statistics: &Statistics) -> Result<Option<Self>> {
        let parent = PARENT.load(Acquire) as *mut kobject;
        if parent.is_null() {
            return Ok(None);
        }
        // SAFETY: The parent exists until the module is unloaded, which clients prevent.
        let kobj = unsafe { bindings::kobject_create_and_add(name.as_char_ptr(), parent) };
        let folder = Self(NonNull::new(kobj).ok_or(ENOMEM)?);
        let attributes = statistics.attributes();
        // SAFETY: The object is live, and the list ends with a null pointer. sysfs keeps pointers
        // to the attributes only, which stay by the requirements of this function.
        to_result(unsafe { bindings::sysfs_create_files(kobj, attributes.as_ptr()) })?;
        Ok(Some(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Removes the files, and waits for those who read them, whatever else may hold a reference.
        // SAFETY: `new` made the object.
        unsafe {
            bindings::kobject_del(self.0.as_ptr());
            bindings::kobject_put(self.0.as_ptr());
        }
    }
}
