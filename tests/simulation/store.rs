//! Stores over the simulated bucket with one thing staged to go wrong: each test is named after what its user met.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code: a broken expectation must stop the test that met it"
)]

use std::sync::Arc;
use std::time::Duration;

use commit_log::environment::{Environment, Randomness};
use commit_log::store::{BodyError, Store, StoreBuilder, StoreError};
use commit_log::transaction::Transaction;
use commit_log::view::ReadError;
use commit_log_kit::bucket::{Action, Faults, Match, Operation, Process, SimulatedBucket};
use commit_log_kit::clock::{ClockMode, SimulatedClock, Skew};
use commit_log_kit::runtime::{Limits, World, run_world};
use object_store::ObjectStoreExt;
use object_store::path::Path;

fn builder(world: &World, bucket: &SimulatedBucket, process: u32) -> StoreBuilder {
    let clock = Arc::new(SimulatedClock::new(world.timeline(), ClockMode::Steady, Skew::default()));
    let randomness = Arc::new(Randomness::from_seed(u64::from(process)));
    // No polls: what a call does not do is not done.
    Store::builder("store", bucket.link(Process(process)))
        .environment(Environment { clock: clock.clone(), stopwatch: clock, randomness })
        .poll(Duration::from_secs(1_000_000))
}

async fn put(store: &Store, key: &'static str, value: String) {
    let body = |mut transaction: Transaction| {
        let value = value.clone();
        async move {
            transaction.put(key, value)?;
            Ok::<_, BodyError>((transaction, ()))
        }
    };
    store.transact(body).await.unwrap();
}

fn in_a_world<F: Future<Output = ()>>(test: impl FnOnce(World, SimulatedBucket) -> F) {
    run_world(1, Limits::default(), |world| {
        let bucket = SimulatedBucket::start(&world, Faults::none());
        test(world, bucket)
    })
    .unwrap();
}

#[test]
fn a_process_whose_tail_was_too_long_goes_on_once_another_has_folded_the_store() {
    in_a_world(|world, bucket| async move {
        let here = builder(&world, &bucket, 1).max_tail_bytes(1_000).open().await.unwrap();
        let there = builder(&world, &bucket, 2).open().await.unwrap();
        for key in ["a", "b", "c"] {
            put(&there, key, "x".repeat(500)).await;
        }
        assert!(matches!(here.latest().await, Err(StoreError::TailTooLong { .. })));
        assert!(here.view().overlay().bytes() <= 1_000, "the bound bounds");
        there.hold().await.unwrap().stop().await.unwrap();
        let view = here.latest().await.unwrap();
        assert_eq!(view.get(b"c").await.unwrap().unwrap().len(), 500);
    });
}

#[test]
fn one_lost_answer_in_the_search_for_a_manifest_fails_no_open() {
    let list_or_get = [Operation::List, Operation::Get];
    let cases =
        list_or_get.iter().flat_map(|operation| [Action::FailBefore, Action::HangBefore].map(|action| (*operation, action)));
    for (operation, action) in cases {
        in_a_world(|world, bucket| async move {
            let here = builder(&world, &bucket, 1).open().await.unwrap();
            put(&here, "key", "value".to_owned()).await;
            here.hold().await.unwrap().stop().await.unwrap();
            let stage = bucket.stage(Match::first().of(Process(2)).operation(operation).path("store/manifest"), action);
            let there = builder(&world, &bucket, 2).open_existing().await.unwrap();
            assert_eq!(there.get(b"key").await.unwrap().unwrap(), "value");
            assert_eq!(stage.hits(), 1);
        });
    }
}

#[test]
fn a_take_whose_record_was_answered_with_a_conflict_is_recorded_all_the_same() {
    in_a_world(|world, bucket| async move {
        let here = builder(&world, &bucket, 1).open().await.unwrap();
        put(&here, "key", "value".to_owned()).await;
        bucket.stage(Match::first().operation(Operation::Create).path("store/takes"), Action::SpuriousExists);
        here.hold().await.unwrap().stop().await.unwrap();
        assert_eq!(bucket.objects("store/takes").len(), 1);
    });
}

#[test]
fn a_log_that_is_begun_over_a_conflict_for_an_absent_name_is_begun_all_the_same() {
    for folder in ["store/wal", "store/adoption"] {
        in_a_world(|world, bucket| async move {
            let stage = bucket.stage(Match::first().operation(Operation::Create).path(folder), Action::SpuriousExists);
            let here = builder(&world, &bucket, 1).open().await.unwrap();
            put(&here, "key", "value".to_owned()).await;
            assert_eq!(stage.hits(), 1);
        });
    }
}

#[test]
fn a_process_that_slept_past_its_files_reads_again_after_one_latest_view() {
    in_a_world(|world, bucket| async move {
        let here = builder(&world, &bucket, 1).without_block_cache().open().await.unwrap();
        put(&here, "key", "old".to_owned()).await;
        // A file that ends before the key that is read below is never opened for it.
        put(&here, "zebra", "old".to_owned()).await;
        here.hold().await.unwrap().stop().await.unwrap();
        let sleeper = builder(&world, &bucket, 2).without_block_cache().open().await.unwrap();
        let slept_on: Vec<_> = bucket.objects("store/compacted").into_iter().map(|(path, _)| path).collect();
        put(&here, "other", "new".to_owned()).await;
        here.hold().await.unwrap().stop().await.unwrap();
        sleeper.latest().await.unwrap();
        // The collector's work, as after a merge.
        let merged = bucket.link(Process(3));
        for path in slept_on {
            merged.delete(&Path::from(&*path)).await.unwrap();
        }
        let read = sleeper.view().get(b"key").await;
        assert!(matches!(read, Err(ReadError::Outlived { .. })), "{read:?}");
        sleeper.latest().await.unwrap();
        assert!(sleeper.view().base().manifest_id() >= here.view().base().manifest_id());
        assert!(sleeper.view().base().covered() == sleeper.view().head(), "it stands on the newest manifest");
    });
}
