//! What SlateDB's `Admin` does with whole stores: the log is deleted with its store, and looked at before it is left out.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commit_log::bucket::{ObjectName, Pace};
use commit_log::guard::GUARD_BYTES;
use commit_log::identity::LogId;
use commit_log::slot::Page;
use commit_log::wal::LogAdmin;
use commit_log_kit::bucket::Operation;
use commit_log_kit::clock::Timeline;
use commit_log_kit::scripted::{Fate, PathClass, ScriptedBucket};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::wal::{WalAdmin, WalError};

use crate::support::{ROOT, World, environment, is, sequence};

pub(crate) fn admin(store: Arc<dyn ObjectStore>, seed: u64) -> LogAdmin {
    LogAdmin::new(store, environment(Timeline::begin(), seed), Pace::default())
}

fn scripted_admin(world: &World, seed: u64) -> (ScriptedBucket, LogAdmin) {
    let scripted = ScriptedBucket::new(world.memory.clone());
    (scripted.clone(), admin(Arc::new(scripted), seed))
}

/// The paths of everything below `folder`.
pub(crate) async fn paths(store: &Arc<dyn ObjectStore>, folder: &str) -> BTreeSet<String> {
    let objects: Vec<_> = store.list(Some(&Path::from(folder))).try_collect().await.unwrap();
    objects.into_iter().map(|object| object.location.to_string()).collect()
}

/// What is no log's, in the store's folder.
const FOREIGN: [&str; 6] = [
    "store/commits/readme",
    "store/commits/00000000000000000001",
    "store/compacted/01ARZ3NDEKTSV4RRFFQ69G5FAV.sst",
    "store/manifest/00000000000000000001.manifest",
    "store/wal/00000000000000000002.sst",
    "store/wal/notes",
];

fn foreign() -> BTreeSet<String> {
    FOREIGN.iter().map(ToString::to_string).collect()
}

/// A log with everything that a log can have, beside what an older one left, and files of others.
async fn full_world() -> World {
    let world = World::new().await;
    world.commit_through(9).await;
    world.retire(0).await;
    let (log, older) = (world.record.log, LogId::from_bytes([9; 16]));
    for name in [
        world.slot_name(2),
        ObjectName::Take(log, 3),
        ObjectName::Leaving(log),
        ObjectName::Probe(7),
        ObjectName::Slot(older, sequence(40)),
        ObjectName::Ledger(older, Page::new(1)),
        ObjectName::Take(older, 8),
    ] {
        world.write(name, Bytes::from_static(b"of a log")).await;
    }
    world.write(ObjectName::Adoption(2), world.record.encode()).await;
    // A second guard, and a file of a guard's size that is none.
    let guard = world.read(ObjectName::NativeWal(1)).await.unwrap();
    world.write(ObjectName::NativeWal(5), guard).await;
    let no_guard = Bytes::from(vec![b'x'; usize::try_from(GUARD_BYTES).unwrap()]);
    for path in FOREIGN {
        world.memory.put(&Path::from(path), no_guard.clone().into()).await.unwrap();
    }
    world.memory.put(&Path::from("store2/commits/a"), "neighbour".into()).await.unwrap();
    world
}

fn writes(requests: &ScriptedBucket) -> usize {
    let is_write = |operation| !matches!(operation, Operation::Get | Operation::Head | Operation::List);
    requests.log().iter().filter(|request| is_write(request.operation)).count()
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_names_all_of_the_log_and_deletes_nothing() {
    let world = full_world().await;
    let before = paths(&world.memory, ROOT).await;
    let (requests, admin) = scripted_admin(&world, 1);
    let named = admin.delete_wal(&Path::from(ROOT), true).await.unwrap();
    assert_eq!(named.len(), named.iter().collect::<BTreeSet<_>>().len());
    assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), &before - &foreign());
    assert_eq!(writes(&requests), 0);
    assert_eq!(paths(&world.memory, ROOT).await, before);
}

#[tokio::test(start_paused = true)]
async fn a_log_is_deleted_whole_and_nothing_else() {
    let world = full_world().await;
    let of_the_log = &paths(&world.memory, ROOT).await - &foreign();
    let admin = admin(world.memory.clone(), 1);
    let deleted = admin.delete_wal(&Path::from(ROOT), false).await.unwrap();
    assert_eq!(deleted.into_iter().collect::<BTreeSet<_>>(), of_the_log);
    assert_eq!(paths(&world.memory, ROOT).await, foreign());
    assert_eq!(paths(&world.memory, "store2").await.len(), 1);
    // And again, where nothing is.
    assert_eq!(admin.delete_wal(&Path::from(ROOT), false).await.unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_killed_at_any_request_is_made_again_and_never_leaves_what_an_opener_would_begin() {
    let mut killed = 0;
    loop {
        let world = full_world().await;
        let (requests, admin) = scripted_admin(&world, 1);
        let cue = requests.script(killed + 1, |_| true, Fate::Hang);
        let call = tokio::spawn(async move { admin.delete_wal(&Path::from(ROOT), false).await });
        tokio::select! {
            () = cue.reached() => {}
            ended = call => {
                ended.unwrap().unwrap();
                break;
            }
        }
        killed += 1;
        let left = &paths(&world.memory, ROOT).await - &foreign();
        let has = |folder: &str| left.iter().any(|path| path.starts_with(&format!("{ROOT}/{folder}/")));
        assert!(has("adoption") || !(has("wal") || has("commits") || has("retired")), "{left:?}");
        assert!(has("wal") || !has("commits"), "{left:?}");
        assert!(has("leaving") || !has("adoption"), "{left:?}");
        admin_again(&world).await;
    }
    assert!(killed > 20, "{killed}");
}

async fn admin_again(world: &World) {
    admin(world.memory.clone(), 2).delete_wal(&Path::from(ROOT), false).await.unwrap();
    assert_eq!(paths(&world.memory, ROOT).await, foreign());
}

#[tokio::test(start_paused = true)]
async fn a_bad_moment_at_any_request_does_not_end_a_deletion() {
    for fate in [Fate::Fail, Fate::LoseAnswer] {
        for nth in 1..=40 {
            let world = full_world().await;
            let (requests, admin) = scripted_admin(&world, 1);
            requests.script(nth, |_| true, fate);
            admin.delete_wal(&Path::from(ROOT), false).await.unwrap();
            assert_eq!(paths(&world.memory, ROOT).await, foreign());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_bucket_does_not_let_through_says_unavailable() {
    let world = full_world().await;
    let (requests, admin) = scripted_admin(&world, 1);
    for nth in 1..=1000 {
        requests.script(nth, is(Operation::Delete, PathClass::Takes), Fate::Fail);
    }
    let refused = admin.delete_wal(&Path::from(ROOT), false).await;
    assert!(matches!(refused, Err(WalError::Unavailable(_))), "{refused:?}");
    assert!(world.read(ObjectName::NativeWal(1)).await.is_some());
}

async fn is_empty(world: &World, after: u64, last: u64) -> Result<bool, WalError> {
    admin(world.memory.clone(), 1).is_empty(&Path::from(ROOT), after, last).await
}

#[tokio::test(start_paused = true)]
async fn a_range_is_empty_exactly_when_no_slot_of_it_has_landed() {
    let world = World::new().await;
    assert!(is_empty(&world, 0, 5).await.unwrap());
    world.commit_through(6).await;
    for (after, last, empty) in [(0, 6, false), (0, 1, false), (5, 6, false), (5, 90, false), (6, 90, true)] {
        assert_eq!(is_empty(&world, after, last).await.unwrap(), empty, "({after}, {last}]");
    }
    // Above a retired page the slots are what they are.
    world.commit_through(9).await;
    world.retire(0).await;
    assert!(!is_empty(&world, 5, 9).await.unwrap());
    assert!(is_empty(&world, 9, 12).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_range_without_ids_is_empty_without_a_request_also_where_no_log_is() {
    let world = World::new().await;
    let (requests, admin) = scripted_admin(&world, 1);
    for path in [ROOT, "nowhere"] {
        assert!(admin.is_empty(&Path::from(path), 4, 4).await.unwrap());
        assert!(admin.is_empty(&Path::from(path), 4, 2).await.unwrap());
    }
    assert_eq!(requests.log().len(), 0);
    // Where ids are counted and no log is, something is missing.
    let error = admin.is_empty(&Path::from("nowhere"), 4, 5).await.unwrap_err();
    assert!(matches!(&error, WalError::DataError(_)) && error.to_string().contains("no commit log"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_told_is_never_empty() {
    // Retired.
    let world = World::new().await;
    world.commit_through(9).await;
    world.retire(0).await;
    for after in [0, 2, 3] {
        assert!(matches!(is_empty(&world, after, 9).await, Err(WalError::DataError(_))));
    }
    // Missing below one that is there.
    world.delete(world.slot_name(7)).await;
    assert!(matches!(is_empty(&world, 5, 9).await, Err(WalError::DataError(_))));
    assert!(matches!(is_empty(&world, 6, 9).await, Err(WalError::DataError(_))));
    // Not readable.
    let world = World::new().await;
    world.commit_through(2).await;
    world.write(world.slot_name(2), Bytes::from_static(b"no slot")).await;
    assert!(matches!(is_empty(&world, 1, 2).await, Err(WalError::DataError(_))));
    world.write(ObjectName::Adoption(1), Bytes::from_static(b"no record")).await;
    assert!(matches!(is_empty(&world, 2, 3).await, Err(WalError::DataError(_))));
    // Not answered.
    let world = World::new().await;
    let (requests, admin) = scripted_admin(&world, 1);
    for nth in 1..=1000 {
        requests.script(nth, is(Operation::List, PathClass::Commits), Fate::Fail);
    }
    assert!(matches!(admin.is_empty(&Path::from(ROOT), 0, 1).await, Err(WalError::Unavailable(_))));
}

#[tokio::test(start_paused = true)]
async fn its_collector_serves_whatever_log_is_at_the_path_when_it_runs() {
    let world = World::new().await;
    let process = world.commit_through(13).await;
    let taker =
        crate::holding::Taker { log: process.log.clone(), store: world.memory.clone(), settings: crate::holding::settings() };
    let options = commit_log::holder::HoldingOptions::default();
    let holder = commit_log::holder::Holder::take(process.log.clone(), &taker.over(), options).await.unwrap();
    holder.stop().await.unwrap();
    let admin = admin(world.memory.clone(), 1).retain_pages(NonZeroU32::MIN);
    let collector = admin.garbage_collector(&Path::from(ROOT));
    collector.collect(Vec::new(), Duration::ZERO, true).await.unwrap();
    assert!(world.slot(1).await.is_some());
    collector.collect(Vec::new(), Duration::ZERO, false).await.unwrap();
    assert!(world.slot(12).await.is_none() && world.slot(13).await.is_some());
    admin.delete_wal(&Path::from(ROOT), false).await.unwrap();
    collector.collect(Vec::new(), Duration::ZERO, false).await.unwrap();
}
