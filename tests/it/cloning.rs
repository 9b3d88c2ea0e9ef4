//! Cloning a store: what the clone has, how far it is separate, and that it ends on one log whatever interrupts it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commit_log::adoption::{AdoptionError, FreshLog};
use commit_log::environment::{Environment, Randomness, SystemStopwatch};
use commit_log::guard::guarded_log;
use commit_log::identity::LogId;
use commit_log::record::AdoptionRecord;
use commit_log::slot::{PageSize, Sequence};
use commit_log::store::{BodyError, CloneError, Cloned, OpenError, Store, StoreBuilder, clone_store};
use commit_log::transaction::Transaction;
use commit_log::wal::AdminError;
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Cue, Fate, PathClass, Request, ScriptedBucket};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::Db;
use slatedb::admin::{Admin, AdminBuilder, CloneSourceSpec};
use slatedb_common::clock::DefaultSystemClock;

use crate::admin::{admin, paths};
use crate::holding::settings;
use crate::support::{PAGE, ROOT, sequence};

const CLONE: &str = "clone";

type Memory = Arc<dyn ObjectStore>;

fn builder(bucket: &Memory, path: &str, process: u64) -> StoreBuilder {
    let randomness = Arc::new(Randomness::from_seed(process));
    Store::builder(path, bucket.clone())
        .environment(Environment {
            clock: Arc::new(DefaultSystemClock::new()),
            stopwatch: Arc::new(SystemStopwatch::start()),
            randomness,
        })
        .fresh_log(FreshLog { page_size: PageSize::new(PAGE).unwrap(), ..FreshLog::default() })
        .settings(settings())
        .poll(Duration::from_secs(1_000_000))
}

async fn open(bucket: &Memory, path: &str, process: u64) -> Store {
    builder(bucket, path, process).open_existing().await.unwrap()
}

/// A bucket with a store of `commits` commits, none of them folded.
async fn source_of(commits: u64) -> (Memory, Store) {
    let memory: Memory = Arc::new(InMemory::new());
    let store = builder(&memory, ROOT, 1).open().await.unwrap();
    put(&store, 1..commits + 1).await;
    (memory, store)
}

/// Commits one row for each number, one after the other.
async fn put(store: &Store, numbers: Range<u64>) {
    for number in numbers {
        let body = |mut transaction: Transaction| async move {
            transaction.put(key(number), store_value(number))?;
            Ok::<_, BodyError>((transaction, ()))
        };
        store.transact(body).await.unwrap();
    }
}

fn key(number: u64) -> String {
    format!("key {number:03}")
}

fn store_value(number: u64) -> String {
    format!("value {number}")
}

/// The store has rows of just these numbers.
async fn assert_has(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    let view = store.latest().await.unwrap();
    let mut rows = view.scan_prefix(b"key", commit_log::view::ScanOrder::Ascending);
    let mut found = Vec::new();
    while let Some((key, value)) = rows.next().await.unwrap() {
        found.push((key, value));
    }
    let expected: Vec<_> =
        numbers.into_iter().map(|number| (Bytes::from(key(number)), Bytes::from(store_value(number)))).collect();
    assert_eq!(found, expected);
}

async fn fold(store: &Store) {
    store.hold().await.unwrap().stop().await.unwrap();
}

/// SlateDB's own admin of a store, with the log's part.
fn slatedb_admin(bucket: &Memory, path: &str) -> Admin {
    AdminBuilder::new(path, bucket.clone()).with_wal_admin(Arc::new(admin(bucket.clone(), 77))).build()
}

async fn clone_through_slatedb(bucket: &Memory) -> Result<(), slatedb::Error> {
    slatedb_admin(bucket, CLONE).create_clone_builder_from_source(CloneSourceSpec::new(ROOT)).build().await
}

/// The log whose guard stands in the clone, if one does. There is never more than one.
async fn guarded(bucket: &Memory) -> Option<LogId> {
    let guards = paths(bucket, "clone/wal").await;
    assert!(guards.len() <= 1, "{guards:?}");
    let bytes = bucket.get(&Path::from(guards.first()?.as_str())).await.unwrap().bytes().await.unwrap();
    Some(guarded_log(&bytes).unwrap())
}

async fn record(bucket: &Memory) -> AdoptionRecord {
    assert_eq!(paths(bucket, "clone/adoption").await.len(), 1);
    let object = bucket.get(&Path::from("clone/adoption/00000000000000000001")).await.unwrap();
    AdoptionRecord::decode(&object.bytes().await.unwrap()).unwrap()
}

/// How many checkpoints hold the source's files without an end.
async fn pins(bucket: &Memory) -> usize {
    let checkpoints = slatedb_admin(bucket, ROOT).list_checkpoints(None).await.unwrap();
    checkpoints.iter().filter(|checkpoint| checkpoint.expire_time.is_none()).count()
}

#[tokio::test(start_paused = true)]
async fn a_clone_has_the_sources_rows_and_commits_of_one_never_show_in_the_other() {
    let (memory, source) = source_of(6).await;
    let cloned = clone_store(&source, CLONE).await.unwrap();
    assert_eq!((cloned.origin, cloned.through), (sequence(9), Some(sequence(6))));
    assert_ne!(cloned.log, source.log().record().log);
    let clone = open(&memory, CLONE, 2).await;
    assert_has(&clone, 1..=6).await;
    // When both go on.
    put(&source, 7..10).await;
    put(&clone, 20..23).await;
    // Then each has its own, before a fold, after it, and when it is opened again.
    for _ in 0..2 {
        assert_has(&source, 1..=9).await;
        assert_has(&clone, (1..=6).chain(20..=22)).await;
        fold(&source).await;
        fold(&clone).await;
    }
    assert_has(&open(&memory, ROOT, 3).await, 1..=9).await;
    assert_has(&open(&memory, CLONE, 4).await, (1..=6).chain(20..=22)).await;
}

#[tokio::test(start_paused = true)]
async fn a_clone_begins_past_everything_and_goes_on_from_there() {
    let (memory, source) = source_of(6).await;
    clone_store(&source, CLONE).await.unwrap();
    let record = record(&memory).await;
    assert_eq!((record.origin, record.guard_id), (sequence(9), 9));
    assert_eq!(guarded(&memory).await, Some(record.log));
    let manifest = slatedb_admin(&memory, CLONE).read_manifest(None).await.unwrap().unwrap();
    assert_eq!((manifest.last_l0_seq(), manifest.replay_after_wal_id(), manifest.next_wal_sst_id()), (6, 8, 9));
    let clone = open(&memory, CLONE, 2).await;
    // A holder of a clone without commits has nothing to flush, and folds what lands.
    fold(&clone).await;
    let holder = clone.hold().await.unwrap();
    assert_eq!(holder.folded().borrow().flushed, Some(sequence(8)));
    put(&clone, 20..22).await;
    holder.folded().wait_for(|folded| folded.applied == Some(sequence(10))).await.unwrap();
    holder.stop().await.unwrap();
    let manifest = slatedb_admin(&memory, CLONE).read_manifest(None).await.unwrap().unwrap();
    assert_eq!((manifest.last_l0_seq(), manifest.replay_after_wal_id()), (10, 10));
    // Killed holders' slots are replayed from the clone's own log.
    put(&clone, 22..25).await;
    let again = open(&memory, CLONE, 3).await;
    assert_has(&again, (1..=6).chain(20..=24)).await;
    fold(&again).await;
    assert_has(&open(&memory, CLONE, 4).await, (1..=6).chain(20..=24)).await;
}

#[tokio::test]
async fn a_slatedb_without_the_plug_is_refused_by_the_clones_guard() {
    let (memory, source) = source_of(3).await;
    clone_store(&source, CLONE).await.unwrap();
    put(&open(&memory, CLONE, 2).await, 20..22).await;
    let opened = Db::open(CLONE, memory.clone()).await;
    assert_eq!(opened.err().map(|error| error.kind()), Some(slatedb::ErrorKind::Data));
    let clone = open(&memory, CLONE, 3).await;
    fold(&clone).await;
    assert_has(&clone, (1..=3).chain(20..=21)).await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_store_and_a_clone_without_commits_can_be_cloned() {
    let (memory, source) = source_of(0).await;
    let first = clone_store(&source, CLONE).await.unwrap();
    // Never the first page: its guard is not where a fresh log's is.
    assert_eq!((first.origin, first.through), (sequence(5), None));
    let clone = open(&memory, CLONE, 2).await;
    let second = clone_store(&clone, "second").await.unwrap();
    assert_eq!((second.origin, second.through), (sequence(5), None));
    let clone = open(&memory, "second", 3).await;
    put(&clone, 1..4).await;
    let third = clone_store(&clone, "third").await.unwrap();
    assert_eq!((third.origin, third.through), (sequence(9), Some(sequence(7))));
    assert_has(&open(&memory, "third", 4).await, 1..=3).await;
    assert_has(&open(&memory, ROOT, 5).await, []).await;
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_lacks_slots_is_not_cloned() {
    let (memory, source) = source_of(2).await;
    fold(&source).await;
    put(&source, 3..4).await;
    let refused = clone_through_slatedb(&memory).await.unwrap_err();
    let told = AdminError::of(&refused);
    let (covered, head) = (Some(sequence(2)), sequence(3));
    assert!(matches!(told, Some(AdminError::Tail { covered: c, head: h }) if (*c, *h) == (covered, head)), "{refused}");
    assert!(refused.to_string().contains("fold the store first"), "{refused}");
    assert_eq!(guarded(&memory).await, None);
    assert!(paths(&memory, "clone/adoption").await.is_empty());
}

/// A store of process 9 over a scripted bucket, about to be cloned.
async fn scripted_source(memory: &Memory) -> (ScriptedBucket, Store) {
    let scripted = ScriptedBucket::new(memory.clone());
    let bucket: Memory = Arc::new(scripted.clone());
    let store = open(&bucket, ROOT, 9).await;
    (scripted, store)
}

/// Clones until `cue` is reached, and is gone then. `None` when it was not reached.
async fn cloned_until(store: Store, cue: Cue) -> Option<()> {
    let call = tokio::spawn(async move { clone_store(&store, CLONE).await });
    tokio::select! {
        () = cue.reached() => Some(()),
        cloned = call => {
            cloned.unwrap().unwrap();
            None
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_that_was_killed_at_any_request_is_made_again_and_ends_on_the_same_log() {
    let mut killed = 0;
    let mut decided = 0;
    loop {
        let (memory, source) = source_of(3).await;
        let (requests, dying) = scripted_source(&memory).await;
        let cue = requests.script(killed + 1, |_| true, Fate::Hang);
        if cloned_until(dying, cue).await.is_none() {
            break;
        }
        killed += 1;
        let log = guarded(&memory).await;
        decided += u64::from(log.is_some());
        let cloned = clone_store(&source, CLONE).await.unwrap();
        assert_eq!(guarded(&memory).await, Some(cloned.log));
        assert_eq!(record(&memory).await.log, cloned.log);
        assert!(log.is_none_or(|log| log == cloned.log), "request {killed}");
        assert_eq!(clone_store(&source, CLONE).await.unwrap(), cloned);
        assert_has(&open(&memory, CLONE, 3).await, 1..=3).await;
    }
    assert!(killed > 40 && decided > 4, "{killed} {decided}");
}

fn creates(class: PathClass) -> impl Fn(&Request) -> bool + Send + 'static {
    move |request| request.operation == Operation::Create && request.class() == class && request.path.starts_with(CLONE)
}

#[tokio::test(start_paused = true)]
async fn a_clone_whose_guard_stands_is_finished_as_it_was_begun_and_one_without_is_not() {
    for class in [PathClass::Wal, PathClass::Adoption] {
        // Given a clone that died, and a source that went on.
        let (memory, source) = source_of(3).await;
        let (requests, dying) = scripted_source(&memory).await;
        let cue = requests.script(1, creates(class), Fate::Hang);
        cloned_until(dying, cue).await.unwrap();
        put(&source, 4..5).await;
        // Whoever opens the half clone as a store begins no log there.
        let opened = builder(&memory, CLONE, 4).open().await;
        assert!(matches!(opened, Err(OpenError::Adoption(AdoptionError::NativeHistory { .. }))), "{opened:?}");
        let again = clone_store(&source, CLONE).await;
        if class == PathClass::Adoption {
            let Cloned { log, through, .. } = again.unwrap();
            assert_eq!((Some(log), through), (guarded(&memory).await, Some(sequence(3))));
            assert_has(&open(&memory, CLONE, 3).await, 1..=3).await;
        } else {
            assert!(matches!(again, Err(CloneError::Unfinished { .. })), "{again:?}");
            slatedb_admin(&memory, CLONE).delete_db(true).await.unwrap();
            clone_store(&source, CLONE).await.unwrap();
            assert_has(&open(&memory, CLONE, 3).await, 1..=4).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_between_the_fold_and_the_clone_is_told_and_nothing_is_left_of_the_try() {
    let (memory, source) = source_of(3).await;
    let (requests, cloning) = scripted_source(&memory).await;
    let held = requests.script(1, creates(PathClass::Manifest), Fate::Hold);
    let cloning = tokio::spawn(async move { (clone_store(&cloning, CLONE).await, cloning) });
    held.reached().await;
    put(&source, 4..5).await;
    held.release();
    let (refused, cloning) = cloning.await.unwrap();
    assert!(matches!(refused, Err(CloneError::Tail)), "{refused:?}");
    assert!(paths(&memory, CLONE).await.is_empty());
    assert_eq!(pins(&memory).await, 0);
    // And the next try has it.
    clone_store(&cloning, CLONE).await.unwrap();
    assert_eq!(pins(&memory).await, 1);
    assert_has(&open(&memory, CLONE, 3).await, 1..=4).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_at_the_target_is_refused_and_not_touched() {
    let (memory, source) = source_of(3).await;
    for target in [ROOT, "store/below", ""] {
        assert!(matches!(clone_store(&source, target).await, Err(CloneError::SamePlace { .. })), "{target}");
    }
    // A file, a store, and a clone of another state.
    memory.put(&Path::from("file/readme"), "mine".into()).await.unwrap();
    builder(&memory, "log", 2).open().await.unwrap();
    let folded = builder(&memory, "folded", 3).open().await.unwrap();
    fold(&folded).await;
    let cloned = clone_store(&source, CLONE).await.unwrap();
    assert_eq!(clone_store(&source, CLONE).await.unwrap(), cloned, "of the same state it is done");
    put(&source, 4..5).await;
    for target in ["file", "log", "folded", CLONE] {
        let before = paths(&memory, target).await;
        let refused = clone_store(&source, target).await;
        assert!(matches!(refused, Err(CloneError::TargetExists { .. })), "{target}: {refused:?}");
        assert_eq!(paths(&memory, target).await, before);
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_of_another_store_at_the_target_is_refused_by_the_admin_itself() {
    let (memory, source) = source_of(3).await;
    fold(&source).await;
    // Given a log that was begun at the target, where SlateDB has nothing yet.
    builder(&memory, CLONE, 2).open().await.unwrap();
    let before = paths(&memory, "clone/wal").await;
    let refused = clone_through_slatedb(&memory).await.unwrap_err();
    assert!(refused.to_string().contains("another store is here"), "{refused}");
    assert_eq!(paths(&memory, "clone/wal").await, before);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_clone_and_then_its_source_through_slatedb_leaves_nothing() {
    let (memory, source) = source_of(6).await;
    clone_store(&source, CLONE).await.unwrap();
    put(&open(&memory, CLONE, 2).await, 20..22).await;
    let named = slatedb_admin(&memory, CLONE).delete_db(false).await.unwrap();
    assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), paths(&memory, CLONE).await);
    assert_eq!(pins(&memory).await, 1);
    slatedb_admin(&memory, CLONE).delete_db(true).await.unwrap();
    assert!(paths(&memory, CLONE).await.is_empty());
    assert_eq!(pins(&memory).await, 0);
    assert_has(&open(&memory, ROOT, 3).await, 1..=6).await;
    slatedb_admin(&memory, ROOT).delete_db(true).await.unwrap();
    assert!(paths(&memory, ROOT).await.is_empty());
    // The same path begins afresh.
    let fresh = builder(&memory, ROOT, 4).open().await.unwrap();
    assert_eq!(fresh.log().next(), Sequence::FIRST);
    assert_ne!(fresh.log().record().log, source.log().record().log);
}

/// The folders of the store that still have something.
async fn folders(memory: &Memory) -> BTreeSet<String> {
    let folder = |path: &String| path.split('/').nth(1).unwrap().to_owned();
    paths(memory, ROOT).await.iter().map(folder).collect()
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_deletion_was_killed_at_any_request_is_never_opened_as_a_part_of_itself() {
    let mut killed = 0;
    let mut refused = 0;
    loop {
        let (memory, source) = source_of(3).await;
        fold(&source).await;
        put(&source, 4..6).await;
        let scripted = ScriptedBucket::new(memory.clone());
        let cue = scripted.script(killed + 1, |request| request.operation == Operation::Delete, Fate::Hang);
        // SlateDB deletes in the order of a listing, in which the log's record comes first.
        let dying = slatedb_admin(&(Arc::new(scripted) as Memory), ROOT);
        let call = tokio::spawn(async move { dying.delete_db(true).await });
        tokio::select! {
            () = cue.reached() => {}
            ended = call => {
                ended.unwrap().unwrap();
                break;
            }
        }
        killed += 1;
        let left = folders(&memory).await;
        match builder(&memory, ROOT, 2).open().await {
            Ok(store) if left.contains("adoption") => assert_has(&store, 1..=5).await,
            Ok(store) => {
                assert!(!left.contains("commits") && !left.contains("manifest"), "{left:?}");
                assert_has(&store, []).await;
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("has no adoption record"), "{error}");
            }
        }
        slatedb_admin(&memory, ROOT).delete_db(true).await.unwrap();
        assert!(paths(&memory, ROOT).await.is_empty());
    }
    assert!(killed > 10 && refused > 5, "{killed} {refused}");
}

#[tokio::test(start_paused = true)]
async fn a_bad_moment_at_any_request_to_the_clone_does_not_end_its_making() {
    for fate in [Fate::Fail, Fate::LoseAnswer] {
        let mut nth = 1;
        loop {
            let (memory, _) = source_of(3).await;
            let (requests, source) = scripted_source(&memory).await;
            let cue = requests.script(nth, |request| request.path.starts_with(CLONE), fate);
            clone_store(&source, CLONE).await.unwrap();
            assert_has(&open(&memory, CLONE, 3).await, 1..=3).await;
            if !cue.was_reached() {
                break;
            }
            nth += 1;
        }
        assert!(nth > 10, "{nth}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_deleted_before_its_store_is_not_begun_again_over_what_is_left() {
    let (memory, source) = source_of(3).await;
    fold(&source).await;
    commit_log_delete(&memory).await;
    let refused = builder(&memory, ROOT, 2).open().await.unwrap_err();
    assert!(refused.to_string().contains("history of its own"), "{refused}");
    slatedb_admin(&memory, ROOT).delete_db(true).await.unwrap();
    assert!(paths(&memory, ROOT).await.is_empty());
}

async fn commit_log_delete(memory: &Memory) {
    slatedb::wal::WalAdmin::delete_wal(&admin(memory.clone(), 5), &Path::from(ROOT), false).await.unwrap();
}
