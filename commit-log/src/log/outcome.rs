//! What became of a transaction at a sequence, asked later, and the closing of a sequence that is open.

use std::sync::Arc;

use bytes::Bytes;

use crate::bucket::{Deadline, Found};
use crate::envelope::{SlotKind, Write};
use crate::error::Corruption;
use crate::identity::TransactionId;
use crate::record::ContentRule;
use crate::slot::Sequence;

use super::SlotLog;
use super::offer::{Commit, Offer, OfferError};
use super::settle::{Question, SlotSeen, Verdict, judge};
use super::tail::TailError;

/// What became of a transaction at a sequence. `Landed` and `Never` never change; `Open` becomes one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is committed there.
    Landed,
    /// It is not committed there and never will be.
    Never,
    /// Nothing is there yet. What was sent may still land; the next commit at that sequence, or a closing, decides it.
    Open,
}

/// What closes an open sequence.
#[derive(Clone, Debug)]
pub enum Closing {
    /// A slot of the library's own that means nothing. Not on a log whose slots hold one member each.
    Filler,
    /// A commit of the embedder's own.
    Commit(Commit),
}

/// Why a sequence was not closed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseError {
    /// The log's slots hold one member each: close it with a commit of your own.
    #[error("the log takes no filler: close the sequence with a commit of your own")]
    NoFillers,
    /// The closing offer ended with a verdict, and yet the sequence reads as open: the store forgot what it stored.
    #[error("slot {sequence} is still open")]
    StillOpen {
        /// The sequence.
        sequence: Sequence,
    },
    /// The closing offer ended without an answer. Close it again.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The log could not be read.
    #[error(transparent)]
    Tail(#[from] TailError),
}

impl SlotLog {
    /// What became of `transaction`, offered at `sequence`. Two reads, one where the page is known to be retired. Nothing is
    /// written.
    ///
    /// # Errors
    ///
    /// A failed read, or corruption.
    pub async fn outcome(
        &self,
        transaction: TransactionId,
        sequence: Sequence,
        deadline: &Deadline,
    ) -> Result<Outcome, TailError> {
        let own_id = self.inner.unresolved.slot_of(transaction, sequence).map(|slot| slot.own_id());
        let question = Question { sequence, transaction, own_id };
        let outcome = self.ask(&question, deadline).await?;
        if outcome != Outcome::Open {
            self.inner.unresolved.decide(transaction, sequence);
        }
        Ok(outcome)
    }

    async fn ask(&self, question: &Question, deadline: &Deadline) -> Result<Outcome, TailError> {
        let page = self.page_of(question.sequence);
        // What is known now was there before the reads below; a slot that lands while they run is news, not a contradiction.
        let known_head = self.head();
        let long_past = known_head.is_some_and(|head| page < self.page_of(head));
        // A ledger that is there decides alone, so it may be read first; one that is absent must be read again after the slot.
        if long_past && let Some(ledger) = self.read_ledger(page, deadline).await? {
            return Ok(answer(&judge(question, &SlotSeen::Absent, Some(&ledger))));
        }
        let found = self.read_slot(question.sequence, deadline).await?;
        let ledger = self.read_ledger(page, deadline).await?;
        let seen = match (found, &ledger) {
            (Found::Present(slot), _) => SlotSeen::Present(Arc::new(slot)),
            (Found::Absent, _) | (Found::Damaged(_), Some(_)) => SlotSeen::Absent,
            (Found::Damaged(corruption), None) => return Err(corruption.into()),
        };
        let outcome = answer(&judge(question, &seen, ledger.as_ref()));
        match (outcome, known_head) {
            // Below the head every slot was there, and only a ledger takes one away.
            (Outcome::Open, Some(below)) if question.sequence <= below => {
                Err(Corruption::Hole { missing: question.sequence, below }.into())
            }
            _ => Ok(outcome),
        }
    }

    /// Whether something of an offer of `transaction` at `sequence` was sent by this process, and nobody was told its outcome.
    pub fn is_unresolved(&self, transaction: TransactionId, sequence: Sequence) -> bool {
        self.inner.unresolved.slot_of(transaction, sequence).is_some()
    }

    /// Whether the log's first slot has landed. Two reads at most; none where its head is known. Nothing is written.
    ///
    /// # Errors
    ///
    /// A failed read, or corruption.
    pub async fn has_begun(&self, deadline: &Deadline) -> Result<bool, TailError> {
        if self.head().is_some() {
            return Ok(true);
        }
        let origin = self.record().origin;
        match self.read_slot(origin, deadline).await? {
            Found::Present(_) => Ok(true),
            // Its page may be retired, and whatever lies there is then no slot.
            Found::Absent => Ok(self.read_ledger(self.page_of(origin), deadline).await?.is_some()),
            Found::Damaged(corruption) => match self.read_ledger(self.page_of(origin), deadline).await? {
                Some(_) => Ok(true),
                None => Err(corruption.into()),
            },
        }
    }

    /// Closes the sequence at which `transaction` was offered: afterwards it has landed there or never will. Idempotent.
    ///
    /// # Errors
    ///
    /// *Too far ahead* when slots below are missing, which no offer of this library leaves behind.
    pub async fn close_open(
        &self,
        transaction: TransactionId,
        sequence: Sequence,
        closing: Closing,
        deadline: &Deadline,
    ) -> Result<Outcome, CloseError> {
        let (kind, commit) = match closing {
            Closing::Commit(commit) => (SlotKind::Commit, commit),
            Closing::Filler if self.record().content_rule == ContentRule::OneMember => return Err(CloseError::NoFillers),
            Closing::Filler => (SlotKind::Filler, self.filler()),
        };
        let before = self.outcome(transaction, sequence, deadline).await?;
        if before != Outcome::Open {
            return Ok(before);
        }
        // A filler that was created proves nothing by itself: it is a full offer, ledger read included. However it ends, the
        // sequence is decided then, and the second look tells how.
        match self.offer_as(kind, sequence, commit, deadline).await? {
            Offer::Won { .. } | Offer::Lost { .. } | Offer::Behind { .. } => {}
        }
        match self.outcome(transaction, sequence, deadline).await? {
            Outcome::Open => Err(CloseError::StillOpen { sequence }),
            decided @ (Outcome::Landed | Outcome::Never) => Ok(decided),
        }
    }

    fn filler(&self) -> Commit {
        let transaction = TransactionId::random(&self.bucket().environment().randomness);
        let writes = vec![Write::delete(self.record().reserved_key.clone())];
        Commit { transaction, validated_head: Bytes::new(), changes_made: Bytes::new(), writes }
    }
}

fn answer(verdict: &Verdict) -> Outcome {
    match verdict {
        Verdict::Won | Verdict::WonByAnotherOffer => Outcome::Landed,
        Verdict::Lost { .. } | Verdict::Behind => Outcome::Never,
        Verdict::Open => Outcome::Open,
    }
}
