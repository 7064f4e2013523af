// SPDX-License-Identifier: GPL-2.0

//! Management datagrams that the device answers itself: queries of performance counters, which is
//! also how the core reads what it shows in sysfs (`ports/1/counters`).
//!
//! IBTA 1.7, 16.1; C header: [`include/rdma/ib_pma.h`](srctree/include/rdma/ib_pma.h)

use super::{
    super::driver::{
        Driver,
        Traffic, //
    },
    device_state,
    Ops, //
};
use crate::bindings::{
    self,
    ib_device,
    ib_mad, //
};
use kernel::prelude::*;

/// Bytes of a datagram.
const SIZE: usize = 256;
/// Where a query and its answer have their data.
const DATA: usize = 64;
/// Where the header has what this looks at.
const CLASS: usize = 1;
const METHOD: usize = 3;
const STATUS: usize = 4;
const ATTRIBUTE: usize = 16;

/// `IB_MGMT_CLASS_PERF_MGMT`.
const PERFORMANCE: u8 = 0x04;
/// `IB_MGMT_METHOD_GET` and `IB_MGMT_METHOD_GET_RESP`.
const GET: u8 = 0x01;
const GET_RESPONSE: u8 = 0x81;
/// `IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB`.
const UNSUPPORTED: u16 = 0x000c;

/// `IB_PMA_CLASS_PORT_INFO`, and its `IB_PMA_CLASS_CAP_EXT_WIDTH`.
const CLASS_PORT_INFO: u16 = 0x0001;
const WIDE_COUNTERS: u16 = 1 << 9;
/// `IB_PMA_PORT_COUNTERS`.
const COUNTERS: u16 = 0x0012;
/// `IB_PMA_PORT_COUNTERS_EXT`.
const COUNTERS_WIDE: u16 = 0x001d;

/// `IB_MAD_RESULT_SUCCESS` and `IB_MAD_RESULT_REPLY`.
const SUCCESS: c_int = 1 << 0;
const REPLY: c_int = 1 << 1;

/// Puts `bytes` at `offset` of the data of a datagram.
fn put(out: &mut [u8; SIZE], offset: usize, bytes: &[u8]) {
    let at = DATA + offset;
    if let Some(to) = out.get_mut(at..at + bytes.len()) {
        to.copy_from_slice(bytes);
    }
}

/// Answers `query`, if it is for the device.
fn answer(query: &[u8; SIZE], traffic: &Traffic) -> Option<[u8; SIZE]> {
    let byte = |at: usize| query.get(at).copied().unwrap_or(0);
    if byte(CLASS) != PERFORMANCE || byte(METHOD) != GET {
        return None;
    }
    let mut out = [0; SIZE];
    for (to, from) in out.iter_mut().zip(query).take(DATA) {
        *to = *from;
    }
    if let Some(method) = out.get_mut(METHOD) {
        *method = GET_RESPONSE;
    }
    // Data is counted in words of four bytes.
    let counts = [
        traffic.sent_bytes / 4,
        traffic.received_bytes / 4,
        traffic.sent_messages,
        traffic.received_messages,
    ];
    match u16::from_be_bytes([byte(ATTRIBUTE), byte(ATTRIBUTE + 1)]) {
        CLASS_PORT_INFO => put(&mut out, 2, &WIDE_COUNTERS.to_be_bytes()),
        COUNTERS => {
            put(&mut out, 1, &[1]);
            for (index, count) in counts.iter().enumerate() {
                // These stay at their largest value.
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                put(&mut out, 24 + index * 4, &count.to_be_bytes());
            }
        }
        COUNTERS_WIDE => {
            put(&mut out, 1, &[1]);
            for (index, count) in counts.iter().enumerate() {
                put(&mut out, 8 + index * 8, &count.to_be_bytes());
            }
        }
        _ => {
            if let Some(status) = out.get_mut(STATUS..STATUS + 2) {
                status.copy_from_slice(&UNSUPPORTED.to_be_bytes());
            }
        }
    }
    Some(out)
}

impl<D: Driver> Ops<D> {
    /// # Safety
    ///
    /// To be called by the core; see the module's documentation.
    pub(super) unsafe extern "C" fn process_mad(
        device: *mut ib_device,
        _flags: c_int,
        port: u32,
        _in_wc: *const bindings::ib_wc,
        _in_grh: *const bindings::ib_grh,
        query: *const ib_mad,
        out: *mut ib_mad,
        _out_size: *mut usize,
        _out_pkey_index: *mut u16,
    ) -> c_int {
        if port != 1 {
            return SUCCESS;
        }
        // SAFETY: See the module's documentation. A datagram is `SIZE` bytes, whatever they are: no
        // more are announced as `max_mad_size`.
        unsafe {
            let Ok(state) = device_state::<D>(device) else {
                return SUCCESS;
            };
            match answer(&*query.cast::<[u8; SIZE]>(), &state.traffic()) {
                Some(answer) => {
                    out.cast::<[u8; SIZE]>().write(answer);
                    SUCCESS | REPLY
                }
                None => SUCCESS,
            }
        }
    }
}
