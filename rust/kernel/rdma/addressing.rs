// SPDX-License-Identifier: GPL-2.0

//! Addresses of devices, and the ways between them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::driver::DeviceHandle;
use crate::bindings;
use kernel::prelude::*;

/// The way to another queue pair's device.
#[derive(Clone, Copy, Default)]
pub struct Path {
    /// Its address.
    pub dgid: [u8; 16],
    /// The own address, by its place in the table.
    pub sgid_index: u8,
    /// Carried in headers; of no consequence here.
    pub flow_label: u32,
    /// As `flow_label`.
    pub hop_limit: u8,
    /// As `flow_label`.
    pub traffic_class: u8,
    /// As `flow_label`.
    pub sl: u8,
}

impl Path {
    /// The path in `attr`, if it is given by GID.
    pub fn from_attr(attr: &bindings::rdma_ah_attr) -> Option<Self> {
        if u32::from(attr.ah_flags) & bindings::ib_ah_flags_IB_AH_GRH == 0 {
            return None;
        }
        Some(Self {
            // SAFETY: All members of the union are 16 bytes without padding.
            dgid: unsafe { *attr.grh.dgid.raw.as_ref() },
            sgid_index: attr.grh.sgid_index,
            flow_label: attr.grh.flow_label,
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
            sl: attr.sl,
        })
    }

    /// Tells the path in `attr`.
    pub fn describe(&self, attr: &mut bindings::rdma_ah_attr) {
        // SAFETY: All members of the union are 16 bytes without padding.
        unsafe { *attr.grh.dgid.raw.as_mut() = self.dgid };
        attr.grh.sgid_index = self.sgid_index;
        attr.grh.flow_label = self.flow_label;
        attr.grh.hop_limit = self.hop_limit;
        attr.grh.traffic_class = self.traffic_class;
        attr.sl = self.sl;
        attr.port_num = 1;
        attr.ah_flags = bindings::ib_ah_flags_IB_AH_GRH as u8;
        attr.type_ = bindings::rdma_ah_attr_type_RDMA_AH_ATTR_TYPE_ROCE;
    }
}

impl DeviceHandle {
    /// Whether one of the device's own addresses is `gid`.
    pub fn owns_gid(&self, gid: &[u8; 16]) -> bool {
        let mut raw = bindings::ib_gid::default();
        // SAFETY: All members of the union are 16 bytes without padding.
        unsafe { *raw.raw.as_mut() = *gid };
        // SAFETY: `with` keeps the device alive; the helper only looks in its GID cache.
        self.with(|device| unsafe { bindings::mrx_device_has_gid(device, &raw) })
            .unwrap_or(false)
    }

    /// The address at `index` of the device's table.
    pub fn gid(&self, index: u8) -> Option<[u8; 16]> {
        let mut gid = bindings::ib_gid::default();
        let ret = self.with(|device| {
            // SAFETY: `with` keeps the device alive; the function checks the index.
            unsafe { bindings::rdma_query_gid(device, 1, c_int::from(index), &mut gid) }
        })?;
        if ret != 0 {
            return None;
        }
        // SAFETY: All members of the union are 16 bytes without padding.
        Some(unsafe { *gid.raw.as_ref() })
    }
}
