// SPDX-License-Identifier: GPL-2.0

//! What a driver tells the owners of its objects.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h) (`struct ib_event`)

use super::driver::{
    CqHandle,
    QpHandle,
    SrqHandle, //
};
use crate::bindings;

impl CqHandle {
    /// Tells the owner that there are completions.
    pub fn completed(&self) {
        self.with(|cq| {
            // SAFETY: `with` keeps the queue alive, and the core set the handler before the queue
            // could get a completion. It may be called in any context. A handler that raises a
            // soft interrupt has it run at once, not by a thread that has to be woken.
            unsafe {
                bindings::mrx_local_bh_disable();
                if let Some(handler) = (*cq).comp_handler {
                    handler(cq, (*cq).cq_context);
                }
                bindings::mrx_local_bh_enable();
            }
        });
    }

    /// Tells the owner that a completion was lost.
    pub fn overflowed(&self) {
        self.with(|cq| {
            // SAFETY: As in `completed`.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*cq).device,
                    event: bindings::ib_event_type_IB_EVENT_CQ_ERR,
                    ..Default::default()
                };
                *event.element.cq.as_mut() = cq;
                if let Some(handler) = (*cq).event_handler {
                    handler(&mut event, (*cq).cq_context);
                }
            }
        });
    }
}

/// What can befall a queue pair.
#[derive(Clone, Copy)]
pub enum QpEvent {
    /// The responder found a request that it must not execute.
    AccessError,
    /// The responder found a request that makes no sense.
    RequestError,
    /// The first request of the other side came, before this side was ready to send.
    Established,
    /// Nothing of a shared receive queue will come to this queue pair any more.
    LastRequest,
    /// Sends are held back, and none is being executed.
    SendDrained,
}

impl QpHandle {
    /// Reports an asynchronous event.
    pub fn raise(&self, event: QpEvent) {
        let event = match event {
            QpEvent::AccessError => bindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            QpEvent::RequestError => bindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            QpEvent::Established => bindings::ib_event_type_IB_EVENT_COMM_EST,
            QpEvent::SendDrained => bindings::ib_event_type_IB_EVENT_SQ_DRAINED,
            QpEvent::LastRequest => bindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        };
        self.with(|qp| {
            // SAFETY: `with` keeps the queue pair alive; the core set the handler when it was made.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*qp).device,
                    event,
                    ..Default::default()
                };
                *event.element.qp.as_mut() = qp;
                if let Some(handler) = (*qp).event_handler {
                    handler(&mut event, (*qp).qp_context);
                }
            }
        });
    }
}

impl SrqHandle {
    /// Reports that fewer receives are left than the owner set as its limit.
    pub fn limit_reached(&self) {
        self.with(|srq| {
            // SAFETY: `with` keeps the queue alive; the core set the handler when it was made.
            unsafe {
                let mut event = bindings::ib_event {
                    device: (*srq).device,
                    event: bindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
                    ..Default::default()
                };
                *event.element.srq.as_mut() = srq;
                if let Some(handler) = (*srq).event_handler {
                    handler(&mut event, (*srq).srq_context);
                }
            }
        });
    }
}
