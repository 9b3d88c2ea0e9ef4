//! Tails that grew long while nobody folded: an open replays a part, and the rest is folded after it.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use commit_log::commit_store::{CommitStoreSettings, Folding, Hooks};
use commit_log::holder::{HoldError, Holder, HoldingOptions};
use commit_log::log::{LogOptions, TailError};
use commit_log::take::{TakeError, TakeWith};
use commit_log::wal::WriterSession;
use commit_log_kit::bucket::Operation;
use commit_log_kit::runtime::simulated_runtime;
use commit_log_kit::scripted::{Fate, PathClass};
use slatedb::config::CloseOptions;

use crate::embedder::{self, Lake};
use crate::holding::{Taker, assert_has, open, settings};
use crate::publishing::{not_published, publishing};
use crate::roles::{Member, STEP, folding, roomy};
use crate::support::{Process, World, is, sequence, until};

/// How many slots an open replays here.
const PART: u64 = 10;

/// More reads of slots than a holder tries before it gives up, many at once.
const READS: u64 = 3_000;

fn in_parts() -> LogOptions {
    LogOptions { replay_slots: NonZeroU64::new(PART).unwrap(), ..LogOptions::default() }
}

fn taker(world: &World, process: &Process) -> Taker {
    Taker { log: process.log.clone(), store: world.memory.clone(), settings: settings() }
}

async fn hold(world: &World) -> Holder {
    let process = world.process_with(in_parts());
    let options = HoldingOptions { flush_slots: PART / 2, poll: Duration::from_millis(100), ..HoldingOptions::default() };
    Holder::take(process.log.clone(), &taker(world, &process).over(), options).await.unwrap()
}

/// What the store's files have, by an open that flushes nothing.
async fn covered(world: &World) -> u64 {
    let process = world.process_with(in_parts());
    let session = WriterSession::new(process.log.clone());
    let db = open(world.memory.clone(), settings(), &session).await.unwrap();
    let covered = db.manifest().last_l0_seq();
    db.close_with_options(CloseOptions { flush_type: None }).await.unwrap();
    covered
}

#[tokio::test(start_paused = true)]
async fn an_open_replays_a_part_of_a_long_tail_and_its_holder_folds_the_rest() {
    let world = World::new().await;
    let committer = world.process().await;
    let mut transactions = Vec::new();
    for _ in 0..4 * PART {
        transactions.push(committer.commit().await);
    }
    let holder = hold(&world).await;
    let mut flushes = Vec::new();
    let mut folded = holder.folded();
    while folded.borrow_and_update().flushed < Some(sequence(4 * PART)) {
        flushes.push(folded.borrow().flushed.map(|flushed| flushed.get()));
        folded.changed().await.unwrap();
    }
    flushes.dedup();
    // It does not wait for whoever looks, so a look may miss one.
    assert!(flushes.len() > 2 && flushes.iter().flatten().all(|flushed| flushed % PART == 0), "part by part: {flushes:?}");
    holder.stop().await.unwrap();
    assert_eq!(covered(&world).await, 4 * PART);
    assert_has(&world, &transactions).await;
}

#[test]
fn of_a_long_tail_the_part_that_was_folded_stays_folded_when_its_holder_is_killed() {
    let runtime = simulated_runtime(1);
    let (world, transactions, folded) = runtime.block_on(async {
        let world = World::new().await;
        let committer = world.process().await;
        let mut transactions = Vec::new();
        for _ in 0..4 * PART {
            transactions.push(committer.commit().await);
        }
        // Its first flush is done and its second one never is.
        let process = world.process_with(in_parts());
        let options = HoldingOptions { flush_slots: PART / 2, ..HoldingOptions::default() };
        let taker = Taker { log: process.log.clone(), store: Arc::new(process.scripted.clone()), settings: settings() };
        let second = process.scripted.script(2, is(Operation::Overwrite, PathClass::Compacted), Fate::Hang);
        let holder = Holder::take(process.log.clone(), &taker.over(), options).await.unwrap();
        second.reached().await;
        let folded = holder.folded().borrow().flushed.unwrap().get();
        std::mem::forget(holder);
        (world, transactions, folded)
    });
    drop(runtime);
    assert_eq!(folded, PART);
    simulated_runtime(2).block_on(async {
        let world = world.in_this_runtime();
        assert_eq!(covered(&world).await, PART, "the next one begins there");
        hold(&world).await.stop().await.unwrap();
        assert_has(&world, &transactions).await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_take_to_publish_has_its_win_though_its_open_replays_less() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let silent = Member::of(&lake, Folding::Never).await;
    let mut transactions = Vec::new();
    for _ in 0..4 * PART {
        transactions.push(silent.commit().await);
    }
    // Nothing is flushed: the store is full.
    let holding = HoldingOptions { l0_limit: 1, external_compaction: true, ..HoldingOptions::default() };
    let settings = CommitStoreSettings { holding, ..folding(Folding::Never) };
    let member = Member::by(lake.process_with(in_parts()), Hooks { settings, ..publishing() }, roomy()).await;
    // What the first publication counted, the next open must replay: by now that is more than a part.
    for take in 1..=3 {
        transactions.push(member.commit().await);
        assert_eq!(member.takes(), take);
        assert_eq!((lake.published_through().await, member.covered().await), (1 + 4 * PART + take as u64, 1));
    }
    member.store.close().await.unwrap();
    silent.store.close().await.unwrap();
    lake.assert_has(&transactions).await;
}

#[tokio::test(start_paused = true)]
async fn a_take_to_publish_that_cannot_read_the_rest_of_its_tail_says_so_and_the_win_has_landed() {
    let lake = Lake::new();
    lake.adopted_through(1).await;
    let silent = Member::of(&lake, Folding::Never).await;
    for _ in 0..4 * PART {
        silent.commit().await;
    }
    let process = lake.process_with(LogOptions { remembered_bytes: 0, ..in_parts() });
    let (store, scripted, fails) = (process.store(), process.scripted.clone(), AtomicBool::new(true));
    let take = TakeWith::new(process.place.clone(), move |session| {
        let (store, scripted, fails) = (store.clone(), scripted.clone(), fails.swap(false, Ordering::SeqCst));
        async move {
            let db = embedder::open(store, &session, roomy()).await?;
            for nth in 1..=READS * u64::from(fails) {
                scripted.script(nth, is(Operation::Get, PathClass::Commits), Fate::Fail);
            }
            Ok::<_, TakeError>(Some(db))
        }
    });
    let (_reader, store) = process.followed(Hooks { take: Some(Arc::new(take)), ..publishing() }).await;
    store.fold_tail().await.unwrap();
    let commit = process.commit();
    let next = process.log().next();
    let (_, source) = not_published(store.write_at(next, commit.clone()).await);
    assert!(matches!(source, HoldError::Tail(TailError::Unavailable(_))), "{source:?}");
    until(STEP, async || store.write_at(next, commit.clone()).await.is_ok()).await;
    lake.assert_published(&[commit.transaction]).await;
    store.close().await.unwrap();
    silent.store.close().await.unwrap();
}
