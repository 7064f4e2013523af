// SPDX-License-Identifier: GPL-2.0

//! Memory regions: named stretches of memory that work requests may reach.
//!
//! - [`access`], [`key`]: what a region may be used for, and by what it is named.
//! - [`memory`]: the bytes of a region that has some of its own.
//! - [`fast`]: pages that a work request of the kernel registers.
//! - [`layout`]: arithmetic of regions that are made of pieces of others.
//! - [`region`]: a region, from its registration to its end.
//! - [`binding`]: setting a layout on a region, and the rules for it.
//! - [`window`], [`pieces`], [`stream`]: the part of a region that a work request names, the pieces
//!   and the contiguous stretches of kernel memory that it consists of; [`side`]: all that it names on one side;
//!   [`bytes`]: one side of a copy; [`copying`] from one to another.
//! - [`create`]: `ib_create_mr` and its kin, for the kernel; [`extension`]: for which devices.
//! - [`memory_window`]: keys of parts of regions, given out and taken back by work requests.
//! - [`methods`]: all of it in the uverbs tree; [`describe`]: what a person sees of it.
//!
//! # Life of a region
//!
//! A region is owned by its entry in the [`region::RegionTable`] of its device, which
//! deregistration removes. Others hold references: layouts that were set over the region and memory
//! windows bound to it, which are counted as users and make deregistration fail; work requests, for
//! as long as they execute; and queued advice. Deregistration stops the latter and takes the memory
//! away (see [`Guarded`](super::gate::Guarded)), so that the references that are left reach nothing.
//!
//! # Locks
//!
//! [`region::Domain::layouts`] guards who uses whom, and is held while a layout is set and while a
//! region is deregistered. Inside of it: the region's own lock, which guards its key and layout
//! and is a leaf. Neither is held while bytes are copied.

pub mod access;
pub mod binding;
pub mod bytes;
pub mod copying;
pub mod create;
pub mod describe;
pub mod extension;
pub mod fast;
pub mod key;
// Some of its interface is for those who test it on the host.
#[allow(dead_code)]
pub mod layout;
pub mod memory;
pub mod memory_window;
pub mod methods;
mod pieces;
pub mod region;
pub mod side;
pub mod stream;
mod train;
pub mod window;
