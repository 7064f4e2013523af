// SPDX-License-Identifier: GPL-2.0

//! Statements about what a test found.

use std::{fmt, io};

/// A test that cannot run here, and why.
#[derive(Debug)]
pub struct Skipped(pub String);

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skipped {}

/// Ends the test without a verdict.
pub fn skip<T>(reason: impl Into<String>) -> anyhow::Result<T> {
    Err(Skipped(reason.into()).into())
}

/// Fails unless two values are equal, and shows both.
#[macro_export]
macro_rules! ensure_eq {
    ($found:expr, $wanted:expr $(,)?) => {
        $crate::harness::check::equal(&$found, &$wanted, format_args!("{}", stringify!($found)))?
    };
    ($found:expr, $wanted:expr, $($what:tt)+) => {
        $crate::harness::check::equal(&$found, &$wanted, format_args!($($what)+))?
    };
}
/// The function behind [`ensure_eq`].
#[track_caller]
pub fn equal<A: PartialEq<B> + fmt::Debug, B: fmt::Debug>(
    found: &A,
    wanted: &B,
    what: fmt::Arguments<'_>,
) -> anyhow::Result<()> {
    let place = std::panic::Location::caller();
    anyhow::ensure!(
        found == wanted,
        "{what} is {found:?}, not {wanted:?} ({place})"
    );
    Ok(())
}

/// Fails unless two byte strings are equal, and shows the first difference.
#[track_caller]
pub fn same_bytes(found: &[u8], wanted: &[u8], what: &str) -> anyhow::Result<()> {
    let place = std::panic::Location::caller();
    let (there, due) = (found.len(), wanted.len());
    anyhow::ensure!(there == due, "{what}: {there} bytes, not {due} ({place})");
    let Some(at) = found.iter().zip(wanted).position(|(a, b)| a != b) else {
        return Ok(());
    };
    let (is, due) = (found[at], wanted[at]);
    let wrong = found.iter().zip(wanted).filter(|(a, b)| a != b).count();
    anyhow::bail!("{what}: byte {at} is {is:#04x}, not {due:#04x}; {wrong} wrong in all ({place})")
}

/// Fails unless a call failed with this errno value.
#[track_caller]
pub fn fails_with<T>(result: io::Result<T>, errno: i32, what: &str) -> anyhow::Result<()> {
    let place = std::panic::Location::caller();
    let wanted = io::Error::from_raw_os_error(errno);
    match result {
        Ok(_) => anyhow::bail!("{what}: succeeded instead of failing with {wanted} ({place})"),
        Err(error) if error.raw_os_error() == Some(errno) => Ok(()),
        Err(error) => anyhow::bail!("{what}: failed with {error} instead of {wanted} ({place})"),
    }
}

/// Turns a return value of libibverbs, 0 or an errno value, into a result.
pub fn status(errno: i32) -> io::Result<()> {
    match errno {
        0 => Ok(()),
        // Some calls return -1 and set errno.
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.abs())),
    }
}

/// Turns a pointer of libibverbs, where null is a failure, into a result.
pub fn pointer<T>(pointer: *mut T) -> io::Result<*mut T> {
    if pointer.is_null() {
        Err(io::Error::last_os_error())
    } else {
        Ok(pointer)
    }
}
