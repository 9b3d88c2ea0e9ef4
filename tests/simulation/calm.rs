//! What directed scenarios over the simulated bucket begin with: a healthy bucket, a log in it, and commits.
#![allow(clippy::unwrap_used, reason = "test code: a broken expectation must stop the test that met it")]

use std::sync::Arc;

use commit_log::adoption::{FreshLog, find_or_begin};
use commit_log::bucket::{Bucket, Pace};
use commit_log::environment::{Environment, Randomness};
use commit_log::envelope::Write;
use commit_log::identity::TransactionId;
use commit_log::log::{Commit, LogOptions, Offer, SlotLog};
use commit_log::slot::PageSize;
use commit_log_kit::bucket::{Faults, Process, SimulatedBucket};
use commit_log_kit::clock::{ClockMode, SimulatedClock, Skew};
use commit_log_kit::runtime::{Limits, World, run_world};

/// Runs a scenario over a healthy bucket.
pub(crate) fn calm<F: Future<Output = ()>>(test: impl FnOnce(World, SimulatedBucket) -> F) {
    run_world(1, Limits::default(), |world| {
        let bucket = SimulatedBucket::start(&world, Faults::none());
        test(world, bucket)
    })
    .unwrap();
}

/// A process's door to the bucket.
pub(crate) fn door(world: &World, bucket: &SimulatedBucket, process: Process) -> Bucket {
    let clock = Arc::new(SimulatedClock::new(world.timeline(), ClockMode::Steady, Skew::default()));
    let randomness = Arc::new(Randomness::from_seed(u64::from(process.0)));
    Bucket::new(bucket.link(process), "store".into(), Environment { clock, randomness }, Pace::default())
}

/// A process's log, with pages of four, nothing read of it yet.
pub(crate) async fn unread(world: &World, bucket: &SimulatedBucket, process: Process) -> SlotLog {
    let door = door(world, bucket, process);
    let fresh = FreshLog { page_size: PageSize::new(4).unwrap(), ..FreshLog::default() };
    let record = find_or_begin(&door, &fresh, &door.deadline()).await.unwrap();
    SlotLog::new(door, record, LogOptions::default())
}

/// A process's log, read to its end.
pub(crate) async fn open(world: &World, bucket: &SimulatedBucket, process: Process) -> SlotLog {
    let log = unread(world, bucket, process).await;
    log.load(None, &log.bucket().deadline()).await.unwrap();
    log
}

/// A commit of one row.
pub(crate) fn commit(number: u8) -> Commit {
    Commit::of(TransactionId::from_bytes([number; 16]), vec![Write::put("key", "value")])
}

/// Commits the transactions `numbers`, one after the other.
pub(crate) async fn commit_all(log: &SlotLog, numbers: std::ops::RangeInclusive<u8>) {
    for number in numbers {
        let offer = log.offer(log.next(), commit(number), &log.bucket().deadline()).await.unwrap();
        assert!(matches!(offer, Offer::Won { .. }), "{offer:?}");
    }
}
