//! A store that its embedder opened as SlateDB's writer.

use std::sync::Arc;

use bytes::Bytes;
use commit_log::adoption::AdoptionError;
use commit_log::bucket::ObjectName;
use commit_log::commit_store::{CommitStore, CommitStoreError, Hooks, NotServing, Role, SlotAdoption, SlotOffer, Winner};
use commit_log::holder::{HoldError, HoldingOptions};
use commit_log::inspect::Inspect;
use commit_log::log::{Closing, OfferError, Outcome};
use commit_log_kit::bucket::Operation;
use commit_log_kit::runtime::simulated_runtime;
use commit_log_kit::scripted::{Fate, PathClass};
use futures::FutureExt;
use object_store::ObjectStoreExt;
use slatedb::Db;
use slatedb::config::CloseOptions;

use crate::embedder::{Embedder, Lake, hooks, won};
use crate::holding::settings;
use crate::support::{ROOT, is, sequence};

#[tokio::test(start_paused = true)]
async fn a_fresh_store_is_on_its_log_when_the_stamp_has_landed() {
    let lake = Lake::new();
    let process = lake.process();
    assert!(!process.writer_session().adopted().await.unwrap());
    // The first open begins the log.
    let store = process.held(hooks()).await;
    assert!(!store.adopted().await.unwrap());
    assert!(matches!(store.write_at(sequence(1), process.commit()).await, Err(CommitStoreError::NotAdopted)));
    let stamp = process.stamp();
    let adoption = store.adopt(stamp.clone()).await.unwrap();
    assert!(matches!(adoption, SlotAdoption::Ours { sequence: at } if at == sequence(1)), "{adoption:?}");
    assert!(store.adopted().await.unwrap() && lake.process().writer_session().adopted().await.unwrap());
    // Again it is the same, and so is what another finds.
    assert!(matches!(store.adopt(stamp.clone()).await, Ok(SlotAdoption::Ours { .. })));
    let again = store.adopt(process.stamp()).await.unwrap();
    let SlotAdoption::Theirs { winner: Winner::Slot(winner), .. } = again else { panic!("{again:?}") };
    assert!(winner.carries(stamp.transaction));
    won(&store.write_at(sequence(2), process.commit()).await);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_that_adopt_at_once_both_end_with_one_stamp() {
    let lake = Lake::new();
    let (first, second) = (lake.process(), lake.process());
    let earlier = first.held(hooks()).await;
    let later = second.held(hooks()).await;
    let (by_first, by_second) = futures::join!(earlier.adopt(first.stamp()), later.adopt(second.stamp()));
    // The earlier one is fenced by the later one's open, and may learn it when its stamp has landed.
    let landed = |adoption: &Result<SlotAdoption, CommitStoreError>| {
        matches!(adoption, Ok(SlotAdoption::Ours { .. }) | Err(CommitStoreError::NotServed { .. }))
    };
    assert_ne!(landed(&by_first), landed(&by_second), "{by_first:?} {by_second:?}");
    assert!(landed(&by_second) || matches!(by_second, Ok(SlotAdoption::Theirs { .. })), "{by_second:?}");
    won(&later.write_at(sequence(2), second.commit()).await);
    later.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_with_history_of_its_own_is_not_put_on_a_log_by_opening_it() {
    let lake = Lake::new();
    let native = Db::builder(ROOT, lake.memory.clone()).with_settings(settings()).build().await.unwrap();
    native.put(b"key", b"value").await.unwrap();
    native.close().await.unwrap();
    let process = lake.process();
    assert!(!process.writer_session().adopted().await.unwrap());
    let error = process.open_db(&process.writer_session()).await.err().unwrap();
    assert!(error.to_string().contains("history of its own"), "{error}");
    // It is what it was.
    let native = Db::builder(ROOT, lake.memory.clone()).with_settings(settings()).build().await.unwrap();
    assert_eq!(native.get(b"key").await.unwrap(), Some(Bytes::from("value")));
    native.close().await.unwrap();
    assert!(matches!(process.place.find(&process.place.bucket().deadline()).await, Err(AdoptionError::NoLog)));
}

/// Whatever the first opener had done when it was killed, the next one finishes.
#[test]
fn a_first_open_that_is_killed_at_any_request_leaves_a_store_that_the_next_one_begins() {
    let mut killed = 0;
    loop {
        let done = simulated_runtime(1).block_on(async {
            let lake = Lake::new();
            let process = lake.process();
            let cue = process.scripted.script(killed + 1, |_| true, Fate::Hang);
            let session = process.writer_session();
            {
                let mut open = Box::pin(process.open_db(&session));
                let reached = Box::pin(cue.reached());
                if let futures::future::Either::Left((opened, _)) = futures::future::select(&mut open, reached).await {
                    // It ends with the runtime.
                    opened.unwrap();
                    return true;
                }
            }
            let (next, store) = lake.adopted().await;
            won(&store.write_at(sequence(2), next.commit()).await);
            store.close().await.unwrap();
            false
        });
        if done {
            break;
        }
        killed += 1;
    }
    assert!(killed >= 30, "an open sends more than {killed} requests");
}

#[tokio::test(start_paused = true)]
async fn a_win_is_in_the_store_before_it_is_reported() {
    let lake = Lake::new();
    let (process, db, store) = lake.adopted_beside_its_db().await;
    for number in 2..=5 {
        let commit = process.commit();
        let key = commit.transaction.to_string();
        won(&store.write_at(sequence(number), commit).await);
        assert_eq!(db.get(key).await.unwrap(), Some(Bytes::from("value")));
    }
    assert_eq!((store.role(), store.unfolded().await.unwrap()), (Role::Holding, 5));
    store.close().await.unwrap();
    assert_eq!(store.role(), Role::Ended);
    assert!(matches!(store.write_at(sequence(6), process.commit()).await, Err(CommitStoreError::Closed)));
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_loss_hands_out_the_winner_and_the_store_has_everything_that_is_known_by_then() {
    let lake = Lake::new();
    let (process, store) = lake.adopted().await;
    let other = lake.process();
    let (_, following) = other.followed(hooks()).await;
    let mut theirs = Vec::new();
    for number in 2..=4 {
        let commit = other.commit();
        theirs.push(commit.transaction);
        won(&following.write_at(sequence(number), commit).await);
    }
    let lost = store.write_at(sequence(2), process.commit()).await.unwrap();
    let SlotOffer::Lost { sequence: at, winner: Winner::Slot(winner), through } = lost else { panic!("{lost:?}") };
    assert_eq!((at, through), (sequence(2), sequence(4)));
    assert!(winner.carries(theirs[0]));
    assert_eq!(store.fold_tail().await.unwrap(), 0, "all of it is folded");
    // A stale head names a taken slot and loses, however stale it is.
    let stale = store.write_at(sequence(1), process.commit()).await;
    assert!(matches!(stale, Ok(SlotOffer::Lost { through, .. }) if through == sequence(4)), "{stale:?}");
    won(&store.write_at(sequence(5), process.commit()).await);
    following.close().await.unwrap();
    store.close().await.unwrap();
    lake.assert_has(&theirs).await;
}

#[tokio::test(start_paused = true)]
async fn further_than_one_ahead_is_refused_after_one_look_and_nothing_is_put() {
    let lake = Lake::new();
    let (process, store) = lake.adopted().await;
    let mark = process.scripted.mark();
    let ahead = store.write_at(sequence(3), process.commit()).await;
    let Err(CommitStoreError::TooFarAhead { expected, found }) = ahead else { panic!("{ahead:?}") };
    assert_eq!((expected, found), (sequence(2), sequence(3)));
    let counts = process.scripted.counts_since(mark);
    assert_eq!(counts.get(&(Operation::Get, PathClass::Commits)), Some(&1), "{counts:?}");
    assert_eq!(counts.get(&(Operation::Create, PathClass::Commits)), None);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_opened_as_held_ends_when_another_takes_it() {
    let lake = Lake::new();
    let (process, store) = lake.adopted().await;
    let successor = lake.process();
    let taken = successor.held(hooks()).await;
    // SlateDB tells it at its next look at the manifest.
    let ended = loop {
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
        if store.role() == Role::Ended {
            break store.write_at(sequence(2), process.commit()).await;
        }
        tokio::task::yield_now().await;
    };
    assert!(matches!(ended, Err(CommitStoreError::Fenced)), "{ended:?}");
    won(&taken.write_at(sequence(2), successor.commit()).await);
    taken.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_win_that_the_store_could_not_take_says_where_it_landed_and_a_reopen_has_it() {
    let lake = Lake::new();
    let (process, db, store) = lake.adopted_beside_its_db().await;
    // Given a put under way when the store's handle goes.
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let commit = process.commit();
    let transaction = commit.transaction;
    let write = store.write_at(sequence(2), commit);
    let (written, ()) = futures::join!(write, async {
        put.reached().await;
        db.close_with_options(CloseOptions { flush_type: None }).await.unwrap();
        put.release();
    });
    let Err(CommitStoreError::NotServed { transaction: of, sequence: at, source }) = written else { panic!("{written:?}") };
    assert_eq!((of, at), (transaction, sequence(2)));
    assert!(matches!(source, NotServing::Held(HoldError::Closed(_))), "{source:?}");
    let after = store.write_at(sequence(3), process.commit()).await;
    assert!(matches!(after, Err(CommitStoreError::HoldEnded(_))), "{after:?}");
    lake.assert_has(&[transaction]).await;
}

fn one_row_each() -> Inspect {
    Inspect::with(|content| match content.writes {
        [_] => Ok(()),
        _ => Err(Arc::from(Box::<dyn std::error::Error + Send + Sync>::from("not one row"))),
    })
}

fn inspecting() -> Hooks {
    Hooks { inspect: one_row_each(), ..hooks() }
}

const TWO_ROWS: [(&str, Option<&str>); 2] = [("one", Some("1")), ("two", None)];

#[tokio::test(start_paused = true)]
async fn a_commit_that_the_embedder_refuses_is_not_offered() {
    let lake = Lake::new();
    let process = lake.process();
    let store = process.held(inspecting()).await;
    let mark = process.scripted.mark();
    let refused = store.adopt(process.commit_of(&TWO_ROWS)).await;
    assert!(matches!(refused, Err(CommitStoreError::Inspected(_))), "{refused:?}");
    store.adopt(process.stamp()).await.unwrap();
    let refused = store.write_at(sequence(2), process.commit_of(&TWO_ROWS)).await;
    assert!(matches!(refused, Err(CommitStoreError::Inspected(_))), "{refused:?}");
    let closing = Closing::Commit(process.commit_of(&TWO_ROWS));
    let refused = store.close_open(process.commit().transaction, sequence(2), closing).await;
    assert!(matches!(refused, Err(CommitStoreError::Inspected(_))), "{refused:?}");
    let puts = process.scripted.counts_since(mark).get(&(Operation::Create, PathClass::Commits)).copied();
    assert_eq!(puts, Some(1), "the stamp alone");
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_the_embedder_refuses_is_not_folded_and_nothing_after_it_is() {
    let lake = Lake::new();
    let process = lake.process();
    let store = process.held(inspecting()).await;
    store.adopt(process.stamp()).await.unwrap();
    // Given another process that does not ask.
    let other = lake.process();
    let (_, careless) = other.followed(hooks()).await;
    won(&careless.write_at(sequence(2), other.commit_of(&TWO_ROWS)).await);
    won(&careless.write_at(sequence(3), other.commit()).await);
    let folded = store.fold_tail().await;
    let Err(CommitStoreError::NotCaughtUp { source: NotServing::Held(HoldError::SlotRefused { sequence: at, .. }), .. }) =
        folded
    else {
        panic!("{folded:?}")
    };
    assert_eq!(at, sequence(2));
    let next = store.write_at(sequence(4), process.commit()).await;
    assert!(matches!(next, Err(CommitStoreError::SlotRefused { sequence: at, .. }) if at == sequence(2)), "{next:?}");
    // When the store is opened again the slot is replayed, and the store's files still do not have it.
    let successor = lake.process();
    let often = HoldingOptions { flush_slots: 1, ..hooks().settings.holding };
    let settings = commit_log::commit_store::CommitStoreSettings { holding: often, ..hooks().settings };
    let store = successor.held(Hooks { settings, ..inspecting() }).await;
    let folded = store.fold_tail().await;
    assert!(
        matches!(
            folded,
            Err(CommitStoreError::SlotRefused { .. }
                | CommitStoreError::NotCaughtUp { source: NotServing::Held(HoldError::SlotRefused { .. }), .. })
        ),
        "{folded:?}"
    );
    let (reader, _) = lake.process().followed(hooks()).await;
    assert_eq!(reader.manifest().last_l0_seq(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_offer_without_an_answer_is_unknown_until_a_commit_closes_its_sequence() {
    let lake = Lake::new();
    let (process, store) = lake.adopted().await;
    // Given a bucket that is silent for every put of a slot until the deadline.
    let silent = process.scripted.clone();
    for nth in 1..200 {
        silent.script(nth, is(Operation::Create, PathClass::Commits), Fate::Fail);
    }
    let commit = process.commit();
    let transaction = commit.transaction;
    let offered = store.write_at(sequence(2), commit).await;
    let Err(CommitStoreError::Unknown { transaction: of, sequence: at, source: OfferError::Unknown { .. } }) = offered else {
        panic!("{offered:?}")
    };
    assert_eq!((of, at), (transaction, sequence(2)));
    assert_eq!(store.outcome(transaction, sequence(2)).await.unwrap(), Outcome::Open);
    let elsewhere = store.write_at(sequence(1), process.commit()).await;
    assert!(matches!(elsewhere, Ok(SlotOffer::Lost { .. })), "others go on: {elsewhere:?}");
    // A catalog's log takes no filler; another process closes it with a commit.
    let other = lake.process();
    let (_, following) = other.followed(hooks()).await;
    let filler = following.close_open(transaction, sequence(2), Closing::Filler).await;
    assert!(matches!(filler, Err(CommitStoreError::NoFillers)), "{filler:?}");
    let closing = Closing::Commit(other.commit());
    assert_eq!(following.close_open(transaction, sequence(2), closing).await.unwrap(), Outcome::Never);
    assert_eq!(store.outcome(transaction, sequence(2)).await.unwrap(), Outcome::Never);
    assert_eq!(store.fold_tail().await.unwrap(), 1);
    store.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_store_that_came_with_another_session_fails_every_call_with_that_reason() {
    let lake = Lake::new();
    let process = lake.process();
    let db = process.open_db(&process.writer_session()).await.unwrap();
    for store in [CommitStore::held(db, process.writer_session(), hooks()), CommitStore::of_foreign_session()] {
        let foreign = |error: CommitStoreError| matches!(error, CommitStoreError::ForeignSession);
        assert!(store.adopted().await.is_err_and(foreign));
        assert!(store.adopt(process.stamp()).await.is_err_and(foreign));
        assert!(store.write_at(sequence(1), process.commit()).await.is_err_and(foreign));
        assert!(store.fold_tail().await.is_err_and(foreign));
        assert!(store.unfolded().await.is_err_and(foreign));
        assert!(store.outcome(process.commit().transaction, sequence(1)).await.is_err_and(foreign));
        let closing = Closing::Commit(process.commit());
        assert!(store.close_open(process.commit().transaction, sequence(1), closing).await.is_err_and(foreign));
        assert!(store.close().await.is_err_and(foreign));
        assert_eq!(store.role(), Role::Ended);
    }
}

#[test]
fn a_held_store_may_be_made_outside_of_a_runtime_and_begins_with_its_first_call() {
    let runtime = simulated_runtime(7);
    let lake = runtime.block_on(async { Lake::new() });
    let process = lake.process();
    let session = process.writer_session();
    let db = runtime.block_on(process.open_db(&session)).unwrap();
    let store = CommitStore::held(db, session, hooks());
    assert_eq!((store.role(), format!("{store:?}")), (Role::Holding, "CommitStore, Holding, at None".to_owned()));
    runtime.block_on(async {
        store.adopt(process.stamp()).await.unwrap();
        won(&store.write_at(sequence(2), process.commit()).await);
        store.close().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn the_future_of_a_write_may_be_dropped_and_the_slot_is_folded_all_the_same() {
    let lake = Lake::new();
    let (process, store): (Embedder, CommitStore) = lake.adopted().await;
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let commit = process.commit();
    let transaction = commit.transaction;
    {
        let mut write = Box::pin(store.write_at(sequence(2), commit));
        assert!(futures::poll!(&mut write).is_pending());
        put.reached().await;
        assert!(write.now_or_never().is_none());
    }
    put.release();
    while store.outcome(transaction, sequence(2)).await.unwrap() == Outcome::Open {
        tokio::task::yield_now().await;
    }
    store.close().await.unwrap();
    lake.assert_has(&[transaction]).await;
}

#[tokio::test(start_paused = true)]
async fn a_full_store_goes_on_in_memory_and_refuses_commits_before_that_is_full() {
    let lake = Lake::new();
    let process = lake.process();
    // Given room for one file, which nothing merges, and for a few commits in memory.
    let holding = HoldingOptions { flush_slots: 1, l0_limit: 1, ..hooks().settings.holding };
    let settings = commit_log::commit_store::CommitStoreSettings { holding, max_unflushed_bytes: 400, ..hooks().settings };
    let store = process.held(Hooks { settings, ..hooks() }).await;
    store.adopt(process.stamp()).await.unwrap();
    let mut committed = Vec::new();
    let refused = loop {
        let commit = process.commit();
        let transaction = commit.transaction;
        match store.write_at(process.log().next(), commit).await {
            Ok(SlotOffer::Won { .. }) => committed.push(transaction),
            other => break other,
        }
    };
    // Then it commits what fits half of that, sends nothing more, and still serves.
    assert!(matches!(refused, Err(CommitStoreError::L0Full { files: 1, limit: 1 })), "{refused:?}");
    assert!((4..=8).contains(&committed.len()), "{} commits", committed.len());
    assert_eq!((store.role(), store.fold_tail().await.unwrap()), (Role::Holding, 0));
    let stale = store.write_at(sequence(1), process.commit()).await;
    assert!(matches!(stale, Ok(SlotOffer::Lost { .. })), "what is only judged needs no room: {stale:?}");
    // It cannot flush at the end either, and says so.
    assert!(matches!(store.close().await, Err(CommitStoreError::HoldEnded(HoldError::L0Full { .. }))));
    lake.assert_has(&committed).await;
}

#[tokio::test(start_paused = true)]
async fn damage_that_is_met_after_a_put_leaves_the_commit_unknown_at_its_sequence() {
    let lake = Lake::new();
    let (process, store) = lake.adopted().await;
    // Given a put that has landed without an answer, and bytes in its place that no slot has.
    let put = process.scripted.script(1, is(Operation::Create, PathClass::Commits), Fate::LoseAnswer);
    let again = process.scripted.script(2, is(Operation::Create, PathClass::Commits), Fate::Hold);
    let commit = process.commit();
    let transaction = commit.transaction;
    let (written, ()) = futures::join!(store.write_at(sequence(2), commit), async {
        put.reached().await;
        again.reached().await;
        let name = ObjectName::Slot(process.log().record().log, sequence(2));
        lake.memory.put(&name.path(&ROOT.into()), Bytes::from("no slot").into()).await.unwrap();
        again.release();
    });
    let Err(CommitStoreError::Unknown { transaction: of, sequence: at, source: OfferError::Corrupt(_) }) = written else {
        panic!("{written:?}")
    };
    assert_eq!((of, at), (transaction, sequence(2)));
    // What is damaged before anything is sent is told as that.
    let next = store.write_at(sequence(3), process.commit()).await;
    assert!(matches!(next, Err(CommitStoreError::Corrupt(_))), "{next:?}");
}
