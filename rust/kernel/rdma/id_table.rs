// SPDX-License-Identifier: GPL-2.0

//! A table that hands out numbers for shared objects.
//!
//! C header: [`include/linux/xarray.h`](srctree/include/linux/xarray.h)

use crate::bindings;
use core::{
    marker::PhantomData,
    ops::Range,
    ptr, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// Maps numbers to `Arc<T>`. Numbers are given out cyclically, so that one that was given back is
/// not soon met again.
///
/// A look-up costs the depth of the tree, which grows with the logarithm (base 64) of the largest
/// number, and takes no sleeping lock.
///
/// # Invariants
///
/// Every entry of `xa` is a pointer from `Arc::<T>::into_raw` that the table owns.
#[pin_data(PinnedDrop)]
pub struct IdTable<T> {
    #[pin]
    xa: Opaque<bindings::xarray>,
    range: Range<u32>,
    next: core::cell::UnsafeCell<u32>,
    _owns: PhantomData<Arc<T>>,
}

// SAFETY: All access to `xa` and `next` is under the lock of `xa`; what the table hands out are
// `Arc<T>`s, which other threads may hold if `T` is `Send` and `Sync`.
unsafe impl<T: Send + Sync> Send for IdTable<T> {}
// SAFETY: As above.
unsafe impl<T: Send + Sync> Sync for IdTable<T> {}

/// The lock of a table, held.
struct Locked<'a>(&'a Opaque<bindings::xarray>);

impl<'a> Locked<'a> {
    fn new(xa: &'a Opaque<bindings::xarray>) -> Self {
        // SAFETY: An `IdTable` initialises its array before anything can lock it.
        unsafe { bindings::xa_lock(xa.get()) };
        Self(xa)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: `new` took the lock in this context.
        unsafe { bindings::xa_unlock(self.0.get()) };
    }
}

impl<T> IdTable<T> {
    /// Makes an empty table that gives out the numbers of `range`, of which the first is `first`.
    pub fn new(range: Range<u32>, first: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid for writes while the closure runs. The flags are those of
            // `XA_FLAGS_ALLOC`.
            xa <- Opaque::ffi_init(|xa| unsafe {
                bindings::xa_init_flags(xa, bindings::XA_FLAGS_ALLOC)
            }),
            range,
            next: core::cell::UnsafeCell::new(first),
            _owns: PhantomData,
        })
    }

    /// Sets a number aside. Nothing is found under it until [`Reserved::fill`].
    ///
    /// `ENOSPC` if every number is taken, `ENOMEM` if there is no memory.
    pub fn reserve(&self) -> Result<Reserved<'_, T>> {
        let mut id = 0;
        let limit = bindings::xa_limit {
            max: self.range.end - 1,
            min: self.range.start,
        };
        let lock = Locked::new(&self.xa);
        // SAFETY: The array is initialised and its lock is held; `next` is only used under that
        // lock. A null entry reserves the index.
        let ret = unsafe {
            bindings::__xa_alloc_cyclic(
                self.xa.get(),
                &mut id,
                ptr::null_mut(),
                limit,
                self.next.get(),
                bindings::GFP_KERNEL,
            )
        };
        drop(lock);
        // One means that the numbers have wrapped around, which is no error.
        to_result(ret.min(0)).map_err(|e| if e == EBUSY { ENOSPC } else { e })?;
        Ok(Reserved { table: self, id })
    }

    /// Finds the object of number `id`.
    #[inline]
    pub fn get(&self, id: u32) -> Option<Arc<T>> {
        let _lock = Locked::new(&self.xa);
        // SAFETY: The array is initialised.
        let entry = unsafe { bindings::xa_load(self.xa.get(), id as usize) };
        if entry.is_null() {
            return None;
        }
        // SAFETY: By the type invariant `entry` came from `Arc::into_raw`, and the table's own
        // reference, which cannot be dropped while the lock is held, keeps it alive. The reference
        // that `from_raw` assumes stays with the table.
        let borrowed = core::mem::ManuallyDrop::new(unsafe { Arc::from_raw(entry.cast::<T>()) });
        Some((*borrowed).clone())
    }

    /// Takes number `id` out of the table and gives it back.
    pub fn remove(&self, id: u32) -> Option<Arc<T>> {
        // SAFETY: The array is initialised; `xa_erase` takes its lock itself.
        let entry = unsafe { bindings::xa_erase(self.xa.get(), id as usize) };
        // SAFETY: By the type invariant the entry came from `Arc::into_raw`; the table's reference
        // passes to the caller.
        (!entry.is_null()).then(|| unsafe { Arc::from_raw(entry.cast::<T>()) })
    }
}

/// A number of a table that nothing is stored under yet. Given back when dropped.
pub struct Reserved<'a, T> {
    table: &'a IdTable<T>,
    id: u32,
}

impl<T> Reserved<'_, T> {
    /// The number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Stores `object` under the number; from now on it is found.
    pub fn fill(self, object: Arc<T>) {
        let entry = Arc::into_raw(object).cast_mut();
        // SAFETY: The array is initialised. The index is reserved, so its slot exists and storing
        // to it allocates nothing and cannot fail. The array's reference is the one given up by
        // `into_raw`.
        unsafe {
            bindings::xa_store(
                self.table.xa.get(),
                self.id as usize,
                entry.cast(),
                bindings::GFP_KERNEL,
            )
        };
        core::mem::forget(self);
    }
}

impl<T> Drop for Reserved<'_, T> {
    fn drop(&mut self) {
        // SAFETY: The array is initialised; erasing a reserved index gives it back.
        unsafe { bindings::xa_erase(self.table.xa.get(), self.id as usize) };
    }
}

#[pinned_drop]
impl<T> PinnedDrop for IdTable<T> {
    fn drop(self: Pin<&mut Self>) {
        // Objects remove themselves before their table goes, so it is empty here.
        // SAFETY: The array is initialised and nobody else can use it any more.
        unsafe { bindings::xa_destroy(self.xa.get()) };
    }
}
