//! The collector on a log by itself: what it costs, what stops it, and that it may be killed anywhere.

use std::time::Duration;

use commit_log::adoption::{AdoptionError, FreshLog};
use commit_log::bucket::ObjectName;
use commit_log::error::Corruption;
use commit_log::identity::TransactionId;
use commit_log::log::{LogOptions, Offer, Outcome};
use commit_log::retire::{Collector, ManifestPoint, Pins, RetireError, RetireMode, RetireOptions, Retired};
use commit_log::slot::Page;
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass};

use crate::stores::{Liar, Lie};
use crate::support::{PAGE, Process, World, pages, sequence};

/// A store that is folded and flushed up to `floor`, without checkpoints.
fn flushed_to(floor: u64) -> Pins {
    let latest = ManifestPoint { replay_after_wal_id: floor, last_l0_seq: floor, next_wal_sst_id: floor + 1 };
    Pins { latest, checkpoints: Vec::new() }
}

/// Keeps nothing but what must be kept.
fn all() -> RetireOptions {
    RetireOptions { retain_pages: std::num::NonZeroU32::MIN, min_age: Duration::ZERO }
}

pub(crate) async fn retire(collector: &Collector, floor: u64) -> Result<Retired, RetireError> {
    collector.retire(&flushed_to(floor), &all(), RetireMode::Retire).await
}

/// A process that keeps no slot in memory, of a store that is folded up to `covered`.
async fn forgetful(world: &World, covered: Option<u64>) -> Process {
    let process = world.process_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() });
    process.load(covered).await;
    process
}

/// A world with `slots` slots, and who won them.
async fn committed(slots: u64) -> (World, Vec<TransactionId>) {
    let world = World::new().await;
    let process = world.process().await;
    let mut transactions = Vec::new();
    for _ in 0..slots {
        transactions.push(process.commit().await);
    }
    (world, transactions)
}

/// Everything below the page of `floor` is a ledger, everything from there on is slots, and every outcome is as it was.
async fn assert_retired_below(world: &World, floor: u64, transactions: &[TransactionId]) {
    let kept = (floor - 1) / u64::from(PAGE);
    for number in 1..=transactions.len() as u64 {
        let page = (number - 1) / u64::from(PAGE);
        assert_eq!(world.slot(number).await.is_some(), page >= kept, "slot {number}");
        let ledger = world.read(ObjectName::Ledger(world.record.log, Page::new(page))).await;
        assert_eq!(ledger.is_some(), page < kept, "ledger of page {page}");
    }
    let fresh = world.process_with(LogOptions::default());
    fresh.load(Some(floor)).await;
    for (number, transaction) in (1..).zip(transactions) {
        let outcome = fresh.log.outcome(*transaction, sequence(number), &fresh.deadline()).await.unwrap();
        assert_eq!(outcome, Outcome::Landed, "slot {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_costs_a_put_a_read_back_the_ledger_before_it_and_its_slots_in_one_round() {
    let (world, transactions) = committed(14).await;
    retire(&Collector::new(world.process().await.log), 5).await.unwrap();
    let process = forgetful(&world, Some(5)).await;
    let collector = Collector::new(process.log.clone());
    let mark = process.mark();
    let retired = retire(&collector, 9).await.unwrap();
    assert_eq!(retired, Retired { pages: pages(1, 2), swept: 0, first_kept: Page::new(2) });
    let counts = process.scripted.counts_since(mark);
    let expected = [
        // The pass: whose store it is, and one listing of the slots.
        ((Operation::List, PathClass::Adoption), 1),
        ((Operation::Get, PathClass::Adoption), 1),
        ((Operation::List, PathClass::Commits), 1),
        // The page: its slots, the ledger before it and its own read back, one put, and the deletes.
        ((Operation::Get, PathClass::Commits), u64::from(PAGE)),
        ((Operation::Get, PathClass::Retired), 2),
        ((Operation::Create, PathClass::Retired), 1),
        ((Operation::Delete, PathClass::Commits), u64::from(PAGE)),
    ];
    assert_eq!(counts, expected.into_iter().collect());
    // The next page: this process has read the ledger before it.
    let mark = process.mark();
    retire(&collector, 13).await.unwrap();
    assert_eq!(process.scripted.counts_since(mark)[&(Operation::Get, PathClass::Retired)], 1);
    assert_retired_below(&world, 13, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn slots_in_memory_are_not_read_to_be_retired() {
    let (world, transactions) = committed(9).await;
    let process = world.process().await;
    let mark = process.mark();
    retire(&Collector::new(process.log.clone()), 9).await.unwrap();
    assert_eq!(process.scripted.counts_since(mark).get(&(Operation::Get, PathClass::Commits)), None);
    assert_retired_below(&world, 9, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_pass_with_nothing_to_do_reads_no_slot_and_writes_nothing() {
    let (world, _) = committed(9).await;
    let process = world.process().await;
    let collector = Collector::new(process.log.clone());
    retire(&collector, 9).await.unwrap();
    let mark = process.mark();
    assert_eq!(retire(&collector, 9).await.unwrap(), Retired { pages: pages(2, 2), swept: 0, first_kept: Page::new(2) });
    let counts = process.scripted.counts_since(mark);
    let expected =
        [(Operation::List, PathClass::Adoption), (Operation::Get, PathClass::Adoption), (Operation::List, PathClass::Commits)];
    assert_eq!(counts, expected.map(|request| (request, 1)).into_iter().collect());
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_knows_nothing_finds_the_first_page_among_hundreds_of_retired_ones_by_one_read() {
    let (world, transactions) = committed(803).await;
    retire(&Collector::new(world.process().await.log), 799).await.unwrap();
    let process = world.process_with(LogOptions::default());
    process.load(Some(799)).await;
    let mark = process.mark();
    let retired = retire(&Collector::new(process.log.clone()), 801).await.unwrap();
    assert_eq!(retired.pages, pages(199, 200));
    assert_eq!(process.scripted.counts_since(mark)[&(Operation::Get, PathClass::Retired)], 2);
    assert_retired_below(&world, 801, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_misses_slots_costs_a_bisection_and_no_page() {
    let (world, transactions) = committed(401).await;
    retire(&Collector::new(world.process().await.log), 201).await.unwrap();
    // Given a listing without a slot of each page but the last ones.
    let missed: Vec<_> = (201..390).step_by(3).map(|number| sequence(number).name()).collect();
    let liar =
        Liar::new(world.memory.clone(), Lie::Misses(Box::new(move |path| missed.iter().any(|name| path.ends_with(name)))));
    let process = world.process_over(liar, LogOptions::default());
    process.load(Some(400)).await;
    let mark = process.mark();
    let retired = retire(&Collector::new(process.log.clone()), 401).await.unwrap();
    assert_eq!(retired.pages, pages(50, 100));
    let ledger_reads = process.scripted.counts_since(mark)[&(Operation::Get, PathClass::Retired)];
    assert!(ledger_reads <= 50 + 8, "{ledger_reads}");
    assert_retired_below(&world, 401, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_tells_what_would_go_and_sends_no_put_and_no_delete() {
    let (world, transactions) = committed(14).await;
    let process = world.process().await;
    let mark = process.mark();
    let collector = Collector::new(process.log.clone());
    let retired = collector.retire(&flushed_to(13), &all(), RetireMode::DryRun).await.unwrap();
    assert_eq!(retired, Retired { pages: pages(0, 3), swept: 0, first_kept: Page::new(3) });
    let counts = process.scripted.counts_since(mark);
    assert!(counts.keys().all(|(operation, _)| matches!(operation, Operation::Get | Operation::List)), "{counts:?}");
    assert_retired_below(&world, 1, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_the_zombies_and_leaves_them() {
    let (world, _) = committed(9).await;
    let sleeper = world.lagging_process(3).await;
    retire(&Collector::new(world.process().await.log), 9).await.unwrap();
    assert!(matches!(sleeper.offer(4, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
    let collector = Collector::new(forgetful(&world, Some(9)).await.log);
    let told = collector.retire(&flushed_to(9), &all(), RetireMode::DryRun).await.unwrap();
    assert_eq!(told, Retired { pages: pages(2, 2), swept: 1, first_kept: Page::new(2) });
    assert!(world.slot(4).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_pass_retires_256_pages_at_most_and_the_next_one_goes_on_from_there() {
    let floor = 258 * u64::from(PAGE) + 1;
    let (world, transactions) = committed(floor).await;
    let collector = Collector::new(world.process().await.log);
    let first_kept = Page::new(258);
    let retired = retire(&collector, floor).await.unwrap();
    assert_eq!(retired, Retired { pages: pages(0, 256), swept: 0, first_kept });
    assert!(world.slot(256 * u64::from(PAGE) + 1).await.is_some());
    let retired = retire(&collector, floor).await.unwrap();
    assert_eq!(retired, Retired { pages: pages(256, 258), swept: 0, first_kept });
    assert_retired_below(&world, floor, &transactions).await;
}

/// Runs a pass whose `nth` request meets `fate`; gives it up where it waits for that. Whether there was such a request.
async fn interrupted(world: &World, nth: u64, fate: Fate, floor: u64) -> bool {
    let process = forgetful(world, None).await;
    let cue = process.scripted.script(nth, |_| true, fate);
    let collector = Collector::new(process.log.clone());
    let pass = tokio::spawn(async move { retire(&collector, floor).await });
    while !pass.is_finished() && !cue.was_reached() {
        tokio::task::yield_now().await;
    }
    // The process dies here.
    pass.abort();
    // What it had sent may land at any time later.
    cue.release();
    let _ = pass.await;
    cue.was_reached()
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_killed_at_any_request_leaves_what_the_next_one_finishes() {
    for fate in [Fate::Fail, Fate::LoseAnswer, Fate::Hang, Fate::Hold] {
        let mut nth = 0;
        loop {
            nth += 1;
            let (world, transactions) = committed(14).await;
            if !interrupted(&world, nth, fate, 13).await {
                break;
            }
            retire(&Collector::new(forgetful(&world, Some(13)).await.log), 13).await.unwrap();
            assert_retired_below(&world, 13, &transactions).await;
        }
        assert!(nth > 20, "a pass over three pages has more than twenty requests, found {nth}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_collectors_that_race_retire_each_page_once_and_lose_nothing() {
    // One waits at its nth request while the other does all its work.
    for nth in 1.. {
        let (world, transactions) = committed(14).await;
        let (slow, fast) = (forgetful(&world, None).await, forgetful(&world, None).await);
        let cue = slow.scripted.script(nth, |_| true, Fate::Hold);
        let collector = Collector::new(slow.log.clone());
        let pass = tokio::spawn(async move { retire(&collector, 13).await });
        while !pass.is_finished() && !cue.was_reached() {
            tokio::task::yield_now().await;
        }
        retire(&Collector::new(fast.log.clone()), 13).await.unwrap();
        cue.release();
        pass.await.unwrap().unwrap();
        assert_retired_below(&world, 13, &transactions).await;
        if !cue.was_reached() {
            assert!(nth > 20, "{nth}");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_put_that_is_refused_without_a_ledger_is_put_again_before_anything_is_deleted() {
    let (world, transactions) = committed(9).await;
    // "Taken", three times, of a name that is free: a 409 proves nothing.
    let liar = Liar::new(world.memory.clone(), Lie::SaysExistsOf("retired", 3.into()));
    let process = world.process_over(liar, LogOptions::default());
    process.load(None).await;
    let mark = process.mark();
    retire(&Collector::new(process.log.clone()), 9).await.unwrap();
    assert_eq!(process.scripted.counts_since(mark)[&(Operation::Create, PathClass::Retired)], 5);
    assert_retired_below(&world, 9, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_before_the_ledger_was_read_back() {
    let (world, _) = committed(9).await;
    let process = world.process().await;
    // The first read of a ledger is the read back of page 0's.
    let cue = process.script_ledger_read(1, Fate::Hold);
    let collector = Collector::new(process.log.clone());
    let mark = process.mark();
    let pass = tokio::spawn(async move { retire(&collector, 9).await });
    cue.reached().await;
    // Somebody deletes the ledger, against all rules: then it is not there, whatever the put was told.
    world.delete(ObjectName::Ledger(world.record.log, Page::new(0))).await;
    cue.release();
    let error = pass.await.unwrap().unwrap_err();
    assert!(matches!(error, RetireError::Corrupt(Corruption::LedgerMissing { page }) if page == Page::new(0)), "{error:?}");
    assert_eq!(process.scripted.counts_since(mark).get(&(Operation::Delete, PathClass::Commits)), None);
}

#[tokio::test(start_paused = true)]
async fn a_page_with_a_hole_is_corruption_and_stays_with_all_that_follow_it() {
    let (world, _) = committed(14).await;
    world.delete(world.slot_name(6)).await;
    let process = world.process_with(LogOptions::default());
    let error = retire(&Collector::new(process.log.clone()), 13).await.unwrap_err();
    assert!(matches!(error, RetireError::Corrupt(Corruption::Hole { missing, .. }) if missing == sequence(6)), "{error:?}");
    for number in [5, 7, 8, 9, 12, 13] {
        assert!(world.slot(number).await.is_some(), "slot {number}");
    }
    assert!(world.read(ObjectName::Ledger(world.record.log, Page::new(1))).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn zombies_are_swept_by_the_next_pass_and_nothing_else_is() {
    let (world, transactions) = committed(9).await;
    let sleepers = [world.lagging_process(3).await, world.lagging_process(4).await];
    retire(&Collector::new(world.process().await.log), 9).await.unwrap();
    // Two sleepers, on adjacent names across the boundary of two pages.
    for sleeper in &sleepers {
        let next = sleeper.head() + 1;
        assert!(matches!(sleeper.offer(next, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
        assert!(world.slot(next).await.is_some());
    }
    let retired = retire(&Collector::new(forgetful(&world, Some(9)).await.log), 9).await.unwrap();
    assert_eq!(retired, Retired { pages: pages(2, 2), swept: 2, first_kept: Page::new(2) });
    assert_retired_below(&world, 9, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_page_of_zombies_alone_is_not_taken_for_one_to_retire() {
    let (world, transactions) = committed(13).await;
    let mut sleepers = Vec::new();
    for known in 4..8 {
        sleepers.push(world.lagging_process(known).await);
    }
    retire(&Collector::new(world.process().await.log), 13).await.unwrap();
    for sleeper in &sleepers {
        assert!(matches!(sleeper.offer(sleeper.head() + 1, sleeper.new_commit()).await, Ok(Offer::Behind { .. })));
    }
    // All of page 1 lies there again, and a collector that knows nothing begins with it.
    let retired = retire(&Collector::new(forgetful(&world, Some(13)).await.log), 13).await.unwrap();
    assert_eq!(retired.first_kept, Page::new(3));
    assert_retired_below(&world, 13, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_page_younger_than_the_least_retention_stays() {
    let world = World::with(FreshLog {
        page_size: commit_log::slot::PageSize::new(PAGE).unwrap(),
        least_retention: Duration::from_secs(3600),
        ..FreshLog::default()
    })
    .await;
    world.commit_through(9).await;
    let retired = retire(&Collector::new(world.process().await.log), 9).await.unwrap();
    assert_eq!(retired, Retired { pages: pages(0, 0), swept: 0, first_kept: Page::new(2) });
    assert!(world.slot(1).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_wakes_in_a_new_store_at_the_same_path_deletes_nothing() {
    for asleep_at in 1.. {
        let (world, _) = committed(9).await;
        let sleeper = forgetful(&world, None).await;
        let cue = sleeper.scripted.script(asleep_at, |_| true, Fate::Hold);
        let collector = Collector::new(sleeper.log.clone());
        let pass = tokio::spawn(async move { retire(&collector, 9).await });
        while !pass.is_finished() && !cue.was_reached() {
            tokio::task::yield_now().await;
        }
        // The store is dropped under it, and a new one begins and is committed to.
        let new = world.recreated().await;
        let process = new.process().await;
        let mut transactions = Vec::new();
        for _ in 0..9 {
            transactions.push(process.commit().await);
        }
        cue.release();
        let ended = pass.await.unwrap();
        assert_retired_below(&new, 1, &transactions).await;
        if !cue.was_reached() {
            assert!(asleep_at > 10, "{asleep_at}");
            return;
        }
        if asleep_at <= 2 {
            assert!(matches!(ended, Err(RetireError::Adoption(AdoptionError::OtherLog))), "{ended:?}");
        }
    }
}
