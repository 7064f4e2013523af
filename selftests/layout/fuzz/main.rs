// SPDX-License-Identifier: GPL-2.0

//! A fuzzer for the layout arithmetic that needs nothing but this crate.
//!
//! ```text
//! mrx-layout-fuzz CORPUS [SECONDS [SEED]]   looks for an input on which module and model differ
//! mrx-layout-fuzz CORPUS show               what the inputs stand for
//! mrx-layout-fuzz CORPUS check              each input once, such as one that was found
//! ```
//!
//! CORPUS is a folder of inputs, or one input. It is only read, but for an input that fails, which
//! is written into it. The same seed makes the same inputs. A build with optimisation
//! (`cargo run --release`) tries several times as many, but without the assertions of the module.
//!
//! - [`corpus`]: inputs in files.
//! - [`mutate`]: new inputs from old ones.
//! - [`behaviour`]: what an input makes the module do, to tell which of them are worth keeping.
//! - [`search`]: all of it, in a loop.

mod behaviour;
mod corpus;
mod mutate;
mod search;
#[cfg(test)]
mod tests;

use crate::{
    behaviour::Behaviours,
    search::{fails, Search},
};
use std::{
    env,
    error::Error,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

const SECONDS: u64 = 60;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [path, "show"] => show(Path::new(path)),
        [path, "check"] => check(Path::new(path)),
        [path] => fuzz(Path::new(path), SECONDS, fastrand::u64(..)),
        [path, seconds] => fuzz(Path::new(path), seconds.parse()?, fastrand::u64(..)),
        [path, seconds, seed] => fuzz(Path::new(path), seconds.parse()?, seed.parse()?),
        _ => Err("usage: mrx-layout-fuzz CORPUS [SECONDS [SEED] | show | check]".into()),
    }
}

fn show(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    for (name, input) in corpus::read(path)? {
        println!("{name}:");
        for line in behaviour::describe(&input) {
            println!("    {line}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let mut failures = 0;
    for (name, input) in corpus::read(path)? {
        let failed = fails(&input);
        failures += u32::from(failed);
        println!("{name}: {}", if failed { "FAILS" } else { "right" });
    }
    Ok(ExitCode::from(u8::from(failures > 0)))
}

fn fuzz(path: &Path, seconds: u64, seed: u64) -> Result<ExitCode, Box<dyn Error>> {
    println!("seed {seed}");
    let inputs = corpus::read(path)?.into_iter().map(|(_, input)| input);
    let mut search = Search::new(inputs.collect(), seed, Behaviours::default());
    let until = Instant::now() + Duration::from_secs(seconds);
    let failed = search.run_while(|_| Instant::now() < until);
    println!("{search}");
    let Some(input) = failed else {
        return Ok(ExitCode::SUCCESS);
    };
    let folder = match path.is_dir() {
        true => path,
        false => path.parent().unwrap_or(Path::new(".")),
    };
    let file = corpus::write(folder, &input, &behaviour::describe(&input))?;
    println!("this input fails: {}", file.display());
    Ok(ExitCode::FAILURE)
}
