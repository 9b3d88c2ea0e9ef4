//! What a call of a store can end with, beside what was asked for: one error for each thing that the caller does next.

use std::sync::Arc;

use slatedb::CloseReason;

use crate::adoption::AdoptionError;
use crate::bucket::DeadlinePassed;
use crate::envelope::Refused;
use crate::error::{Corruption, Unavailable};
use crate::holder::HoldError;
use crate::identity::TransactionId;
use crate::inspect::Refusal;
use crate::log::{CloseError, OfferError, TailError};
use crate::slot::Sequence;
use crate::wal::AccessError;

/// A call that did not end with an answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitStoreError {
    /// Nothing was sent: the commit breaks a rule of the log. Mend it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing was sent: the embedder's own check refuses the commit.
    #[error("the commit is refused by the embedder's own check")]
    Inspected(#[source] Refusal),
    /// Nothing was sent: the sequence lies further ahead than the one after the log's last slot. Prepare the commit again.
    #[error("expected a sequence up to {expected}, found {found}")]
    TooFarAhead {
        /// The sequence after the last slot.
        expected: Sequence,
        /// The sequence that was asked for.
        found: Sequence,
    },
    /// Nothing was sent: the transaction's outcome at another sequence is not known. Ask for that first.
    #[error("the outcome of transaction {transaction} at slot {at} is not known yet")]
    OpenElsewhere {
        /// The transaction.
        transaction: TransactionId,
        /// Where it is open.
        at: Sequence,
    },
    /// Nothing was sent, in time or at all. Try again.
    #[error("nothing was sent")]
    NotSent(#[source] OfferError),
    /// Something was sent, and its outcome is not known: it may be committed, or come to be. Ask for the outcome with this pair; do
    /// not offer the transaction anywhere else before it is known.
    #[error("the outcome of transaction {transaction} at slot {sequence} is not known")]
    Unknown {
        /// The transaction.
        transaction: TransactionId,
        /// The sequence it was offered at.
        sequence: Sequence,
        /// What was waited for.
        #[source]
        source: OfferError,
    },
    /// It *is* committed, at this sequence, and this store does not serve it. A store that is opened anew does. Do not offer it again.
    #[error("transaction {transaction} has landed as slot {sequence}, and is not served here")]
    NotServed {
        /// The transaction.
        transaction: TransactionId,
        /// Where it is committed.
        sequence: Sequence,
        /// What the store lacks.
        #[source]
        source: NotServing,
    },
    /// It *is* committed, at this sequence, and served here, and no published checkpoint is known to cover it: readers of a fixed
    /// state may lack it until another publication. Do not offer it again.
    #[error("transaction {transaction} has landed as slot {sequence}, and is not published")]
    NotPublished {
        /// The transaction.
        transaction: TransactionId,
        /// Where it is committed.
        sequence: Sequence,
        /// Why not.
        #[source]
        source: HoldError,
    },
    /// Nothing of this call is committed, and the store does not serve all that has landed before. Prepare the commit again when it
    /// does.
    #[error("the store does not serve the log through slot {through}")]
    NotCaughtUp {
        /// What it was to serve.
        through: Sequence,
        /// What the store lacks.
        #[source]
        source: NotServing,
    },
    /// Nothing was sent: the store cannot flush, since nothing merges its files, and its memory is half full. Compact it.
    #[error("the store has {files} unmerged files, its limit is {limit}: something must compact it")]
    L0Full {
        /// How many there are.
        files: usize,
        /// The limit.
        limit: usize,
    },
    /// Another process took the store that was opened as its writer. Open it anew. Nothing was sent.
    #[error("another process took the store")]
    Fenced,
    /// The store is held no longer. Open it anew. Nothing was sent.
    #[error("the store is held no longer: {0}")]
    HoldEnded(#[source] HoldError),
    /// The store was not folded, or not looked at. Nothing is lost; try again.
    #[error("the store was not folded: {0}")]
    NotFolded(#[source] HoldError),
    /// The reader of the store was closed. Open it anew. Nothing was sent.
    #[error("the reader of the store was closed: {reason:?}")]
    ReaderClosed {
        /// By what.
        reason: CloseReason,
    },
    /// The reader of the store did not close.
    #[error("the reader of the store did not close")]
    NotClosed(#[source] Arc<slatedb::Error>),
    /// The store is on no log yet, or on one whose first slot has not landed: adopt it.
    #[error("the store is on no commit log yet")]
    NotAdopted,
    /// The store has left its log: open it without.
    #[error("the store has left its commit log")]
    Left,
    /// The store cannot be used with a log, or is on another one by now.
    #[error(transparent)]
    Adoption(AdoptionError),
    /// Somebody wrote to the store beside the log, under this epoch. Nothing is folded: repair it.
    #[error("epoch {epoch} of the store was taken beside the commit log")]
    ForeignWriter {
        /// The writer's epoch.
        epoch: u64,
    },
    /// A slot that landed is refused by the embedder's own check: it is corruption, and nothing from it on is folded.
    #[error("slot {sequence} is refused by the embedder's own check")]
    SlotRefused {
        /// The slot.
        sequence: Sequence,
        /// What the check said.
        #[source]
        source: Refusal,
    },
    /// What is in the bucket is not what the log put there. No commit was sent; what closes a sequence may have been.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The log's slots hold one member each: close the sequence with a commit of your own.
    #[error("the log takes no filler: close the sequence with a commit of your own")]
    NoFillers,
    /// The closing offer ended with a verdict, and yet the sequence reads as open: the bucket forgot what it stored.
    #[error("slot {sequence} is still open")]
    StillOpen {
        /// The sequence.
        sequence: Sequence,
    },
    /// The bucket failed, and nothing was sent. Try again.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The log was retired faster than it could be read, and nothing was sent. Try again.
    #[error("the log was retired faster than it could be read")]
    Behind,
    /// The store came with a session that did not open it.
    #[error("the store came with a session that did not open it")]
    ForeignSession,
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
}

/// Why a store does not serve a slot that has landed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotServing {
    /// It is held no longer.
    #[error(transparent)]
    Held(HoldError),
    /// Its reader was closed.
    #[error("the reader of the store was closed")]
    ReaderClosed,
    /// Its reader could not go on.
    #[error(transparent)]
    Reader(AccessError),
    /// It was not done in time, and may yet be.
    #[error("the store was not done in time")]
    TimedOut,
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
}

impl From<DeadlinePassed> for NotServing {
    fn from(_: DeadlinePassed) -> NotServing {
        NotServing::TimedOut
    }
}

impl From<AdoptionError> for CommitStoreError {
    fn from(error: AdoptionError) -> CommitStoreError {
        error.sorted(|error| {
            if matches!(error, AdoptionError::Left) { CommitStoreError::Left } else { CommitStoreError::Adoption(error) }
        })
    }
}

impl From<TailError> for CommitStoreError {
    fn from(error: TailError) -> CommitStoreError {
        match error {
            TailError::Behind { .. } => CommitStoreError::Behind,
            TailError::Corrupt(corruption) => corruption.into(),
            TailError::Unavailable(failure) => failure.into(),
        }
    }
}

impl From<OfferError> for CommitStoreError {
    fn from(error: OfferError) -> CommitStoreError {
        match error {
            OfferError::Refused(refused) => refused.into(),
            OfferError::TooFarAhead { expected, found } => CommitStoreError::TooFarAhead { expected, found },
            OfferError::OpenElsewhere { transaction, at } => CommitStoreError::OpenElsewhere { transaction, at },
            OfferError::Unknown { transaction, sequence, .. } => {
                CommitStoreError::Unknown { transaction, sequence, source: error }
            }
            OfferError::Corrupt(corruption) => corruption.into(),
            OfferError::LogBehind { .. } => CommitStoreError::Behind,
            error @ (OfferError::TooManyOpen
            | OfferError::NotRecorded(_)
            | OfferError::NotSent { .. }
            | OfferError::Unavailable(_)) => CommitStoreError::NotSent(error),
        }
    }
}

impl From<CloseError> for CommitStoreError {
    fn from(error: CloseError) -> CommitStoreError {
        match error {
            CloseError::NoFillers => CommitStoreError::NoFillers,
            CloseError::StillOpen { sequence } => CommitStoreError::StillOpen { sequence },
            CloseError::Offer(error) => error.into(),
            CloseError::Tail(error) => error.into(),
        }
    }
}
