//! A transaction's way into the log: check what it read, offer, and again after a loss.

use crate::bucket::Deadline;
use crate::envelope::Refused;
use crate::error::Corruption;
use crate::holder::HoldError;
use crate::identity::TransactionId;
use crate::log::{Commit, Offer, OfferError};
use crate::slot::Sequence;
use crate::transaction::{Conflict, Parts, Rides, rides};

use super::current::{Current, StoreError};

/// A transaction that is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The transaction.
    pub transaction: TransactionId,
    /// The sequence of its slot.
    pub sequence: Sequence,
    /// How many races for a slot it lost before.
    pub lost_races: u32,
}

/// A transaction that did not commit, or whose outcome is not known.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// Nothing is committed: it breaks a rule.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nothing is committed: something it read was written meanwhile. Run it again.
    #[error(transparent)]
    Conflict(#[from] Conflict),
    /// Nothing is committed: what was written since it began is not known any more, so it may conflict. Run it again.
    #[error("the transaction is older than what is known of the log")]
    TooOld,
    /// Nothing is committed: its time ran out, over lost races or conflicts.
    #[error("the transaction's time ran out after {lost_races} lost races")]
    OutOfTime {
        /// How many races for a slot it lost.
        lost_races: u32,
    },
    /// Something was sent and its outcome is not known: it may be committed, or come to be. Ask
    /// [`Store::outcome`](super::Store::outcome) with this pair; do not run it again before that is known.
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
    /// It *is* committed, at this sequence, and this process cannot read it yet: views may lag behind it until a read succeeds.
    /// Do not run it again.
    #[error("transaction {transaction} is committed at slot {sequence}, and is not served here yet")]
    NotServed {
        /// The transaction.
        transaction: TransactionId,
        /// Where it is committed.
        sequence: Sequence,
        /// What kept the view from moving.
        #[source]
        source: StoreError,
    },
    /// It *is* committed, at this sequence, and readable here, and no published checkpoint is known to cover it. Do not run it
    /// again.
    #[error("transaction {transaction} is committed at slot {sequence}, and is not published")]
    NotPublished {
        /// The transaction.
        transaction: TransactionId,
        /// Where it is committed.
        sequence: Sequence,
        /// Why not.
        #[source]
        source: HoldError,
    },
    /// Nothing was sent.
    #[error("nothing was committed")]
    NotSent(#[source] OfferError),
    /// The log is damaged. Ask for the outcome when it is repaired.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CommitError {
    /// Whether the transaction may simply be run again.
    pub fn is_conflict(&self) -> bool {
        matches!(self, CommitError::Conflict(_) | CommitError::TooOld)
    }
}

/// Offers a transaction until it wins, conflicts, or `budget` has passed.
///
/// It may ride a slot only if what it read is untouched by every slot between the head it read at and that slot, whether or
/// not it ever lost a race.
pub(super) async fn commit(current: &Current, parts: Parts, budget: &Deadline) -> Result<Committed, CommitError> {
    let Parts { id: transaction, view_head, writes, reads } = parts;
    let log = current.log();
    let mut lost_races = 0;
    loop {
        current.install()?;
        let view = current.view();
        let sequence = view.next_sequence();
        match rides(&reads, view_head, sequence, view.overlay()) {
            Rides::Untouched => {}
            Rides::Touched(conflict) => return Err(conflict.into()),
            Rides::Unknown => return Err(CommitError::TooOld),
        }
        if budget.has_passed() {
            return Err(CommitError::OutOfTime { lost_races });
        }
        let offered = Commit::of(transaction, writes.clone());
        match log.offer(sequence, offered, &log.bucket().deadline()).await {
            Ok(Offer::Won { slot }) => {
                // What is won is committed, whatever else fails.
                let moved = match slot {
                    Some(_) => current.show(sequence, &log.bucket().deadline()).await,
                    None => current.reload_now(&log.bucket().deadline()).await,
                };
                return match moved {
                    Ok(()) => Ok(Committed { transaction, sequence, lost_races }),
                    Err(source) => Err(CommitError::NotServed { transaction, sequence, source }),
                };
            }
            Ok(Offer::Lost { .. }) => {
                lost_races += 1;
                current.show(sequence, &log.bucket().deadline()).await?;
            }
            Ok(Offer::Behind { .. }) => return Err(behind(current).await),
            Err(error) => return Err(sorted(error, current).await),
        }
    }
}

/// The log was retired past the transaction: it is never offered again as it is.
async fn behind(current: &Current) -> CommitError {
    match current.reload_now(&current.log().bucket().deadline()).await {
        Ok(()) => CommitError::TooOld,
        Err(error) => error.into(),
    }
}

async fn sorted(error: OfferError, current: &Current) -> CommitError {
    match error {
        OfferError::Refused(refused) => refused.into(),
        OfferError::Corrupt(corruption) => corruption.into(),
        OfferError::LogBehind { .. } => behind(current).await,
        OfferError::Unknown { transaction, sequence, .. } => CommitError::Unknown { transaction, sequence, source: error },
        OfferError::TooFarAhead { .. }
        | OfferError::OpenElsewhere { .. }
        | OfferError::TooManyOpen
        | OfferError::NotRecorded(_)
        | OfferError::NotSent { .. }
        | OfferError::Unavailable(_) => CommitError::NotSent(error),
    }
}
