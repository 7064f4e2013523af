// SPDX-License-Identifier: GPL-2.0

//! The methods of the ioctl tree (`<rdma/ib_user_ioctl_cmds.h>` and
//! `<rdma/mrx_user_ioctl.h>`).

use super::{joined, range, Field, Method, RIGHTS};

/// A method that headers older than the kernel lack: it registers memory or a
/// buffer. Its attributes have no names there either.
pub const UVERBS_METHOD_REG_MR: u32 = 5;

/// A range of a region, by its lkey.
pub const RANGE: &[Field] = &[range(4096, RIGHTS)];

/// A method of an object, with its weight, and whether it has a handler in the module.
macro_rules! method {
    ($object:ident, $method:ident, $weight:literal, $handler:literal, [$($attribute:expr),* $(,)?]) => {
        Method {
            name: stringify!($method),
            object: $object as u32,
            method: $method,
            attributes: &[$($attribute),*],
            weight: $weight,
            has_handler: $handler,
        }
    };
}

mod device;
mod objects;
mod refused;
mod regions;

pub use regions::DMABUF;

const PARTS: [&[Method]; 4] = [
    regions::METHODS,
    objects::METHODS,
    device::METHODS,
    refused::METHODS,
];
const COUNT: usize = PARTS[0].len() + PARTS[1].len() + PARTS[2].len() + PARTS[3].len();

/// All methods but the one that wraps commands.
pub static METHODS: [Method; COUNT] = joined(&PARTS);
