// SPDX-License-Identifier: GPL-2.0

//! What layouts need from their surroundings: memory and shared ownership.
//!
//! The one place where the kernel and the host differ. `MODULE` is what Kbuild defines when it
//! compiles a module.

use super::LayoutError;
use core::{
    mem::size_of,
    ops::Deref, //
};

pub use self::imp::Arc;
pub(super) use self::imp::{
    count_visit,
    share, //
};

/// A growing list of `T` whose growth can fail.
pub(super) struct Table<T>(imp::Vector<T>);

impl<T> Table<T> {
    /// An empty table with room for `capacity` rows.
    ///
    /// Fails with [`LayoutError::NoMemory`].
    pub(super) fn with_capacity(capacity: usize) -> Result<Self, LayoutError> {
        imp::with_capacity(capacity).map(Self)
    }

    /// Appends a row. Fails with [`LayoutError::NoMemory`].
    pub(super) fn push(&mut self, row: T) -> Result<(), LayoutError> {
        imp::push(&mut self.0, row)
    }

    /// The last row, to change it.
    pub(super) fn last_mut(&mut self) -> Option<&mut T> {
        self.0.last_mut()
    }

    /// Bytes that the table holds allocated.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity().saturating_mul(size_of::<T>())
    }
}

impl<T> Deref for Table<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(MODULE)]
mod imp {
    use super::super::{
        ErrorClass,
        LayoutError, //
    };
    use kernel::{
        alloc::{
            flags::GFP_KERNEL_ACCOUNT,
            KVVec, //
        },
        error::{
            code,
            Error, //
        },
    };

    pub use kernel::sync::Arc;

    pub(super) type Vector<T> = KVVec<T>;

    // A user decides how large a layout is, so its memory is charged to that user.
    pub(super) fn with_capacity<T>(capacity: usize) -> Result<Vector<T>, LayoutError> {
        KVVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT).map_err(|_| LayoutError::NoMemory)
    }

    pub(super) fn push<T>(vector: &mut Vector<T>, row: T) -> Result<(), LayoutError> {
        vector
            .push(row, GFP_KERNEL_ACCOUNT)
            .map_err(|_| LayoutError::NoMemory)
    }

    /// Moves `value` to where it can be shared. Fails with [`LayoutError::NoMemory`].
    pub(in super::super) fn share<T>(value: T) -> Result<Arc<T>, LayoutError> {
        Arc::new(value, GFP_KERNEL_ACCOUNT).map_err(|_| LayoutError::NoMemory)
    }

    /// Notes that a search looks at a row of a table; costs nothing here.
    #[inline(always)]
    pub(in super::super) fn count_visit() {}

    impl From<LayoutError> for Error {
        fn from(error: LayoutError) -> Error {
            match error.class() {
                ErrorClass::Input => code::EINVAL,
                ErrorClass::Unsupported => code::EOPNOTSUPP,
                ErrorClass::Memory => code::ENOMEM,
            }
        }
    }
}

#[cfg(not(MODULE))]
mod imp {
    use super::super::LayoutError;
    use std::vec::Vec;

    pub use std::sync::Arc;

    pub(super) type Vector<T> = Vec<T>;

    pub(super) fn with_capacity<T>(capacity: usize) -> Result<Vector<T>, LayoutError> {
        let mut vector = Vec::new();
        probe::grant_allocation(capacity > 0)?;
        vector
            .try_reserve_exact(capacity)
            .map_err(|_| LayoutError::NoMemory)?;
        Ok(vector)
    }

    pub(super) fn push<T>(vector: &mut Vector<T>, row: T) -> Result<(), LayoutError> {
        probe::grant_allocation(vector.len() == vector.capacity())?;
        vector.try_reserve(1).map_err(|_| LayoutError::NoMemory)?;
        vector.push(row);
        Ok(())
    }

    pub(in super::super) fn share<T>(value: T) -> Result<Arc<T>, LayoutError> {
        Ok(Arc::new(value))
    }

    pub(in super::super) fn count_visit() {
        probe::visit();
    }

    /// What only tests need: the cost of searches, and allocations that fail.
    pub mod probe {
        use super::LayoutError;
        use std::cell::Cell;

        std::thread_local! {
            static VISITS: Cell<u64> = const { Cell::new(0) };
            static GRANTS: Cell<u64> = const { Cell::new(u64::MAX) };
        }

        pub(super) fn visit() {
            VISITS.set(VISITS.get().wrapping_add(1));
        }

        pub(super) fn grant_allocation(needed: bool) -> Result<(), LayoutError> {
            if needed {
                let left = GRANTS.get().checked_sub(1).ok_or(LayoutError::NoMemory)?;
                GRANTS.set(left);
            }
            Ok(())
        }

        /// Table rows that `f` looks at in searches, beside what `f` returns.
        pub fn visits<R>(f: impl FnOnce() -> R) -> (u64, R) {
            let before = VISITS.get();
            let result = f();
            (VISITS.get().wrapping_sub(before), result)
        }

        /// Runs `f` with every table allocation after the first `grants` failing.
        pub fn with_allocations<R>(grants: u64, f: impl FnOnce() -> R) -> R {
            GRANTS.set(grants);
            let result = f();
            GRANTS.set(u64::MAX);
            result
        }
    }
}

#[cfg(not(MODULE))]
pub use self::imp::probe;
