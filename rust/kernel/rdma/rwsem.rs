// SPDX-License-Identifier: GPL-2.0

//! A lock of many readers or one writer, all of whom may sleep.
//!
//! C header: [`include/linux/rwsem.h`](srctree/include/linux/rwsem.h)

use crate::bindings;
use core::{
    mem::ManuallyDrop,
    ops::Deref, //
};
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        LockClassKey, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};

/// `struct rw_semaphore`.
#[pin_data]
pub struct RwSem {
    #[pin]
    sem: Opaque<bindings::rw_semaphore>,
}

// SAFETY: A semaphore is made for use by several threads.
unsafe impl Send for RwSem {}
// SAFETY: As above.
unsafe impl Sync for RwSem {}

/// Something with one lock, which readers may hold along with a reference to the whole.
pub trait HasRwSem: Sized {
    /// The lock.
    fn rwsem(&self) -> &RwSem;

    /// Gives up the reference of a reader, who may still be a reader of other locks.
    #[inline]
    fn give_up(this: Arc<Self>) {
        drop(this);
    }
}

impl RwSem {
    /// Makes a lock that nobody holds.
    pub fn new(name: &'static CStr, key: Pin<&'static LockClassKey>) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: The slot is valid for writes, name and key are there for ever.
            sem <- Opaque::ffi_init(|sem| unsafe {
                bindings::__init_rwsem(sem, name.as_char_ptr(), key.as_ptr())
            }),
        })
    }

    /// Becomes a reader of `owner`'s lock if that needs no waiting: no writer holds the lock or
    /// waits for it. May be called by those who are readers already, of this or other locks.
    #[inline]
    pub fn try_read<T: HasRwSem>(owner: Arc<T>) -> Option<OwnedRead<T>> {
        // SAFETY: The semaphore is initialised.
        let got = unsafe { bindings::down_read_trylock(owner.rwsem().sem.get()) };
        if got == 0 {
            T::give_up(owner);
            return None;
        }
        // INVARIANT: The lock has just been taken.
        Some(OwnedRead {
            owner: ManuallyDrop::new(owner),
            _thread: NotThreadSafe,
        })
    }

    /// Becomes a reader of `owner`'s lock; `EINTR` if the process dies first.
    pub fn read<T: HasRwSem>(owner: &Arc<T>) -> Result<OwnedRead<T>> {
        // SAFETY: The semaphore is initialised.
        to_result(unsafe { bindings::down_read_killable(owner.rwsem().sem.get()) })?;
        // INVARIANT: The lock has just been taken.
        Ok(OwnedRead {
            owner: ManuallyDrop::new(owner.clone()),
            _thread: NotThreadSafe,
        })
    }

    /// Becomes the writer, after all readers have left.
    pub fn write(&self) -> Write<'_> {
        // SAFETY: The semaphore is initialised.
        unsafe { bindings::down_write(self.sem.get()) };
        Write(self, NotThreadSafe)
    }

    /// Becomes the writer, if that needs no waiting.
    pub fn try_write(&self) -> Option<Write<'_>> {
        // SAFETY: The semaphore is initialised.
        let got = unsafe { bindings::down_write_trylock(self.sem.get()) };
        (got != 0).then_some(Write(self, NotThreadSafe))
    }
}

/// A reader, which keeps the owner of the lock alive.
///
/// # Invariants
///
/// The lock of `owner` is held for reading by this value's thread. `owner` is there until the value
/// is dropped.
pub struct OwnedRead<T: HasRwSem> {
    owner: ManuallyDrop<Arc<T>>,
    _thread: NotThreadSafe,
}

impl<T: HasRwSem> Deref for OwnedRead<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.owner
    }
}

impl<T: HasRwSem> Drop for OwnedRead<T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant this thread holds the lock for reading, and the owner is
        // there until now.
        let owner = unsafe {
            bindings::up_read(self.owner.rwsem().sem.get());
            ManuallyDrop::take(&mut self.owner)
        };
        T::give_up(owner);
    }
}

/// The writer. The second field keeps it in the thread that took the lock.
pub struct Write<'a>(&'a RwSem, NotThreadSafe);

impl Drop for Write<'_> {
    fn drop(&mut self) {
        // SAFETY: `write` or `try_write` took the lock in this thread.
        unsafe { bindings::up_write(self.0.sem.get()) };
    }
}
