// SPDX-License-Identifier: GPL-2.0

//! A hostile user of an RDMA device: processes that do to it whatever a user can
//! do, beside two that use it as they should. What they do follows from a seed;
//! in which order their threads do it is up to the scheduler.

mod arena;
mod bystanders;
mod caller;
mod coverage;
mod device;
mod games;
mod known;
mod ledger;
mod limits;
mod peer;
mod process;
mod requests;
mod rings;
mod schema;
mod scratch;
mod supervisor;
mod vandal;
mod world;

use std::{path::PathBuf, process::ExitCode};

use clap::Parser;
use mrx_selftest_verbs::harness::runner;

/// Ill-treat an RDMA device for some time, and report what was reached.
#[derive(Parser)]
#[command(version)]
pub struct Arguments {
    /// The device, as `rdma link` names it
    #[arg(long)]
    device: String,

    /// What everything starts from; printed at the start
    #[arg(long)]
    seed: Option<u64>,

    /// How long to go on
    #[arg(long, default_value_t = 60)]
    seconds: u64,

    /// End when there were so many calls and changes of rings
    #[arg(long)]
    calls: Option<u64>,

    /// Fail if there were fewer calls and changes of rings
    #[arg(long, default_value_t = 0)]
    at_least: u64,

    /// Fail unless each handler and each request succeeded at least once, and failed
    #[arg(long)]
    cover: bool,

    /// Write here which code of the module ran, as offsets; it has to be built with
    /// KCOV_INSTRUMENT=y
    #[arg(long)]
    coverage: Option<PathBuf>,

    /// Hostile processes at a time
    #[arg(long, default_value_t = 2)]
    processes: usize,

    /// Threads of each, besides the one that plays with its memory
    #[arg(long, default_value_t = 3)]
    threads: usize,

    /// Nobody uses the device as one should: for when it goes away meanwhile
    #[arg(long)]
    no_bystanders: bool,

    /// Instead, test the limits of the device, and that what is used is counted
    #[arg(long)]
    limits: bool,

    /// Multiply all time limits, for a slow machine or a debug kernel
    #[arg(long, default_value_t = 1)]
    patience: u32,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.limits {
        let setup = supervisor::setup(&arguments, 0);
        return runner::run(&setup, limits::TESTS, true);
    }
    match supervisor::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("# {error:#}");
            ExitCode::FAILURE
        }
    }
}
