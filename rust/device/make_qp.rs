// SPDX-License-Identifier: GPL-2.0

//! Making a queue pair.

use super::{
    datagram::MAX_PAYLOAD,
    kernel_queue::MAX_INLINE,
    port::{
        Port,
        MAX_WR, //
    },
    qp::{
        NewQp,
        Qp, //
    },
    rq::RecvQueue,
    sq::SendQueue,
    transport::Transport,
    wqe::MAX_SGE, //
};
use crate::{
    bindings,
    rdma::{
        context::UserContext,
        driver::{
            QpCap,
            QpHandle,
            QpInit, //
        },
        mr::region::Domain,
        udata::Udata, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc,
    transmute::AsBytes, //
};

/// `struct rxe_create_qp_resp`.
#[repr(C)]
struct CreateQpResponse {
    recv: bindings::mminfo,
    send: bindings::mminfo,
}

// SAFETY: The structure is plain integers without padding.
unsafe impl AsBytes for CreateQpResponse {}

/// Makes a queue pair on `port`; see [`Driver`](crate::rdma::driver::Driver).
pub fn make(
    port: &Arc<Port>,
    handle: impl PinInit<QpHandle>,
    pd: &Arc<Domain>,
    init: &QpInit<'_, Port>,
    cap: &mut QpCap,
    user: Option<(UserContext, Udata<'_>)>,
) -> Result<(Arc<Qp>, u32)> {
    let transport = Transport::from_raw(init.kind).ok_or(EOPNOTSUPP)?;
    if init.create_flags != 0 {
        return Err(EOPNOTSUPP);
    }
    let has_own_receives = init.srq.is_none();
    if cap.max_send_wr > MAX_WR
        || cap.max_send_sge as usize > MAX_SGE
        || cap.max_inline_data as usize > MAX_INLINE
        || (has_own_receives && cap.max_recv_wr > MAX_WR)
        || (has_own_receives && cap.max_recv_sge as usize > MAX_SGE)
        || (transport == Transport::Management && user.is_some())
    {
        return Err(EINVAL);
    }
    let context = user.map(|(context, _)| context);
    let send = SendQueue::new(
        context,
        cap.max_send_wr,
        cap.max_send_sge,
        cap.max_inline_data,
        match transport.is_datagram() {
            true => MAX_PAYLOAD,
            false => 0,
        },
    )?;
    // A queue pair with a shared queue has one of its own that nobody sees.
    let recv = match has_own_receives {
        true => RecvQueue::new(context, cap.max_recv_wr, cap.max_recv_sge)?,
        false => RecvQueue::new(None, 0, 0)?,
    };
    if let Some((_, udata)) = user {
        udata.respond(&CreateQpResponse {
            recv: recv.info(),
            send: send.info(),
        })?;
    }
    cap.max_send_wr = send.capacity();
    cap.max_send_sge = send.limits().max_sge;
    cap.max_inline_data = send.limits().max_inline;
    if has_own_receives {
        cap.max_recv_wr = recv.capacity();
    }

    let reserved = port.qps().reserve()?;
    let qp = Qp::new(
        handle,
        NewQp {
            port,
            number: reserved.id(),
            transport,
            domain: pd,
            init,
            send,
            recv,
            own_queue: context.map(|context| context.work_queue()).transpose()?,
        },
    )?;
    if transport == Transport::Management {
        port.set_manager(&qp)?;
    }
    reserved.fill(qp.clone());
    let number = qp.wire_number();
    Ok((qp, number))
}
