//! A transaction is open at one sequence at a time, whatever is asked meanwhile.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code: a broken expectation must stop the test that met it")]

use commit_log::log::{Offer, OfferError, Outcome, Proof};
use commit_log_kit::bucket::{Action, Match, Operation, Process};

use crate::calm::{calm, commit, open};

#[test]
fn a_transaction_that_is_open_at_one_sequence_is_refused_at_another() {
    calm(|world, bucket| async move {
        let log = open(&world, &bucket, Process(1)).await;
        let put = Match::every().of(Process(1)).operation(Operation::Create).path("commits/");
        bucket.stage(put, Action::HangBefore);
        let first = log.next();
        let unknown = log.offer(first, commit(7), &log.bucket().deadline()).await;
        assert!(matches!(unknown, Err(OfferError::Unknown { .. })), "{unknown:?}");
        let refused = log.offer(first.next(), commit(7), &log.bucket().deadline()).await;
        assert!(matches!(refused, Err(OfferError::OpenElsewhere { at, .. }) if at == first), "{refused:?}");
    });
}

/// ```text
/// A   offer 7 at 1 ... its put hangs ............................ ends: lost
/// B                     wins 1
/// A                             outcome 7 at 1: never
/// A                                       offer 7 at 2: refused          offer 7 at 2: unknown     offer 7 at 3: refused
/// ```
#[test]
fn an_offer_that_ends_late_and_an_outcome_asked_late_close_nothing_elsewhere() {
    calm(|world, bucket| async move {
        let (a, b) = (open(&world, &bucket, Process(1)).await, open(&world, &bucket, Process(2)).await);
        let first = a.next();
        let put = |text: &str| Match::first().of(Process(1)).operation(Operation::Create).path(text);
        let held = bucket.stage(put("00001"), Action::HoldAnswer);
        let won = b.offer(first, commit(8), &b.bucket().deadline()).await.unwrap();
        assert!(matches!(won, Offer::Won { .. }));
        let slow = tokio::spawn({
            let a = a.clone();
            async move { a.offer(first, commit(7), &a.bucket().deadline()).await }
        });
        held.reached().await;
        let transaction = commit(7).transaction;
        assert_eq!(a.outcome(transaction, first, &a.bucket().deadline()).await.unwrap(), Outcome::Never);
        a.catch_up(Proof::Always, &a.bucket().deadline()).await.unwrap();
        bucket.stage(Match::every().of(Process(1)).operation(Operation::Create).path("00002"), Action::HangBefore);
        let early = a.offer(first.next(), commit(7), &a.bucket().deadline()).await;
        assert!(matches!(early, Err(OfferError::OpenElsewhere { at, .. }) if at == first), "{early:?}");
        held.release();
        assert!(matches!(slow.await.unwrap(), Ok(Offer::Lost { .. })));
        let unknown = a.offer(first.next(), commit(7), &a.bucket().deadline()).await;
        assert!(matches!(unknown, Err(OfferError::Unknown { .. })), "{unknown:?}");
        // An answer about the first sequence, asked for once more, closes nothing.
        assert_eq!(a.outcome(transaction, first, &a.bucket().deadline()).await.unwrap(), Outcome::Never);
        let refused = a.offer(first.plus(2), commit(7), &a.bucket().deadline()).await;
        assert!(matches!(refused, Err(OfferError::OpenElsewhere { at, .. }) if at == first.next()), "{refused:?}");
    });
}
