//! Finds out what became of a commit that nothing was heard of.

use commit_log::identity::TransactionId;
use commit_log::log::{CloseError, OfferError, Outcome, TailError};
use commit_log::slot::Sequence;
use commit_log::store::Store;

/// How often the log is asked. Each ask lasts up to the deadline of a call, so this is many minutes of a bucket's silence.
const MAX_ASKS: usize = 20;

/// What became of it. Neither changes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It is committed there.
    Landed,
    /// It is not committed there and never will be.
    Never,
}

/// Asks what became of `transaction`, which was sent to slot `sequence`, and closes the slot where nothing is there yet: so
/// it is known afterwards, and the same rows may be committed again if it never landed.
///
/// # Errors
///
/// When the bucket stays silent for too long, or the log is damaged.
pub async fn resolve(store: &Store, transaction: TransactionId, sequence: Sequence) -> Result<Resolved, CloseError> {
    let bucket = store.log().bucket();
    let mut backoff = bucket.pace().backoff(bucket.environment());
    let mut last = CloseError::StillOpen { sequence };
    for _ in 0..MAX_ASKS {
        match store.close_open(transaction, sequence).await {
            Ok(Outcome::Landed) => return Ok(Resolved::Landed),
            Ok(Outcome::Never) => return Ok(Resolved::Never),
            Ok(Outcome::Open) => last = CloseError::StillOpen { sequence },
            Err(error) if may_pass(&error) => last = error,
            Err(error) => return Err(error),
        }
        backoff.wait().await;
    }
    Err(last)
}

fn may_pass(error: &CloseError) -> bool {
    match error {
        CloseError::Tail(TailError::Corrupt(_)) | CloseError::Offer(OfferError::Corrupt(_) | OfferError::Refused(_)) => false,
        CloseError::Tail(_) | CloseError::Offer(_) | CloseError::StillOpen { .. } => true,
        CloseError::NoFillers | _ => false,
    }
}
