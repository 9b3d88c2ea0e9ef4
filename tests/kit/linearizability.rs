//! Whether a history of operations on registers is linearizable: Wing and Gong's search with a memory, key by key, bounded.
//!
//! An operation whose outcome nobody knows may take effect at any time after it was called, or never.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// What a register holds; none when it has no row.
pub type Value = Option<Bytes>;

/// What was done to a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It was read, and held this.
    Read(Value),
    /// It was set, whatever it held.
    Write(Value),
    /// It held the first and was set to the second, in one step.
    Exchange(Value, Value),
}

/// When an operation ended, by number of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was answered then.
    Answered(u64),
    /// It took effect at some time after its call.
    Unheard,
    /// It may take effect at any time after its call, or never.
    Unknown,
}

/// One operation of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The register.
    pub key: Bytes,
    /// What was done.
    pub action: Action,
    /// When it was called, by number of event.
    pub called: u64,
    /// When it ended.
    pub end: End,
}

/// What a search came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is an order that explains every answer.
    Linearizable,
    /// There is none, on this register.
    Not {
        /// The register.
        key: Bytes,
        /// The answers that no order of its operations explains: those that were never placed.
        unplaced: Vec<Operation>,
    },
    /// The search was given up.
    Undecided {
        /// The register.
        key: Bytes,
    },
}

/// How many states are visited for one register before the search is given up: a second or so.
pub const MAX_STATES: usize = 1_000_000;

/// The most operations on one register, so that a set of them fits a number.
pub const MAX_OPERATIONS: usize = 128;

/// Checks a history. Registers begin without a row.
pub fn check(history: &[Operation]) -> Verdict {
    check_within(history, MAX_STATES)
}

fn check_within(history: &[Operation], max_states: usize) -> Verdict {
    let mut registers: BTreeMap<&Bytes, Vec<&Operation>> = BTreeMap::new();
    for operation in history {
        registers.entry(&operation.key).or_default().push(operation);
    }
    for (key, mut operations) in registers {
        operations.sort_by_key(|operation| operation.called);
        let mut search = Search { operations: &operations, seen: BTreeSet::new(), furthest: 0, max_states };
        match search.run() {
            Found::Order => {}
            Found::None => {
                let placed = |place: usize| search.furthest & (1 << place) != 0;
                let unplaced = operations.iter().enumerate().filter(|(place, _)| !placed(*place));
                return Verdict::Not { key: key.clone(), unplaced: unplaced.map(|(_, one)| (*one).clone()).collect() };
            }
            Found::GaveUp => return Verdict::Undecided { key: key.clone() },
        }
    }
    Verdict::Linearizable
}

enum Found {
    Order,
    None,
    GaveUp,
}

struct Search<'a> {
    operations: &'a [&'a Operation],
    /// Which operations were placed, and what the register holds then.
    seen: BTreeSet<(u128, Value)>,
    /// The largest set that could be placed.
    furthest: u128,
    max_states: usize,
}

impl Search<'_> {
    fn run(&mut self) -> Found {
        if self.operations.len() > MAX_OPERATIONS {
            return Found::GaveUp;
        }
        let mut open = vec![(0u128, None)];
        while let Some((placed, value)) = open.pop() {
            if !self.seen.insert((placed, value.clone())) {
                continue;
            }
            if self.seen.len() > self.max_states {
                return Found::GaveUp;
            }
            if placed.count_ones() > self.furthest.count_ones() {
                self.furthest = placed;
            }
            if self.all_answers_placed(placed) {
                return Found::Order;
            }
            // Later calls first, so that the earliest is tried first.
            for place in (0..self.operations.len()).rev() {
                if let Some(next) = self.place(placed, place, &value) {
                    open.push((placed | 1 << place, next));
                }
            }
        }
        Found::None
    }

    fn all_answers_placed(&self, placed: u128) -> bool {
        self.operations.iter().enumerate().all(|(place, one)| one.end == End::Unknown || placed & (1 << place) != 0)
    }

    /// What the register holds once the operation at `place` comes next, if it may and if its answer fits.
    fn place(&self, placed: u128, place: usize, value: &Value) -> Option<Value> {
        let operation = self.operations[place];
        if placed & (1 << place) != 0 || operation.called > self.first_answer(placed) {
            return None;
        }
        match &operation.action {
            Action::Read(read) => (read == value).then(|| value.clone()),
            Action::Write(written) => Some(written.clone()),
            Action::Exchange(read, written) => (read == value).then(|| written.clone()),
        }
    }

    /// The first answer among what is not placed: nothing that was called after it may come before it.
    fn first_answer(&self, placed: u128) -> u64 {
        let unplaced = self.operations.iter().enumerate().filter(|(place, _)| placed & (1 << place) == 0);
        let answers = unplaced.filter_map(|(_, one)| match one.end {
            End::Answered(at) => Some(at),
            End::Unheard | End::Unknown => None,
        });
        answers.min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests;
