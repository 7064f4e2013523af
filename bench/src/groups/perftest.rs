// SPDX-License-Identifier: GPL-2.0

//! The programs that people measure RDMA with, as they come.

use std::{
    fs,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;

use super::{Bench, MRX, RXE};
use crate::report::Unit;

pub const BANDWIDTH: &str = "perftest, bandwidth";
pub const LATENCY: &str = "perftest, latency";

const WRITE: &str = "ib_write_bw -s 65536";
const SEND: &str = "ib_send_lat -s 8";

/// Runs of each, of which the best counts.
const RUNS: usize = 3;

/// After this, no further run is begun.
const ENOUGH: Duration = Duration::from_secs(15);

/// The port of a server, as `/proc/net/tcp` has it, in the state LISTEN.
const LISTENING: &str = ":4853 00000000:0000 0A";

/// For one run of one program.
const LIMIT: Duration = Duration::from_secs(60);

/// Where the average bandwidth and the typical latency stand in the last line
/// of a report.
const AVERAGE: usize = 3;
const TYPICAL: usize = 4;

pub fn run(bench: &mut Bench) -> anyhow::Result<()> {
    for (subject, device) in bench.devices() {
        // What is enough to be steady, and for rxe not too much.
        let iterations = if subject == MRX { "5000" } else { "500" };
        let measure = |line, iterations, field| {
            let started = Instant::now();
            let mut values = vec![measure(line, &device, iterations, field)?];
            while values.len() < RUNS && started.elapsed() < ENOUGH {
                values.push(measure(line, &device, iterations, field)?);
            }
            anyhow::Ok(values)
        };
        // Bad luck of the scheduler makes a run slow, and nothing makes it fast.
        let value = measure(WRITE, iterations, AVERAGE)?
            .into_iter()
            .fold(0.0, f64::max);
        bench
            .report
            .add(BANDWIDTH, WRITE, subject, value, Unit::MibPerSecond);
        let value = measure(SEND, "1000", TYPICAL)?
            .into_iter()
            .fold(f64::MAX, f64::min);
        bench
            .report
            .add(LATENCY, SEND, subject, value, Unit::Microseconds);
    }
    bench.report.hold(BANDWIDTH, WRITE, MRX, RXE, 30.0);
    bench.report.hold(LATENCY, SEND, MRX, RXE, 5.0);
    Ok(())
}

/// Runs server and client, and takes a field of what the client reports.
fn measure(line: &str, device: &str, iterations: &str, field: usize) -> anyhow::Result<f64> {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or(line);
    let arguments: Vec<_> = words
        .chain(["-F", "-d", device, "-n", iterations])
        .collect();
    let start = |more: &[&str]| {
        Command::new(program)
            .args(&arguments)
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {program}"))
    };
    let server = start(&[])?;
    wait_for_server();
    let client = start(&["127.0.0.1"]).and_then(|client| end(client, program));
    let mut server = server;
    if client.is_err() {
        let _ = server.kill();
    }
    let client = client?;
    end(server, program)?;

    let output = String::from_utf8_lossy(&client.stdout);
    let size = arguments[1];
    let last = output
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let last = last.filter(|fields| fields.first() == Some(&size)).last();
    let value = last
        .as_ref()
        .and_then(|fields| fields.get(field))
        .and_then(|text| text.parse().ok());
    value.with_context(|| format!("{program} on {device} reported: {output}"))
}

/// Waits until a server listens. That it never does is for the client to tell.
fn wait_for_server() {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(10) {
        let of = |path| fs::read_to_string(path).unwrap_or_default();
        let sockets = of("/proc/net/tcp") + &of("/proc/net/tcp6");
        // The addresses of the second are longer.
        if sockets
            .replace(&"0".repeat(32), &"0".repeat(8))
            .contains(LISTENING)
        {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a program, but not for ever.
fn end(mut child: Child, program: &str) -> anyhow::Result<Output> {
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > LIMIT {
            child.kill()?;
            anyhow::bail!("{program} did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{program}: {} {complaint}",
        output.status
    );
    Ok(output)
}
