// SPDX-License-Identifier: GPL-2.0

//! What a thread begins with, and queue pairs that are connected as they should be.

use std::sync::atomic::Ordering::Relaxed;

use mrx::sys::*;

use super::{Caller, QKEY};
use crate::{
    known::Qp,
    schema::{
        bytes_of,
        commands::{COMMANDS, MODIFY_STATE},
        methods::METHODS,
        Command, Method, QpKind, FLUSH_GLOBAL, QP, RIGHTS,
    },
};

// What the transitions of queue pairs need (IBTA 1.7, 11.2.5.2), and their ends.
const RESET: (u32, u8) = (IBV_QP_STATE, IBV_QPS_RESET as u8);
const TO_INIT: u32 = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
const INIT: (u32, u8) = (TO_INIT | IBV_QP_ACCESS_FLAGS, IBV_QPS_INIT as u8);
const INIT_UD: (u32, u8) = (TO_INIT | IBV_QP_QKEY, IBV_QPS_INIT as u8);
const TO_RTR: u32 = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
const RTR: (u32, u8) = (
    TO_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
    IBV_QPS_RTR as u8,
);
const RTR_UC: (u32, u8) = (TO_RTR, IBV_QPS_RTR as u8);
const RTR_UD: (u32, u8) = (IBV_QP_STATE, IBV_QPS_RTR as u8);
const RTS: (u32, u8) = (
    IBV_QP_STATE
        | IBV_QP_SQ_PSN
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_MAX_QP_RD_ATOMIC,
    IBV_QPS_RTS as u8,
);
const RTS_OTHERS: (u32, u8) = (IBV_QP_STATE | IBV_QP_SQ_PSN, IBV_QPS_RTS as u8);
/// Changes of state that are asked for.
pub(super) const CHANGES: &[(u32, u8)] = &[
    INIT,
    INIT_UD,
    RTR,
    RTR_UC,
    RTR_UD,
    RTS,
    RTS_OTHERS,
    (IBV_QP_STATE, IBV_QPS_RTS as u8),
    (IBV_QP_STATE, IBV_QPS_SQD as u8),
    (IBV_QP_STATE, IBV_QPS_SQE as u8),
    (IBV_QP_STATE, IBV_QPS_ERR as u8),
    RESET,
    (IBV_QP_ACCESS_FLAGS, 0),
    (IBV_QP_QKEY, 0),
];

impl Caller<'_> {
    /// Gets a context, and what is needed to begin with.
    pub fn begin(&mut self) {
        // Whoever comes first asks, until there is one.
        for mistakes in [0, 1, 0, 0] {
            if self.file.has_context.load(Relaxed) {
                break;
            }
            self.mistakes = mistakes;
            let is_sought = self.file.is_sought.swap(true, Relaxed);
            if !is_sought {
                if !self.file.has_context.load(Relaxed) {
                    self.seek_context();
                }
                self.file.is_sought.store(false, Relaxed);
            }
        }
        self.settle();
    }

    /// Registers some memory, makes queues, and connects two queue pairs, all as
    /// it should be, so that requests have a chance.
    pub(super) fn settle(&mut self) {
        let steps = [
            ("IB_USER_VERBS_CMD_ALLOC_PD", 1),
            ("IB_USER_VERBS_CMD_REG_MR", 6),
            ("IB_USER_VERBS_CMD_CREATE_CQ", 2),
            ("IB_USER_VERBS_CMD_CREATE_SRQ", 1),
            ("IB_USER_VERBS_CMD_CREATE_QP", 4),
            ("IB_USER_VERBS_CMD_CREATE_AH", 1),
            ("IB_USER_VERBS_CMD_ALLOC_MW", 2),
        ];
        for (name, times) in steps {
            for _ in 0..times {
                self.behave();
                self.give_by_name(name);
            }
        }
    }

    fn seek_context(&mut self) {
        if self.random.bool() {
            return self.give_by_name("IB_USER_VERBS_CMD_GET_CONTEXT");
        }
        let get = |method: &Method| method.name == "UVERBS_METHOD_GET_CONTEXT";
        if let Some(which) = METHODS.iter().position(get) {
            self.call(&METHODS[which], self.world.method_lines[which]);
        }
    }

    fn give_by_name(&mut self, name: &str) {
        let is = |command: &Command| command.name == name;
        if let Some(which) = COMMANDS.iter().position(is) {
            self.give(&COMMANDS[which], self.world.command_lines[which]);
        }
    }

    /// Connects two queue pairs of a kind with each other, or one with itself.
    pub fn connect(&mut self) -> Option<(Qp, Qp)> {
        let file = self.file;
        let one = file.qps.pick(&mut self.random, |_| true)?;
        let other = match self.random.u8(0..3) {
            0 => one,
            _ => file.qps.pick(&mut self.random, |qp| qp.kind == one.kind)?,
        };
        let gid = self.random.choice(&self.world.gids).copied()?;
        let steps = match one.kind {
            QpKind::Reliable => [RESET, INIT, RTR, RTS],
            QpKind::Unreliable => [RESET, INIT, RTR_UC, RTS_OTHERS],
            QpKind::Datagrams => [RESET, INIT_UD, RTR_UD, RTS_OTHERS],
        };
        let are_connected = self.modify(&one, &other, &gid, &steps)
            && (one.handle == other.handle || self.modify(&other, &one, &gid, &steps));
        are_connected.then_some((one, other))
    }

    /// Changes the state of a queue pair in steps, until one fails. Whether it is
    /// ready then.
    fn modify(&mut self, near: &Qp, far: &Qp, gid: &[u8; 16], steps: &[(u32, u8)]) -> bool {
        let Some(which) = COMMANDS
            .iter()
            .position(|command| command.name == "IB_USER_VERBS_CMD_MODIFY_QP")
        else {
            return false;
        };
        self.behave();
        for &(mask, state) in steps {
            self.start_anew();
            self.used.push((QP, near.handle));
            let mut body = vec![0; bytes_of(COMMANDS[which].fields)];
            body[..16].copy_from_slice(gid);
            // The route: an index into our addresses, hops, and that it is global, at port 1.
            body[24] = self.world.index_of(gid);
            body[25] = 64;
            (body[30], body[31]) = (1, 1);
            let access = RIGHTS | FLUSH_GLOBAL;
            let words = [near.handle, mask, QKEY, 0, 0, far.number, access];
            for (at, value) in words.iter().enumerate() {
                body[64 + 4 * at..68 + 4 * at].copy_from_slice(&value.to_ne_bytes());
            }
            body[MODIFY_STATE] = state;
            // The largest packet; 8 reads either way; the timers and retries are short.
            (body[98], body[101], body[102]) = (3, 8, 8);
            (body[103], body[104], body[105], body[106], body[107]) = (1, 1, 8, 1, 1);
            if !self.give_body(&COMMANDS[which], body, self.world.command_lines[which]) {
                return false;
            }
        }
        true
    }
}
