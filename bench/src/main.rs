// SPDX-License-Identifier: GPL-2.0

//! Measures an mrx device beside `rdma_rxe` and the limits of the machine, in
//! one run, and says how they compare.

mod flow;
mod groups;
mod link;
mod plot;
mod progress;
mod report;
mod table;

use std::{fs, path::PathBuf, process::ExitCode, thread, time::Duration};

use anyhow::Context as _;
use clap::{Parser, ValueEnum};

use groups::{Bench, Group};
use progress::Progress;
use report::{Machine, Report};

/// Measure an mrx device beside rdma_rxe and the limits of the machine.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The mrx device, as `ibv_devices` lists it
    #[arg(long, default_value = "rxe_mrx0")]
    device: String,

    /// The rxe device to compare with; without it there is no comparison
    #[arg(long, value_name = "DEVICE")]
    rxe: Option<String>,

    /// Measure only this group (may be repeated)
    #[arg(long, value_name = "GROUP")]
    only: Vec<Group>,

    /// Milliseconds for each value
    #[arg(long, value_name = "MS", default_value_t = 600)]
    time: u64,

    /// What the machine runs on, which it cannot know itself: kvm, tcg, ...
    #[arg(long, env = "MRX_ACCEL", default_value = "unknown")]
    accelerator: String,

    /// Where to write all values
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Where to draw the picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mrx-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything could be measured.
fn run(arguments: Arguments) -> anyhow::Result<bool> {
    let machine = machine(arguments.accelerator)?;
    let Machine {
        kernel,
        cpu,
        cpus,
        accelerator,
    } = &machine;
    println!("kernel {kernel}, {cpus} processors ({cpu}), accelerator {accelerator}");
    let groups = match arguments.only.is_empty() {
        true => Group::value_variants().to_vec(),
        false => arguments.only,
    };
    let mut bench = Bench {
        mrx: arguments.device,
        rxe: arguments.rxe,
        time: Duration::from_millis(arguments.time),
        report: Report::new(machine),
    };
    let mut progress = Progress::new(groups.len());
    for group in &groups {
        let value = group
            .to_possible_value()
            .context("a group without a name")?;
        let name = value.get_name();
        progress.begin(
            name,
            &value
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default(),
        );
        link::roam();
        if let Err(error) = group.run(&mut bench) {
            bench.report.failures.push(format!("{name}: {error:#}"));
        }
    }
    progress.end();

    let report = bench.report;
    if report.machine.accelerator.starts_with("tcg") {
        println!("\nUnder tcg the kernel copies from and to user memory byte by byte. That slows");
        println!("process_vm_writev and rxe far more than memcpy, which is the limit there.");
    }
    println!("\n(3.5x) after a value: the first column of the table is 3.5 times as fast");
    for table in groups.iter().flat_map(|group| group.tables()) {
        table::print(&report, table);
    }
    table::print_goals(&report.goals);
    for failure in &report.failures {
        println!("\nNOT MEASURED  {failure}");
    }
    if let Some(path) = arguments.json {
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = arguments.svg {
        plot::draw(&report, &path)?;
    }
    Ok(report.failures.is_empty())
}

fn machine(accelerator: String) -> anyhow::Result<Machine> {
    let kernel =
        fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    let info = fs::read_to_string("/proc/cpuinfo").context("the processor")?;
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let cpu = name.map_or("unknown", |name| name.trim_start_matches([' ', '\t', ':']));
    Ok(Machine {
        kernel: kernel.trim().to_owned(),
        cpu: cpu.trim().to_owned(),
        cpus: thread::available_parallelism().map_or(1, Into::into),
        accelerator,
    })
}
