// SPDX-License-Identifier: GPL-2.0

//! The short way: all bytes of a stream at once.

use super::{
    super::super::{
        gate::Inside,
        odp::span::Resident, //
    },
    Memory,
    Stream,
    Stretch,
    Train, //
};
use kernel::sync::atomic::Relaxed;

/// All bytes of a stream, which lie next to each other in memory that stays while this exists.
pub(in super::super) struct Straight<'a> {
    pub(in super::super) stretch: Stretch,
    _resident: Option<Resident>,
    _memory: Option<Inside<'a, Memory>>,
}

impl<'a> Stream<'a> {
    /// All bytes of the stream, if they are `len` bytes that need no looking for: most streams are
    /// short, of one region, and have that. The stream itself stays as it is.
    #[inline]
    pub(in super::super) fn straight(&self, len: usize) -> Option<Straight<'a>> {
        if self.piece.is_some() {
            return None;
        }
        let found = match self.windows.as_slice() {
            [] => Straight {
                stretch: self.at_hand.first(),
                _resident: None,
                _memory: None,
            },
            [window] if window.bound.is_none() && window.length == len as u64 => {
                let region = &window.region;
                let memory = region.memory.enter()?;
                if region.generation.load(Relaxed) != window.generation {
                    return None;
                }
                let mut resident = None;
                let stretch = match &*memory {
                    Memory::Paged(memory) => {
                        let paged = memory.paged();
                        let found = paged.resident(window.offset, len, self.write, &mut resident);
                        found.ok()?
                    }
                    memory => memory.stretch(window.offset, len, &mut 0)?,
                };
                Straight {
                    stretch,
                    _resident: resident,
                    _memory: Some(memory),
                }
            }
            _ => return None,
        };
        (found.stretch.len == len && !found.stretch.io).then_some(found)
    }

    /// Goes on to the end.
    #[inline]
    pub(in super::super) fn pass(&mut self) {
        self.windows = [].iter();
        self.at_hand = Train::NONE;
    }
}
