// SPDX-License-Identifier: GPL-2.0

//! Multicast groups: who receives what is sent to them (IBTA 1.7, 10.5).

use super::qp::Qp;
use kernel::{
    prelude::*,
    sync::{
        global_lock,
        Arc, //
    },
};

/// The most members of all groups.
pub const MAX_MEMBERS: u32 = 1 << 12;

/// The queue pair number that stands for all members of a group.
pub const ALL: u32 = 0x00ff_ffff;

struct Member {
    group: [u8; 16],
    qp: Arc<Qp>,
}

global_lock! {
    // SAFETY: Initialised by `init`, before anything else of the module runs.
    unsafe(uninit) static MEMBERS: Mutex<KVec<Member>> = KVec::new();
}

/// Prepares the list of members.
///
/// # Safety
///
/// Called once, before any other function of this file.
pub unsafe fn init() {
    // SAFETY: By the requirements of this function.
    unsafe { MEMBERS.init() };
}

/// Frees the list of members, which is empty by now.
pub fn end() {
    *MEMBERS.lock() = KVec::new();
}

/// Whether `gid` is that of a group.
pub fn is_group(gid: &[u8; 16]) -> bool {
    // ff00::/8, or an IPv4 group (224.0.0.0/4) that is mapped to IPv6.
    const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    let [first, .., v4, _, _, _] = *gid;
    first == 0xff || (gid.starts_with(&MAPPED) && v4 & 0xf0 == 0xe0)
}

/// Adds a member. `EINVAL` if it is no group, `EEXIST` if it is a member, `ENOMEM` if there are too
/// many.
pub fn attach(qp: &Arc<Qp>, gid: &[u8; 16]) -> Result {
    if !is_group(gid) {
        return Err(EINVAL);
    }
    let mut members = MEMBERS.lock();
    let same = |member: &Member| member.group == *gid && Arc::ptr_eq(&member.qp, qp);
    if members.iter().any(same) {
        return Err(EEXIST);
    }
    if members.len() >= MAX_MEMBERS as usize {
        return Err(ENOMEM);
    }
    let member = Member {
        group: *gid,
        qp: qp.clone(),
    };
    members.push(member, GFP_KERNEL_ACCOUNT)?;
    Ok(())
}

/// Removes a member. `EINVAL` if it is none.
pub fn detach(qp: &Arc<Qp>, gid: &[u8; 16]) -> Result {
    let mut members = MEMBERS.lock();
    let before = members.len();
    members.retain(|member| member.group != *gid || !Arc::ptr_eq(&member.qp, qp));
    if members.len() == before {
        return Err(EINVAL);
    }
    Ok(())
}

/// Removes a queue pair from all groups.
pub fn forget(qp: &Arc<Qp>) {
    MEMBERS.lock().retain(|member| !Arc::ptr_eq(&member.qp, qp));
}

/// The `index`th of those who receive what `sender` sends to the group, which does not hear itself.
pub fn receiver(gid: &[u8; 16], sender: &Arc<Qp>, index: usize) -> Option<Arc<Qp>> {
    let members = MEMBERS.lock();
    let hears = |member: &&Member| member.group == *gid && !Arc::ptr_eq(&member.qp, sender);
    members
        .iter()
        .filter(hears)
        .nth(index)
        .map(|m| m.qp.clone())
}
