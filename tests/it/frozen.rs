//! A bucket that freezes: every public call returns by its deadline, and says what it waited for.

use std::sync::Arc;
use std::time::Duration;

use commit_log::adoption::{FreshLog, find, find_or_begin};
use commit_log::bucket::{Doing, ObjectName, Pace};
use commit_log::identity::TransactionId;
use commit_log::log::{Closing, LogOptions, Offer, OfferError, Proof};
use commit_log_kit::bucket::Operation;
use commit_log_kit::clock::Timeline;
use commit_log_kit::scripted::{Fate, PathClass, ScriptedBucket};
use object_store::memory::InMemory;

use crate::support::{World, is, scripted, sequence};

/// More than the most requests that any of the calls below makes.
const REQUESTS: u64 = 60;

/// From its `first` request on, the bucket answers nothing.
fn freeze(bucket: &ScriptedBucket, first: u64) {
    for nth in first..first + 20 * REQUESTS {
        bucket.script(nth, |_| true, Fate::Hang);
    }
}

/// Runs `call`, and wants it to end by the deadline of a call, give or take a timer's tick.
async fn in_time<T>(timeline: Timeline, call: impl Future<Output = T>) -> T {
    let begun = timeline.elapsed();
    let answer = call.await;
    let took = timeline.elapsed() - begun;
    assert!(took <= Pace::default().call + Duration::from_millis(10), "it took {took:?}");
    answer
}

#[tokio::test(start_paused = true)]
async fn an_open_returns_by_its_deadline_wherever_the_bucket_freezes() {
    for first in 1..=REQUESTS {
        let timeline = Timeline::begin();
        let (requests, bucket) = scripted(Arc::new(InMemory::new()), timeline, 1);
        freeze(&requests, first);
        let opened = in_time(timeline, find_or_begin(&bucket, &FreshLog::default(), &bucket.deadline())).await;
        assert!(opened.is_err() || requests.log().len() < first as usize, "frozen at request {first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_only_open_returns_by_its_deadline_wherever_the_bucket_freezes() {
    let world = World::new().await;
    for first in 1..=4 {
        let process = world.process_with(LogOptions::default());
        freeze(&process.scripted, first);
        let bucket = process.log.bucket();
        assert!(in_time(world.timeline, find(bucket, &bucket.deadline())).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn an_offer_into_a_frozen_bucket_is_unknown_exactly_if_a_put_was_sent() {
    let world = World::new().await;
    let others = world.commit_through(2).await;
    // One that wins, one that loses, one that is judged below the head, and one that looks at the tail first.
    for (known, offered) in [(2, 3), (1, 2), (2, 2), (1, 3)] {
        for first in 1..=12 {
            let process = world.lagging_process(known).await;
            let commit = process.new_commit();
            freeze(&process.scripted, first);
            let mark = process.mark();
            let answer = in_time(world.timeline, process.offer(offered, commit)).await;
            let sent = process.since(mark).puts > 0;
            match answer {
                Ok(Offer::Won { .. } | Offer::Lost { .. } | Offer::Behind { .. }) => {}
                Err(OfferError::Unknown { sequence: at, .. }) => assert!(sent && at == sequence(offered)),
                Err(OfferError::NotSent { .. } | OfferError::Unavailable(_)) => assert!(!sent),
                Err(other) => panic!("frozen at request {first}: {other:?}"),
            }
        }
    }
    drop(others);
}

#[tokio::test(start_paused = true)]
async fn nothing_sent_is_said_plainly_also_when_the_caller_and_its_offer_run_out_of_time_together() {
    let world = World::new().await;
    let process = world.commit_through(1).await;
    // Given a sequence that only has to be judged, and a slot that cannot be read.
    freeze(&process.scripted, 1);
    // When it is offered there.
    let answer = in_time(world.timeline, process.offer(1, process.new_commit())).await;
    // Then the caller hears that nothing was sent, and what was waited for.
    let waited_for = Doing::Read(world.slot_name(1));
    assert!(matches!(answer, Err(OfferError::NotSent { waited_for: found }) if found == waited_for), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn reading_and_asking_return_by_their_deadline_wherever_the_bucket_freezes() {
    let world = World::new().await;
    world.commit_through(9).await;
    for first in 1..=12 {
        let process = world.process_with(LogOptions::default());
        freeze(&process.scripted, first);
        let loaded = in_time(world.timeline, process.log.load(None, &process.deadline())).await;
        assert!(loaded.is_err(), "frozen at request {first}, of which a load of nine slots needs twelve");
    }
    for first in 1..=3 {
        let process = world.process().await;
        freeze(&process.scripted, first);
        let transaction = TransactionId::from_bytes([7; 16]);
        let log = &process.log;
        assert!(in_time(world.timeline, log.outcome(transaction, sequence(1), &process.deadline())).await.is_err());
        assert!(in_time(world.timeline, log.catch_up(Proof::Always, &process.deadline())).await.is_err());
        let deadline = process.deadline();
        let closed = log.close_open(transaction, sequence(10), Closing::Filler, &deadline);
        assert!(in_time(world.timeline, closed).await.is_err());
        let forgetful = world.process_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() });
        freeze(&forgetful.scripted, first);
        let deadline = forgetful.deadline();
        let read = forgetful.log.slots(sequence(1), sequence(9), 1 << 20, &deadline);
        assert!(in_time(world.timeline, read).await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_hangs_is_asked_for_again() {
    let world = World::new().await;
    world.commit_through(3).await;
    // Given a listing that is never answered, once.
    let process = world.process_with(LogOptions::default());
    let hangs = process.scripted.script(1, is(Operation::List, PathClass::Commits), Fate::Hang);
    // When the log is loaded.
    in_time(world.timeline, process.log.load(None, &process.deadline())).await.unwrap();
    // Then it was listed again within the call, and nothing is missing.
    assert!(hangs.was_reached());
    assert_eq!(process.head(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_put_late_in_a_call_does_not_outlast_it() {
    let timeline = Timeline::begin();
    let (requests, bucket) = scripted(Arc::new(InMemory::new()), timeline, 1);
    freeze(&requests, 1);
    let name = ObjectName::Adoption(1);
    // Attempts of ten seconds, and pauses between them: one of them is under way when the thirtieth passes.
    let put = in_time(timeline, bucket.create_settled(name, "record".into(), &bucket.deadline())).await;
    assert_eq!(put.unwrap_err().doing, Doing::Put(name));
}
