//! The real log in many worlds: every invariant holds in each, every fault lands often enough, and one seed is one run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a broken expectation must stop the test that met it"
)]

use std::num::NonZero;
use std::process::Command;

use commit_log_kit::log_world::batch::{replay, run_all};
use commit_log_kit::log_world::run;

/// How many worlds run with every change.
const WORLDS: u64 = 300;

/// The seeds of worlds that were red once, one a line, with what broke.
const KEPT_SEEDS: &str = include_str!("log_worlds.seeds");

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn every_invariant_holds_in_every_world() {
    let count = number_from("LOG_WORLDS").unwrap_or(WORLDS);
    let first = number_from("LOG_WORLD_FIRST_SEED").unwrap_or(0);
    let threads = match number_from("LOG_WORLDS") {
        Some(_) => std::thread::available_parallelism().unwrap(),
        None => NonZero::<usize>::MIN,
    };
    let sum = run_all(first..first + count, threads);
    println!("{sum}");
    assert!(sum.red.is_empty(), "{sum}");
    if count >= WORLDS {
        sum.meets_floors().unwrap();
    }
}

#[test]
fn worlds_that_were_red_once_are_not_red_again() {
    for line in KEPT_SEEDS.lines().filter(|line| !line.starts_with('#')) {
        let seed = line.split_whitespace().next().unwrap().parse().unwrap();
        let report = run(seed);
        assert_eq!(report.verdict, Ok(()), "seed {seed}, replay it: {}", replay(seed));
    }
}

#[test]
fn one_seed_is_one_world() {
    for seed in 0..200 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.fingerprint, second.fingerprint, "seed {seed} ran twice, differently");
    }
}

/// Set in the child process of the test below, which prints its fingerprints and checks nothing.
const CHILD: &str = "LOG_WORLDS_CHILD";

fn fingerprints() -> String {
    let each = (0..20).map(|seed| run(seed).fingerprint.to_string());
    format!("fingerprints {}", each.collect::<Vec<_>>().join(","))
}

#[test]
fn one_seed_is_one_world_in_two_processes() {
    if std::env::var_os(CHILD).is_some() {
        println!("{}", fingerprints());
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "log_worlds::one_seed_is_one_world_in_two_processes", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let printed = String::from_utf8(child.stdout).unwrap();
    assert!(printed.contains(&fingerprints()), "the other process printed {printed}");
}
