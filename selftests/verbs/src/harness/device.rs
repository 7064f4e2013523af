// SPDX-License-Identifier: GPL-2.0

//! The device, its port, and protection domains.

use std::{ffi::CStr, io, rc::Rc};

use anyhow::{anyhow, Context as _};
use mrx::sys::{self, ibv_ah_attr, ibv_context, ibv_gid_entry, ibv_pd, ibv_port_attr};

use super::{
    check::{pointer, status},
    skip, Setup,
};

/// All tests use the first port.
pub const PORT: u8 = 1;

/// An open device.
pub struct Context {
    pub raw: *mut ibv_context,
    pub gid: [u8; 16],
    pub gid_index: u8,
    pub mtu: u32,
}

impl Context {
    pub fn open(setup: &Setup) -> anyhow::Result<Rc<Self>> {
        let raw = open_raw(&setup.device)?;
        let mut port = ibv_port_attr::default();
        // SAFETY: the context was just opened.
        status(unsafe { sys::ibv_query_port(raw, PORT, &mut port) }).context("query port")?;
        let entry = best_gid(raw, port.gid_tbl_len)
            .ok_or_else(|| anyhow!("{} has no RoCE v2 GID", setup.device))?;
        // SAFETY: any view of the union is plain bytes.
        let gid = unsafe { entry.gid.raw };
        Ok(Rc::new(Self {
            raw,
            gid,
            gid_index: entry.gid_index as u8,
            mtu: port.active_mtu,
        }))
    }

    pub fn pd(self: &Rc<Self>) -> io::Result<Rc<Pd>> {
        // SAFETY: the context is open.
        let raw = pointer(unsafe { sys::ibv_alloc_pd(self.raw) })?;
        Ok(Rc::new(Pd {
            raw,
            context: self.clone(),
        }))
    }

    /// The way to a port, ours or another's.
    pub fn route_to(&self, gid: [u8; 16]) -> ibv_ah_attr {
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

    /// What the device can do with layouts; a test that needs them ends here on
    /// a device without.
    pub fn layout_caps(&self) -> anyhow::Result<sys::ibv_mr_layout_caps> {
        let mut caps = sys::ibv_mr_layout_caps::default();
        // SAFETY: the context is open.
        match unsafe { mrx::ffi::ibv_query_mr_layout_caps(self.raw, &mut caps) } {
            0 => Ok(caps),
            // What the core says when no driver has added the method.
            libc::EPROTONOSUPPORT => skip("the device has no layouts"),
            error => Err(io::Error::from_raw_os_error(error)).context("query the capabilities"),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and all that is made from it holds an `Rc`.
        unsafe { sys::ibv_close_device(self.raw) };
    }
}

fn open_raw(name: &str) -> anyhow::Result<*mut ibv_context> {
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
        let opened = wanted.map(|&device| pointer(sys::ibv_open_device(device)));
        sys::ibv_free_device_list(list);
        opened
    };
    opened
        .ok_or_else(|| anyhow!("libibverbs has no device {name}"))?
        .with_context(|| format!("open {name}"))
}

/// An IPv4 address if the port has one, else any RoCE v2 entry.
fn best_gid(context: *mut ibv_context, table: i32) -> Option<ibv_gid_entry> {
    let entries = (0..table as u32).filter_map(|index| {
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

/// A protection domain.
pub struct Pd {
    pub raw: *mut ibv_pd,
    pub context: Rc<Context>,
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: all that is made in the domain holds an `Rc` of it.
        unsafe { sys::ibv_dealloc_pd(self.raw) };
    }
}

/// Where a datagram goes.
pub struct Ah {
    pub raw: *mut sys::ibv_ah,
    _pd: Rc<Pd>,
}

impl Ah {
    pub fn new(pd: &Rc<Pd>, gid: [u8; 16]) -> io::Result<Self> {
        let mut route = pd.context.route_to(gid);
        // SAFETY: the domain is live.
        let raw = pointer(unsafe { sys::ibv_create_ah(pd.raw, &mut route) })?;
        Ok(Self {
            raw,
            _pd: pd.clone(),
        })
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and the work that names it borrows it.
        unsafe { sys::ibv_destroy_ah(self.raw) };
    }
}
