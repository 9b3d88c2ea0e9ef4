//! A pair: the naive version is caught at what it is named for, the safe one holds at the same bounds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::design::Design;
use crate::explore::{Explored, Model, explore};
use crate::log::{Bounds, Log};
use crate::schedules::{Ran, SCHEDULES, Seeds, run};
use crate::violation::Violation;

/// One naive version of the log beside a safe one.
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    pub(crate) naive: Design,
    pub(crate) safe: Design,
    pub(crate) caught: Violation,
    /// Exhausted for the safe version.
    pub(crate) bounds: Bounds,
    /// Run on seeded schedules for both.
    pub(crate) schedules: Bounds,
}

impl Pair {
    /// Beside the protocol as it stands, one committer exhausted, three on schedules.
    pub(crate) fn new(name: &'static str, naive: Design, caught: Violation) -> Self {
        let (bounds, schedules) = (Bounds::small(), Bounds::large());
        Self { name, naive, safe: Design::safe(), caught, bounds, schedules }
    }

    pub(crate) fn check(&self) {
        assert_ne!(self.naive, self.safe, "{}: a pair has two versions", self.name);
        must_be_caught(self.name, &Log { design: self.naive, bounds: self.bounds }, self.caught);
        must_hold_once(self.name, Log { design: self.safe, bounds: self.bounds });
        must_be_caught_on_schedules(self.name, &Log { design: self.naive, bounds: self.schedules });
        must_hold_on_schedules(self.name, &Log { design: self.safe, bounds: self.schedules });
    }
}

/// Search the naive version: it must be caught, at `expected`, with a shortest trace.
pub(crate) fn must_be_caught<M: Model>(name: &str, model: &M, expected: Violation) {
    match explore(model) {
        Explored::Caught { violation, states, depth, trace } => {
            println!("{name}: naive caught, {states} states, depth {depth}: {violation:?}");
            println!("    {}", trace.join("\n    "));
            assert_eq!(expected, violation, "{name}: caught at something else");
        }
        Explored::Held { states, depth } => {
            panic!("{name}: the naive version holds ({states} states, depth {depth}): the model has lost its teeth")
        }
        Explored::Limit { states } => panic!("{name}: the naive version is not caught in {states} states"),
    }
}

/// Search the safe version: every reachable state, and none violates anything.
pub(crate) fn must_hold<M: Model>(name: &str, model: &M) -> String {
    match explore(model) {
        Explored::Held { states, depth } => format!("{states} states, depth {depth}"),
        Explored::Caught { violation, states, depth, trace } => panic!(
            "{name}: A COUNTEREXAMPLE TO THE PROTOCOL, {violation:?} ({states} states, depth {depth})\n    {}",
            trace.join("\n    ")
        ),
        Explored::Limit { states } => panic!("{name}: not exhausted in {states} states"),
    }
}

/// What the searches of safe versions found: many pairs share one.
static HELD: Mutex<Option<HashMap<Log, String>>> = Mutex::new(None);

/// Like `must_hold`, each model searched once in this process.
pub(crate) fn must_hold_once(name: &str, log: Log) {
    // Held through the search, so that two tests do not search the same model side by side.
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let found = held.get_or_insert_default().entry(log).or_insert_with(|| must_hold(name, &log));
    println!("{name}: safe held, {found}");
}

/// Run the naive version on seeded schedules: chance must find it too, or schedules prove nothing of the safe one.
fn must_be_caught_on_schedules(name: &str, log: &Log) {
    let seeds = Seeds::of(name);
    match run(log, seeds) {
        Ran::Caught { after, seed, violation, .. } => {
            println!("{name}: naive caught by seed {seed} after {after} schedules: {violation:?}");
        }
        Ran::Held { schedules } => {
            println!("{name}: naive not caught on {schedules} schedules");
            assert!(schedules < SCHEDULES, "{name}: schedules have lost their teeth");
        }
    }
}

/// Run the safe version on seeded schedules.
pub(crate) fn must_hold_on_schedules<M: Model>(name: &str, model: &M) {
    match run(model, Seeds::of(name)) {
        Ran::Held { schedules } => println!("{name}: safe held on {schedules} schedules"),
        Ran::Caught { seed, violation, trace, .. } => panic!(
            "{name}: A COUNTEREXAMPLE TO THE PROTOCOL, {violation:?} with seed {seed}\n    {}\nreplay: MODEL_SEED={seed} \
             cargo test --release -p commit-log-kit --test models {} -- --nocapture",
            trace.join("\n    "),
            std::thread::current().name().unwrap_or_default()
        ),
    }
}
