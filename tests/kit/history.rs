//! The god's-eye history: every effect on the bucket, in the order in which it took place.
//!
//! Checkers read this, never a process's own view of what it did.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{Operation, Process, RequestId};
use crate::fingerprint::Hash128;

/// What one effect did to its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was absent and now exists.
    Created,
    /// The object existed and has new content.
    Replaced {
        /// The generation that was replaced.
        former: u64,
    },
    /// The object existed and is gone.
    Deleted {
        /// The generation that was deleted.
        former: u64,
    },
}

/// One effect on one object.
#[derive(Clone, Debug)]
pub struct Effect {
    /// Its place in the history, from 0.
    pub number: usize,
    /// The request that did it. A request that the client resent may have several effects.
    pub request: RequestId,
    /// The process that sent the request, which may be dead by now.
    pub process: Process,
    /// What was asked.
    pub operation: Operation,
    /// The object.
    pub path: Arc<str>,
    /// What it did.
    pub change: Change,
    /// The object's generation: the new one, or the deleted one.
    pub generation: u64,
    /// The content's hash: the new one, or the deleted one.
    pub content: Hash128,
    /// The content's length in bytes.
    pub size: u64,
    /// The content itself, kept for conditional creates only: those are what races are about.
    pub bytes: Option<Bytes>,
    /// When it took place, since the world began.
    pub at: Duration,
}

impl Effect {
    /// Whether it left an object behind.
    pub fn is_put(&self) -> bool {
        match self.change {
            Change::Created | Change::Replaced { .. } => true,
            Change::Deleted { .. } => false,
        }
    }
}

/// A request to put content, as the bucket accepted it: it may land at any later time, or never.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The request.
    pub request: RequestId,
    /// The process that sent it.
    pub process: Process,
    /// What was asked.
    pub operation: Operation,
    /// The object.
    pub path: Arc<str>,
    /// The content's hash.
    pub content: Hash128,
    /// The content itself, kept for conditional creates only.
    pub bytes: Option<Bytes>,
    /// When it was accepted, since the world began.
    pub at: Duration,
}

/// Every effect of one bucket, in order, and every put that was sent to it.
#[derive(Debug, Default)]
pub struct History {
    sent: Vec<Sent>,
    effects: Vec<Effect>,
    by_path: BTreeMap<Arc<str>, Vec<usize>>,
}

impl History {
    /// Appends an effect and gives it its number.
    pub(crate) fn append(&mut self, mut effect: Effect) {
        effect.number = self.effects.len();
        let path = Arc::clone(&effect.path);
        self.by_path.entry(path).or_default().push(effect.number);
        self.effects.push(effect);
    }

    pub(crate) fn append_sent(&mut self, sent: Sent) {
        self.sent.push(sent);
    }

    /// Every put that was accepted, oldest first, whatever became of it.
    pub fn sent(&self) -> &[Sent] {
        &self.sent
    }

    /// All effects, oldest first.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// The effects from `mark` on, where a mark is a former `effects().len()`.
    pub fn since(&self, mark: usize) -> &[Effect] {
        &self.effects[mark..]
    }

    /// The effects on one object, oldest first.
    pub fn of(&self, path: &str) -> impl Iterator<Item = &Effect> {
        let numbers = self.by_path.get(path).map_or(&[] as &[usize], Vec::as_slice);
        numbers.iter().map(|number| &self.effects[*number])
    }

    /// The effects on objects whose path starts with `prefix`, by path, then oldest first.
    pub fn under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Effect> {
        self.by_path
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(path, _)| path.starts_with(prefix))
            .flat_map(|(_, numbers)| numbers.iter().map(|number| &self.effects[*number]))
    }

    /// The puts (creates and replacements) under `prefix`, by path, then oldest first.
    pub fn puts_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Effect> {
        self.under(prefix).filter(|effect| effect.is_put())
    }

    /// The deletes under `prefix`, by path, then oldest first.
    pub fn deletes_under<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Effect> {
        self.under(prefix).filter(|effect| !effect.is_put())
    }

    /// Every delete, oldest first.
    pub fn deletes(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|effect| !effect.is_put())
    }

    /// Whether an object of this name was ever deleted: a later create of it is a zombie's.
    pub fn was_deleted(&self, path: &str) -> bool {
        self.of(path).any(|effect| !effect.is_put())
    }
}
