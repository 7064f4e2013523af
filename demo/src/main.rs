// SPDX-License-Identifier: GPL-2.0

//! A demonstration: two processes, each with one region over alternating pieces
//! of two buffers, move data from region to region and check every byte.

mod actor;
mod scene;

use std::{fs, process::ExitCode};

use anyhow::Context as _;
use clap::Parser;
use mrx_demo::process::{Peer, Stream};

use actor::{Actor, Finding};
use scene::{Side, Transfer, CELL, LENGTH};

/// Move data between two processes through regions made of pieces.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The device, as `ibv_devices` lists it
    #[arg(long, default_value = "rxe_mrx0")]
    device: String,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.device) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("\nFAIL  {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(device: &str) -> anyhow::Result<bool> {
    let mut peer = Peer::start(|stream| be_right(device, stream))?;
    let left = Actor::new(Side::Left, device, &mut peer.stream)?;
    introduce(device, peer.id())?;

    let (mut transfers, mut compared, mut wrong) = (0, 0, 0);
    for transfer in Transfer::all() {
        let ours = left.perform(transfer, &mut peer.stream)?;
        let theirs = Finding::hear(&mut peer.stream)?;
        if transfers == 0 {
            draw(transfer, &ours, &theirs);
        }
        report(transfer, &ours, &theirs);
        transfers += 1;
        compared += ours.compared + theirs.compared;
        wrong += ours.wrong + theirs.wrong;
    }
    drop(left);
    peer.finish()?;

    let moved = grouped((transfers * LENGTH) as u64);
    let compared = grouped(compared);
    if wrong == 0 {
        println!("\nPASS  {transfers} transfers moved {moved} bytes; {compared} bytes compared, all right");
    } else {
        println!("\nFAIL  {} of {compared} bytes are wrong", grouped(wrong));
    }
    Ok(wrong == 0)
}

/// The second process: the same, and it tells the first what it found.
fn be_right(device: &str, mut stream: Stream) -> anyhow::Result<()> {
    let right = Actor::new(Side::Right, device, &mut stream)?;
    for transfer in Transfer::all() {
        right.perform(transfer, &mut stream)?.tell(&mut stream)?;
    }
    Ok(())
}

fn introduce(device: &str, child: i32) -> anyhow::Result<()> {
    let kernel =
        fs::read_to_string("/proc/sys/kernel/osrelease").context("the kernel's release")?;
    println!("Regions made of pieces, between two processes\n");
    println!("  kernel     {}", kernel.trim());
    println!("  device     {device}, driven by {}", provider());
    println!(
        "  processes  left (pid {}) and right (pid {child})",
        std::process::id()
    );
    println!(
        "  buffers    two of {} bytes in each process",
        grouped(LENGTH as u64)
    );
    for side in Side::BOTH {
        let (count, piece) = (LENGTH / side.piece(), grouped(side.piece() as u64));
        println!("  region     {side:<5} one key over {count:>2} pieces of {piece} bytes, from both buffers in turn");
    }
    Ok(())
}

/// The library that libibverbs loaded to drive the device.
fn provider() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found = maps
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let mut found = found.filter(|path| path.contains("/libibverbs/lib"));
    let path = found
        .find(|path| path.contains("rxe"))
        .unwrap_or("an unknown library");
    format!("the stock {}", path.rsplit('/').next().unwrap_or(path))
}

fn draw(transfer: Transfer, ours: &Finding, theirs: &Finding) {
    println!("\nAfter the first transfer; one character is {CELL} bytes, a dot is what no key reaches:\n");
    for (side, finding) in [(Side::Left, ours), (Side::Right, theirs)] {
        let arrow = if side == transfer.from { "from" } else { "to" };
        for (name, line) in ["one", "two"].iter().zip(&finding.picture) {
            println!("  {arrow:>4} {side:<5}  buffer {name}  {line}");
        }
    }
    println!();
}

fn report(transfer: Transfer, ours: &Finding, theirs: &Finding) {
    let Transfer { way, from, .. } = transfer;
    let (to, length) = (from.other(), grouped(LENGTH as u64));
    let verdict = match ours.wrong + theirs.wrong {
        0 => "every byte right".to_owned(),
        wrong => format!("{} BYTES WRONG", grouped(wrong)),
    };
    println!("  {way:<5}  {from:>5} -> {to:<5}  {length} bytes  {verdict}");
}

/// A number with separators, which is easier to read.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
