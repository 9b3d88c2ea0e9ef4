//! A store that its embedder opened as a reader.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use commit_log::commit_store::{
    CommitStore, CommitStoreError, CommitStoreSettings, Hooks, NotServing, Role, SlotAdoption, SlotOffer, Winner,
};
use commit_log::log::Outcome;
use commit_log::retire::{Collector, RetireMode, RetireOptions};
use commit_log::wal::{ReaderSession, Tail};
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass};
use slatedb::config::DbReaderOptions;
use slatedb::{DbReader, DbReaderMode};

use crate::embedder::{Lake, hooks, won};
use crate::support::{ROOT, is, sequence};

#[tokio::test(start_paused = true)]
async fn a_commit_costs_a_put_a_ledger_read_and_one_look_of_the_reader() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let (reader, store) = process.followed(hooks()).await;
    // The look that every reader begins with is over by then.
    won(&store.write_at(sequence(2), process.commit()).await);
    // What a look looks at: the next manifest, and SlateDB's own note of the oldest.
    let look = BTreeMap::from([((Operation::Get, PathClass::Manifest), 1), ((Operation::Get, PathClass::Gc), 1)]);
    for number in 3..=9 {
        let mark = process.scripted.mark();
        let commit = process.commit();
        let key = commit.transaction.to_string();
        won(&store.write_at(sequence(number), commit).await);
        let mut expected = look.clone();
        expected.insert((Operation::Create, PathClass::Commits), 1);
        expected.insert((Operation::Get, PathClass::Retired), 1);
        assert_eq!(process.scripted.counts_since(mark), expected, "commit {number}");
        assert_eq!(reader.get(key).await.unwrap(), Some(Bytes::from("value")));
    }
    assert_eq!((store.role(), store.unfolded().await.unwrap()), (Role::Following, 8));
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_with_a_clock_of_its_own_serves_a_win_at_its_own_poll() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let session = ReaderSession::new(process.place.clone(), Tail::Followed);
    let options = DbReaderOptions { manifest_poll_interval: Duration::from_secs(3), ..DbReaderOptions::default() };
    let reader = DbReader::builder(ROOT, process.store())
        .with_wal_reader(session.reader())
        .with_reader_mode(DbReaderMode::FollowLatest)
        .with_options(options);
    let reader = std::sync::Arc::new(reader.build().await.unwrap());
    let store = CommitStore::followed(reader.clone(), session, hooks());
    for number in 2..=4 {
        let commit = process.commit();
        let key = commit.transaction.to_string();
        won(&store.write_at(sequence(number), commit).await);
        assert_eq!(reader.get(key).await.unwrap(), Some(Bytes::from("value")));
    }
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loss_hands_out_the_winner_and_the_reader_serves_everything_that_is_known_by_then() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let (process, other) = (lake.process(), lake.process());
    let (reader, store) = process.followed(hooks()).await;
    let (_, racing) = other.followed(hooks()).await;
    let mut theirs = Vec::new();
    for number in 2..=5 {
        let commit = other.commit();
        theirs.push(commit.transaction);
        won(&racing.write_at(sequence(number), commit).await);
    }
    let lost = store.write_at(sequence(2), process.commit()).await.unwrap();
    let SlotOffer::Lost { sequence: at, winner: Winner::Slot(winner), through } = lost else { panic!("{lost:?}") };
    assert_eq!((at, through), (sequence(2), sequence(5)));
    assert!(winner.carries(theirs[0]));
    for transaction in theirs {
        assert_eq!(reader.get(transaction.to_string()).await.unwrap(), Some(Bytes::from("value")));
    }
    // One that adopts late finds the stamp that did.
    let adoption = store.adopt(process.stamp()).await;
    assert!(matches!(adoption, Ok(SlotAdoption::Theirs { winner: Winner::Slot(_), .. })), "{adoption:?}");
    won(&store.write_at(sequence(6), process.commit()).await);
    racing.close().await.unwrap();
    store.close().await.unwrap();
}

/// A caller counts by the head that it has read, and its reader may be further by then.
#[tokio::test(start_paused = true)]
async fn a_sequence_wins_where_it_is_the_next_whatever_the_reader_has_been_served() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let (process, other) = (lake.process(), lake.process());
    let (_, store) = process.followed(hooks()).await;
    let (_, racing) = other.followed(hooks()).await;
    won(&racing.write_at(sequence(2), other.commit()).await);
    // This process has not heard of slot 2, and its caller has.
    won(&store.write_at(sequence(3), process.commit()).await);
    // This one has been served slot 3, and its caller's head is at 2.
    assert_eq!(racing.fold_tail().await.unwrap(), 1);
    let stale = racing.write_at(sequence(3), other.commit()).await;
    assert!(matches!(stale, Ok(SlotOffer::Lost { .. })), "{stale:?}");
    won(&racing.write_at(sequence(4), other.commit()).await);
    racing.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_across_a_retirement_loses_to_what_the_ledger_remembers_and_goes_on() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let sleeper = lake.process();
    let (reader, store) = sleeper.followed(hooks()).await;
    // Given twenty slots more, folded and retired behind its back.
    let (process, held) = (lake.process(), lake.process());
    let holding = held.held(hooks()).await;
    let (_, racing) = process.followed(hooks()).await;
    let mut theirs = Vec::new();
    for number in 4..=23 {
        let commit = process.commit();
        theirs.push(commit.transaction);
        won(&racing.write_at(sequence(number), commit).await);
    }
    holding.close().await.unwrap();
    let retired = Collector::new(process.log()).run(&RetireOptions::default(), RetireMode::Retire).await.unwrap();
    assert!(!retired.pages.is_empty());
    // When it offers at the next sequence that it knows.
    let lost = store.write_at(sequence(4), sleeper.commit()).await.unwrap();
    // Then it hears who has it, and reads all that was committed.
    let SlotOffer::Lost { winner: Winner::Retired(entry), through, .. } = lost else { panic!("{lost:?}") };
    assert_eq!((entry.members, through), (vec![theirs[0]], sequence(23)));
    for transaction in &theirs {
        assert_eq!(reader.get(transaction.to_string()).await.unwrap(), Some(Bytes::from("value")));
    }
    won(&store.write_at(sequence(24), sleeper.commit()).await);
    // One that only looks fares no worse.
    assert_eq!(racing.fold_tail().await.unwrap(), 1);
    racing.close().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_across_a_retirement_that_is_told_of_a_later_sequence_wins_there() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let sleeper = lake.process();
    let (_, store) = sleeper.followed(hooks()).await;
    lake_moves_on(&lake, 23).await;
    // Its caller has read the head elsewhere.
    won(&store.write_at(sequence(24), sleeper.commit()).await);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sleeper_across_a_retirement_is_brought_to_the_end() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let sleeper = lake.process();
    let (_, store) = sleeper.followed(hooks()).await;
    lake_moves_on(&lake, 23).await;
    assert_eq!(store.fold_tail().await.unwrap(), 20);
    assert_eq!(store.unfolded().await.unwrap(), 0);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_unfolded_is_counted_by_the_newest_manifest_and_not_by_the_readers_last_look() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let (_, store) = process.followed(hooks()).await;
    for number in 2..=4 {
        won(&store.write_at(sequence(number), process.commit()).await);
    }
    assert_eq!(store.unfolded().await.unwrap(), 3);
    lake.process().held(hooks()).await.close().await.unwrap();
    assert_eq!(store.unfolded().await.unwrap(), 0);
    store.close().await.unwrap();
}

/// Others commit up to `head`, fold all of it, and retire what may go.
async fn lake_moves_on(lake: &Lake, head: u64) {
    let process = lake.process();
    let store = process.held(hooks()).await;
    while process.log().next() <= sequence(head) {
        won(&store.write_at(process.log().next(), process.commit()).await);
    }
    store.close().await.unwrap();
    let retired = Collector::new(process.log()).run(&RetireOptions::default(), RetireMode::Retire).await.unwrap();
    assert!(!retired.pages.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_win_that_the_reader_cannot_serve_in_time_says_where_it_landed() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let settings = CommitStoreSettings { serve_within: Duration::from_secs(5), ..hooks().settings };
    let (_, store) = process.followed(Hooks { settings, ..hooks() }).await;
    // Given a bucket that answers no read of a manifest from now on.
    process.scripted.script(1, is(Operation::Get, PathClass::Manifest), Fate::Hang);
    let commit = process.commit();
    let transaction = commit.transaction;
    let written = store.write_at(sequence(2), commit).await;
    let Err(CommitStoreError::NotServed { transaction: of, sequence: at, source: NotServing::TimedOut }) = written else {
        panic!("{written:?}")
    };
    assert_eq!((of, at), (transaction, sequence(2)));
    assert_eq!(store.outcome(transaction, sequence(2)).await.unwrap(), Outcome::Landed);
    lake.assert_has(&[transaction]).await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_the_reader_cannot_serve_in_time_is_no_loss_that_the_caller_may_build_on() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let (process, other) = (lake.process(), lake.process());
    let settings = CommitStoreSettings { serve_within: Duration::from_secs(5), ..hooks().settings };
    let (_, store) = process.followed(Hooks { settings, ..hooks() }).await;
    let (_, racing) = other.followed(hooks()).await;
    won(&racing.write_at(sequence(2), other.commit()).await);
    process.scripted.script(1, is(Operation::Get, PathClass::Manifest), Fate::Hang);
    let lost = store.write_at(sequence(2), process.commit()).await;
    let Err(CommitStoreError::NotCaughtUp { through, source: NotServing::TimedOut }) = lost else { panic!("{lost:?}") };
    assert_eq!(through, sequence(2));
    racing.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_closed_under_a_write_leaves_it_landed_and_not_served() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let process = lake.process();
    let (reader, store) = process.followed(hooks()).await;
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let commit = process.commit();
    let transaction = commit.transaction;
    let (written, ()) = futures::join!(store.write_at(sequence(2), commit), async {
        put.reached().await;
        reader.close().await.unwrap();
        put.release();
    });
    assert!(matches!(written, Err(CommitStoreError::NotServed { source: NotServing::ReaderClosed, .. })), "{written:?}");
    let next = store.write_at(sequence(3), process.commit()).await;
    assert!(matches!(next, Err(CommitStoreError::ReaderClosed { .. })), "{next:?}");
    assert_eq!(store.role(), Role::Ended);
    lake.assert_has(&[transaction]).await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_hides_the_tail_serves_what_was_folded() {
    let lake = Lake::new();
    lake.adopted_through(3).await;
    let (process, session) = (lake.process(), lake.process());
    let (_, racing) = process.followed(hooks()).await;
    let commit = process.commit();
    let key = commit.transaction.to_string();
    won(&racing.write_at(sequence(4), commit).await);
    let session = ReaderSession::new(session.place.clone(), Tail::Hidden);
    let reader = process.open_reader(&session).await;
    assert_eq!(reader.get("format").await.unwrap(), Some(Bytes::from("1")));
    assert_eq!(reader.get(&key).await.unwrap(), None);
    lake_moves_on(&lake, 23).await;
    let folded = CommitStore::followed(reader.clone(), session, hooks());
    assert_eq!(folded.fold_tail().await.unwrap(), 20);
    assert_eq!(reader.get(&key).await.unwrap(), Some(Bytes::from("value")));
    folded.close().await.unwrap();
}
