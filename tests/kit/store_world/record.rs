//! What the clients of a world did and were told, in the order in which it happened. Nothing of the library's own beliefs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use commit_log::identity::TransactionId;

use crate::linearizability::Action;

/// One run of one process, from its start to its kill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Incarnation {
    /// The process.
    pub process: u32,
    /// Its runs are counted from 0.
    pub run: u32,
}

/// What a client was told about a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// Nothing: it was given up, or its process died.
    #[default]
    Nothing,
    /// It is committed in this slot.
    Committed(u64),
    /// Nothing of it is committed, for this reason.
    NotCommitted(&'static str),
    /// Nobody knows, and it was offered there.
    Unknown(u64),
}

/// One transaction.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// The sequences at which it was offered, in order.
    pub offered: Vec<u64>,
    /// What its client was told.
    pub told: Told,
}

/// What one process saw of the log, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It took a view with this head.
    Saw(u64),
    /// It was told that its commit is this slot.
    Committed(u64),
    /// It asked for the latest view when slots up to `acknowledged` had been acknowledged to anybody.
    Latest {
        /// The last slot that was acknowledged before.
        acknowledged: u64,
        /// The view's head.
        head: u64,
    },
}

/// Rows that were read through one view.
#[derive(Clone, Debug)]
pub struct Observation {
    /// Who read, and how.
    pub reader: &'static str,
    /// The view's head, zero for none.
    pub head: u64,
    /// The prefix of the keys that were read.
    pub prefix: &'static str,
    /// What was found, lowest key first.
    pub rows: Vec<(Bytes, Bytes)>,
}

/// One call on a register.
#[derive(Clone, Debug)]
pub struct Call {
    /// The register.
    pub key: Bytes,
    /// When it was called.
    pub called: u64,
    /// What it did, as far as it came.
    pub action: Option<Action>,
    /// The transaction that did it last; none for a read.
    pub transaction: Option<TransactionId>,
    /// When it was answered.
    pub answered: Option<u64>,
}

/// Everything that was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// How many events were numbered.
    pub events: u64,
    /// The last slot that was acknowledged to anybody.
    pub acknowledged: u64,
    /// Every transaction that was begun.
    pub transactions: BTreeMap<TransactionId, Tried>,
    /// Every read of rows.
    pub observations: Vec<Observation>,
    /// What each incarnation saw.
    pub sessions: BTreeMap<Incarnation, Vec<Step>>,
    /// Every call on a register.
    pub calls: Vec<Call>,
    /// What no client should ever meet.
    pub broken: Vec<String>,
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
}

/// The record of one world. Clones are the same record.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<Recorded>>);

impl Record {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap()
    }

    /// All of it, as it is now.
    pub fn read(&self) -> Recorded {
        self.lock().clone()
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    pub(super) fn broken(&self, what: String) {
        self.lock().broken.push(what);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.lock().acknowledged
    }

    pub(super) fn offered(&self, transaction: TransactionId, sequence: u64) {
        self.lock().transactions.entry(transaction).or_default().offered.push(sequence);
    }

    pub(super) fn told(&self, transaction: TransactionId, told: Told) {
        let mut recorded = self.lock();
        recorded.transactions.entry(transaction).or_default().told = told;
        if let Told::Committed(sequence) = told {
            recorded.acknowledged = recorded.acknowledged.max(sequence);
            *recorded.counts.entry("commits").or_default() += 1;
        }
    }

    pub(super) fn step(&self, who: Incarnation, step: Step) {
        self.lock().sessions.entry(who).or_default().push(step);
    }

    pub(super) fn observed(&self, observation: Observation) {
        let mut recorded = self.lock();
        *recorded.counts.entry(observation.reader).or_default() += 1;
        recorded.observations.push(observation);
    }

    /// A call on a register begins. Its number is for the calls below.
    pub(super) fn called(&self, key: &Bytes) -> usize {
        let mut recorded = self.lock();
        recorded.events += 1;
        let called = recorded.events;
        recorded.calls.push(Call { key: key.clone(), called, action: None, transaction: None, answered: None });
        recorded.calls.len() - 1
    }

    pub(super) fn acts(&self, call: usize, action: Action, transaction: Option<TransactionId>) {
        let call = &mut self.lock().calls[call];
        call.action = Some(action);
        call.transaction = transaction;
    }

    pub(super) fn answered(&self, call: usize) {
        let mut recorded = self.lock();
        recorded.events += 1;
        recorded.calls[call].answered = Some(recorded.events);
    }
}
