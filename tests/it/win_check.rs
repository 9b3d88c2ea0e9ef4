//! The win check that reads the ledger of slow wins only: from when on it counts, and what it never takes for a win.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use commit_log::adoption::FreshLog;
use commit_log::log::{Closing, LogOptions, Offer, Outcome, Proof, WinCheck};
use commit_log::retire::Collector;
use commit_log::slot::PageSize;
use commit_log::store::{BodyError, OpenError, Store, StoreBuilder};
use commit_log::transaction::Transaction;
use commit_log_kit::bucket::Operation;
use commit_log_kit::clock::{SimulatedClock, Timeline};
use commit_log_kit::scripted::{Cue, Fate, PathClass, ScriptedBucket};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;

use crate::collecting::retire;
use crate::offers::leave_open;
use crate::support::{PAGE, Process, ROOT, Spent, World, environment, sequence};

const BOUND: Duration = Duration::from_secs(2);

/// What a log must promise for a check with that bound.
const RETENTION: Duration = Duration::from_secs(8);

const A_MILLISECOND: Duration = Duration::from_millis(1);

/// A commit that is won as its put is answered.
const QUICK: Spent = Spent { puts: 1, slot_reads: 0, ledger_reads: 0, lists: 0 };

/// One whose ledger is read.
const CHECKED: Spent = Spent { puts: 1, slot_reads: 0, ledger_reads: 1, lists: 0 };

/// How much time passes, by each clock of a process.
#[derive(Clone, Copy, Debug)]
struct Passing {
    monotonic: Duration,
    wall: TimeDelta,
}

impl Passing {
    fn both(time: Duration) -> Passing {
        Passing { monotonic: time, wall: delta(time) }
    }

    /// A machine that was suspended: its calendar went on alone.
    fn suspended(time: Duration) -> Passing {
        Passing { monotonic: Duration::ZERO, wall: delta(time) }
    }

    async fn pass(self, clock: &SimulatedClock) {
        tokio::time::advance(self.monotonic).await;
        clock.jump(self.wall - delta(self.monotonic));
    }
}

fn delta(time: Duration) -> TimeDelta {
    TimeDelta::from_std(time).unwrap()
}

fn log_that_keeps(least_retention: Duration) -> FreshLog {
    FreshLog { page_size: PageSize::new(PAGE).unwrap(), least_retention, ..FreshLog::default() }
}

async fn world_that_keeps(least_retention: Duration) -> World {
    World::with(log_that_keeps(least_retention)).await
}

async fn world() -> World {
    world_that_keeps(RETENTION).await
}

/// A process that checks slow wins only and knows nothing of the log yet, and its clock.
fn unread(world: &World) -> (Process, Arc<SimulatedClock>) {
    world.process_with_clock(LogOptions { win_check: WinCheck::WhenSlow(BOUND), ..LogOptions::default() })
}

/// The same, with the log read.
async fn process(world: &World) -> (Process, Arc<SimulatedClock>) {
    let (process, clock) = unread(world);
    process.load(None).await;
    (process, clock)
}

/// What the next commit of `process` costs.
async fn cost(process: &Process) -> Spent {
    let mark = process.mark();
    process.commit().await;
    process.since(mark)
}

/// Does `work`, whose request at `held` takes that long.
async fn slowly<T>(work: impl Future<Output = T>, held: &Cue, passing: Passing, clock: &SimulatedClock) -> T {
    let wait = async {
        held.reached().await;
        passing.pass(clock).await;
        held.release();
    };
    futures::future::join(work, wait).await.0
}

/// What a commit costs whose put takes that long, right after the log was read.
async fn cost_of_a_put_that_takes(passing: Passing) -> Spent {
    let world = world().await;
    let (process, clock) = process(&world).await;
    let put = process.script_put(1, Fate::Hold);
    slowly(cost(&process), &put, passing, &clock).await
}

#[tokio::test(start_paused = true)]
async fn a_put_that_is_slow_by_the_monotonic_clock_alone_reads_the_ledger() {
    let passing = Passing { monotonic: BOUND, wall: TimeDelta::zero() };
    assert_eq!(cost_of_a_put_that_takes(passing).await, CHECKED);
}

#[tokio::test(start_paused = true)]
async fn a_put_that_is_slow_by_the_wall_clock_alone_reads_the_ledger() {
    assert_eq!(cost_of_a_put_that_takes(Passing::suspended(BOUND)).await, CHECKED);
}

#[tokio::test(start_paused = true)]
async fn a_put_under_which_the_wall_clock_went_back_reads_the_ledger() {
    let passing = Passing { monotonic: A_MILLISECOND, wall: -delta(A_MILLISECOND) };
    assert_eq!(cost_of_a_put_that_takes(passing).await, CHECKED);
}

#[tokio::test(start_paused = true)]
async fn a_put_that_is_just_quick_enough_reads_nothing() {
    assert_eq!(cost_of_a_put_that_takes(Passing::both(BOUND - A_MILLISECOND)).await, QUICK);
    assert_eq!(cost_of_a_put_that_takes(Passing::both(BOUND)).await, CHECKED);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_the_put_before_took_counts() {
    let world = world().await;
    let (process, clock) = process(&world).await;
    // Given two puts, each well within the bound.
    let (first, second) = (process.script_put(1, Fate::Hold), process.script_put(2, Fate::Hold));
    let passing = Passing::both(BOUND * 3 / 4);
    assert_eq!(slowly(cost(&process), &first, passing, &clock).await, QUICK);
    // Then the second is slow: the slot after the first one's was free before that was sent, and who knows until when.
    assert_eq!(slowly(cost(&process), &second, passing, &clock).await, CHECKED);
}

#[tokio::test(start_paused = true)]
async fn the_time_that_a_proof_takes_counts() {
    let scripts = [Process::script_slot_read, Process::script_ledger_read];
    for script in scripts {
        let world = world().await;
        // At a load.
        let (process, clock) = unread(&world);
        let held = script(&process, 1, Fate::Hold);
        slowly(process.load(None), &held, Passing::both(BOUND), &clock).await;
        assert_eq!(cost(&process).await, CHECKED);
        // At a look.
        Passing::both(BOUND).pass(&clock).await;
        let held = script(&process, 1, Fate::Hold);
        let deadline = process.deadline();
        slowly(process.log.catch_up(Proof::Always, &deadline), &held, Passing::both(BOUND), &clock).await.unwrap();
        assert_eq!(cost(&process).await, CHECKED);
    }
}

#[tokio::test(start_paused = true)]
async fn an_absence_that_was_not_proved_does_not_count() {
    for (proof, expected) in [(Proof::NowAndThen, CHECKED), (Proof::Always, QUICK)] {
        let world = world().await;
        let (process, clock) = process(&world).await;
        Passing::both(BOUND).pass(&clock).await;
        process.log.catch_up(proof, &process.deadline()).await.unwrap();
        assert_eq!(cost(&process).await, expected, "{proof:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_look_that_finds_slots_and_their_end_counts() {
    let world = world().await;
    let (process, clock) = process(&world).await;
    world.commit_through(3).await;
    Passing::both(BOUND).pass(&clock).await;
    process.log.catch_up(Proof::NowAndThen, &process.deadline()).await.unwrap();
    assert_eq!(cost(&process).await, QUICK);
}

#[tokio::test(start_paused = true)]
async fn a_look_into_a_page_that_was_retired_makes_no_win() {
    let world = world().await;
    world.commit_through(1).await;
    let (sleeper, clock) = process(&world).await;
    world.commit_through(9).await;
    // Given a sleeper that wakes when its page is gone, and finds nothing there just before it commits.
    Passing::both(RETENTION).pass(&clock).await;
    world.retire(0).await;
    sleeper.log.catch_up(Proof::NowAndThen, &sleeper.deadline()).await.unwrap();
    let mark = sleeper.mark();
    assert!(matches!(sleeper.offer(2, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
    assert_eq!(sleeper.since(mark), CHECKED);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_slept_across_a_retirement_is_behind_and_never_won() {
    for sleep in [Passing::both(RETENTION), Passing::suspended(RETENTION)] {
        for asleep_in_its_put in [false, true] {
            let world = world().await;
            world.commit_through(1).await;
            let (sleeper, clock) = process(&world).await;
            let mark = sleeper.mark();
            // When its page is retired while it sleeps, before its put or with it on the way.
            let retired = Box::pin(async {
                world.commit_through(9).await;
                sleep.pass(&clock).await;
                world.retire(0).await;
            });
            let put = sleeper.script_put(1, Fate::Hold);
            let offer = sleeper.offer(2, sleeper.new_commit());
            let offer = if asleep_in_its_put {
                let wake = async {
                    put.reached().await;
                    retired.await;
                    put.release();
                };
                futures::future::join(offer, wake).await.0
            } else {
                retired.await;
                put.release();
                offer.await
            };
            // Then what it created is told for what it is.
            assert!(matches!(offer, Ok(Offer::Behind { .. })), "{offer:?}");
            assert_eq!((sleeper.since(mark), sleeper.head()), (CHECKED, 1));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_written_long_before_it_had_its_name_lets_no_page_go_early() {
    let folder = tempfile::tempdir().unwrap();
    let world =
        World::over(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap()), log_that_keeps(RETENTION)).await;
    world.commit_through(3).await;
    // Given a process that has just proved that the last sequence of a page is free, and is about to put it.
    let (process, _) = process(&world).await;
    let put = process.script_put(1, Fate::Hold);
    let others = async {
        put.reached().await;
        let other = world.commit_through(9).await;
        // When another's file takes the name, written when its process went to sleep before it linked it.
        let slot = world.slot_name(4).path(&Path::from(ROOT));
        let file = File::options().write(true).open(folder.path().join(slot.as_ref())).unwrap();
        file.set_modified(file.metadata().unwrap().modified().unwrap() - RETENTION).unwrap();
        let retired = retire(&Collector::new(other.log), 9).await.unwrap();
        put.release();
        retired
    };
    let (offer, retired) = futures::future::join(process.offer(4, process.new_commit()), others).await;
    // Then its page is still there, and the put meets the slot.
    assert!(matches!(offer, Ok(Offer::Lost { .. })), "{offer:?}, {retired:?}");
}

#[tokio::test(start_paused = true)]
async fn a_head_learnt_after_a_lost_race_does_not_count() {
    // Of nine slots none says whether there is a tenth.
    for head in [1, 3, 9] {
        let world = world().await;
        let (process, _) = process(&world).await;
        world.commit_through(head).await;
        assert!(matches!(process.offer(1, process.new_commit()).await, Ok(Offer::Lost { .. })));
        assert_eq!(process.head(), head);
        assert_eq!(cost(&process).await, CHECKED);
        assert_eq!(cost(&process).await, QUICK);
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_learnt_from_a_batch_that_was_cut_short_does_not_count() {
    // Given as many slots as one look reads at most: one, eight, and then always more, up to 64 at once.
    const A_LOOK: u64 = 1 + 8 + 16 + 32 + 64 * 64;
    let world = world().await;
    let (process, _) = process(&world).await;
    world.commit_through(A_LOOK).await;
    // When it reads them all, and finds nothing after them without asking for a proof.
    let mark = process.mark();
    process.log.catch_up(Proof::NowAndThen, &process.deadline()).await.unwrap();
    assert_eq!(process.head(), A_LOOK);
    assert_eq!(process.since(mark), Spent { slot_reads: A_LOOK + 64, ledger_reads: 1, ..Spent::default() });
    assert_eq!(cost(&process).await, CHECKED);
}

#[tokio::test(start_paused = true)]
async fn a_win_whose_answer_was_lost_does_not_count() {
    let world = world().await;
    let (process, _) = process(&world).await;
    process.script_put(1, Fate::LoseAnswer);
    process.commit().await;
    assert_eq!(cost(&process).await, CHECKED);
    assert_eq!(cost(&process).await, QUICK);
}

#[tokio::test(start_paused = true)]
async fn a_filler_reads_the_ledger_however_quick_it_is() {
    let world = world().await;
    let (process, _) = process(&world).await;
    let commit = leave_open(&process, 1).await;
    process.log.catch_up(Proof::Always, &process.deadline()).await.unwrap();
    let mark = process.mark();
    let closed = process.log.close_open(commit.transaction, sequence(1), Closing::Filler, &process.deadline()).await;
    assert_eq!(closed.unwrap(), Outcome::Never);
    // The outcome is asked for before and after it.
    assert_eq!(process.since(mark), Spent { puts: 1, slot_reads: 2, ledger_reads: 2 + 1, lists: 0 });
}

#[tokio::test(start_paused = true)]
async fn on_a_log_that_promises_too_little_every_win_is_checked() {
    for (retention, expected) in [(RETENTION, QUICK), (RETENTION - A_MILLISECOND, CHECKED)] {
        let world = world_that_keeps(retention).await;
        let (process, _) = process(&world).await;
        assert_eq!(cost(&process).await, expected);
    }
}

#[test]
fn a_bound_counts_as_a_second_at_least_since_a_stores_timestamps_may() {
    assert_eq!(WinCheck::WhenSlow(BOUND).retention_needed(), RETENTION);
    assert_eq!(WinCheck::WhenSlow(A_MILLISECOND).retention_needed(), Duration::from_secs(4));
    assert_eq!(WinCheck::WhenSlow(Duration::MAX).retention_needed(), Duration::MAX);
    assert_eq!(WinCheck::default().retention_needed(), Duration::ZERO);
}

fn builder(bucket: &ScriptedBucket, least_retention: Duration) -> StoreBuilder {
    Store::builder(ROOT, Arc::new(bucket.clone()))
        .environment(environment(Timeline::begin(), 1))
        .fresh_log(FreshLog { least_retention, ..FreshLog::default() })
        .poll(Duration::from_secs(1_000_000))
        .win_check(WinCheck::WhenSlow(BOUND))
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_log_promises_too_little_is_not_opened() {
    let bucket = ScriptedBucket::new(Arc::new(InMemory::new()));
    let kept = RETENTION - A_MILLISECOND;
    // The log's own promise counts, whatever a later opener would begin one with.
    for promised in [kept, RETENTION] {
        let refused = builder(&bucket, promised).open().await.unwrap_err();
        let expected = "expected a least retention of 8 s for this win check, found 7.999 s";
        assert_eq!(refused.to_string(), expected);
        assert!(matches!(refused, OpenError::LeastRetention { expected: RETENTION, found } if found == kept), "{refused:?}");
    }
    let refused = builder(&bucket, kept).open_existing().await.unwrap_err();
    assert!(matches!(refused, OpenError::LeastRetention { .. }), "{refused:?}");
    // Without the check it is.
    builder(&bucket, kept).win_check(WinCheck::Always).open_existing().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stores_warm_commit_is_one_put_where_only_slow_wins_are_checked() {
    let bucket = ScriptedBucket::new(Arc::new(InMemory::new()));
    let store = builder(&bucket, RETENTION).open().await.unwrap();
    for _ in 0..2 {
        let mark = bucket.mark();
        let body = async |mut transaction: Transaction| {
            transaction.put("key", "value")?;
            Ok::<_, BodyError>((transaction, ()))
        };
        store.transact(body).await.unwrap();
        let requests: Vec<_> = bucket.log_since(mark).iter().map(|request| (request.operation, request.class())).collect();
        assert_eq!(requests, [(Operation::Create, PathClass::Commits)]);
    }
}
