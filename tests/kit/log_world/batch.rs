//! Many log worlds: run on all cores, summed up, and held to floors, since a world in which nothing happens proves nothing.

use std::fmt;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::tally::{Event, Tally};
use super::{Report, answers_lost, run};
use crate::bucket::{Counters, Fault};

/// The sum of many worlds.
#[derive(Clone, Debug, Default)]
pub struct Sum {
    /// How many.
    pub worlds: u64,
    /// The faults that landed.
    pub faults: Counters,
    /// What they did.
    pub tally: Tally,
    /// The requests they sent.
    pub requests: u64,
    /// The worlds that committed at least [`COMMITS_A_WORLD`] transactions.
    pub busy: u64,
    /// The red ones: seed and what broke.
    pub red: Vec<(u64, String)>,
}

/// So many transactions are committed by a world that counts as busy.
pub const COMMITS_A_WORLD: usize = 20;

/// Of a hundred worlds at least so many are busy.
const BUSY_PERCENT: u64 = 95;

/// How many red worlds are told of before a batch stops.
const MOST_RED: usize = 10;

/// What must have happened, in a thousand worlds.
const EVENT_FLOORS: &[(Event, u64)] = &[
    (Event::ZombiePlanted, 500),
    (Event::SleptOverRetirement, 300),
    (Event::UnknownLanded, 500),
    (Event::UnknownNever, 500),
    (Event::CollectorKilled, 1_000),
    (Event::CollectorKilledAmidPage, 150),
    (Event::CollectorShared, 1_000),
    (Event::CollectorsRaced, 2_000),
    (Event::PageRetired, 5_000),
    (Event::TooYoung, 100),
    (Event::ZombieSwept, 500),
    (Event::StalePins, 300),
    (Event::HalfFlushed, 1_000),
    (Event::CheckpointRead, 1_500),
    (Event::KeptByCheckpoint, 800),
    (Event::Restarted, 500),
    (Event::Behind, 50),
    (Event::ReaderBehind, 50),
    (Event::Cancelled, 200),
    (Event::RefusedTooFarAhead, 500),
    (Event::Resubmitted, 80),
    (Event::ClosedByFiller, 60),
    (Event::ClosedByCommit, 40),
    (Event::PausedInOffer, 500),
    (Event::OpenedRestored, 200),
    (Event::HoleFound, 900),
];

/// The faults that must have landed, in a thousand worlds.
const FAULT_FLOORS: &[(Fault, u64)] = &[
    (Fault::LateLanding, 500),
    (Fault::LateLandingOnDeletedName, 400),
    (Fault::MetOwnObject, 200),
    (Fault::SpuriousExists, 300),
    (Fault::ListMovedBetweenPages, 300),
    (Fault::ListBrokeMidway, 50),
    (Fault::LandedAfterKill, 50),
    (Fault::HeldByPause, 500),
    (Fault::Partitioned, 300),
    (Fault::BurstError, 200),
    (Fault::BrokenBody, 200),
];

/// Answers lost after landing, in a thousand worlds.
const ANSWERS_LOST_FLOOR: u64 = 500;

impl Sum {
    /// Adds one world.
    pub fn add(&mut self, report: &Report) {
        self.worlds += 1;
        self.faults.add(&report.faults);
        self.tally.add(&report.tally);
        self.requests += report.requests;
        self.busy += u64::from(report.commits >= COMMITS_A_WORLD);
        if let Err(violation) = &report.verdict {
            self.red.push((report.seed, violation.to_string()));
        }
    }

    /// Whether everything that worlds are for took place often enough.
    ///
    /// # Errors
    ///
    /// Every count that is short of its floor.
    pub fn meets_floors(&self) -> Result<(), String> {
        let scaled = |floor: u64| floor * self.worlds / 1_000;
        let mut short = Vec::new();
        let mut hold = |what: String, count: u64, floor: u64| {
            if count < floor {
                short.push(format!("{what}: {count}, expected at least {floor}"));
            }
        };
        for (event, floor) in EVENT_FLOORS {
            hold(format!("{event:?}"), self.tally.of(*event), scaled(*floor));
        }
        for (fault, floor) in FAULT_FLOORS {
            hold(format!("{fault:?}"), self.faults.of(*fault), scaled(*floor));
        }
        hold("answers lost after landing".to_owned(), answers_lost(&self.faults), scaled(ANSWERS_LOST_FLOOR));
        hold(format!("worlds with {COMMITS_A_WORLD} commits"), self.busy, self.worlds * BUSY_PERCENT / 100);
        if short.is_empty() { Ok(()) } else { Err(short.join("\n")) }
    }
}

impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} worlds, {} busy, {} requests, {} red", self.worlds, self.busy, self.requests, self.red.len())?;
        for (event, count) in self.tally.iter() {
            writeln!(f, "  {event:?} {count}")?;
        }
        for (fault, count) in self.faults.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "  {fault:?} {count}")?;
        }
        for (seed, what) in &self.red {
            writeln!(f, "red world of seed {seed}: {what}")?;
            writeln!(f, "replay it: {}", replay(*seed))?;
        }
        Ok(())
    }
}

/// The one line that runs one world again.
pub fn replay(seed: u64) -> String {
    format!("cargo xtask worlds --count 1 --first-seed {seed}")
}

/// Runs the worlds of `seeds` on `threads` threads; stops early once several are red.
#[allow(clippy::disallowed_methods, reason = "worlds share nothing: each has a runtime of its own on one thread")]
pub fn run_all(seeds: Range<u64>, threads: NonZero<usize>) -> Sum {
    let next = AtomicU64::new(seeds.start);
    let sum = Mutex::new(Sum::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.get() {
            scope.spawn(|| {
                while sum.lock().unwrap().red.len() < MOST_RED {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = run(seed);
                    sum.lock().unwrap().add(&report);
                }
            });
        }
    });
    let mut sum = sum.into_inner().unwrap();
    sum.red.sort();
    sum
}
