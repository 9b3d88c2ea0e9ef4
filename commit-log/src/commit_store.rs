//! The store of a committer that opened it itself: as SlateDB's writer, or as a reader. It commits through the log either way.
//!
//! The embedder says what is committed and at which sequence; everything else is decided here.

mod error;
mod folder;
mod followed;
mod held;
mod hooks;
mod publishing;
mod role;

use std::fmt;
use std::sync::Arc;

use slatedb::{Db, DbReader};

use crate::bucket::Deadline;
use crate::envelope::{Slot, SlotKind};
use crate::holder::HoldError;
use crate::identity::TransactionId;
use crate::inspect::Content;
use crate::ledger::LedgerEntry;
use crate::log::{Closing, Commit, Offer, OfferError, Outcome, Proof, SlotLog};
use crate::slot::Sequence;
use crate::wal::{ReaderSession, WriterSession};

use followed::Followed;
use held::Held;

pub use error::{CommitStoreError, NotServing};
pub use folder::FoldEnd;
pub(crate) use folder::{Duty, Folder};
pub use hooks::{CommitStoreSettings, Folding, Hooks};
pub(crate) use role::Reason;
pub use role::Rest;

/// How an offered commit ended.
#[derive(Clone, Debug)]
pub enum SlotOffer {
    /// It is committed at the sequence it was offered at, served by this store and, where that is asked for, published.
    Won {
        /// The sequence.
        sequence: Sequence,
    },
    /// Another slot has the sequence. The store serves it, and everything else that has landed as far as this process knows.
    Lost {
        /// The sequence.
        sequence: Sequence,
        /// What has it.
        winner: Winner,
        /// The last slot that the store serves.
        through: Sequence,
    },
}

/// What has a sequence that was lost.
#[derive(Clone, Debug)]
pub enum Winner {
    /// This slot. Its bytes are shared, not copied.
    Slot(Arc<Slot>),
    /// A slot that is forgotten: all that its ledger remembers.
    Retired(LedgerEntry),
    /// No slot: the sequence lies below the log's first.
    BelowTheOrigin,
}

/// Whose stamp put the store on its log.
#[derive(Clone, Debug)]
pub enum SlotAdoption {
    /// The one that was offered.
    Ours {
        /// Its sequence: the log's first.
        sequence: Sequence,
    },
    /// Another's, which the store serves by now.
    Theirs {
        /// Its sequence: the log's first.
        sequence: Sequence,
        /// That stamp.
        winner: Winner,
    },
}

/// What a process is to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It has the store open as SlateDB's writer.
    Holding,
    /// It reads the store; another process may hold it.
    Following,
    /// Neither, any more: closed, fenced, or ended by an error.
    Ended,
}

/// A store that its embedder opened and this library commits to.
///
/// - Making one does no I/O and cannot fail. What is wrong with it, its calls tell.
/// - Dropping the future of a call withdraws nothing that was sent.
/// - Close it at the end. Dropped unclosed, a held store closes itself a little later.
pub struct CommitStore {
    side: Side,
    hooks: Hooks,
}

enum Side {
    Held(Held),
    Followed(Followed),
    /// It came with a session that did not open it.
    Foreign,
}

impl CommitStore {
    /// The store that was opened as SlateDB's writer over `session`. It folds what lands until it is closed.
    ///
    /// Its task begins now when this is called in a runtime, else with the first call.
    pub fn held(db: Db, session: WriterSession, hooks: Hooks) -> CommitStore {
        let held = session.opened_over().map(|log| Held::new(log, db, session, &hooks));
        CommitStore { side: held.map_or(Side::Foreign, Side::Held), hooks }
    }

    /// The store that is read by `reader`, which was opened over `session`, follows the newest manifest and, unless it waits for
    /// every one of its polls, has the session's clock.
    pub fn followed(reader: Arc<DbReader>, session: ReaderSession, hooks: Hooks) -> CommitStore {
        CommitStore { side: Side::Followed(Followed::new(reader, session, &hooks)), hooks }
    }

    /// A store whose session is none of this library's. Every call fails with [`CommitStoreError::ForeignSession`].
    pub fn of_foreign_session() -> CommitStore {
        CommitStore { side: Side::Foreign, hooks: Hooks::default() }
    }

    /// What this process is to the store, now.
    pub fn role(&self) -> Role {
        match &self.side {
            Side::Held(held) => held.role(),
            Side::Followed(followed) => followed.role(),
            Side::Foreign => Role::Ended,
        }
    }

    /// Whether the store is on a log, whose first slot has landed. Writes nothing.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`]. An answer that was not had is not "no".
    pub async fn adopted(&self) -> Result<bool, CommitStoreError> {
        match self.log().await {
            Ok(log) => Ok(log.has_begun(&log.bucket().deadline()).await?),
            Err(CommitStoreError::NotAdopted) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts the store on its log with `stamp` as the log's first slot, or finds whose stamp did, and serves it. Idempotent.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`].
    pub async fn adopt(&self, stamp: Commit) -> Result<SlotAdoption, CommitStoreError> {
        let log = self.log().await?;
        let sequence = log.record().origin;
        match self.place(&log, SlotKind::Adoption, sequence, stamp).await? {
            SlotOffer::Won { sequence } => Ok(SlotAdoption::Ours { sequence }),
            SlotOffer::Lost { sequence, winner, .. } => Ok(SlotAdoption::Theirs { sequence, winner }),
        }
    }

    /// Offers a commit as the slot at `sequence`: it wins there, or loses there, and is never moved.
    ///
    /// A sequence that is taken loses, however long ago it was. One further than one ahead of the log is refused after one look at
    /// the tail, and nothing is sent. A transaction whose outcome is unknown is offered again at its own sequence only.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`]: one for each thing that the caller does next.
    pub async fn write_at(&self, sequence: Sequence, commit: Commit) -> Result<SlotOffer, CommitStoreError> {
        let log = self.log().await?;
        if sequence > log.next() || log.head().is_none() {
            // What is refused is refused for the end of the log, not for a name that was forgotten.
            self.catch_up(&log, Proof::Always).await?;
        }
        if log.head().is_none() {
            return Err(CommitStoreError::NotAdopted);
        }
        if sequence > log.next() {
            return Err(CommitStoreError::TooFarAhead { expected: log.next(), found: sequence });
        }
        if sequence < log.record().origin {
            let through = self.serve_the_tail(&log, sequence).await?;
            return Ok(SlotOffer::Lost { sequence, winner: Winner::BelowTheOrigin, through });
        }
        // What is judged needs no room, nor does what may have landed already.
        let is_new = sequence == log.next() && !log.is_unresolved(commit.transaction, sequence);
        if let Side::Held(held) = &self.side
            && is_new
        {
            held.check_room()?;
        }
        self.place(&log, SlotKind::Commit, sequence, commit).await
    }

    /// Brings the store to the log's proven end, and tells how many slots that was.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`].
    pub async fn fold_tail(&self) -> Result<u64, CommitStoreError> {
        let log = self.log().await?;
        let before = self.served();
        self.catch_up(&log, Proof::Always).await?;
        let Some(head) = log.head() else { return Ok(0) };
        self.serve(&log, head).await.map_err(|source| CommitStoreError::NotCaughtUp { through: head, source })?;
        Ok(head.above(before))
    }

    /// What became of a transaction that was offered at `sequence`. Writes nothing.
    ///
    /// # Errors
    ///
    /// A failed read.
    pub async fn outcome(&self, transaction: TransactionId, sequence: Sequence) -> Result<Outcome, CommitStoreError> {
        let log = self.log().await?;
        Ok(log.outcome(transaction, sequence, &log.bucket().deadline()).await?)
    }

    /// Makes sure that a transaction's outcome at `sequence` is known from here on: offers `closing` there if it is open.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`]. Close it again.
    pub async fn close_open(
        &self,
        transaction: TransactionId,
        sequence: Sequence,
        closing: Closing,
    ) -> Result<Outcome, CommitStoreError> {
        let log = self.log().await?;
        match &closing {
            Closing::Commit(commit) => self.inspect(SlotKind::Commit, sequence, commit)?,
            Closing::Filler => {}
        }
        Ok(log.close_open(transaction, sequence, closing, &log.bucket().deadline()).await?)
    }

    /// How many slots have landed that are in none of the store's files yet, by one look at the tail and, of a store that is
    /// followed, one at its newest manifest.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`].
    pub async fn unfolded(&self) -> Result<u64, CommitStoreError> {
        let log = self.log().await?;
        self.catch_up(&log, Proof::NowAndThen).await?;
        let flushed = match &self.side {
            Side::Held(held) => held.flushed(),
            Side::Followed(followed) => followed.flushed().await?,
            Side::Foreign => return Err(CommitStoreError::ForeignSession),
        };
        let before_origin = log.record().origin.previous();
        Ok(log.head().map_or(0, |head| head.above(flushed.max(before_origin))))
    }

    /// Folds the store once, now, if there is anything to fold and nobody else is at it. A store that this process holds is folded as
    /// it is held.
    ///
    /// # Errors
    ///
    /// See [`CommitStoreError`]. The log is intact.
    pub async fn fold(&self) -> Result<FoldEnd, CommitStoreError> {
        self.fold_because(Reason::Asked).await
    }

    /// Folds the store once if its tail is so long that whoever was obliged to fold it must be gone.
    ///
    /// # Errors
    ///
    /// As [`CommitStore::fold`].
    pub async fn fold_if_stalled(&self) -> Result<FoldEnd, CommitStoreError> {
        self.fold_because(Reason::Stalled).await
    }

    async fn fold_because(&self, reason: Reason) -> Result<FoldEnd, CommitStoreError> {
        match &self.side {
            Side::Held(held) => {
                held.log()?;
                Ok(FoldEnd::Rested(Rest::Folded))
            }
            Side::Followed(followed) => followed.fold(reason).await,
            Side::Foreign => Err(CommitStoreError::ForeignSession),
        }
    }

    /// Closes the store. What this process holds is folded, flushed and given back first. Idempotent; every call after it fails.
    ///
    /// # Errors
    ///
    /// Why something of that was left undone. The store is closed, and the log is intact.
    pub async fn close(&self) -> Result<(), CommitStoreError> {
        match &self.side {
            Side::Held(held) => held.close().await,
            Side::Followed(followed) => followed.close().await,
            Side::Foreign => Err(CommitStoreError::ForeignSession),
        }
    }

    /// The log, of a store that can still do something.
    async fn log(&self) -> Result<SlotLog, CommitStoreError> {
        match &self.side {
            Side::Held(held) => held.log(),
            Side::Followed(followed) => followed.log().await,
            Side::Foreign => Err(CommitStoreError::ForeignSession),
        }
    }

    /// Offers a commit, and has the store serve how that ended.
    async fn place(
        &self,
        log: &SlotLog,
        kind: SlotKind,
        sequence: Sequence,
        commit: Commit,
    ) -> Result<SlotOffer, CommitStoreError> {
        self.inspect(kind, sequence, &commit)?;
        let transaction = commit.transaction;
        let deadline = log.bucket().deadline();
        let offered = match kind {
            SlotKind::Adoption => log.offer_adoption(commit, &deadline).await,
            SlotKind::Commit | SlotKind::Filler | SlotKind::Leaving => log.offer(sequence, commit, &deadline).await,
        };
        let offered = offered.map_err(|error| {
            // Damage that was met after a put is no answer to whether the put landed.
            let met_after_a_put = matches!(error, OfferError::Corrupt(_)) && log.is_unresolved(transaction, sequence);
            if met_after_a_put { CommitStoreError::Unknown { transaction, sequence, source: error } } else { error.into() }
        });
        let winner = match offered? {
            Offer::Won { .. } => {
                let served = self.serve(log, sequence).await;
                if let Side::Followed(followed) = &self.side {
                    followed.won(sequence);
                }
                served.map_err(|source| CommitStoreError::NotServed { transaction, sequence, source })?;
                let published = self.publish(log, sequence).await;
                published.map_err(|source| CommitStoreError::NotPublished { transaction, sequence, source })?;
                return Ok(SlotOffer::Won { sequence });
            }
            Offer::Lost { winner } => Winner::Slot(winner),
            Offer::Behind { winner } => winner.map_or(Winner::BelowTheOrigin, Winner::Retired),
        };
        let through = self.serve_the_tail(log, sequence).await?;
        Ok(SlotOffer::Lost { sequence, winner, through })
    }

    /// Has the store serve all that is known to have landed, which `sequence` is part of.
    async fn serve_the_tail(&self, log: &SlotLog, sequence: Sequence) -> Result<Sequence, CommitStoreError> {
        if log.head() < Some(sequence) {
            // The log was retired past what was known of it.
            self.catch_up(log, Proof::NowAndThen).await?;
        }
        let through = log.head().map_or(sequence, |head| head.max(sequence));
        self.serve(log, through).await.map_err(|source| CommitStoreError::NotCaughtUp { through, source })?;
        Ok(through)
    }

    fn inspect(&self, kind: SlotKind, sequence: Sequence, commit: &Commit) -> Result<(), CommitStoreError> {
        let Commit { transaction, validated_head, changes_made, writes } = commit;
        let members = std::slice::from_ref(transaction);
        let content = Content { sequence, kind, members, validated_head, changes_made, writes };
        self.hooks.inspect.check(&content).map_err(CommitStoreError::Inspected)
    }

    async fn catch_up(&self, log: &SlotLog, proof: Proof) -> Result<(), CommitStoreError> {
        let deadline = log.bucket().deadline();
        match &self.side {
            Side::Held(held) => held.catch_up(proof, &deadline).await,
            Side::Followed(followed) => followed.catch_up(log, proof, &deadline).await,
            Side::Foreign => Err(CommitStoreError::ForeignSession),
        }
    }

    /// Waits until the store serves slot `sequence`, which has landed.
    async fn serve(&self, log: &SlotLog, sequence: Sequence) -> Result<(), NotServing> {
        let deadline = Deadline::after(log.bucket().environment(), self.hooks.settings.serve_within);
        match &self.side {
            Side::Held(held) => held.serve(sequence, &deadline).await,
            Side::Followed(followed) => followed.serve(sequence, &deadline).await,
            Side::Foreign => Err(NotServing::Closed),
        }
    }

    /// Sees to it that slot `sequence`, which this process won and serves, is published, where anything is.
    async fn publish(&self, log: &SlotLog, sequence: Sequence) -> Result<(), HoldError> {
        if self.hooks.publication.is_none() {
            return Ok(());
        }
        let deadline = Deadline::after(log.bucket().environment(), self.hooks.settings.serve_within);
        match &self.side {
            Side::Held(held) => held.published(sequence, &deadline).await,
            Side::Followed(followed) => followed.publish(log, sequence).await,
            Side::Foreign => Ok(()),
        }
    }

    fn served(&self) -> Option<Sequence> {
        match &self.side {
            Side::Held(held) => held.served(),
            Side::Followed(followed) => followed.served(),
            Side::Foreign => None,
        }
    }
}

impl fmt::Debug for CommitStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommitStore, {:?}, at {:?}", self.role(), self.served())
    }
}
