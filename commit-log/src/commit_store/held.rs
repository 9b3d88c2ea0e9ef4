//! A store that its embedder opened as SlateDB's writer.

use std::sync::OnceLock;

use futures::future::{Either, select};
use slatedb::Db;
use tokio::runtime::Handle;

use crate::bucket::Deadline;
use crate::holder::{HoldError, Holder};
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
            let Hooks { inspect, settings } = self.hooks.clone();
            Holder::over(self.log.clone(), self.db.clone(), self.session.clone(), settings.holding, inspect)
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

    pub(super) fn served(&self) -> Option<Sequence> {
        self.holder().folded().borrow().applied
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
        let mut folded = self.holder().folded();
        let applied = Box::pin(folded.wait_for(|folded| folded.applied >= Some(sequence)));
        let ended = match deadline.bound(select(applied, Box::pin(self.holder().ended()))).await? {
            Either::Left((Ok(_), _)) => return Ok(()),
            Either::Left((Err(_), ended)) => ended.await,
            Either::Right((ended, _)) => ended,
        };
        if self.served() >= Some(sequence) {
            return Ok(());
        }
        match ended {
            Ok(()) => Err(NotServing::Closed),
            Err(error) => Err(NotServing::Held(error)),
        }
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
            | HoldError::Declined
            | HoldError::NotApplied { .. }
            | HoldError::NotFlushed(_)
            | HoldError::L0Full { .. }
            | HoldError::Closed(_)
            | HoldError::RuntimeEnded
            | HoldError::TimedOut { .. }) => CommitStoreError::HoldEnded(error),
        }
    }
}
