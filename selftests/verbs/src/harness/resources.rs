// SPDX-License-Identifier: GPL-2.0

//! What the kernel counts of a device's objects.

use std::{process::Command, time::Duration};

use anyhow::Context as _;

use super::until;

/// The summary of `rdma resource` for a device: a name and a number for each
/// kind of object. What belongs to no process, such as the queue pair of the
/// connection manager, counts, too.
pub fn count(device: &str) -> anyhow::Result<String> {
    let output = Command::new("rdma")
        .args(["resource", "show", device])
        .output()
        .context("run rdma (of iproute2)")?;
    anyhow::ensure!(
        output.status.success(),
        "rdma resource show {device} failed"
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let (_, counts) = text
        .split_once(": ")
        .context("the answer of rdma resource")?;
    let (_, counts) = counts
        .split_once(": ")
        .context("the answer of rdma resource")?;
    Ok(counts.trim().to_owned())
}

/// Fails unless the counts become what they were.
pub fn come_back_to(device: &str, before: &str) -> anyhow::Result<()> {
    let mut last = Ok(String::new());
    let back = until(Duration::from_secs(20), || {
        last = count(device);
        last.as_ref()
            .is_ok_and(|counts| counts == before)
            .then_some(())
    });
    match back {
        Some(()) => Ok(()),
        None => anyhow::bail!("the device has {} and had {before}", last?),
    }
}
