//! What directed scenarios over the simulated bucket begin with: a healthy bucket, a log in it, and commits.
#![allow(clippy::unwrap_used, reason = "test code: a broken expectation must stop the test that met it")]

use std::sync::Arc;

use commit_log::adoption::{FreshLog, find_or_begin};
use commit_log::bucket::{Bucket, ObjectName, Pace};
use commit_log::envelope::Write;
use commit_log::environment::{Environment, Randomness};
use commit_log::identity::TransactionId;
use commit_log::ledger::Ledger;
use commit_log::log::{Commit, LogOptions, Offer, SlotLog};
use commit_log::slot::{Page, PageSize, Sequence};
use commit_log_kit::bucket::{Faults, Process, SimulatedBucket};
use commit_log_kit::clock::{ClockMode, SimulatedClock, Skew};
use commit_log_kit::runtime::{Limits, World, run_world};
use object_store::ObjectStoreExt;

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
    Bucket::new(
        bucket.link(process),
        "store".into(),
        Environment { clock: clock.clone(), stopwatch: clock, randomness },
        Pace::default(),
    )
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

/// Whoever retires pages by hand.
const HAND: Process = Process(99);

/// Writes the ledger of a page of four.
pub(crate) async fn write_ledger(log: &SlotLog, bucket: &SimulatedBucket, page: u64) {
    let (first, last) = log.record().page_size.sequences(Page::new(page)).unwrap().into_inner();
    let slots = log.slots(first, last, usize::MAX, &log.bucket().deadline()).await.unwrap();
    let ledger = Ledger::seal(log.record().log, Page::new(page), log.record().page_size, &slots).unwrap();
    let name = ObjectName::Ledger(log.record().log, Page::new(page)).path(&"store".into());
    bucket.link(HAND).put(&name, ledger.encode().into()).await.unwrap();
}

/// Deletes a slot of a page that has a ledger.
pub(crate) async fn delete(log: &SlotLog, bucket: &SimulatedBucket, number: u64) {
    let name = ObjectName::Slot(log.record().log, Sequence::new(number).unwrap());
    bucket.link(HAND).delete(&name.path(&"store".into())).await.unwrap();
}

/// Retires a page of four as a whole.
pub(crate) async fn retire(log: &SlotLog, bucket: &SimulatedBucket, page: u64) {
    write_ledger(log, bucket, page).await;
    for number in page * 4 + 1..=page * 4 + 4 {
        delete(log, bucket, number).await;
    }
}
