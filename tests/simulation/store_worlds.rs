//! Full worlds: real stores over the simulated bucket, from seeds that are kept or counted up.
//!
//! `STORE_WORLDS=1500 STORE_WORLD_FIRST_SEED=1000000 cargo test --release --workspace --test simulation -- full_world` runs more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a broken expectation must stop the test that met it"
)]

use std::collections::BTreeMap;

use commit_log_kit::bucket::Counters;
use commit_log_kit::store_world::{Report, run};

/// The worlds of a plain test run.
const WORLDS: u64 = 40;

/// The commits that a world of at least ninety-five in a hundred has.
const COMMITS: u64 = 60;

/// Seeds of worlds that were red once.
const KEPT: &str = include_str!("store_worlds.seeds");

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

/// The world of a seed, which is green or ends the test with what to type.
fn green(seed: u64) -> Report {
    run(seed).unwrap_or_else(|broken| {
        panic!(
            "{broken}\nagain: STORE_WORLDS=1 STORE_WORLD_FIRST_SEED={seed} cargo test --release --workspace --test simulation -- full_world_of_counted"
        )
    })
}

/// What many worlds add up to.
#[derive(Default)]
struct Sum {
    worlds: u64,
    busy: u64,
    requests: u64,
    counts: BTreeMap<&'static str, u64>,
    faults: Counters,
}

impl Sum {
    fn add(&mut self, report: &Report) {
        self.worlds += 1;
        self.busy += u64::from(report.counts.get("commits").copied().unwrap_or(0) >= COMMITS);
        self.requests += report.requests;
        self.faults.add(&report.faults);
        for (what, count) in &report.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    fn assert_floors(&self) {
        let of = |what| self.counts.get(what).copied().unwrap_or(0);
        assert!(self.busy * 100 >= self.worlds * 95, "{} of {} worlds have {COMMITS} commits", self.busy, self.worlds);
        for (what, each_hundred) in FLOORS {
            assert!(of(what) * 100 >= each_hundred * self.worlds, "{what}: {} in {} worlds", of(what), self.worlds);
        }
    }
}

/// What must happen how often in a hundred worlds.
const FLOORS: [(&str, u64); 13] = [
    ("retirements", 50),
    ("zombies", 1),
    ("kills", 100),
    ("holds", 200),
    ("hand-overs", 100),
    ("folds", 500),
    ("fenced", 20),
    ("conflicts", 500),
    ("lost races", 1_000),
    ("old views across rebases", 50),
    ("fresh opens", 100),
    ("unknown", 10),
    ("given up", 500),
];

#[test]
fn a_full_world_of_counted_seeds_is_green() {
    let first = number("STORE_WORLD_FIRST_SEED", 0);
    let worlds = number("STORE_WORLDS", WORLDS);
    let mut sum = Sum::default();
    let mut red = Vec::new();
    for seed in first..first + worlds {
        match run(seed) {
            Ok(report) => sum.add(&report),
            Err(broken) if worlds > 1 => red.push(broken.to_string()),
            Err(_) => drop(green(seed)),
        }
    }
    println!("{} worlds, {} requests: {:?}", sum.worlds, sum.requests, sum.counts);
    println!("faults that landed: {:?}", sum.faults.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>());
    assert!(
        red.is_empty(),
        "{} red worlds:\n{}\nagain: STORE_WORLDS=1 STORE_WORLD_FIRST_SEED=<seed> cargo test --release --workspace --test simulation -- full_world_of_counted",
        red.len(),
        red.join("\n")
    );
    if worlds >= WORLDS {
        sum.assert_floors();
    }
}

#[test]
fn a_full_world_that_was_red_once_is_green() {
    for seed in KEPT.lines().filter(|line| !line.starts_with('#')) {
        green(seed.parse().unwrap());
    }
}

#[test]
fn a_full_world_runs_twice_the_same_way() {
    for seed in 0..6 {
        assert_eq!(green(seed).fingerprint, green(seed).fingerprint, "seed {seed}");
    }
}
