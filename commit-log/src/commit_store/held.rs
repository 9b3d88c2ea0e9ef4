//! A store that its embedder opened as SlateDB's writer.

use std::sync::OnceLock;

use slatedb::Db;
use tokio::runtime::Handle;

use crate::bucket::Deadline;
use crate::holder::{HoldError, Holder, Taken, WhenFull};
use crate::log::{Proof, SlotLog, TailError};
use crate::slot::Sequence;
use crate::wal::WriterSession;

use super::{CommitStoreError, Hooks, NotServing, Role};

pub(super) struct Held {
    log: SlotLog,
    db: Db,
    session: WriterSession,
    hooks: Hooks,
    holder: OnceLock<Holder>,
}

impl Held {
    pub(super) fn new(log: SlotLog, db: Db, session: WriterSession, hooks: &Hooks) -> Held {
        let held = Held { log, db, session, hooks: hooks.clone(), holder: OnceLock::new() };
        if Handle::try_current().is_ok() {
            held.holder();
        }
        held
    }

    /// The task that holds. A fence ends it for good: the embedder opened the store, and must open it again.
    fn holder(&self) -> &Holder {
        self.holder.get_or_init(|| {
            let taken = Taken { log: self.log.clone(), db: self.db.clone(), session: self.session.clone() };
            // Its embedder opened the store, and only its embedder can open it again.
            let when_full = WhenFull::GoOn { max_unflushed_bytes: self.hooks.settings.max_unflushed_bytes };
            Holder::over(taken, self.hooks.terms(when_full))
        })
    }

    pub(super) fn role(&self) -> Role {
        match self.holder.get().and_then(Holder::how_it_ended) {
            None => Role::Holding,
            Some(_) => Role::Ended,
        }
    }

    pub(super) fn log(&self) -> Result<SlotLog, CommitStoreError> {
        match self.holder().how_it_ended() {
            None => Ok(self.log.clone()),
            Some(Ok(())) => Err(CommitStoreError::Closed),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Whether the store can take another commit without a flush.
    pub(super) fn check_room(&self) -> Result<(), CommitStoreError> {
        let limit = self.hooks.settings.holding.l0_limit;
        let stuck_at = self.holder().folded().borrow().stuck_at;
        stuck_at.map_or(Ok(()), |files| Err(CommitStoreError::L0Full { files, limit }))
    }

    /// `None` also before its task has begun, which this does not do: whoever shows it need not be in a runtime.
    pub(super) fn served(&self) -> Option<Sequence> {
        self.holder.get().and_then(|holder| holder.folded().borrow().applied)
    }

    pub(super) fn flushed(&self) -> Option<Sequence> {
        self.holder().folded().borrow().flushed
    }

    pub(super) async fn catch_up(&self, proof: Proof, deadline: &Deadline) -> Result<(), CommitStoreError> {
        match self.log.catch_up(proof, deadline).await {
            // The log is retired below what a store covers. That this one does not cover it means that another is ahead.
            Err(TailError::Behind { .. }) => Err(CommitStoreError::Fenced),
            caught_up => Ok(caught_up?),
        }
    }

    pub(super) async fn serve(&self, sequence: Sequence, deadline: &Deadline) -> Result<(), NotServing> {
        match deadline.bound(self.holder().applied(sequence)).await? {
            None => Ok(()),
            Some(Ok(())) => Err(NotServing::Closed),
            Some(Err(error)) => Err(NotServing::Held(error)),
        }
    }

    /// Waits until slot `sequence`, which the store serves, is published.
    pub(super) async fn published(&self, sequence: Sequence, deadline: &Deadline) -> Result<(), HoldError> {
        deadline.bound(self.holder().published(sequence)).await.map_err(|_| HoldError::TimedOut { doing: "publishing" })?
    }

    pub(super) async fn close(&self) -> Result<(), CommitStoreError> {
        Ok(self.holder().give_back().await?)
    }
}

impl From<HoldError> for CommitStoreError {
    fn from(error: HoldError) -> CommitStoreError {
        match error {
            HoldError::Fenced => CommitStoreError::Fenced,
            HoldError::SlotRefused { sequence, source } => CommitStoreError::SlotRefused { sequence, source },
            HoldError::Tail(error) => error.into(),
            error @ (HoldError::Take(_)
            | HoldError::NotApplied { .. }
            | HoldError::NotFlushed(_)
            | HoldError::L0Full { .. }
            | HoldError::Closed(_)
            | HoldError::Manifest(_)
            | HoldError::NotPublished(_)
            | HoldError::NotCovered { .. }
            | HoldError::RuntimeEnded
            | HoldError::TimedOut { .. }) => CommitStoreError::HoldEnded(error),
        }
    }
}
