//! Sleepers: what a process meets that slept while its page was retired, its names forgotten and created again.

use std::sync::Arc;

use commit_log::log::{Closing, Offer, OfferError, Outcome, Proof, TailError};
use commit_log_kit::scripted::Fate;

use crate::support::{Spent, World, sequence};

#[tokio::test(start_paused = true)]
async fn a_put_that_is_created_in_a_retired_page_is_behind_and_never_won() {
    let world = World::new().await;
    world.commit_through(9).await;
    let sleeper = world.lagging_process(1).await;
    world.retire(0).await;
    let commit = sleeper.new_commit();
    let mark = sleeper.mark();
    assert!(matches!(sleeper.offer(2, commit.clone()).await, Ok(Offer::Behind { .. })));
    assert_eq!(sleeper.since(mark), Spent { puts: 1, ledger_reads: 1, ..Spent::default() });
    assert_eq!(sleeper.head(), 1, "what it created is not believed");
    // It may go on at the true head.
    sleeper.load(Some(8)).await;
    assert!(matches!(sleeper.offer(10, commit).await, Ok(Offer::Won { slot: Some(_) })));
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_is_not_told_that_the_true_next_sequence_is_too_far_ahead() {
    let world = World::new().await;
    world.commit_through(9).await;
    let sleeper = world.lagging_process(1).await;
    world.retire(0).await;
    let commit = sleeper.new_commit();
    let answer = sleeper.offer(10, commit.clone()).await;
    assert!(matches!(answer, Err(OfferError::LogBehind { after }) if after == Some(sequence(1))), "{answer:?}");
    sleeper.load(Some(8)).await;
    assert!(matches!(sleeper.offer(10, commit).await, Ok(Offer::Won { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_loser_does_not_believe_a_winner_that_was_created_in_a_retired_page() {
    let world = World::new().await;
    world.commit_through(9).await;
    let (first, second) = (world.lagging_process(1).await, world.lagging_process(1).await);
    world.retire(0).await;
    // Given a name that one sleeper created again.
    assert!(matches!(first.offer(2, first.new_commit()).await, Ok(Offer::Behind { .. })));
    assert!(world.slot(2).await.is_some());
    // When another sleeper meets it.
    let answer = second.offer(2, second.new_commit()).await;
    // Then it is told "behind", and its head did not move over it.
    assert!(matches!(answer, Ok(Offer::Behind { .. })), "{answer:?}");
    assert_eq!(second.head(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_own_put_that_is_found_in_a_retired_page_is_behind_and_never_won() {
    let world = World::new().await;
    world.commit_through(9).await;
    let sleeper = world.lagging_process(1).await;
    world.retire(0).await;
    // Given a put that created the forgotten name, and whose answer was lost.
    sleeper.script_put(1, Fate::LoseAnswer);
    let commit = sleeper.new_commit();
    let answer = sleeper.offer(2, commit.clone()).await;
    assert!(matches!(answer, Ok(Offer::Behind { .. })), "{answer:?}");
    assert!(world.slot(2).await.unwrap().carries(commit.transaction), "it lies there");
    let outcome = sleeper.log.outcome(commit.transaction, sequence(2), &sleeper.deadline()).await;
    assert_eq!(outcome.unwrap(), Outcome::Never);
}

#[tokio::test(start_paused = true)]
async fn the_ledger_is_read_after_the_slot_so_a_page_that_retires_between_is_seen() {
    let world = World::new().await;
    world.commit_through(9).await;
    let (loser, sleeper) = (Arc::new(world.lagging_process(1).await), world.lagging_process(1).await);
    // Given a loser that is about to read who won.
    let read = loser.script_slot_read(1, Fate::Hold);
    let offer = tokio::spawn({
        let loser = loser.clone();
        async move { loser.offer(2, loser.new_commit()).await }
    });
    read.reached().await;
    // When the page is retired and another sleeper creates the name again.
    world.retire(0).await;
    assert!(matches!(sleeper.offer(2, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
    read.release();
    // Then what it reads is no winner.
    let answer = offer.await.unwrap();
    assert!(matches!(answer, Ok(Offer::Behind { .. })), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_won_put_that_was_not_heard_of_stays_won_when_its_page_is_retired_and_its_name_created_again() {
    for created_again in [true, false] {
        let world = World::new().await;
        world.commit_through(1).await;
        let process = Arc::new(world.process().await);
        let sleeper = world.process().await;
        // Given a put that landed at 2, whose answer was lost, and its resend on the way.
        process.script_put(1, Fate::LoseAnswer);
        let resend = process.script_put(2, Fate::Hold);
        let commit = process.new_commit();
        let offer = tokio::spawn({
            let (process, commit) = (process.clone(), commit.clone());
            async move { process.offer(2, commit).await }
        });
        resend.reached().await;
        assert!(world.slot(2).await.unwrap().carries(commit.transaction));
        // When others go on, the page is retired, and perhaps a sleeper creates the name again.
        world.commit_through(9).await;
        world.retire(0).await;
        if created_again {
            assert!(matches!(sleeper.offer(2, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
        }
        resend.release();
        // Then the ledger says that it was won, and what lies there now is not believed.
        assert!(matches!(offer.await.unwrap(), Ok(Offer::Won { slot: None })));
        assert_eq!(process.head(), 1);
        let outcome = sleeper.log.outcome(commit.transaction, sequence(2), &sleeper.deadline()).await.unwrap();
        assert_eq!(outcome, Outcome::Landed);
    }
}

#[tokio::test(start_paused = true)]
async fn judged_below_the_head_in_a_retired_page_the_ledger_decides_alone() {
    let world = World::new().await;
    let process = world.process().await;
    let mut commits = Vec::new();
    for number in 1..=9 {
        commits.push(process.new_commit());
        assert!(matches!(process.offer(number, commits[number as usize - 1].clone()).await, Ok(Offer::Won { .. })));
    }
    let sleeper = world.lagging_process(2).await;
    world.retire(0).await;
    assert!(matches!(sleeper.offer(3, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
    let mark = process.mark();
    assert!(matches!(process.offer(3, commits[2].clone()).await, Ok(Offer::Won { slot: None })));
    assert!(matches!(process.offer(3, process.new_commit()).await, Ok(Offer::Behind { .. })));
    // Won at 3 is not won at 2.
    assert!(matches!(process.offer(2, commits[2].clone()).await, Ok(Offer::Behind { .. })));
    assert_eq!(process.since(mark).puts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_filler_that_is_created_in_a_retired_page_proves_nothing() {
    let world = World::new().await;
    let process = world.process().await;
    process.commit().await;
    // Given a commit that landed at 2, which its closer has not heard of.
    let closer = world.process().await;
    let transaction = process.commit().await;
    // And a closer whose look finds nothing yet, because its reads are of before.
    world.commit_through(9).await;
    let landed = world.read(world.slot_name(2)).await.unwrap();
    world.delete(world.slot_name(2)).await;
    let filler = closer.script_put(1, Fate::Hold);
    let closing =
        tokio::spawn(async move { closer.log.close_open(transaction, sequence(2), Closing::Filler, &closer.deadline()).await });
    filler.reached().await;
    // When the page is retired before its filler arrives.
    world.write(world.slot_name(2), landed).await;
    world.retire(0).await;
    filler.release();
    // Then the filler is created, and the commit has landed all the same.
    assert_eq!(closing.await.unwrap().unwrap(), Outcome::Landed);
    assert!(!world.slot(2).await.unwrap().carries(transaction));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_slept_past_a_retirement_notices_within_sixteen_idle_polls() {
    let world = World::new().await;
    world.commit_through(9).await;
    let sleeper = world.lagging_process(2).await;
    world.retire(0).await;
    let mut polls = 0;
    let error = loop {
        polls += 1;
        if let Err(error) = sleeper.log.catch_up(Proof::NowAndThen, &sleeper.deadline()).await {
            break error;
        }
    };
    assert!(matches!(error, TailError::Behind { after } if after == Some(sequence(2))), "{error:?}");
    assert_eq!(polls, 16);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_asks_for_proof_notices_at_once_and_goes_on_from_the_store() {
    let world = World::new().await;
    world.commit_through(9).await;
    let sleeper = world.lagging_process(2).await;
    world.retire(0).await;
    let found = sleeper.log.catch_up(Proof::Always, &sleeper.deadline()).await;
    assert!(matches!(found, Err(TailError::Behind { .. })), "{found:?}");
    // The covered slot, below which the store has everything, anchors the chain.
    sleeper.load(Some(7)).await;
    assert_eq!(sleeper.head(), 9);
    assert_eq!(sleeper.log.remembered_after(Some(sequence(7))).unwrap().len(), 2);
    assert!(sleeper.log.remembered_after(Some(sequence(2))).is_none(), "memory does not reach back that far");
}

#[tokio::test(start_paused = true)]
async fn a_load_from_a_slot_whose_page_was_retired_is_behind() {
    let world = World::new().await;
    world.commit_through(9).await;
    world.retire(0).await;
    let process = world.process_with(commit_log::log::LogOptions::default());
    for covered in [None, Some(3)] {
        let loaded = process.log.load(covered.map(sequence), &process.deadline()).await;
        assert!(matches!(loaded, Err(TailError::Behind { .. })), "{loaded:?}");
        assert_eq!(process.log.head(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn holes_chains_and_damage_in_a_retired_page_are_behind_and_not_corruption() {
    let world = World::new().await;
    world.commit_through(9).await;
    let bytes = world.read(world.slot_name(2)).await.unwrap();
    world.retire(0).await;
    for rubbish in [bytes.slice(..30), bytes.clone()] {
        // A cut slot, and another one's bytes, below genuine slots of the next page and above a hole.
        world.write(world.slot_name(3), rubbish).await;
        let process = world.process_with(commit_log::log::LogOptions::default());
        let loaded = process.log.load(None, &process.deadline()).await;
        assert!(matches!(loaded, Err(TailError::Behind { .. })), "{loaded:?}");
    }
}
