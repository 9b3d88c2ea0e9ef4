//! The embedder's store: views, transactions, outcomes, and a holder that folds under it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commit_log::bucket::ObjectName;
use commit_log::commit_store::{FoldEnd, Folding, Rest, Role};
use commit_log::environment::{Environment, Randomness, SystemStopwatch};
use commit_log::holder::HoldingOptions;
use commit_log::log::Outcome;
use commit_log::slot::Sequence;
use commit_log::store::{BodyError, CommitError, OpenError, Store, StoreBuilder, TransactError};
use commit_log::transaction::Transaction;
use commit_log::view::ScanOrder;
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{PathClass, ScriptedBucket};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use slatedb_common::clock::DefaultSystemClock;

fn environment(seed: u64) -> Environment {
    Environment {
        clock: Arc::new(DefaultSystemClock::new()),
        stopwatch: Arc::new(SystemStopwatch::start()),
        randomness: Arc::new(Randomness::from_seed(seed)),
    }
}

fn bucket() -> Arc<ScriptedBucket> {
    Arc::new(ScriptedBucket::new(Arc::new(InMemory::new())))
}

fn builder(bucket: &Arc<ScriptedBucket>, process: u64) -> StoreBuilder {
    // No background polls within a test, so that requests are those of the calls alone.
    Store::builder("store", bucket.clone()).environment(environment(process)).poll(Duration::from_secs(1_000_000))
}

async fn put(store: &Store, key: &'static str, value: &'static str) {
    let body = async |mut transaction: Transaction| {
        transaction.put(key, value)?;
        Ok::<_, BodyError>((transaction, ()))
    };
    store.transact(body).await.unwrap();
}

async fn value(store: &Store, key: &str) -> Option<Bytes> {
    store.latest().await.unwrap().get(key.as_bytes()).await.unwrap()
}

async fn add(store: &Store, key: &'static str) -> Result<(), TransactError<BodyError>> {
    let body = |mut transaction: Transaction| async move {
        let before = transaction.get(key.as_bytes()).await?.map_or(0, |value| String::from_utf8_lossy(&value).parse().unwrap());
        let after: u64 = before + 1;
        transaction.put(key, after.to_string())?;
        Ok((transaction, ()))
    };
    store.transact(body).await.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_readable_at_once_here_and_in_the_latest_view_everywhere() {
    let bucket = bucket();
    let here = builder(&bucket, 1).open().await.unwrap();
    let there = builder(&bucket, 2).open_existing().await.unwrap();
    put(&here, "key", "value").await;
    let mark = bucket.mark();
    assert_eq!(here.get(b"key").await.unwrap(), Some(Bytes::from("value")));
    assert_eq!(bucket.log_since(mark).len(), 0, "its own win is readable at no request");
    assert_eq!(there.get(b"key").await.unwrap(), None, "a view may lag");
    assert_eq!(value(&there, "key").await, Some(Bytes::from("value")));
}

#[tokio::test(start_paused = true)]
async fn a_warm_commit_costs_one_put_and_one_ledger_read() {
    let bucket = bucket();
    let store = builder(&bucket, 1).open().await.unwrap();
    put(&store, "key", "1").await;
    let mark = bucket.mark();
    put(&store, "key", "2").await;
    let requests: Vec<_> = bucket.log_since(mark).iter().map(|request| (request.operation, request.class())).collect();
    assert_eq!(requests, [(Operation::Create, PathClass::Commits), (Operation::Get, PathClass::Retired)]);
}

#[tokio::test(start_paused = true)]
async fn the_winner_of_each_cadence_folds_the_store_and_gives_it_back() {
    let bucket = bucket();
    let writer = builder(&bucket, 1).fold_every(NonZeroU64::new(8).unwrap()).open().await.unwrap();
    for cadence in 1..=3 {
        for _ in 0..8 {
            put(&writer, "key", "value").await;
        }
        // It folds beside its commits, after a second in which it has not seen anybody else at it.
        while writer.view().base().covered().map(Sequence::get) < Some(8 * cadence) {
            tokio::time::advance(Duration::from_millis(100)).await;
            writer.look().await.unwrap();
        }
    }
    assert_eq!(writer.role(), Role::Following);
    assert_eq!(writer.fold().await.unwrap(), FoldEnd::Rested(Rest::Folded));
    writer.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_opened_to_hold_holds_until_it_is_closed() {
    let bucket = bucket();
    let holder = builder(&bucket, 1).folding(Folding::Hold).open().await.unwrap();
    let writer = builder(&bucket, 2).folding(Folding::Never).open_existing().await.unwrap();
    holder.holding().wait_for(Option::is_some).await.unwrap();
    assert_eq!(holder.role(), Role::Holding);
    put(&writer, "key", "value").await;
    holder.close().await;
    writer.look().await.unwrap();
    assert_eq!(writer.view().base().covered().map(Sequence::get), Some(1));
    writer.close().await;
}

#[tokio::test(start_paused = true)]
async fn increments_by_several_processes_are_all_counted() {
    let bucket = bucket();
    let stores = [1, 2, 3, 4].map(|process| builder(&bucket, process));
    let mut open = Vec::new();
    for store in stores {
        open.push(store.open().await.unwrap());
    }
    let all = open.iter().map(async |store| {
        for _ in 0..25 {
            add(store, "count").await.unwrap();
        }
    });
    futures::future::join_all(all).await;
    assert_eq!(value(&open[0], "count").await, Some(Bytes::from("100")));
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_read_what_another_wrote_conflicts_and_commits_nothing() {
    let bucket = bucket();
    let here = builder(&bucket, 1).open().await.unwrap();
    let there = builder(&bucket, 2).open().await.unwrap();
    let mut transaction = here.begin();
    assert_eq!(transaction.get(b"key").await.unwrap(), None);
    transaction.put("other", "here").unwrap();
    put(&there, "key", "there").await;
    let error = here.commit(transaction).await.unwrap_err();
    assert!(matches!(&error, CommitError::Conflict(conflict) if conflict.key == "key"), "{error}");
    assert_eq!(value(&here, "other").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_handle_that_did_not_read_what_another_wrote_loses_a_race_and_commits() {
    let bucket = bucket();
    let here = builder(&bucket, 1).open().await.unwrap();
    let there = builder(&bucket, 2).open().await.unwrap();
    let mut transaction = here.begin();
    transaction.get(b"mine").await.unwrap();
    transaction.put("mine", "here").unwrap();
    put(&there, "key", "there").await;
    let committed = here.commit(transaction).await.unwrap();
    assert_eq!((committed.sequence.get(), committed.lost_races), (2, 1));
    assert_eq!(here.outcome(committed.transaction, committed.sequence).await.unwrap(), Outcome::Landed);
    assert_eq!(value(&there, "mine").await, Some(Bytes::from("here")));
}

#[tokio::test(start_paused = true)]
async fn what_a_holder_folds_is_read_from_its_files_by_a_fresh_open() {
    let bucket = bucket();
    let store = builder(&bucket, 1).open().await.unwrap();
    for key in ["a", "b", "c"] {
        put(&store, key, "old").await;
    }
    let old = store.view();
    let holder = store.hold().await.unwrap();
    put(&store, "b", "new").await;
    holder.stop().await.unwrap();
    store.look().await.unwrap();
    assert_eq!(store.view().overlay().rows(), 0, "all is in the files");
    let fresh = builder(&bucket, 2).open_existing().await.unwrap();
    assert_eq!(fresh.view().base().covered(), store.log().head());
    for store in [&store, &fresh] {
        let mut scan = store.scan(.., ScanOrder::Descending);
        let mut rows = Vec::new();
        while let Some((key, value)) = scan.next().await.unwrap() {
            rows.push(format!("{}={}", key.escape_ascii(), value.escape_ascii()));
        }
        assert_eq!(rows, ["c=old", "b=new", "a=old"]);
    }
    assert_eq!(old.get(b"b").await.unwrap(), Some(Bytes::from("old")), "old views stay true");
    put(&fresh, "d", "after").await;
    assert_eq!(value(&store, "d").await, Some(Bytes::from("after")));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_sees_what_lands_elsewhere() {
    let bucket = bucket();
    let here = builder(&bucket, 1).open().await.unwrap();
    let there = builder(&bucket, 2).open().await.unwrap();
    put(&here, "key", "value").await;
    there.wait_until_visible(here.log().head().unwrap()).await.unwrap();
    assert_eq!(there.get(b"key").await.unwrap(), Some(Bytes::from("value")));
}

#[tokio::test(start_paused = true)]
async fn a_store_is_never_created_by_whoever_only_reads() {
    let bucket = bucket();
    let error = builder(&bucket, 1).open_existing().await.unwrap_err();
    assert_eq!(error.to_string(), "there is no commit log here");
    assert!(bucket.log().iter().all(|request| request.operation.class() != commit_log_kit::bucket::OperationClass::Put));
}

#[tokio::test(start_paused = true)]
async fn an_open_that_meets_damage_leaves_no_task_behind() {
    let bucket = bucket();
    let store = builder(&bucket, 1).open().await.unwrap();
    put(&store, "folded", "value").await;
    store.hold().await.unwrap().stop().await.unwrap();
    put(&store, "tail", "value").await;
    let slot = ObjectName::Slot(store.log().record().log, store.log().head().unwrap()).path(&"store".into());
    bucket.put(&slot, "damage".into()).await.unwrap();
    store.close().await;
    drop(store);
    settle().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let error = builder(&bucket, 2).open_existing().await.unwrap_err();
    assert!(error.to_string().starts_with("slot 2 is damaged"), "{error}");
    settle().await;
    assert_eq!(tasks(), before);
}

/// Lets everything run that can.
async fn settle() {
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_lifetime_below_three_looks_is_refused() {
    let bucket = bucket();
    let mut settings = slatedb::config::Settings::default();
    if let Some(compactor) = &mut settings.compactor_options {
        compactor.checkpoint_lifetime = Duration::from_secs(60);
    }
    let error = builder(&bucket, 1).settings(settings).open().await.unwrap_err();
    assert!(matches!(error, OpenError::CheckpointLifetime { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_store_can_be_spawned() {
    let bucket = bucket();
    let store = builder(&bucket, 1).holding(HoldingOptions::default()).open().await.unwrap();
    let task = tokio::spawn({
        let store = store.clone();
        async move { add(&store, "count").await }
    });
    task.await.unwrap().unwrap();
    store.close().await;
    assert!(matches!(store.wait_until_visible(store.log().next()).await, Err(commit_log::store::StoreError::Closed)));
}
