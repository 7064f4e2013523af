// SPDX-License-Identifier: GPL-2.0

//! Offences of Rust code: whether the detectors see into it.

use kernel::prelude::*;

/// Reads memory that is freed already, for KASAN.
#[no_mangle]
pub extern "C" fn offence_rust_use_after_free() -> c_int {
    let Ok(object) = KBox::new([7u64; 8], GFP_KERNEL) else {
        return ENOMEM.to_errno();
    };
    let pointer = KBox::into_raw(object);
    // SAFETY: The pointer was made by `into_raw` just above.
    drop(unsafe { KBox::from_raw(pointer) });
    // SAFETY: None. The memory is freed; that is the offence.
    let value = unsafe { pointer.cast::<u64>().add(1).read_volatile() };
    c_int::from(value == 1)
}

/// Adds one, which overflows for the greatest number: the overflow checks panic.
#[no_mangle]
#[inline(never)]
pub extern "C" fn offence_rust_overflow(n: usize) -> c_int {
    c_int::from(n + 1 == 1)
}

/// Forgets one object.
#[no_mangle]
pub extern "C" fn offence_rust_leak() -> c_int {
    match KBox::new([7u64; 40], GFP_KERNEL) {
        Ok(object) => {
            core::mem::forget(object);
            0
        }
        Err(_) => ENOMEM.to_errno(),
    }
}
