//! Outcomes, and closing what is open.

use std::sync::Arc;
use std::time::Duration;

use commit_log::adoption::FreshLog;
use commit_log::bucket::Deadline;
use commit_log::envelope::SlotKind;
use commit_log::log::{CloseError, Closing, Offer, Outcome};
use commit_log::record::ContentRule;
use commit_log_kit::scripted::Fate;

use crate::offers::leave_open;
use crate::support::{Process, World, is, sequence, won};

async fn outcome(process: &Process, transaction: commit_log::identity::TransactionId, number: u64) -> Outcome {
    process.log.outcome(transaction, sequence(number), &process.deadline()).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_landed_or_never_for_ever_and_open_only_where_nothing_is() {
    let world = World::new().await;
    let process = world.process().await;
    let (first, second) = (process.commit().await, process.commit().await);
    let other = world.process().await;
    let knows_nothing = world.process_with(commit_log::log::LogOptions::default());
    for asks in [&process, &other, &knows_nothing] {
        assert_eq!(outcome(asks, first, 1).await, Outcome::Landed);
        assert_eq!(outcome(asks, first, 2).await, Outcome::Never);
        assert_eq!(outcome(asks, second, 3).await, Outcome::Open);
    }
    // Nor does retiring the page change it.
    process.commit().await;
    process.commit().await;
    process.commit().await;
    world.retire(0).await;
    for asks in [&process, &other, &knows_nothing] {
        assert_eq!(outcome(asks, first, 1).await, Outcome::Landed);
        assert_eq!(outcome(asks, first, 2).await, Outcome::Never);
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_lands_between_two_questions_turns_open_into_landed_only() {
    let world = World::new().await;
    let process = Arc::new(world.process().await);
    let other = world.process().await;
    let commit = process.new_commit();
    let put = process.script_put(1, Fate::Hold);
    let offer = tokio::spawn({
        let (process, commit) = (process.clone(), commit.clone());
        async move { process.offer(1, commit).await }
    });
    put.reached().await;
    assert_eq!(outcome(&other, commit.transaction, 1).await, Outcome::Open);
    // A slot that lands between the two reads of one question is not called open by the second.
    let ledger = other.script_ledger_read(1, Fate::Hold);
    let lands = async {
        ledger.reached().await;
        put.release();
        assert!(won(&offer.await.unwrap()));
        ledger.release();
    };
    let (between, ()) = futures::future::join(outcome(&other, commit.transaction, 1), lands).await;
    assert_eq!(between, Outcome::Open, "nothing was there when the slot was read");
    for _ in 0..3 {
        assert_eq!(outcome(&other, commit.transaction, 1).await, Outcome::Landed);
        other.log.catch_up(commit_log::log::Proof::Always, &other.deadline()).await.unwrap();
    }
}

/// An owner and a closer race for one sequence. `first` says whose put is let go first.
async fn race_of_owner_and_closer(owner_first: Order) -> (Result<Offer, commit_log::log::OfferError>, Outcome, SlotKind) {
    let world = World::new().await;
    let (owner, closer) = (Arc::new(world.process().await), Arc::new(world.process().await));
    let commit = owner.new_commit();
    let (own_put, filler) = (owner.script_put(1, Fate::Hold), closer.script_put(1, Fate::Hold));
    let offer = tokio::spawn({
        let (owner, commit) = (owner.clone(), commit.clone());
        async move { owner.offer(1, commit).await }
    });
    let close = tokio::spawn({
        let (closer, transaction) = (closer.clone(), commit.transaction);
        async move { closer.log.close_open(transaction, sequence(1), Closing::Filler, &closer.deadline()).await }
    });
    own_put.reached().await;
    filler.reached().await;
    let (offer, closed) = match owner_first {
        Order::OwnerFirst => {
            own_put.release();
            let offer = offer.await.unwrap();
            filler.release();
            (offer, close.await.unwrap().unwrap())
        }
        Order::CloserFirst => {
            filler.release();
            let closed = close.await.unwrap().unwrap();
            own_put.release();
            (offer.await.unwrap(), closed)
        }
    };
    assert_eq!(outcome(&owner, commit.transaction, 1).await, closed);
    assert!(world.slot(2).await.is_none());
    (offer, closed, world.slot(1).await.unwrap().envelope().kind)
}

enum Order {
    OwnerFirst,
    CloserFirst,
}

#[tokio::test(start_paused = true)]
async fn exactly_one_of_owner_and_closer_lands() {
    let (offer, closed, kind) = race_of_owner_and_closer(Order::OwnerFirst).await;
    assert!(won(&offer));
    assert_eq!((closed, kind), (Outcome::Landed, SlotKind::Commit));
    let (offer, closed, kind) = race_of_owner_and_closer(Order::CloserFirst).await;
    assert!(matches!(offer, Ok(Offer::Lost { .. })), "{offer:?}");
    assert_eq!((closed, kind), (Outcome::Never, SlotKind::Filler));
}

#[tokio::test(start_paused = true)]
async fn closing_again_changes_nothing_and_the_log_goes_on() {
    let world = World::new().await;
    let process = world.process().await;
    let commit = leave_open(&process, 1).await;
    for _ in 0..2 {
        let closed = process.log.close_open(commit.transaction, sequence(1), Closing::Filler, &process.deadline()).await;
        assert_eq!(closed.unwrap(), Outcome::Never);
    }
    // The transaction is not open any more, and may be offered anew.
    assert!(won(&process.offer(2, commit).await));
    assert_eq!(world.process().await.head(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_log_of_one_member_a_slot_takes_no_filler_and_is_closed_by_a_commit() {
    let world = World::with(FreshLog { content_rule: ContentRule::OneMember, ..FreshLog::default() }).await;
    let process = world.process().await;
    let commit = leave_open(&process, 1).await;
    let mark = process.mark();
    let refused = process.log.close_open(commit.transaction, sequence(1), Closing::Filler, &process.deadline()).await;
    assert!(matches!(refused, Err(CloseError::NoFillers)), "{refused:?}");
    assert_eq!(process.since(mark).puts, 0);
    let closing = process.new_commit();
    let closer = closing.transaction;
    let closed = process.log.close_open(commit.transaction, sequence(1), Closing::Commit(closing), &process.deadline()).await;
    assert_eq!(closed.unwrap(), Outcome::Never);
    assert!(world.slot(1).await.unwrap().carries(closer));
}

#[tokio::test(start_paused = true)]
async fn closings_that_were_cut_short_do_not_use_up_what_may_be_open() {
    let world = World::new().await;
    let process = world.process().await;
    let (commit, elsewhere) = (process.new_commit(), world.process().await);
    for nth in 1..=300 {
        process.scripted.script(
            nth,
            is(commit_log_kit::bucket::Operation::Create, commit_log_kit::scripted::PathClass::Commits),
            Fate::Hang,
        );
    }
    for _ in 0..300 {
        let soon = Deadline::after(process.log.bucket().environment(), Duration::from_millis(10));
        let closed = process.log.close_open(commit.transaction, sequence(1), Closing::Filler, &soon).await;
        assert!(matches!(closed, Err(CloseError::Offer(_))), "{closed:?}");
    }
    process.commit().await;
    drop(elsewhere);
}

#[tokio::test(start_paused = true)]
async fn closing_too_far_ahead_is_refused_with_nothing_put() {
    let world = World::new().await;
    let process = world.commit_through(1).await;
    let mark = process.mark();
    let transaction = commit_log::identity::TransactionId::from_bytes([1; 16]);
    let closed = process.log.close_open(transaction, sequence(5), Closing::Filler, &process.deadline()).await;
    assert!(matches!(closed, Err(CloseError::Offer(commit_log::log::OfferError::TooFarAhead { .. }))), "{closed:?}");
    assert_eq!(process.since(mark).puts, 0);
}
