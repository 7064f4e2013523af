// SPDX-License-Identifier: GPL-2.0

//! An open device with one protection domain.

use std::{ffi::CStr, io, rc::Rc};

use anyhow::{anyhow, Context as _};
use mrx::sys::{self, ibv_ah_attr, ibv_context, ibv_gid_entry, ibv_pd, ibv_port_attr};

use super::{pointer, status};

/// The first port, which is the only one of a software device.
pub(super) const PORT: u8 = 1;

/// An open device, and a protection domain in it.
pub struct Device {
    pub(super) context: *mut ibv_context,
    pub(super) pd: *mut ibv_pd,
    pub(super) gid: [u8; 16],
    gid_index: u8,
    pub(super) mtu: u32,
}

impl Device {
    /// Opens the device that libibverbs knows by this name.
    pub fn open(name: &str) -> anyhow::Result<Rc<Self>> {
        let context = open_context(name)?;
        let mut port = ibv_port_attr::default();
        // SAFETY: the context was just opened.
        status(unsafe { sys::ibv_query_port(context, PORT, &mut port) }).context("query port")?;
        let entry = best_gid(context, port.gid_tbl_len)
            .ok_or_else(|| anyhow!("{name} has no RoCE v2 address"))?;
        // SAFETY: any view of the union is plain bytes.
        let gid = unsafe { entry.gid.raw };
        let gid_index = u8::try_from(entry.gid_index)?;
        // SAFETY: the context is open.
        let pd = pointer(unsafe { sys::ibv_alloc_pd(context) }).context("allocate a domain")?;
        Ok(Rc::new(Self {
            context,
            pd,
            gid,
            gid_index,
            mtu: port.active_mtu,
        }))
    }

    /// Whether the device has layouts at all.
    pub fn has_layouts(&self) -> bool {
        let mut caps = sys::ibv_mr_layout_caps::default();
        // SAFETY: the context is open, and the structure may be written.
        unsafe { mrx::ffi::ibv_query_mr_layout_caps(self.context, &mut caps) == 0 }
    }

    pub(super) fn route_to(&self, gid: [u8; 16]) -> ibv_ah_attr {
        let mut route = ibv_ah_attr {
            is_global: 1,
            port_num: PORT,
            ..Default::default()
        };
        route.grh.dgid.raw = gid;
        route.grh.sgid_index = self.gid_index;
        route.grh.hop_limit = 64;
        route
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and all that is made from it holds an `Rc`.
        unsafe {
            sys::ibv_dealloc_pd(self.pd);
            sys::ibv_close_device(self.context);
        }
    }
}

fn open_context(name: &str) -> anyhow::Result<*mut ibv_context> {
    let mut count = 0;
    // SAFETY: `count` may be written.
    let list = pointer(unsafe { sys::ibv_get_device_list(&mut count) }).context("list devices")?;
    // SAFETY: the list has `count` devices until it is freed, and an open
    // device keeps what it needs of it.
    let opened = unsafe {
        let devices = std::slice::from_raw_parts(list, count as usize);
        let wanted = devices.iter().find(|&&device| {
            CStr::from_ptr(sys::ibv_get_device_name(device)).to_bytes() == name.as_bytes()
        });
        let opened: Option<io::Result<_>> =
            wanted.map(|&device| pointer(sys::ibv_open_device(device)));
        sys::ibv_free_device_list(list);
        opened
    };
    opened
        .ok_or_else(|| anyhow!("libibverbs finds no device {name}"))?
        .with_context(|| format!("open {name}"))
}

/// An IPv4 address if the port has one, else any RoCE v2 entry.
fn best_gid(context: *mut ibv_context, table: i32) -> Option<ibv_gid_entry> {
    let entries = (0..u32::try_from(table).unwrap_or(0)).filter_map(|index| {
        let mut entry = ibv_gid_entry::default();
        // SAFETY: the context is open.
        let found = unsafe { sys::ibv_query_gid_ex(context, PORT.into(), index, &mut entry) } == 0;
        (found && entry.gid_type == sys::IBV_GID_TYPE_ROCE_V2).then_some(entry)
    });
    // SAFETY: any view of the union is plain bytes.
    let is_v4 = |entry: &ibv_gid_entry| unsafe {
        entry
            .gid
            .raw
            .starts_with(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])
    };
    entries.max_by_key(is_v4)
}
