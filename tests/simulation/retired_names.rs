//! Names of retired slots that are created again: the traces that broke earlier designs, one by one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code: a broken expectation must stop the test that met it")]

use commit_log::log::{Closing, Offer, OfferError, Outcome, Proof, TailError};
use commit_log::slot::Sequence;
use commit_log_kit::bucket::{Action, Match, Operation, Process};

use crate::calm::{calm, commit, commit_all, delete, open, retire, unread, write_ledger};

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

fn put_of(process: Process) -> Match {
    Match::first().of(process).operation(Operation::Create).path("commits/")
}

/// ```text
/// A   puts 1 ... landed, answer lost                                   puts 1 again: won
/// B                                  wins 2 to 5, page 0 is retired
/// ```
#[test]
fn a_win_whose_page_was_retired_before_its_answer_came_is_a_win() {
    calm(|world, bucket| async move {
        let a = open(&world, &bucket, Process(1)).await;
        let held = bucket.stage(put_of(Process(1)), Action::HoldAnswer);
        let offer = tokio::spawn({
            let a = a.clone();
            async move { a.offer(sequence(1), commit(1), &a.bucket().deadline()).await }
        });
        held.reached().await;
        let b = open(&world, &bucket, Process(2)).await;
        commit_all(&b, 2..=5).await;
        retire(&b, &bucket, 0).await;
        // The put's answer came too late; what A does then is to put again.
        bucket.stage(put_of(Process(1)), Action::SpuriousExists);
        held.release();
        assert!(matches!(offer.await.unwrap(), Ok(Offer::Won { .. })));
    });
}

/// As above, and before A puts again a sleeper has created the name: what A reads there is neither its own nor the winner's.
#[test]
fn a_win_whose_name_a_sleeper_created_again_is_a_win() {
    calm(|world, bucket| async move {
        let (a, sleeper) = (open(&world, &bucket, Process(1)).await, open(&world, &bucket, Process(3)).await);
        bucket.stage(put_of(Process(1)), Action::HangAfter);
        let unknown = a.offer(sequence(1), commit(1), &a.bucket().deadline()).await;
        assert!(matches!(unknown, Ok(Offer::Won { .. }) | Err(OfferError::Unknown { .. })), "{unknown:?}");
        let b = open(&world, &bucket, Process(2)).await;
        commit_all(&b, 2..=5).await;
        retire(&b, &bucket, 0).await;
        let zombie = sleeper.offer(sequence(1), commit(9), &sleeper.bucket().deadline()).await;
        assert!(matches!(zombie, Ok(Offer::Behind { .. })), "{zombie:?}");
        let a = unread(&world, &bucket, Process(4)).await;
        let again = a.offer(sequence(1), commit(1), &a.bucket().deadline()).await;
        assert!(matches!(again, Ok(Offer::Won { slot: None })), "{again:?}");
        let outcome = a.outcome(commit(9).transaction, sequence(1), &a.bucket().deadline()).await;
        assert_eq!(outcome.unwrap(), Outcome::Never);
    });
}

#[test]
fn a_loser_does_not_believe_a_zombie() {
    calm(|world, bucket| async move {
        let (a, sleeper) = (open(&world, &bucket, Process(1)).await, open(&world, &bucket, Process(3)).await);
        let b = open(&world, &bucket, Process(2)).await;
        commit_all(&b, 1..=5).await;
        retire(&b, &bucket, 0).await;
        let zombie = sleeper.offer(sequence(1), commit(9), &sleeper.bucket().deadline()).await;
        assert!(matches!(zombie, Ok(Offer::Behind { .. })), "{zombie:?}");
        let met_it = a.offer(sequence(1), commit(8), &a.bucket().deadline()).await;
        assert!(matches!(met_it, Ok(Offer::Behind { .. })), "{met_it:?}");
        assert_eq!(a.head(), None);
    });
}

#[test]
fn a_reader_that_slept_over_a_retirement_is_told_so_within_its_polls() {
    calm(|world, bucket| async move {
        let (proving, polling) = (open(&world, &bucket, Process(1)).await, open(&world, &bucket, Process(3)).await);
        let b = open(&world, &bucket, Process(2)).await;
        commit_all(&b, 1..=5).await;
        retire(&b, &bucket, 0).await;
        let proved = proving.catch_up(Proof::Always, &proving.bucket().deadline()).await;
        assert!(matches!(proved, Err(TailError::Behind { after: None })), "{proved:?}");
        for poll in 1.. {
            assert!(poll <= 16, "sixteen polls found nothing");
            match polling.catch_up(Proof::NowAndThen, &polling.bucket().deadline()).await {
                Ok(()) => {}
                Err(TailError::Behind { after: None }) => break,
                other => panic!("{other:?}"),
            }
        }
    });
}

/// ```text
/// names   1 zombie   2 3 4 genuine, not deleted yet   page 0 has a ledger
/// ```
#[test]
fn a_zombie_below_genuine_slots_is_not_called_a_broken_chain() {
    calm(|world, bucket| async move {
        let (a, sleeper) = (open(&world, &bucket, Process(1)).await, open(&world, &bucket, Process(3)).await);
        let b = open(&world, &bucket, Process(2)).await;
        commit_all(&b, 1..=5).await;
        write_ledger(&b, &bucket, 0).await;
        delete(&b, &bucket, 1).await;
        let zombie = sleeper.offer(sequence(1), commit(9), &sleeper.bucket().deadline()).await;
        assert!(matches!(zombie, Ok(Offer::Behind { .. })), "{zombie:?}");
        let read = a.catch_up(Proof::Always, &a.bucket().deadline()).await;
        assert!(matches!(read, Err(TailError::Behind { after: None })), "{read:?}");
    });
}

#[test]
fn a_filler_that_is_created_in_a_retired_page_does_not_make_a_landed_transaction_never() {
    calm(|world, bucket| async move {
        let (a, b) = (open(&world, &bucket, Process(1)).await, open(&world, &bucket, Process(2)).await);
        let closes = open(&world, &bucket, Process(3)).await;
        let held = bucket.stage(put_of(Process(3)), Action::Hold);
        let closing = tokio::spawn({
            let closes = closes.clone();
            let deadline = closes.bucket().deadline();
            async move { closes.close_open(commit(1).transaction, sequence(1), Closing::Filler, &deadline).await }
        });
        held.reached().await;
        commit_all(&a, 1..=1).await;
        b.load(None, &b.bucket().deadline()).await.unwrap();
        commit_all(&b, 2..=5).await;
        retire(&b, &bucket, 0).await;
        held.release();
        assert_eq!(closing.await.unwrap().unwrap(), Outcome::Landed);
    });
}
