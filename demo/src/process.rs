// SPDX-License-Identifier: GPL-2.0

//! A second process, and the stream between the two.

use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::Context as _;

use crate::verbs::{Address, QueuePair};

/// How long one side waits for a word of the other. A side that ends closes its
/// stream, so that this is only reached when one hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A stream to the other process.
pub struct Stream(UnixStream);

impl Stream {
    /// Sends a number.
    pub fn tell(&mut self, value: u64) -> anyhow::Result<()> {
        self.0
            .write_all(&value.to_ne_bytes())
            .context("tell the other process")
    }

    /// Receives a number.
    pub fn hear(&mut self) -> anyhow::Result<u64> {
        let mut bytes = [0; 8];
        self.0
            .read_exact(&mut bytes)
            .context("hear from the other process")?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Sends a text.
    pub fn tell_text(&mut self, text: &str) -> anyhow::Result<()> {
        self.tell(text.len() as u64)?;
        self.0
            .write_all(text.as_bytes())
            .context("tell the other process")
    }

    /// Receives a text.
    pub fn hear_text(&mut self) -> anyhow::Result<String> {
        let mut bytes = vec![0; usize::try_from(self.hear()?)?];
        self.0
            .read_exact(&mut bytes)
            .context("hear from the other process")?;
        Ok(String::from_utf8(bytes)?)
    }

    /// Waits until both sides are here.
    pub fn meet(&mut self) -> anyhow::Result<()> {
        self.tell(0)?;
        self.hear().map(drop)
    }

    /// Connects a queue pair with the one that the other process gives to this
    /// function at the same time.
    pub fn connect(&mut self, qp: &QueuePair) -> anyhow::Result<()> {
        let own = qp.address();
        self.tell(own.number.into())?;
        self.0.write_all(&own.gid)?;
        let mut other = Address {
            number: self.hear()? as u32,
            ..own
        };
        self.0.read_exact(&mut other.gid)?;
        qp.connect(other)?;
        self.meet()
    }
}

/// A child process.
pub struct Peer {
    process: libc::pid_t,
    /// The stream to it.
    pub stream: Stream,
}

impl Peer {
    /// Starts a process that runs `body`. Verbs objects do not survive a fork,
    /// so each side opens the device for itself, afterwards. The calling
    /// process has one thread.
    pub fn start(body: impl FnOnce(Stream) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        theirs.set_read_timeout(Some(PATIENCE))?;
        // What stands in our buffer shall not be printed twice.
        io::stdout().flush()?;
        // SAFETY: this process has one thread.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()).context("fork"),
            0 => {
                drop(ours);
                // SAFETY: the child shall not outlive us.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let outcome = body(Stream(theirs));
                if let Err(error) = &outcome {
                    eprintln!("the second process: {error:#}");
                }
                // SAFETY: ends the process, which has released what it had.
                unsafe { libc::_exit(outcome.is_err().into()) }
            }
            process => Ok(Self {
                process,
                stream: Stream(ours),
            }),
        }
    }

    /// The id of the process.
    pub fn id(&self) -> i32 {
        self.process
    }

    /// Waits for the end of the process, and fails if it failed.
    pub fn finish(self) -> anyhow::Result<()> {
        let mut status = 0;
        // SAFETY: a child of ours that nothing else waits for.
        if unsafe { libc::waitpid(self.process, &mut status, 0) } < 0 {
            return Err(io::Error::last_os_error()).context("wait for the second process");
        }
        anyhow::ensure!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the second process failed"
        );
        Ok(())
    }
}
