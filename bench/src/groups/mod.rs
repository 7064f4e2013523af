// SPDX-License-Identifier: GPL-2.0

//! What is measured, a group each.

mod access;
pub mod bandwidth;
mod keys;
mod latency;
pub mod layouts;
mod odp;
mod perftest;
mod posting;
mod queues;
mod registration;
mod setting;

use std::time::Duration;

use clap::ValueEnum;

use crate::report::Report;

/// The subjects that all tables name alike.
pub const MRX: &str = "mrx";
pub const RXE: &str = "rxe";

/// What the groups need to know, and where they put what they find.
pub struct Bench {
    /// The device that is measured.
    pub mrx: String,
    /// The one that it is compared with.
    pub rxe: Option<String>,
    /// For each value.
    pub time: Duration,
    /// What was found.
    pub report: Report,
}

impl Bench {
    /// Both devices, each with what it is called in the tables.
    pub fn devices(&self) -> Vec<(&'static str, String)> {
        let rxe = self.rxe.iter().map(|device| (RXE, device.clone()));
        std::iter::once((MRX, self.mrx.clone()))
            .chain(rxe)
            .collect()
    }
}

/// The groups.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Group {
    /// ib_write_bw and ib_send_lat
    Perftest,
    /// SEND, WRITE and READ by size, process_vm_writev, memcpy
    Bandwidth,
    /// SEND of 8 bytes, there and back
    Latency,
    /// one to 16 queue pairs
    Queues,
    /// ibv_reg_mr and ibv_dereg_mr by size
    Registration,
    /// one WRITE through a layout, packing, or a request for each block
    Layouts,
    /// the cost of setting a layout
    Setting,
    /// 8 bytes somewhere in a large layout
    Access,
    /// the cost of a request among up to 100,000 regions
    Keys,
    /// the cost of a request among up to 1,000 queue pairs
    Posting,
    /// memory that is paged on demand: prefetching, transfers, registration
    Odp,
}

impl Group {
    /// Measures it.
    pub fn run(self, bench: &mut Bench) -> anyhow::Result<()> {
        match self {
            Self::Perftest => perftest::run(bench),
            Self::Bandwidth => bandwidth::run(bench),
            Self::Latency => latency::run(bench),
            Self::Queues => queues::run(bench),
            Self::Registration => registration::run(bench),
            Self::Layouts => layouts::run(bench),
            Self::Setting => setting::run(bench),
            Self::Access => access::run(bench),
            Self::Keys => keys::run(bench),
            Self::Posting => posting::run(bench),
            Self::Odp => odp::run(bench),
        }
    }

    /// The tables that it fills.
    pub fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Perftest => &[perftest::BANDWIDTH, perftest::LATENCY],
            Self::Bandwidth => &[bandwidth::BANDWIDTH, bandwidth::MESSAGES],
            Self::Latency => &[latency::TABLE],
            Self::Queues => &[queues::BANDWIDTH, queues::MESSAGES],
            Self::Registration => &[registration::TABLE],
            Self::Layouts => &[layouts::TABLE],
            Self::Setting => &[setting::TABLE],
            Self::Access => &[access::TABLE],
            Self::Keys => &[keys::TABLE],
            Self::Posting => &[posting::TABLE],
            Self::Odp => &[odp::PREFETCH, odp::TRANSFER, odp::REGISTRATION],
        }
    }
}
