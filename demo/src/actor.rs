// SPDX-License-Identifier: GPL-2.0

//! What each of the two processes does.

use std::rc::Rc;

use anyhow::Context as _;
use mrx_demo::{
    process::Stream,
    verbs::{Depths, Device, Memory, QueuePair, Region, Work},
};

use crate::scene::{Side, Transfer, Way, LENGTH};

/// What a transfer did to the buffers of one process.
#[derive(Default)]
pub struct Finding {
    pub compared: u64,
    pub wrong: u64,
    pub picture: [String; 2],
}

impl Finding {
    /// Sends it to the other process.
    pub fn tell(&self, stream: &mut Stream) -> anyhow::Result<()> {
        stream.tell(self.compared)?;
        stream.tell(self.wrong)?;
        self.picture
            .iter()
            .try_for_each(|line| stream.tell_text(line))
    }

    /// Receives it from the other process.
    pub fn hear(stream: &mut Stream) -> anyhow::Result<Self> {
        Ok(Self {
            compared: stream.hear()?,
            wrong: stream.hear()?,
            picture: [stream.hear_text()?, stream.hear_text()?],
        })
    }
}

/// One process: two registered buffers, the region over pieces of them, and a
/// queue pair that is connected with the other's.
pub struct Actor {
    side: Side,
    // Fields are released in this order: the region before what it lies over.
    qp: QueuePair,
    region: Region,
    _parts: [Region; 2],
    buffers: [Rc<Memory>; 2],
    /// Start and key of the other's region.
    remote: (u64, u32),
}

impl Actor {
    /// Builds what one process has, while the other does the same.
    pub fn new(side: Side, device: &str, stream: &mut Stream) -> anyhow::Result<Self> {
        let device = Device::open(device)?;
        let buffers = [Memory::new(LENGTH)?, Memory::new(LENGTH)?];
        let register = |memory| Region::over(&device, memory).context("register a buffer");
        let parts = [register(&buffers[0])?, register(&buffers[1])?];
        let region = Region::empty(&device).context("register an empty region")?;
        let ranges: Vec<_> = side
            .pieces()
            .map(|(buffer, at)| parts[buffer].range(at, side.piece()))
            .collect();
        region.set_layout(&ranges)?;
        let qp = QueuePair::new(
            &device,
            Depths {
                send: 16,
                receive: 16,
            },
        )?;
        stream.connect(&qp)?;
        stream.tell(region.start())?;
        stream.tell(region.rkey().into())?;
        let remote = (stream.hear()?, stream.hear()? as u32);
        Ok(Self {
            side,
            qp,
            region,
            _parts: parts,
            buffers,
            remote,
        })
    }

    /// This process's part of a transfer, and what came of it.
    pub fn perform(&self, transfer: Transfer, stream: &mut Stream) -> anyhow::Result<Finding> {
        for (memory, bytes) in self.buffers.iter().zip(self.side.contents(transfer.seed)) {
            memory.write(&bytes);
        }
        let whole = self.region.range(0, LENGTH);
        let posts = transfer.poster() == self.side;
        let receives = transfer.way == Way::Send && !posts;
        if receives {
            self.qp.post_receives(whole, 1)?;
        }
        stream.meet()?;
        if posts {
            let (address, rkey) = self.remote;
            let mut work = match transfer.way {
                Way::Send => Work::send(whole),
                Way::Write => Work::write(whole, address, rkey),
                Way::Read => Work::read(whole, address, rkey),
            };
            self.qp.post(&mut work)?;
            self.qp.sent.wait_for(1)?;
        }
        if receives {
            self.qp.received.wait_for(1)?;
        }
        stream.meet()?;
        Ok(self.look(transfer))
    }

    /// Compares all bytes of both buffers with what they should be.
    fn look(&self, transfer: Transfer) -> Finding {
        let found = [self.buffers[0].read(), self.buffers[1].read()];
        let expected = transfer.expected(self.side);
        let pairs = found.iter().flatten().zip(expected.iter().flatten());
        Finding {
            compared: found.iter().map(|buffer| buffer.len() as u64).sum(),
            wrong: pairs.filter(|(is, due)| is != due).count() as u64,
            picture: transfer.picture(self.side, &found),
        }
    }
}
