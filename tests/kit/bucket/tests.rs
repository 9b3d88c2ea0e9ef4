//! The bucket against its own promises, one staged situation each.

use std::time::Duration;

use futures::future::join_all;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion,
};
use std::sync::Arc;

use super::*;
use crate::runtime::{Limits, WorldError, run_world};

const A: Process = Process(1);
const B: Process = Process(2);

fn calm<T, F: Future<Output = T>>(test: impl FnOnce(World, SimulatedBucket) -> F) -> T {
    run_world(1, Limits::default(), |world| {
        let bucket = SimulatedBucket::start(&world, Faults::none());
        test(world, bucket)
    })
    .unwrap()
}

async fn create(store: &Arc<dyn ObjectStore>, path: &str, content: &'static str) -> Result<(), Error> {
    let path = Path::from(path);
    store.put_opts(&path, content.into(), PutMode::Create.into()).await.map(|_| ())
}

async fn read(store: &Arc<dyn ObjectStore>, path: &str) -> Result<String, Error> {
    let bytes = store.get(&Path::from(path)).await?.bytes().await?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

#[test]
fn a_dropped_callers_put_still_lands() {
    calm(|_, bucket| async move {
        let store = bucket.link(A);
        assert!(create(&store, "x", "1").now_or_never().is_none());
        bucket.settle().await;
        assert_eq!(read(&store, "x").await.unwrap(), "1");
    });
}

#[test]
fn one_of_many_concurrent_creates_wins() {
    calm(|_, bucket| async move {
        let stores: Vec<_> = (0..16).map(|process| bucket.link(Process(process))).collect();
        let outcomes = join_all(stores.iter().map(|store| create(store, "slot", "mine"))).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
        let lost = outcomes.iter().filter(|outcome| matches!(outcome, Err(Error::AlreadyExists { .. })));
        assert_eq!(lost.count(), 15);
        assert_eq!(bucket.history(|history| history.puts_under("slot").count()), 1);
    });
}

#[test]
fn a_late_landing_lands_after_the_kill_of_its_sender() {
    calm(|world, bucket| async move {
        let day = Duration::from_secs(24 * 3600);
        bucket.stage(Match::first(), Action::LandAfter(day));
        let store = bucket.link(A);
        assert!(matches!(create(&store, "x", "late").await, Err(Error::Generic { .. })));
        bucket.kill(A);
        assert_eq!(bucket.history(|history| (history.sent().len(), history.effects().len())), (1, 0));
        let other = bucket.link(B);
        assert!(matches!(read(&other, "x").await, Err(Error::NotFound { .. })));
        bucket.settle().await;
        assert!(world.timeline().elapsed() > day);
        assert_eq!(read(&other, "x").await.unwrap(), "late");
        assert_eq!(bucket.counters().of(Fault::LandedAfterKill), 1);
        assert_eq!(bucket.counters().of(Fault::LateLanding), 1);
    });
}

#[test]
fn a_killed_process_is_never_answered_and_its_successor_is() {
    calm(|world, bucket| async move {
        let old = bucket.link(A);
        let before = tokio::spawn({
            let old = Arc::clone(&old);
            async move { create(&old, "before", "1").await }
        });
        tokio::task::yield_now().await;
        bucket.kill(A);
        let after = tokio::spawn(async move { create(&old, "after", "1").await });
        world.timeline().sleep_until(Duration::from_secs(24 * 3600)).await;
        assert!(!before.is_finished() && !after.is_finished());
        let new = bucket.link(A);
        assert_eq!(read(&new, "before").await.unwrap(), "1");
        assert!(matches!(read(&new, "after").await, Err(Error::NotFound { .. })));
    });
}

#[test]
fn a_paused_process_sends_and_hears_nothing_until_it_is_resumed() {
    calm(|world, bucket| async move {
        let store = bucket.link(A);
        let hears = tokio::spawn({
            let store = Arc::clone(&store);
            async move { create(&store, "sent-before", "1").await }
        });
        tokio::task::yield_now().await;
        bucket.pause(A);
        let sends = tokio::spawn(async move { create(&store, "sent-while-paused", "1").await });
        world.timeline().sleep_until(Duration::from_secs(3600)).await;
        assert!(!hears.is_finished() && !sends.is_finished());
        assert_eq!(bucket.objects("sent-").len(), 1);
        bucket.resume(A);
        hears.await.unwrap().unwrap();
        sends.await.unwrap().unwrap();
        assert_eq!(bucket.counters().of(Fault::HeldByPause), 2);
    });
}

#[test]
fn a_partitioned_process_fails_or_hangs_and_heals() {
    calm(|world, bucket| async move {
        let store = bucket.link(A);
        bucket.partition(A, Partition::Failing);
        assert!(matches!(create(&store, "x", "1").await, Err(Error::Generic { .. })));
        bucket.partition(A, Partition::Hanging);
        let hanging = tokio::spawn({
            let store = Arc::clone(&store);
            async move { create(&store, "x", "2").await }
        });
        world.timeline().sleep_until(Duration::from_secs(3600)).await;
        assert!(!hanging.is_finished());
        bucket.heal(A);
        create(&store, "x", "3").await.unwrap();
        assert_eq!(bucket.history(|history| history.of("x").count()), 1);
        assert_eq!(bucket.counters().of(Fault::Partitioned), 2);
    });
}

#[test]
fn an_answer_that_meets_a_partition_is_lost_and_the_put_lands() {
    calm(|_, bucket| async move {
        let store = bucket.link(A);
        let held = bucket.stage(Match::first(), Action::HoldAnswer);
        let put = tokio::spawn(async move { create(&store, "x", "1").await });
        held.reached().await;
        bucket.partition(A, Partition::Failing);
        held.release();
        assert!(matches!(put.await.unwrap(), Err(Error::Generic { .. })));
        assert_eq!(bucket.objects("x").len(), 1);
    });
}

#[test]
fn each_staged_action_does_what_it_says() {
    calm(|world, bucket| async move {
        let store = bucket.link(A);
        let lost = |outcome| matches!(outcome, Err(Error::Generic { .. }));
        bucket.stage(Match::nth(2).path("a"), Action::FailBefore);
        create(&store, "a1", "1").await.unwrap();
        assert!(lost(create(&store, "a2", "1").await));
        bucket.stage(Match::first().of(A).operation(Operation::Create), Action::LoseAnswer);
        assert!(lost(create(&store, "a3", "1").await));
        bucket.stage(Match::first(), Action::SpuriousExists);
        assert!(matches!(create(&store, "a4", "1").await, Err(Error::AlreadyExists { .. })));
        bucket.stage(Match::first(), Action::Resend(3));
        assert!(matches!(create(&store, "a5", "1").await, Err(Error::AlreadyExists { .. })));
        for (path, action) in [("a6", Action::HangBefore), ("a7", Action::HangAfter)] {
            bucket.stage(Match::first(), action);
            let store = Arc::clone(&store);
            let hanging = tokio::spawn(async move { create(&store, path, "1").await });
            let later = world.timeline().elapsed() + Duration::from_secs(3600);
            world.timeline().sleep_until(later).await;
            assert!(!hanging.is_finished());
        }
        let there: Vec<_> = bucket.objects("a").into_iter().map(|(path, _)| path.to_string()).collect();
        assert_eq!(there, ["a1", "a3", "a5", "a7"]);
        assert_eq!(bucket.counters().of(Fault::MetOwnObject), 2);
    });
}

#[test]
fn a_held_request_takes_effect_at_its_release_and_overtaken() {
    calm(|_, bucket| async move {
        let (a, b) = (bucket.link(A), bucket.link(B));
        let held = bucket.stage(Match::first().of(A), Action::Hold);
        let slow = tokio::spawn(async move { create(&a, "slot", "a").await });
        held.reached().await;
        create(&b, "slot", "b").await.unwrap();
        held.release();
        assert!(matches!(slow.await.unwrap(), Err(Error::AlreadyExists { .. })));
        assert_eq!(read(&b, "slot").await.unwrap(), "b");
    });
}

#[test]
fn a_list_walk_is_not_a_snapshot() {
    calm(|_, bucket| async move {
        bucket.set_all_faults(Faults { page_size: 2..=2, ..Faults::none() });
        let store = bucket.link(A);
        for path in ["l/1", "l/2", "l/3", "l/4", "l0"] {
            create(&store, path, "").await.unwrap();
        }
        let mut walk = store.list(Some(&Path::from("l")));
        assert_eq!(walk.next().await.unwrap().unwrap().location.as_ref(), "l/1");
        store.delete(&Path::from("l/1")).await.unwrap();
        store.delete(&Path::from("l/4")).await.unwrap();
        create(&store, "l/5", "").await.unwrap();
        create(&store, "l/0", "").await.unwrap();
        let rest: Vec<_> = walk.map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
        assert_eq!(rest, ["l/2", "l/3", "l/5"], "no instant had these and l/1");
        assert_eq!(bucket.counters().of(Fault::ListMovedBetweenPages), 1);
    });
}

#[test]
fn a_list_that_fails_midway_yields_its_first_pages_then_the_error_then_ends() {
    calm(|_, bucket| async move {
        bucket.set_all_faults(Faults { page_size: 2..=2, ..Faults::none() });
        let store = bucket.link(A);
        for path in ["l/1", "l/2", "l/3"] {
            create(&store, path, "").await.unwrap();
        }
        bucket.stage(Match::nth(2).operation(Operation::List), Action::FailBefore);
        let walk: Vec<_> = store.list(None).map(|object| object.is_ok()).collect().await;
        assert_eq!(walk, [true, true, false]);
        assert_eq!(bucket.counters().of(Fault::ListBrokeMidway), 1);
    });
}

#[test]
fn lists_have_offsets_and_folders_across_pages() {
    calm(|_, bucket| async move {
        bucket.set_all_faults(Faults { page_size: 1..=2, ..Faults::none() });
        let store = bucket.link(A);
        for path in ["p/a/1", "p/a/2", "p/a0", "p/b", "p/c/1", "p/c/d/2", "q"] {
            create(&store, path, "").await.unwrap();
        }
        let level = store.list_with_delimiter(Some(&Path::from("p"))).await.unwrap();
        let objects: Vec<_> = level.objects.iter().map(|object| object.location.as_ref()).collect();
        assert_eq!(objects, ["p/a0", "p/b"]);
        let folders: Vec<_> = level.common_prefixes.iter().map(AsRef::as_ref).collect();
        assert_eq!(folders, ["p/a", "p/c"]);
        let tail = store.list_with_offset(Some(&Path::from("p")), &Path::from("p/b"));
        let tail: Vec<_> = tail.map_ok(|object| object.location.to_string()).try_collect().await.unwrap();
        assert_eq!(tail, ["p/c/1", "p/c/d/2"]);
    });
}

#[test]
fn gets_know_ranges_conditions_attributes_and_generations() {
    calm(|world, bucket| async move {
        let store = bucket.link(A);
        let path = Path::from("x");
        let mut attributes = Attributes::new();
        attributes.insert(Attribute::Metadata("put-id".into()), "7".into());
        let options = PutOptions { attributes: attributes.clone(), ..PutMode::Create.into() };
        let first = store.put_opts(&path, "0123456789".into(), options).await.unwrap();
        for (range, wanted) in [(GetRange::Bounded(2..4), "23"), (GetRange::Offset(7), "789"), (GetRange::Suffix(2), "89")] {
            let got = store.get_opts(&path, GetOptions::new().with_range(Some(range))).await.unwrap();
            assert_eq!(got.attributes, attributes);
            assert_eq!(got.bytes().await.unwrap(), wanted);
        }
        let head = store.head(&path).await.unwrap();
        assert_eq!((head.size, &head.e_tag), (10, &first.e_tag));
        assert!(head.last_modified <= world.timeline().at(world.timeline().elapsed()));
        let matching = GetOptions::new().with_if_none_match(first.e_tag.clone());
        assert!(matches!(store.get_opts(&path, matching).await, Err(Error::NotModified { .. })));
        let version = UpdateVersion::from(first);
        let second = store.put_opts(&path, "new".into(), PutMode::Update(version.clone()).into()).await.unwrap();
        assert_ne!(second.e_tag, version.e_tag);
        let stale = store.put_opts(&path, "stale".into(), PutMode::Update(version.clone()).into()).await;
        assert!(matches!(stale, Err(Error::Precondition { .. })));
        let old = GetOptions::new().with_if_match(version.e_tag);
        assert!(matches!(store.get_opts(&path, old).await, Err(Error::Precondition { .. })));
        store.copy(&path, &Path::from("y")).await.unwrap();
        assert!(store.copy_if_not_exists(&path, &Path::from("y")).await.is_err());
        assert_eq!(read(&store, "y").await.unwrap(), "new");
    });
}

#[test]
fn a_multipart_object_appears_whole_at_its_completion() {
    calm(|_, bucket| async move {
        let store = bucket.link(A);
        let path = Path::from("big");
        let mut upload = store.put_multipart(&path).await.unwrap();
        let parts = [upload.put_part("ab".into()), upload.put_part("cd".into())];
        join_all(parts).await.into_iter().for_each(|part| part.unwrap());
        assert!(matches!(read(&store, "big").await, Err(Error::NotFound { .. })));
        upload.complete().await.unwrap();
        assert_eq!(read(&store, "big").await.unwrap(), "abcd");
        let mut lacking = store.put_multipart(&path).await.unwrap();
        bucket.stage(Match::first().operation(Operation::UploadPart), Action::FailBefore);
        assert!(lacking.put_part("xx".into()).await.is_err());
        lacking.put_part("yy".into()).await.unwrap();
        assert!(lacking.complete().await.is_err());
        assert_eq!(read(&store, "big").await.unwrap(), "abcd");
    });
}

#[test]
fn a_world_that_asks_too_much_fails_with_its_seed() {
    let limits = Limits { requests: 100, ..Limits::default() };
    let outcome = run_world(3, limits, |world| async move {
        let bucket = SimulatedBucket::start(&world, Faults::none());
        let store = bucket.link(A);
        loop {
            store.head(&Path::from("x")).await.ok();
        }
    });
    let never: Result<(), _> = Err(WorldError::Requests { seed: 3, requests: 100 });
    assert_eq!(outcome, never);
}
