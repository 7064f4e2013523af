// SPDX-License-Identifier: GPL-2.0

//! The corpus, the fuzzer itself, and a short search.
//!
//! `MRX_FUZZ_SECONDS` is how long the search goes on; default 10. `MRX_FUZZ_SEED` makes it another
//! one than the last.

use crate::{
    behaviour::{describe, Behaviours},
    corpus,
    mutate::{mutated, MAX_LENGTH},
    search::Search,
};
use fastrand::Rng;
use mrx_layout::fuzz::fuzz_one;
use std::{
    collections::HashSet,
    env,
    path::Path,
    time::{Duration, Instant},
};

fn seeds() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    corpus::read(&folder).expect("the corpus is there and in order")
}

fn inputs() -> Vec<Vec<u8>> {
    seeds().into_iter().map(|(_, input)| input).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    let value = env::var(variable).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn the_module_is_right_on_every_input_of_the_corpus() {
    for (name, input) in seeds() {
        println!("{name}");
        fuzz_one(&input);
    }
}

#[test]
fn the_corpus_has_a_layout_for_every_reason_to_refuse_one() {
    let lines: Vec<_> = inputs().iter().flat_map(|input| describe(input)).collect();
    for reason in [
        "Empty",
        "ZeroLength",
        "ZeroRepeat",
        "NoDimensions",
        "TooManyDimensions",
        "ZeroDatumCount",
        "OutOfSource",
        "Overflow",
        "TotalOverflow",
    ] {
        let found = lines
            .iter()
            .any(|line| line.contains(&format!(": {reason}")));
        assert!(found, "{reason}");
    }
}

#[test]
fn an_input_is_read_as_it_was_written() {
    let input: Vec<_> = (0..=255).collect();
    let text = corpus::format(&input, &["what it is: # 12 ab".to_owned()]);
    assert_eq!(corpus::parse(&text), Some(input));
    assert_eq!(corpus::parse("0 1 # one byte\n\n"), Some(vec![1]));
    assert_eq!(corpus::parse("01 2"), None);
    assert_eq!(corpus::parse("zz"), None);
}

#[test]
fn mutations_differ_and_stay_short() {
    let mut rng = Rng::with_seed(1);
    let long: Vec<_> = (0..MAX_LENGTH).map(|_| rng.u8(..)).collect();
    let made: HashSet<_> = (0..1000).map(|_| mutated(&long, &long, &mut rng)).collect();
    assert!(made.len() > 900, "{} of 1000 are distinct", made.len());
    assert!(made.iter().all(|input| input.len() <= MAX_LENGTH));
}

#[test]
fn the_same_seed_makes_the_same_search() {
    let kept = || {
        let mut search = Search::new(inputs(), 7, Behaviours::default());
        assert_eq!(search.run_while(|tried| tried < 500), None);
        search.kept().to_vec()
    };
    assert_eq!(kept(), kept());
}

#[test]
fn a_search_finds_no_difference_between_module_and_model() {
    let seconds = number("MRX_FUZZ_SECONDS", 10);
    let seed = number("MRX_FUZZ_SEED", 0);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut search = Search::new(inputs(), seed, Behaviours::default());
    let failed = search.run_while(|_| Instant::now() < until);
    println!("seed {seed}: {search}");
    if let Some(input) = failed {
        panic!(
            "this input fails:\n{}",
            corpus::format(&input, &describe(&input))
        );
    }
    assert!(search.tried() > inputs().len() as u64, "nothing was tried");
    assert!(!search.kept().is_empty(), "nothing new was found");
}
