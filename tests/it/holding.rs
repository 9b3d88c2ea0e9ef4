//! Holding the store: folding what lands, flushing, handing over, and never losing a slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use commit_log::holder::{HoldError, Holder, HoldingOptions};
use commit_log::identity::TransactionId;
use commit_log::log::{LogOptions, Offer, SlotLog};
use commit_log::slot::Sequence;
use commit_log::take::{TakeError, TakeStore, TakeWith};
use commit_log::wal::WriterSession;
use commit_log_kit::runtime::simulated_runtime;
use commit_log_kit::scripted::Fate;
use futures::FutureExt;
use object_store::ObjectStore;
use slatedb::Db;
use slatedb::config::{CloseOptions, CompactorOptions, Settings};

use crate::stores::{Liar, Lie};
use crate::support::{Process, ROOT, Spent, World, distant, sequence};

/// SlateDB without a compactor and a collector.
pub(crate) fn settings() -> Settings {
    Settings { compactor_options: None, garbage_collector_options: None, ..Settings::default() }
}

pub(crate) fn compacting() -> Settings {
    let compactor = CompactorOptions { poll_interval: Duration::from_millis(500), ..CompactorOptions::default() };
    Settings { compactor_options: Some(compactor), ..settings() }
}

/// What opens the store of a log.
pub(crate) struct Taker {
    pub(crate) log: SlotLog,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) settings: Settings,
}

impl Taker {
    pub(crate) fn over(&self) -> impl TakeStore + use<> {
        let (store, settings) = (self.store.clone(), self.settings.clone());
        TakeWith::new(self.log.clone(), move |session| {
            let (store, settings) = (store.clone(), settings.clone());
            async move { Ok::<_, TakeError>(Some(open(store, settings, &session).await?)) }
        })
    }
}

pub(crate) async fn open(
    store: Arc<dyn ObjectStore>,
    settings: Settings,
    session: &WriterSession,
) -> Result<Db, slatedb::Error> {
    Db::builder(ROOT, store)
        .with_wal_writer(session.writer_init())
        .with_system_clock(session.clock())
        .with_settings(settings)
        .build()
        .await
}

/// Often and small, so that a few slots show everything.
fn options() -> HoldingOptions {
    HoldingOptions { flush_slots: 3, poll: Duration::from_millis(100), ..HoldingOptions::default() }
}

async fn hold_with(world: &World, process: &Process, settings: Settings, options: HoldingOptions) -> Result<Holder, HoldError> {
    let taker = Taker { log: process.log.clone(), store: world.memory.clone(), settings };
    Holder::take(process.log.clone(), &taker.over(), options).await
}

async fn hold(world: &World) -> Holder {
    hold_with(world, &world.process().await, settings(), options()).await.unwrap()
}

/// A fresh open of the store has a row of each of `transactions`.
pub(crate) async fn assert_has(world: &World, transactions: &[TransactionId]) {
    assert_has_with(world, transactions, settings()).await;
}

async fn assert_has_with(world: &World, transactions: &[TransactionId], settings: Settings) {
    let session = WriterSession::new(world.process_with(LogOptions::default()).log);
    let db = open(world.memory.clone(), settings, &session).await.unwrap();
    for transaction in transactions {
        let value = db.get(transaction.to_string()).await.unwrap();
        assert_eq!(value, Some(Bytes::from("value")), "row of {transaction}");
    }
    db.close_with_options(CloseOptions { flush_type: None }).await.unwrap();
}

async fn applied(holder: &Holder, number: u64) {
    holder.folded().wait_for(|folded| folded.applied >= Some(sequence(number))).await.unwrap();
}

async fn flushed(holder: &Holder, number: u64) {
    holder.folded().wait_for(|folded| folded.flushed >= Some(sequence(number))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_folds_what_lands_while_it_holds_and_flushes_by_slots_and_on_stop() {
    let world = World::new().await;
    let committer = world.process().await;
    let holder = hold(&world).await;
    let mut transactions = Vec::new();
    for _ in 0..7 {
        transactions.push(committer.commit().await);
    }
    applied(&holder, 7).await;
    assert_eq!(holder.folded().borrow().flushed, Some(sequence(6)), "two flushes of three");
    holder.stop().await.unwrap();
    assert_has(&world, &transactions).await;
    // Nothing is left to replay: the holder's last flush covers all.
    let session = WriterSession::new(world.process_with(LogOptions::default()).log);
    let db = open(world.memory.clone(), settings(), &session).await.unwrap();
    assert_eq!((db.manifest().last_l0_seq(), db.manifest().replay_after_wal_id()), (7, 7));
}

#[tokio::test(start_paused = true)]
async fn a_holder_flushes_by_bytes() {
    let world = World::new().await;
    let committer = world.process().await;
    let by_bytes = HoldingOptions { flush_slots: 1000, flush_bytes: 60, ..options() };
    let holder = hold_with(&world, &world.process().await, settings(), by_bytes).await.unwrap();
    // A row of these has 32 bytes of key and 5 of value.
    committer.commit().await;
    applied(&holder, 1).await;
    assert_eq!(holder.folded().borrow().flushed, None);
    committer.commit().await;
    flushed(&holder, 2).await;
    holder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_replayed_past_the_flush_count_is_flushed_without_another_slot() {
    let world = World::new().await;
    world.commit_through(5).await;
    let holder = hold(&world).await;
    flushed(&holder, 5).await;
    holder.stop().await.unwrap();
}

#[test]
fn a_holder_that_is_killed_loses_nothing() {
    let runtime = simulated_runtime(1);
    let (world, transactions) = runtime.block_on(async {
        let world = World::new().await;
        let committer = world.process().await;
        let holder = hold(&world).await;
        let mut transactions = Vec::new();
        for _ in 0..8 {
            transactions.push(committer.commit().await);
        }
        applied(&holder, 7).await;
        // Neither stopped nor dropped: its process is gone.
        std::mem::forget(holder);
        (world, transactions)
    });
    drop(runtime);
    simulated_runtime(2).block_on(async {
        let world = world.in_this_runtime();
        assert_has(&world, &transactions).await;
        hold(&world).await.stop().await.unwrap();
        assert_has(&world, &transactions).await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_another_fences_says_so_and_nothing_is_lost() {
    let world = World::new().await;
    let committer = world.process().await;
    let first = hold(&world).await;
    let mut transactions = vec![committer.commit().await, committer.commit().await];
    applied(&first, 1).await;
    let second = hold(&world).await;
    transactions.push(committer.commit().await);
    let ended = first.ended().await;
    assert!(matches!(ended, Err(HoldError::Fenced)), "{ended:?}");
    applied(&second, 3).await;
    second.stop().await.unwrap();
    assert_has(&world, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn ten_hand_overs_under_commits_that_never_stop_lose_nothing() {
    let world = Arc::new(World::new().await);
    let stops = Arc::new(AtomicBool::new(false));
    let commits = tokio::spawn({
        let (world, stops) = (world.clone(), stops.clone());
        async move {
            let committer = world.process_over(distant(world.memory.clone()), LogOptions::default());
            committer.load(None).await;
            let mut transactions = Vec::new();
            while !stops.load(Ordering::Relaxed) {
                transactions.push(committer.commit().await);
            }
            transactions
        }
    });
    for _ in 0..10 {
        let holder = hold_with(&world, &world.process().await, compacting(), options()).await.unwrap();
        let before = holder.folded().borrow().applied.map_or(0, Sequence::get);
        applied(&holder, before + 5).await;
        holder.stop().await.unwrap();
    }
    stops.store(true, Ordering::Relaxed);
    let transactions = commits.await.unwrap();
    assert!(transactions.len() > 50);
    assert_has(&world, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn twenty_short_holders_in_a_row_do_not_fill_the_store_while_somebody_compacts() {
    let world = World::new().await;
    let committer = world.process().await;
    let (limit, mut transactions) = (4, Vec::new());
    for _ in 0..20 {
        transactions.push(committer.commit().await);
        let settings = Settings { l0_max_ssts: limit, ..compacting() };
        let options = HoldingOptions { l0_limit: limit, ..options() };
        let holder = hold_with(&world, &world.process().await, settings, options).await.unwrap();
        holder.stop().await.unwrap();
    }
    assert_has(&world, &transactions).await;
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_without_a_compactor_the_holder_ends_typed_and_unflushed_and_no_row_is_lost() {
    let world = World::new().await;
    let committer = world.process().await;
    let (limit, mut transactions) = (3, Vec::new());
    let options = HoldingOptions { l0_limit: limit, compaction_wait: Duration::from_secs(2), ..options() };
    let full = loop {
        transactions.push(committer.commit().await);
        let settings = Settings { l0_max_ssts: limit, ..settings() };
        let holder = hold_with(&world, &world.process().await, settings, options.clone()).await.unwrap();
        if let Err(error) = holder.stop().await {
            break error;
        }
    };
    assert!(matches!(full, HoldError::L0Full { files: 3, limit: 3 }), "{full:?}");
    assert_eq!(transactions.len(), 4, "the fourth flush did not fit");
    // Every row is there, and once something compacts, holding goes on.
    assert_has(&world, &transactions).await;
    let few_sources = [("min_compaction_sources".to_owned(), "2".to_owned())].into();
    let compactor = CompactorOptions { scheduler_options: few_sources, ..compacting().compactor_options.unwrap() };
    let compacts = Settings { l0_max_ssts: limit, compactor_options: Some(compactor), ..settings() };
    let patient = HoldingOptions { compaction_wait: Duration::from_secs(60), ..options };
    let holder = hold_with(&world, &world.process().await, compacts, patient).await.unwrap();
    holder.stop().await.unwrap();
    assert_has(&world, &transactions).await;
}

/// A process that remembers no slot: whatever it applies it reads again.
async fn forgetful(world: &World) -> Process {
    let process = world.process_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() });
    process.load(None).await;
    process
}

#[tokio::test(start_paused = true)]
async fn bad_moments_of_the_bucket_do_not_end_a_holder() {
    let world = World::new().await;
    let committer = world.process().await;
    let process = forgetful(&world).await;
    let holder = hold_with(&world, &process, settings(), HoldingOptions { flush_slots: 1000, ..options() }).await.unwrap();
    for moment in [Moment::Looking, Moment::Applying] {
        let head = committer.head();
        for _ in 0..3 {
            committer.commit().await;
        }
        if let Moment::Applying = moment {
            // The head is known when the ledger that vouches for it is read; the slots are then read again to be applied.
            let ledger = process.script_ledger_read(1, Fate::Hold);
            ledger.reached().await;
            fail_slot_reads(&process);
            ledger.release();
        } else {
            fail_slot_reads(&process);
        }
        applied(&holder, head + 3).await;
        assert!(holder.ended().now_or_never().is_none());
    }
    holder.stop().await.unwrap();
}

/// When the bucket has its bad moment.
enum Moment {
    /// While the holder looks for what has landed.
    Looking,
    /// While it reads what it applies.
    Applying,
}

/// Fails reads of slots for longer than one call tries.
fn fail_slot_reads(process: &Process) {
    for nth in 1..=120 {
        process.script_slot_read(nth, Fate::Fail);
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_may_not_read_what_its_own_process_committed_does_not_spin() {
    let world = World::new().await;
    let liar = Liar::new(world.memory.clone(), Lie::ForbidsSlots(AtomicBool::new(false)));
    let process = world.process_over(liar.clone(), LogOptions { remembered_bytes: 0, ..LogOptions::default() });
    process.load(None).await;
    let every_second = HoldingOptions { poll: Duration::from_secs(1), ..options() };
    let holder = hold_with(&world, &process, settings(), every_second).await.unwrap();
    // Given reads of slots that are refused at once, and a slot to fold.
    let Lie::ForbidsSlots(forbids) = &liar.lie else { unreachable!() };
    forbids.store(true, Ordering::Relaxed);
    let commit = process.new_commit();
    assert!(matches!(process.offer(1, commit).await, Ok(Offer::Won { .. })));
    // When five minutes pass.
    let mark = process.mark();
    process.log.bucket().environment().clock.sleep(Duration::from_secs(300)).await;
    // Then it tried at every poll, to look and to apply, and is there still.
    let reads = process.since(mark).slot_reads;
    assert!((300..=610).contains(&reads), "{reads}");
    assert!(holder.ended().now_or_never().is_none());
    // And it goes on when it may.
    forbids.store(false, Ordering::Relaxed);
    applied(&holder, 1).await;
    holder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_the_holders_own_process_costs_no_read_more() {
    let world = World::new().await;
    let process = world.process().await;
    let rarely = HoldingOptions { poll: Duration::from_secs(3600), ..options() };
    let holder = hold_with(&world, &process, settings(), rarely).await.unwrap();
    process.commit().await;
    applied(&holder, 1).await;
    for number in 2..=9 {
        let mark = process.mark();
        process.commit().await;
        applied(&holder, number).await;
        assert_eq!(process.since(mark), Spent { puts: 1, ledger_reads: 1, ..Spent::default() });
    }
    holder.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_holder_beside_a_compactor_of_another_process_leaves_the_room_to_it() {
    let world = World::new().await;
    let committer = world.process().await;
    let process = world.process().await;
    let clock = process.log.bucket().environment().clock.clone();
    for external_compaction in [false, true] {
        committer.commit().await;
        let options = HoldingOptions { l0_limit: 2, external_compaction, ..options() };
        let holder = hold_with(&world, &process, settings(), options.clone()).await.unwrap();
        let begun = clock.now();
        holder.stop().await.unwrap();
        let waited = (clock.now() - begun).to_std().unwrap();
        assert_eq!(waited >= options.compaction_wait, !external_compaction, "{waited:?}");
    }
}
