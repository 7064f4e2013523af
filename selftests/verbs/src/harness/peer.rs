// SPDX-License-Identifier: GPL-2.0

//! A second process.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
};

use anyhow::Context as _;

use super::{Address, Qp};

/// A child process, and a stream to it.
pub struct Peer {
    pub process: libc::pid_t,
    pub stream: UnixStream,
}

impl Peer {
    /// Starts a process that runs `body`. The caller must not have opened the
    /// device yet: verbs objects do not survive a fork.
    pub fn start(body: impl FnOnce(UnixStream) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        // SAFETY: the test runs in a process with one thread.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()).context("fork"),
            0 => {
                drop(ours);
                let outcome = body(theirs);
                if let Err(error) = &outcome {
                    println!("the peer process: {error:#}");
                }
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(outcome.is_err().into()) }
            }
            process => Ok(Self {
                process,
                stream: ours,
            }),
        }
    }

    /// Waits for the process, and fails if it failed.
    pub fn finish(self) -> anyhow::Result<()> {
        let status = self.reap()?;
        anyhow::ensure!(
            libc::WIFEXITED(status),
            "the peer process ended by a signal"
        );
        anyhow::ensure!(libc::WEXITSTATUS(status) == 0, "the peer process failed");
        Ok(())
    }

    /// Sends the process the signal that kills it.
    pub fn strike(&self) {
        // SAFETY: a child of ours that was not waited for yet.
        unsafe { libc::kill(self.process, libc::SIGKILL) };
    }

    /// Ends the process as it is.
    pub fn kill(self) -> anyhow::Result<()> {
        self.strike();
        let status = self.reap()?;
        anyhow::ensure!(
            libc::WIFSIGNALED(status),
            "the peer process ended before it was killed"
        );
        Ok(())
    }

    fn reap(&self) -> io::Result<i32> {
        let mut status = 0;
        // SAFETY: a child of ours.
        match unsafe { libc::waitpid(self.process, &mut status, 0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(status),
        }
    }
}

/// Tells the peer where this queue pair is, and learns where its own is.
pub fn exchange(stream: &mut UnixStream, qp: &Qp) -> anyhow::Result<Address> {
    stream.write_all(&qp.address().to_bytes())?;
    let mut bytes = [0; 24];
    stream
        .read_exact(&mut bytes)
        .context("the peer's address")?;
    Ok(Address::from_bytes(bytes))
}

/// Sends a number.
pub fn tell(stream: &mut UnixStream, value: u64) -> anyhow::Result<()> {
    stream
        .write_all(&value.to_ne_bytes())
        .context("tell the peer")
}

/// Receives a number.
pub fn hear(stream: &mut UnixStream) -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    stream
        .read_exact(&mut bytes)
        .context("hear from the peer")?;
    Ok(u64::from_ne_bytes(bytes))
}
