// SPDX-License-Identifier: GPL-2.0

//! Tests of an RDMA device from userspace. Prints KTAP.

mod tests;

use std::process::ExitCode;

use clap::Parser;
use mrx_selftest_verbs::harness;

use harness::runner::{self, Selection};
use harness::Setup;

/// Test an RDMA device through libibverbs and libmrx.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The device to test, as `ibv_devices` lists it
    #[arg(long, required_unless_present = "list")]
    device: Option<String>,

    /// Run only the tests whose name contains this text (may be repeated)
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,

    /// Leave out the tests whose name contains this text (may be repeated)
    #[arg(long, value_name = "TEXT")]
    exclude: Vec<String>,

    /// Print the names of the tests and do nothing
    #[arg(long)]
    list: bool,

    /// Take a test that is skipped for one that failed
    #[arg(long)]
    strict: bool,

    /// Multiply all time limits, for a slow machine or a debug kernel
    #[arg(long, value_name = "FACTOR", default_value_t = 1)]
    patience: u32,

    /// What the random tests start from; printed at the start of the run
    #[arg(long)]
    seed: Option<u64>,

    /// Rounds of the tests that have many, in place of their default
    #[arg(long)]
    rounds: Option<u32>,

    /// Test nothing: let two processes flood each other with errors for ever
    #[arg(long)]
    flood: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let selection = Selection {
        filter: arguments.filter,
        exclude: arguments.exclude,
    };
    let tests = selection.of(tests::all());
    if arguments.list {
        for test in tests {
            println!("{}", test.name);
        }
        return ExitCode::SUCCESS;
    }
    let setup = Setup {
        device: arguments.device.unwrap_or_default(),
        patience: arguments.patience,
        seed: arguments.seed.unwrap_or_else(|| fastrand::u64(..)),
        rounds: arguments.rounds,
    };
    if arguments.flood {
        return tests::flood::run(&setup).map_or_else(
            |error| {
                println!("{error:#}");
                ExitCode::FAILURE
            },
            |()| ExitCode::SUCCESS,
        );
    }
    runner::run(&setup, &tests, arguments.strict)
}
