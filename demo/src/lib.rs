// SPDX-License-Identifier: GPL-2.0

//! What the demonstration and the benchmark share: verbs objects that release
//! themselves, and a second process to talk to.

pub mod process;
pub mod verbs;
