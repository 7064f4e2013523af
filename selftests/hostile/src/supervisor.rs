// SPDX-License-Identifier: GPL-2.0

//! Starts hostile processes, kills them at any moment, and sees what is left.

use std::{
    collections::BTreeMap,
    fs, io, ptr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use mrx_selftest_verbs::harness::{patient, resources, set_patience, Setup};

use crate::{
    bystanders,
    coverage::Coverage,
    ledger::{Ledger, Totals},
    peer,
    process::{self, Orders},
    world::Index,
    Arguments,
};

/// How long a killed process may take to go.
const LAST_BREATH: Duration = Duration::from_secs(60);
/// How often progress is told.
const NEWS: Duration = Duration::from_secs(10);

/// A hostile process.
struct Hostile {
    process: libc::pid_t,
    /// When it is killed; many end by themselves before.
    killed_at: Instant,
}

/// The whole run.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    set_patience(arguments.patience);
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    println!("# device {}, seed {seed}", arguments.device);
    let mut ledger = Ledger::new()?;
    let index = Index::new(&mut ledger);
    let ledger: &'static Ledger = Box::leak(Box::new(ledger));
    // Orphans of hostile processes are ours to wait for.
    // SAFETY: a request to the kernel about this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };

    let has_peer = peer::register().context("the client of peer memory")?;
    println!(
        "# a client of peer memory is {}",
        if has_peer { "loaded" } else { "not loaded" }
    );
    let before = resources::count(&arguments.device).ok();
    let setup = setup(arguments, seed);
    let (stop, messages) = (&ledger.totals().stop, &ledger.totals().messages);
    let bystanders = match arguments.no_bystanders {
        true => None,
        false => Some(bystanders::start(&setup, stop, messages)?),
    };
    let coverage = match arguments.coverage {
        Some(_) => Some(Coverage::new()?),
        None => None,
    };
    let ends = ill_treat(arguments, seed, ledger, &index, coverage);
    stop.store(1, Relaxed);
    let went_on = bystanders.map_or(Ok(()), |bystanders| {
        bystanders.finish().context("the bystanders")
    });
    let ends = ends?;
    went_on?;
    wait_for_orphans()?;

    ledger.print();
    let totals = ledger.totals();
    for (how, count) in ends {
        println!("# hostile processes that ended {how}: {count}");
    }
    println!("# {}", sum(totals));
    let harm = totals.harm.load(Relaxed);
    anyhow::ensure!(harm == 0, "{harm} words changed that nothing may change");
    let done = done(totals);
    let least = arguments.at_least;
    anyhow::ensure!(
        done >= least,
        "{done} calls and changes are fewer than {least}"
    );
    if let (Some(path), Some(coverage)) = (&arguments.coverage, coverage) {
        coverage.write(path).context("the coverage")?;
    }
    let gaps = ledger.gaps();
    anyhow::ensure!(
        !arguments.cover || gaps.is_empty(),
        "not covered: {}",
        gaps.join(", ")
    );
    match before {
        Some(before) if !arguments.no_bystanders => {
            resources::come_back_to(&arguments.device, &before)
        }
        _ => Ok(()),
    }
}

/// What the harness is told.
pub fn setup(arguments: &Arguments, seed: u64) -> Setup {
    Setup {
        device: arguments.device.clone(),
        patience: arguments.patience,
        seed,
        rounds: None,
    }
}

fn done(totals: &Totals) -> u64 {
    totals.calls.load(Relaxed) + totals.mutations.load(Relaxed)
}

fn sum(totals: &Totals) -> String {
    let of = |number: &AtomicU64| number.load(Relaxed);
    format!(
        "{} calls, {} changes of rings, {} games, {} messages of bystanders",
        of(&totals.calls),
        of(&totals.mutations),
        of(&totals.games),
        of(&totals.messages)
    )
}

/// How hostile processes ended, and how many of them.
type Ends = BTreeMap<String, u32>;

/// Keeps hostile processes going until the end.
fn ill_treat(
    arguments: &Arguments,
    seed: u64,
    ledger: &'static Ledger,
    index: &Index,
    coverage: Option<Coverage>,
) -> anyhow::Result<Ends> {
    let mut random = fastrand::Rng::with_seed(seed);
    let (started, mut told) = (Instant::now(), Instant::now());
    let end = started + Duration::from_secs(arguments.seconds);
    let mut hostile: Vec<Hostile> = Vec::new();
    let (mut ends, mut number) = (Ends::new(), 0_u64);
    loop {
        let now = Instant::now();
        let enough = arguments
            .calls
            .is_some_and(|calls| done(ledger.totals()) >= calls);
        if now >= end || enough {
            break;
        }
        while hostile.len() < arguments.processes {
            // On a slow machine they do less, but also take longer to start and to end.
            let slow = f64::from(arguments.patience).sqrt();
            let lifetime = Duration::from_millis(random.u64(200..8000)).mul_f64(slow);
            let orders = Orders {
                device: arguments.device.clone(),
                seed: random.u64(..),
                threads: arguments.threads.max(2),
                lifetime,
                confined: number % 2 == 0,
                device_goes: arguments.no_bystanders,
                coverage,
            };
            let killed_at = now + lifetime.mul_f64(0.3 + 1.4 * random.f64()) + patient(NEWS) / 10;
            let process = spawn(ledger, index, &orders)?;
            hostile.push(Hostile { process, killed_at });
            number += 1;
        }
        for one in &hostile {
            if now >= one.killed_at {
                ledger.count(index.lines.killed, 0);
                // SAFETY: a child of ours that was not waited for yet.
                unsafe { libc::kill(one.process, libc::SIGKILL) };
            }
        }
        while let Some((process, how)) = reap()? {
            if let Some(at) = hostile.iter().position(|one| one.process == process) {
                hostile.remove(at);
                anyhow::ensure!(
                    !how.starts_with("with status"),
                    "a hostile process ended {how}"
                );
                *ends.entry(how).or_default() += 1;
            }
        }
        if told.elapsed() >= NEWS {
            told = Instant::now();
            println!(
                "# {} s: {}",
                started.elapsed().as_secs(),
                sum(ledger.totals())
            );
        }
        let late = |one: &&Hostile| now > one.killed_at + patient(LAST_BREATH);
        if let Some(stuck) = hostile.iter().find(late) {
            cannot_be_killed(stuck.process)?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for one in &hostile {
        // SAFETY: a child of ours that was not waited for yet.
        unsafe { libc::kill(one.process, libc::SIGKILL) };
    }
    Ok(ends)
}

fn spawn(ledger: &'static Ledger, index: &Index, orders: &Orders) -> io::Result<libc::pid_t> {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: a request to the kernel about this process.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            process::run(ledger, index.clone(), orders)
        }
        child => Ok(child),
    }
}

/// A process that has ended, and how.
fn reap() -> io::Result<Option<(libc::pid_t, String)>> {
    let mut status = 0;
    // SAFETY: the status may be written.
    let process = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG | libc::__WALL) };
    if process <= 0 {
        return Ok(None);
    }
    let how = if libc::WIFSIGNALED(status) {
        format!("by signal {}", libc::WTERMSIG(status))
    } else if libc::WEXITSTATUS(status) == 0 {
        "by themselves".into()
    } else {
        format!("with status {}", libc::WEXITSTATUS(status))
    };
    Ok(Some((process, how)))
}

/// Waits for all that is left of the hostile processes.
fn wait_for_orphans() -> anyhow::Result<()> {
    let deadline = Instant::now() + patient(LAST_BREATH);
    loop {
        // SAFETY: nobody needs the status.
        match unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG | libc::__WALL) } {
            -1 => return Ok(()),
            0 if Instant::now() > deadline => {
                let path = format!("/proc/self/task/{}/children", std::process::id());
                let children = fs::read_to_string(path)?;
                let first = children.split_whitespace().next().unwrap_or("0");
                cannot_be_killed(first.parse()?)?;
            }
            0 => std::thread::sleep(Duration::from_millis(5)),
            _ => {}
        }
    }
}

fn cannot_be_killed(process: libc::pid_t) -> anyhow::Result<()> {
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let path = task?.path();
        let stack = fs::read_to_string(path.join("stack")).unwrap_or_default();
        println!("# {}:\n{stack}", path.display());
    }
    anyhow::bail!("process {process} cannot be killed")
}
