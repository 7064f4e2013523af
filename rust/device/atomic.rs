// SPDX-License-Identifier: GPL-2.0

//! Requests about single words of the other side's memory, and about when writes are seen.
//!
//! Atomic operations are those of the processor: they are atomic against each other, on whatever
//! device, and against the processor's own (`IB_ATOMIC_GLOB` in effect; `IB_ATOMIC_HCA` is what is
//! promised).

use super::{
    execute::Failure,
    qp::Qp,
    request::{
        AtomicOperation,
        Remote, //
    },
    status::Status,
    transfer::{
        Transfer,
        INVALID_REQUEST,
        REMOTE_ACCESS, //
    },
};
use crate::rdma::mr::{
    access::Access,
    bytes::Bytes,
    copying::{
        transfer,
        CopyError, //
    },
    stream::Stream,
};
use kernel::sync::{
    atomic::{
        Full,
        Release, //
    },
    barrier::smp_mb,
    Arc, //
};

/// Bytes of a word.
const WORD: u64 = size_of::<u64>() as u64;

impl Transfer<'_> {
    pub(super) fn atomic(
        &mut self,
        remote: Remote,
        operation: AtomicOperation,
    ) -> Result<(), Failure> {
        if self.request.length != WORD {
            return Err(Failure::Fatal(Status::LocalLength));
        }
        self.check_local(Access::LOCAL_WRITE)?;
        self.with_reading_peer(|this, peer| {
            check_alignment(remote)?;
            this.check_remote(peer, remote, WORD, Access::REMOTE_ATOMIC)?;
            let found = Stream::new(this.workspace.remote.bytes())
                .with_word(
                    || this.go_on(Some(peer)),
                    |word| match operation {
                        AtomicOperation::CompareAndSwap { compare, swap } => word
                            .cmpxchg(compare, swap, Full)
                            .unwrap_or_else(|found| found),
                        AtomicOperation::FetchAndAdd { add } => word.fetch_add(add, Full),
                    },
                )
                .map_err(|e| this.word_failed(peer, e))?
                .ok_or(INVALID_REQUEST)?;
            let found = found.to_ne_bytes();
            // SAFETY: The bytes outlive the copy.
            let from = unsafe { Bytes::of_kernel_memory(found.as_ptr(), found.len()) };
            transfer(this.workspace.local.bytes(), from, WORD, || {
                this.go_on(Some(peer))
            })
            .map_err(|_| Failure::Fatal(Status::LocalProtection))
        })
    }

    pub(super) fn atomic_write(&mut self, remote: Remote) -> Result<(), Failure> {
        if self.request.length != WORD {
            return Err(Failure::Fatal(Status::LocalLength));
        }
        self.check_local(Access::LOCAL_READ)?;
        let mut bytes = [0u8; WORD as usize];
        // SAFETY: The bytes outlive the copy, which is the only one to write them.
        let to = unsafe { Bytes::into_kernel_memory(bytes.as_mut_ptr(), bytes.len()) };
        self.push_bytes(to, None).map_err(|error| match error {
            CopyError::Stopped => Failure::Fatal(Status::Flushed),
            _ => Failure::Fatal(Status::LocalProtection),
        })?;
        self.with_reading_peer(|this, peer| {
            check_alignment(remote)?;
            this.check_remote(peer, remote, WORD, Access::REMOTE_WRITE)?;
            Stream::new(this.workspace.remote.bytes())
                .with_word(
                    || this.go_on(Some(peer)),
                    |word| word.store(u64::from_ne_bytes(bytes), Release),
                )
                .map_err(|e| this.word_failed(peer, e))?
                .ok_or(INVALID_REQUEST)
        })
    }

    /// What was written is in memory that all see, as soon as it is written: all that is left is
    /// to check the request, and to keep the order.
    pub(super) fn flush(
        &mut self,
        remote: Remote,
        length: Option<u32>,
        persistent: bool,
    ) -> Result<(), Failure> {
        self.with_peer(|this, peer| {
            if persistent {
                // No region has that right.
                return Err(REMOTE_ACCESS);
            }
            // A flush of a whole region needs its key only.
            let (at, length) = match length {
                Some(length) => (remote, u64::from(length)),
                None => {
                    let start = peer.domain.start_of(remote.key).ok_or(REMOTE_ACCESS)?;
                    let at = Remote {
                        addr: start,
                        ..remote
                    };
                    (at, 1)
                }
            };
            this.check_remote(peer, at, length, Access::FLUSH_GLOBAL)?;
            smp_mb(Full);
            Ok(())
        })
    }

    /// What an access to a word of the other side failed with.
    fn word_failed(&self, peer: &Arc<Qp>, error: CopyError) -> Failure {
        match error {
            CopyError::Stopped => self.stopped(peer),
            _ => REMOTE_ACCESS,
        }
    }
}

/// The word must be aligned in the addressing of its region (IBTA 1.7, C9-190).
fn check_alignment(remote: Remote) -> Result<(), Failure> {
    if remote.addr % WORD != 0 {
        return Err(INVALID_REQUEST);
    }
    Ok(())
}
