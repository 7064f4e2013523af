// SPDX-License-Identifier: GPL-2.0

//! Datagrams: messages that name their destination, and may be lost.

use super::{
    counters::Counter,
    execute::Failure,
    multicast,
    qp::{
        Qp,
        MANAGER_QPN, //
    },
    request::{
        Destination, //
    },
    status::{
        Completion,
        Done,
        Extra,
        Network,
        Status, //
    },
    transfer::Transfer,
    transport::Transport,
    wqe::{
        total, //
    },
};
use crate::rdma::{
    addressing::Path,
    mr::{
        access::Access,
        bytes::Bytes,
        copying::{
            copy,
            CopyError, //
        },
        stream::Stream, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The most bytes of a datagram: the largest payload of a packet (IBTA 1.7, C10-93.1.1).
pub const MAX_PAYLOAD: usize = 4096;

/// Bytes in front of a datagram where it is received (IBTA 1.7, C10-86).
const HEADER: usize = 40;

/// A key with this bit stands for the sender's own (IBTA 1.7, 10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;

/// How a datagram appears where it is received.
struct Envelope {
    network: Network,
    header: [u8; HEADER],
}

impl Transfer<'_> {
    /// Sends a datagram to one queue pair or to all of a group. Whatever is wrong with the
    /// destination, the datagram is lost and the sender not told.
    pub(super) fn datagram(&mut self, extra: Extra) -> Result<(), Failure> {
        if matches!(extra, Extra::Invalidate(_)) {
            return Err(Failure::Fatal(Status::LocalQpOperation));
        }
        self.check_local(Access::LOCAL_READ)?;
        let mut to = self.wqe.destination();
        if to.ah_num != 0 {
            let ah = self.qp.port.ahs().get(to.ah_num);
            let ah = ah.filter(|ah| ah.is_of(&self.qp.domain));
            to.path = ah.ok_or(Failure::Fatal(Status::LocalQpOperation))?.path();
        }
        let own = self.qp.port.handle().gid(to.path.sgid_index);
        let own = own.ok_or(Failure::Fatal(Status::LocalQpOperation))?;
        if self.request.length > MAX_PAYLOAD as u64 || !self.qp.port.is_running() {
            return Err(Failure::Unanswered);
        }
        self.gather()?;
        if to.qkey & CONTROLLED_QKEY != 0 {
            to.qkey = self.attrs.qkey;
        }
        let envelope = Envelope::new(&to.path, &own, self.request.length as u16);
        if to.qp_num == multicast::ALL {
            return self.deliver_to_group(&to, &envelope, extra);
        }
        let peer = self.find(&to).ok_or(Failure::Unanswered)?;
        self.deliver(&peer, &to, &envelope, extra)
    }

    fn deliver_to_group(
        &mut self,
        to: &Destination,
        envelope: &Envelope,
        extra: Extra,
    ) -> Result<(), Failure> {
        let group = to.path.dgid;
        for index in 0..multicast::MAX_MEMBERS as usize {
            let Some(peer) = multicast::receiver(&group, self.qp, index) else {
                break;
            };
            if peer.port.is_running() {
                match self.deliver(&peer, to, envelope, extra) {
                    Err(Failure::Fatal(status)) => return Err(Failure::Fatal(status)),
                    // Lost on the way to this one.
                    Err(_) => self.qp.port.counters.count(Counter::Dropped),
                    Ok(()) => {}
                }
            }
        }
        Ok(())
    }

    /// Copies the datagram out of the sender's memory. What is wrong with that memory must be known
    /// before a receive is used up: the receiver has nothing to do with it.
    fn gather(&mut self) -> Result<(), Failure> {
        let room = self.workspace.gathered.len();
        let start = self.workspace.gathered.as_mut_ptr();
        // SAFETY: The buffer outlives the copy, and nothing else uses it meanwhile.
        let to = unsafe { Bytes::into_kernel_memory(start, room) };
        self.push_bytes(to, None).map_err(|error| {
            Failure::Fatal(match error {
                CopyError::Stopped => Status::Flushed,
                _ => Status::LocalProtection,
            })
        })
    }

    fn find(&mut self, to: &Destination) -> Option<Arc<Qp>> {
        let peer = match to.qp_num {
            MANAGER_QPN => self.qp.port.resolve(&to.path.dgid)?.manager()?,
            number => self.qp.port.qps().get(number)?,
        };
        self.reach(&peer, &to.path.dgid).then_some(peer)
    }

    fn deliver(
        &mut self,
        peer: &Arc<Qp>,
        to: &Destination,
        envelope: &Envelope,
        extra: Extra,
    ) -> Result<(), Failure> {
        let is_manager = peer.transport == Transport::Management;
        if !peer.transport.is_datagram() || is_manager != (to.qp_num == MANAGER_QPN) {
            return Err(Failure::Unanswered);
        }
        if peer.attrs().qkey != to.qkey {
            peer.port.counters.count(Counter::BadQkey);
            return Err(Failure::Unanswered);
        }
        let Some(_visit) = peer.visitors.enter() else {
            return Err(Failure::Unanswered);
        };
        let length = self.request.length + HEADER as u64;
        // A datagram that is too long for the next receive is lost without using it up.
        let max_sge = peer.recv_max_sge;
        let fits = |recv: &super::wqe::RawRecv| {
            recv.elements(max_sge)
                .is_none_or(|elements| total(elements) >= length)
        };
        if !peer.take_recv(&mut self.workspace.recv, fits) {
            return Err(Failure::Unanswered);
        }
        self.check_recv(peer, length)?;
        self.scatter(peer, &envelope.header)
            .map_err(|error| self.copy_failed(peer, error))?;
        peer.complete_recv(Completion {
            byte_len: length as u32,
            extra,
            network: Some(envelope.network),
            src_qp: self.qp.wire_number(),
            solicited: self.request.solicited,
            ..peer.completion(self.workspace.recv.wr_id(), Done::Recv)
        });
        Ok(())
    }

    /// Copies the header, and what was gathered behind it, into the receive that was taken.
    fn scatter(&self, peer: &Arc<Qp>, header: &[u8; HEADER]) -> Result<(), CopyError> {
        let gathered = &self.workspace.gathered;
        // SAFETY: Both live as long as the stream.
        let (header, payload) = unsafe {
            (
                Bytes::of_kernel_memory(header.as_ptr(), HEADER),
                Bytes::of_kernel_memory(gathered.as_ptr(), gathered.len()),
            )
        };
        let mut into = Stream::new(self.workspace.remote.bytes());
        for (bytes, length) in [(header, HEADER as u64), (payload, self.request.length)] {
            copy(&mut into, &mut Stream::new(bytes), length, &mut || {
                self.go_on(Some(peer))
            })?;
        }
        Ok(())
    }
}

impl Envelope {
    /// The header of a datagram from `own` to the end of `path`: that of IPv6, or that of IPv4
    /// behind 20 bytes of nothing (RoCE v2 annex, A17.4.5.1).
    fn new(path: &Path, own: &[u8; 16], payload: u16) -> Self {
        const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        match (own.strip_prefix(&MAPPED), path.dgid.strip_prefix(&MAPPED)) {
            (Some(source), Some(destination)) => Self {
                network: Network::V4,
                header: v4_header(path, source, destination, payload),
            },
            _ => Self {
                network: Network::V6,
                header: v6_header(path, own, payload),
            },
        }
    }
}

/// The protocol that RoCE v2 is carried by.
const UDP: u8 = 17;
/// Bytes of the headers of UDP and of the transport, and of the checksum.
const TRANSPORT: u16 = 8 + 12 + 8 + 4;

fn v6_header(path: &Path, own: &[u8; 16], payload: u16) -> [u8; HEADER] {
    let class = u32::from(path.traffic_class) << 20;
    let first = 6 << 28 | class | (path.flow_label & 0x000f_ffff);
    let mut header = [0; HEADER];
    fill(
        &mut header,
        [
            &first.to_be_bytes()[..],
            &payload.saturating_add(TRANSPORT).to_be_bytes(),
            &[UDP, path.hop_limit],
            own,
            &path.dgid,
        ],
    );
    header
}

fn v4_header(path: &Path, source: &[u8], destination: &[u8], payload: u16) -> [u8; HEADER] {
    const LENGTH: u16 = 20;
    /// Version 4, five words.
    const VERSION: u8 = 0x45;
    const DO_NOT_FRAGMENT: u8 = 0x40;
    let length = payload.saturating_add(TRANSPORT + LENGTH).to_be_bytes();
    let build = |sum: u16| {
        let mut header = [0; HEADER];
        fill(
            &mut header,
            [
                &[0; HEADER - LENGTH as usize][..],
                &[VERSION, path.traffic_class],
                &length,
                &[0, 0, DO_NOT_FRAGMENT, 0, path.hop_limit, UDP],
                &sum.to_be_bytes(),
                source,
                destination,
            ],
        );
        header
    };
    let words = build(0);
    let sum: u32 = words
        .chunks_exact(2)
        .map(|word| match word {
            [high, low] => u32::from(u16::from_be_bytes([*high, *low])),
            _ => 0,
        })
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    build(!(folded as u16))
}

/// Fills `out` with the parts, one after the other.
fn fill<const N: usize>(out: &mut [u8; HEADER], parts: [&[u8]; N]) {
    let mut bytes = parts.into_iter().flatten();
    for to in out {
        *to = bytes.next().copied().unwrap_or(0);
    }
}
