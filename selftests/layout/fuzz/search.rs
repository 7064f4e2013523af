// SPDX-License-Identifier: GPL-2.0

//! The loop: change an input, try it, keep it if it does something new.

use crate::{behaviour::Behaviours, mutate::mutated};
use fastrand::Rng;
use mrx_layout::fuzz::fuzz_one;
use std::{fmt, panic};

/// Whether module and model differ on `input`. What they differ in is said on standard error.
pub fn fails(input: &[u8]) -> bool {
    panic::catch_unwind(|| fuzz_one(input)).is_err()
}

/// A search for an input that fails.
pub struct Search {
    inputs: Vec<Vec<u8>>,
    given: usize,
    rng: Rng,
    behaviours: Behaviours,
    tried: u64,
}

impl Search {
    /// A search that begins with `inputs`. The same seed makes the same search.
    pub fn new(inputs: Vec<Vec<u8>>, seed: u64, behaviours: Behaviours) -> Self {
        Self {
            given: inputs.len(),
            inputs,
            rng: Rng::with_seed(seed),
            behaviours,
            tried: 0,
        }
    }

    /// Goes on while `go_on` says so of the number of inputs that were tried; returns an input that
    /// fails, made as short as is easily possible. The inputs it was given come first.
    pub fn run_while(&mut self, go_on: impl Fn(u64) -> bool) -> Option<Vec<u8>> {
        for index in 0..self.inputs.len() {
            let input = self.inputs[index].clone();
            if self.is_wrong(&input) {
                return Some(shortened(input));
            }
            self.behaviours.is_new(&input);
        }
        while go_on(self.tried) {
            let input = self.next_input();
            if self.is_wrong(&input) {
                return Some(shortened(input));
            }
            if self.behaviours.is_new(&input) {
                self.inputs.push(input);
            }
        }
        None
    }

    /// How many inputs were tried.
    #[cfg(test)]
    pub fn tried(&self) -> u64 {
        self.tried
    }

    /// The inputs that did something new.
    #[cfg(test)]
    pub fn kept(&self) -> &[Vec<u8>] {
        &self.inputs[self.given..]
    }

    fn is_wrong(&mut self, input: &[u8]) -> bool {
        self.tried += 1;
        fails(input)
    }

    fn next_input(&mut self) -> Vec<u8> {
        if self.inputs.is_empty() {
            return mutated(&[], &[], &mut self.rng);
        }
        let one = self.rng.usize(..self.inputs.len());
        let other = self.rng.usize(..self.inputs.len());
        mutated(&self.inputs[one], &self.inputs[other], &mut self.rng)
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} inputs tried, {} behaviours seen, {} inputs kept beside the {} given",
            self.tried,
            self.behaviours.len(),
            self.inputs.len() - self.given,
            self.given
        )
    }
}

/// A shorter input that fails, too: without parts that do not matter for that.
fn shortened(mut input: Vec<u8>) -> Vec<u8> {
    // It has been told what is wrong; not once more for every attempt.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let mut part = input.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at + part <= input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..at + part);
            if fails(&shorter) {
                input = shorter;
            } else {
                at += part;
            }
        }
        part /= 2;
    }
    panic::set_hook(hook);
    input
}
