// SPDX-License-Identifier: GPL-2.0

//! The kinds of queue pairs.

use super::request::Operation;
use crate::bindings;

/// What a queue pair promises its user (IBTA 1.7, 9.1 and table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Reliable connection: everything arrives, or its sender is told.
    Reliable,
    /// Unreliable connection: what cannot be delivered is lost.
    Unreliable,
    /// Datagrams, each to its own destination.
    Datagram,
    /// Datagrams of the managers of the fabric: queue pair 1.
    Management,
}

impl Transport {
    /// The transport with the C value `kind`.
    pub fn from_raw(kind: bindings::ib_qp_type) -> Option<Self> {
        Some(match kind {
            bindings::ib_qp_type_IB_QPT_RC => Self::Reliable,
            bindings::ib_qp_type_IB_QPT_UC => Self::Unreliable,
            bindings::ib_qp_type_IB_QPT_UD => Self::Datagram,
            bindings::ib_qp_type_IB_QPT_GSI => Self::Management,
            _ => return None,
        })
    }

    /// The C value.
    pub fn raw(self) -> bindings::ib_qp_type {
        match self {
            Self::Reliable => bindings::ib_qp_type_IB_QPT_RC,
            Self::Unreliable => bindings::ib_qp_type_IB_QPT_UC,
            Self::Datagram => bindings::ib_qp_type_IB_QPT_UD,
            Self::Management => bindings::ib_qp_type_IB_QPT_GSI,
        }
    }

    /// Whether each message names its destination.
    pub fn is_datagram(self) -> bool {
        matches!(self, Self::Datagram | Self::Management)
    }

    /// Whether work requests of this kind can be posted (IBTA 1.7, table 92).
    pub fn offers(self, operation: &Operation) -> bool {
        match self {
            Self::Reliable => true,
            Self::Unreliable => matches!(
                operation,
                Operation::Send { .. }
                    | Operation::Write { .. }
                    | Operation::Bind { .. }
                    | Operation::BindWindow(_)
                    | Operation::Invalidate { .. }
                    | Operation::Register(_)
            ),
            Self::Datagram | Self::Management => {
                matches!(operation, Operation::Send { .. } | Operation::Bind { .. })
            }
        }
    }
}
