//! The script: what was requested, in order, and what is to become of the requests that match.

use std::collections::BTreeMap;
use std::fmt;

use super::path_class::PathClass;
use crate::bucket::Operation;

/// One request as the script and the log see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// What was asked.
    pub operation: Operation,
    /// Of which object; for a list, the prefix; for a copy, the target.
    pub path: String,
}

impl Request {
    /// What the object is for.
    pub fn class(&self) -> PathClass {
        PathClass::of(&self.path)
    }
}

/// What becomes of a scripted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// An error; the inner store is not asked.
    Fail,
    /// The inner store is asked; an error.
    LoseAnswer,
    /// Never answered; the inner store is not asked.
    Hang,
    /// The inner store is asked when the cue is released.
    Hold,
}

type Test = Box<dyn Fn(&Request) -> bool + Send>;

pub(super) struct Rule {
    test: Test,
    nth: u64,
    seen: u64,
    fate: Fate,
    pub(super) reached: bool,
    pub(super) released: bool,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule").field("fate", &self.fate).field("nth", &self.nth).finish_non_exhaustive()
    }
}

/// How often each operation met each class.
pub type Counts = BTreeMap<(Operation, PathClass), u64>;

/// How requests of one class overlapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overlap {
    /// Under way now.
    pub in_flight: u64,
    /// The most that were ever under way at once.
    pub most_in_flight: u64,
    /// Rounds: groups of overlapping requests. One begins when a request begins while none of its class is under way.
    pub rounds: u64,
}

#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) log: Vec<Request>,
    pub(super) overlaps: BTreeMap<PathClass, Overlap>,
    pub(super) rules: Vec<Rule>,
}

impl Script {
    pub(super) fn add(&mut self, nth: u64, test: Test, fate: Fate) -> usize {
        assert!(nth > 0, "occurrences count from 1");
        self.rules.push(Rule { test, nth, seen: 0, fate, reached: false, released: false });
        self.rules.len() - 1
    }

    /// Logs a request and says which rule it meets: every rule counts it, the first whose turn it is decides.
    pub(super) fn begin(&mut self, request: Request) -> Option<(usize, Fate)> {
        let overlap = self.overlaps.entry(request.class()).or_default();
        overlap.rounds += u64::from(overlap.in_flight == 0);
        overlap.in_flight += 1;
        overlap.most_in_flight = overlap.most_in_flight.max(overlap.in_flight);
        let mut met = None;
        for (number, rule) in self.rules.iter_mut().enumerate() {
            if !(rule.test)(&request) {
                continue;
            }
            rule.seen += 1;
            if rule.seen == rule.nth && met.is_none() {
                rule.reached = true;
                met = Some((number, rule.fate));
            }
        }
        self.log.push(request);
        met
    }

    pub(super) fn end(&mut self, class: PathClass) {
        self.overlaps.entry(class).or_default().in_flight -= 1;
    }

    pub(super) fn counts_since(&self, mark: usize) -> Counts {
        let mut counts = Counts::new();
        for request in &self.log[mark..] {
            *counts.entry((request.operation, request.class())).or_default() += 1;
        }
        counts
    }
}
