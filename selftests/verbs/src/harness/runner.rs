// SPDX-License-Identifier: GPL-2.0

//! Runs each test in a process of its own and prints KTAP
//! (`Documentation/dev-tools/ktap.rst`).

use std::{
    io::{self, Read, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    process::ExitCode,
    time::{Duration, Instant},
};

use super::{check::Skipped, set_patience, Setup, Test};

/// How long a killed process may take to go.
const LAST_BREATH: Duration = Duration::from_secs(20);

/// Exit statuses of a test's process.
const PASSED: i32 = 0;
const FAILED: i32 = 1;
const SKIPPED: i32 = 4;

/// Which tests to run.
pub struct Selection {
    pub filter: Vec<String>,
    pub exclude: Vec<String>,
}

impl Selection {
    pub fn of(&self, tests: Vec<Test>) -> Vec<Test> {
        let named = |texts: &[String], test: &Test| {
            texts.iter().any(|text| test.name.contains(text.as_str()))
        };
        tests
            .into_iter()
            .filter(|test| self.filter.is_empty() || named(&self.filter, test))
            .filter(|test| !named(&self.exclude, test))
            .collect()
    }
}

enum Verdict {
    Passed,
    Skipped,
    Failed(String),
}

/// Runs the tests one after the other.
pub fn run(setup: &Setup, tests: &[Test], strict: bool) -> ExitCode {
    set_patience(setup.patience);
    println!("KTAP version 1");
    println!("# device {}, seed {}", setup.device, setup.seed);
    println!("1..{}", tests.len());
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let started = Instant::now();
    for (number, test) in (1..).zip(tests) {
        // The child must not print again what stands in our buffer.
        let _ = io::stdout().flush();
        let (verdict, mut output) = match run_one(setup, test) {
            Ok(outcome) => outcome,
            Err(error) => (
                Verdict::Failed(format!("cannot start it: {error}")),
                String::new(),
            ),
        };
        let name = test.name;
        match verdict {
            Verdict::Skipped => {
                skipped += 1;
                let reason = output.trim_end().lines().last().unwrap_or_default();
                println!("ok {number} {name} # SKIP {reason}");
                continue;
            }
            Verdict::Passed => passed += 1,
            Verdict::Failed(ref why) => {
                failed += 1;
                output.push_str(why);
            }
        }
        for line in output.lines().filter(|line| !line.is_empty()) {
            println!("# {line}");
        }
        let word = if matches!(verdict, Verdict::Passed) {
            "ok"
        } else {
            "not ok"
        };
        println!("{word} {number} {name}");
    }
    let seconds = started.elapsed().as_secs();
    println!("# {passed} passed, {failed} failed, {skipped} skipped in {seconds} s");
    if failed == 0 && !(strict && skipped > 0) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_one(setup: &Setup, test: &Test) -> io::Result<(Verdict, String)> {
    let (mut reader, writer) = UnixStream::pair()?;
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(reader);
            // SAFETY: both are open descriptors; a process group of its own
            // makes the test and what it starts one thing to kill, and it shall
            // not outlive the runner.
            unsafe {
                libc::setpgid(0, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::dup2(writer.as_raw_fd(), 1);
                libc::dup2(writer.as_raw_fd(), 2);
            }
            drop(writer);
            let status = perform(setup, test);
            let _ = io::stdout().flush();
            // SAFETY: ends the process with what is still live, as a program
            // may: the kernel has to clean up.
            unsafe { libc::_exit(status) }
        }
        child => {
            drop(writer);
            let limit = Duration::from_secs(test.seconds.into()) * setup.patience.max(1);
            let mut output = Vec::new();
            let status = watch(child, &mut reader, &mut output, limit)?;
            Ok((
                judge(status, limit),
                String::from_utf8_lossy(&output).into_owned(),
            ))
        }
    }
}

/// What happens in the process of the test.
fn perform(setup: &Setup, test: &Test) -> i32 {
    let outcome = std::panic::catch_unwind(|| (test.body)(setup));
    match outcome {
        Ok(Ok(())) => PASSED,
        Ok(Err(error)) => {
            println!("{error:#}");
            if error.is::<Skipped>() {
                SKIPPED
            } else {
                FAILED
            }
        }
        // The panic has printed its message.
        Err(_) => FAILED,
    }
}

/// Collects the output of a child until it ends; kills it after `limit`. The
/// answer is its wait status, or nothing when even that did not end it.
fn watch(
    child: libc::pid_t,
    reader: &mut UnixStream,
    output: &mut Vec<u8>,
    limit: Duration,
) -> io::Result<Option<i32>> {
    let started = Instant::now();
    let mut killed = false;
    loop {
        drain(reader, output, 20)?;
        let mut status = 0;
        // SAFETY: a child of ours.
        let ended = unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child;
        let late = started.elapsed() > limit;
        if ended || (late && !killed) {
            killed = true;
            // What the test started itself ends, too.
            // SAFETY: the group of the child, which has no other members.
            unsafe { libc::kill(-child, libc::SIGKILL) };
        }
        if ended {
            drain(reader, output, 0)?;
            return Ok(Some(status).filter(|_| !late));
        }
        if started.elapsed() > limit + LAST_BREATH {
            output.extend_from_slice(b"the process does not end when it is killed\n");
            return Ok(None);
        }
    }
}

/// Reads what is there, waiting at most `milliseconds` for a first byte.
fn drain(reader: &mut UnixStream, output: &mut Vec<u8>, milliseconds: i32) -> io::Result<()> {
    let mut wait = milliseconds;
    loop {
        let mut ready = libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry.
        if unsafe { libc::poll(&mut ready, 1, wait) } <= 0 {
            return Ok(());
        }
        let mut chunk = [0; 4096];
        match reader.read(&mut chunk)? {
            0 => {
                // The other end is closed, and poll would not wait.
                std::thread::sleep(Duration::from_millis(if wait > 0 { 1 } else { 0 }));
                return Ok(());
            }
            count => output.extend_from_slice(&chunk[..count]),
        }
        wait = 0;
    }
}

fn judge(status: Option<i32>, limit: Duration) -> Verdict {
    let Some(status) = status else {
        return Verdict::Failed(format!("not done within {limit:?}"));
    };
    if libc::WIFSIGNALED(status) {
        return Verdict::Failed(format!("ended by signal {}", libc::WTERMSIG(status)));
    }
    match libc::WEXITSTATUS(status) {
        PASSED => Verdict::Passed,
        SKIPPED => Verdict::Skipped,
        FAILED => Verdict::Failed(String::new()),
        other => Verdict::Failed(format!("ended with status {other}")),
    }
}
