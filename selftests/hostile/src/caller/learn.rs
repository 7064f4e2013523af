// SPDX-License-Identifier: GPL-2.0

//! What there is to be learned from calls that succeeded.

use std::sync::atomic::Ordering::Relaxed;

use mrx::sys::*;

use super::Caller;
use crate::{
    known::{Membership, Qp, Region, Window},
    schema::{
        methods::{DMABUF, UVERBS_METHOD_REG_MR},
        Command, Shape, AH, CHANNEL, CQ, EVENTS, MR, MW, OBJECTS, QP, SRQ,
    },
    scratch::Piece,
};

/// What a method answered.
pub(super) struct Answer {
    pub object: u32,
    pub method: u32,
    pub made: Option<(u16, u32)>,
    pub ended: Option<(u16, u32)>,
    pub number: Option<u32>,
    pub key: Option<u32>,
    /// `MRX_SET_LAYOUT_WITH_POST_WR` was asked for.
    pub waits: bool,
}

impl Caller<'_> {
    pub(super) fn learn_from_method(&mut self, answer: &Answer) {
        if answer.object == UVERBS_OBJECT_DEVICE && answer.method == UVERBS_METHOD_GET_CONTEXT {
            self.file.has_context.store(true, Relaxed);
        }
        self.remember(answer.made, answer.ended, answer.number);
        let Some(key) = answer.key else { return };
        self.file.keys.add(key, &mut self.random);
        let chosen = self.chosen;
        if let Some((MR, handle)) = answer.made {
            let (start, length) = match answer.method {
                UVERBS_METHOD_REG_MR => (chosen.address, chosen.length),
                UVERBS_METHOD_REG_DMABUF_MR => (0, DMABUF),
                _ => (0, 0),
            };
            let is_indirect = answer.method == MRX_METHOD_MR_CREATE;
            return self.add_region(handle, key, start, length, is_indirect);
        }
        // A layout that was set: it holds at least one byte of each range.
        let Some(&(MR, handle)) = self.used.first() else {
            return;
        };
        self.file.regions.change(handle, |region| {
            (region.key, region.length) = (key, chosen.total);
            region.waits = answer.waits;
        });
    }

    fn add_region(&self, handle: u32, key: u32, start: u64, length: u64, is_indirect: bool) {
        let access = self.chosen.access;
        self.file.regions.add(Region {
            handle,
            key,
            start: match access & IBV_ACCESS_ZERO_BASED {
                0 => start,
                _ => 0,
            },
            length,
            access,
            is_indirect,
            waits: false,
        });
    }

    fn remember(
        &mut self,
        made: Option<(u16, u32)>,
        ended: Option<(u16, u32)>,
        number: Option<u32>,
    ) {
        match made {
            Some((CHANNEL, descriptor)) => self.new_channel(descriptor as i32),
            Some((EVENTS, descriptor)) => {
                // SAFETY: a descriptor that was just made.
                unsafe { libc::close(descriptor as i32) };
            }
            Some((object, handle)) if usize::from(object) < OBJECTS => {
                self.file.handles[usize::from(object)].add(handle, &mut self.random);
                if let (QP, Some(number), Some(kind)) = (object, number, self.chosen.qp_kind) {
                    self.file.qps.add(Qp {
                        handle,
                        number,
                        kind,
                    });
                }
            }
            _ => {}
        }
        if let Some((_, handle)) = ended {
            let unmap = self.random.u8(0..4) != 0;
            self.file.forget_object(handle, unmap);
        }
    }

    /// Remembers what a command made or ended.
    pub(super) fn learn(&mut self, command: &Command, body: &[u8], answer: Piece) {
        if command.number == IB_USER_VERBS_CMD_GET_CONTEXT && !command.extended {
            self.file.has_context.store(true, Relaxed);
        }
        let first = self.scratch.word(answer, 0);
        let made = command.makes.map(|object| (object, first));
        let word = |at: usize| -> u32 {
            let bytes = body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u32::from_ne_bytes)
        };
        let ended = match command.shape {
            Shape::Ends(object, at) => Some((object, word(at))),
            _ => None,
        };
        let number = (command.makes == Some(QP)).then(|| self.scratch.word(answer, 4));
        self.remember(made, ended, number);
        if command.makes == Some(AH) {
            let number = self.scratch.word(answer, 4);
            self.file.ah_numbers.add(number, &mut self.random);
        }
        if let Some(at) = command.key_at {
            let key = self.scratch.word(answer, at);
            self.file.keys.add(key, &mut self.random);
            self.learn_key(command, body, first, key);
        }
        let membership = |body: &[u8]| {
            let group = body.get(..16)?.try_into().ok()?;
            Some(Membership {
                qp: word(16),
                group,
            })
        };
        match (command.shape, membership(body)) {
            (Shape::Joins, Some(membership)) => self.file.memberships.add(membership),
            (Shape::Leaves, _) => self.file.memberships.forget(word(16)),
            _ => {}
        }
        let owner = match command.makes {
            Some(CQ | QP | SRQ) => first,
            _ => word(8),
        };
        if let Some(rings) = command.rings.filter(|_| answer.len > command.answer) {
            let answer = self.scratch.read(answer);
            self.file.map(rings, &answer[command.answer..], owner);
        }
    }

    fn learn_key(&self, command: &Command, body: &[u8], handle: u32, key: u32) {
        let quad = |at: usize| -> u64 {
            let bytes = body.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            bytes.map_or(0, u64::from_ne_bytes)
        };
        match (command.makes, command.shape) {
            (Some(MW), _) => self.file.windows.add(Window {
                handle,
                key,
                is_of_type_2: body.get(12) == Some(&2),
            }),
            (Some(MR), Shape::Registers(at)) => {
                self.add_region(handle, key, quad(at + 16), quad(at + 8), false);
            }
            // Registered anew: memory, domain, access, or some of them.
            (None, Shape::Registers(at)) => {
                let (handle, what) = (quad(8) as u32, quad(8) >> 32);
                let access = self.chosen.access;
                self.file.regions.change(handle, |region| {
                    region.key = key;
                    if what & 1 != 0 {
                        (region.start, region.length) = (quad(at + 16), quad(at + 8));
                    }
                    if what & 4 != 0 {
                        region.access = access;
                    }
                });
            }
            _ => {}
        }
    }
}
