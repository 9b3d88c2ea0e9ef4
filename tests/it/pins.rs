//! What pins pages: the store's own floor, and the checkpoints that its manifest names.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use commit_log::bucket::ObjectName;
use commit_log::holder::{Holder, HoldingOptions};
use commit_log::log::LogOptions;
use commit_log::retire::{Collector, RetireError, RetireMode, RetireOptions, Retired};
use commit_log::slot::Page;
use commit_log::take::TakeWith;
use commit_log::wal::{ReaderSession, Tail, WriterSession};
use commit_log_kit::scripted::Fate;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::config::{
    CheckpointOptions, CheckpointScope, FlushOptions, FlushType, GarbageCollectorDirectoryOptions, GarbageCollectorOptions,
};
use slatedb::{CheckpointCreateResult, Db, DbReader, DbReaderMode, GarbageCollectorBuilder};

use crate::holding::settings;
use crate::support::{Process, ROOT, World, pages, sequence};

/// Keeps nothing but what must be kept.
pub(crate) fn keep_least() -> RetireOptions {
    RetireOptions { retain_pages: NonZeroU32::MIN, min_age: Duration::ZERO }
}

async fn run(process: &Process) -> Result<Retired, RetireError> {
    Collector::new(process.log.clone()).run(&keep_least(), RetireMode::Retire).await
}

/// A holder that flushes when it gives back, and the handle of its store.
async fn hold(world: &World, process: &Process) -> (Holder, Db) {
    let handle: Arc<Mutex<Option<Db>>> = Arc::default();
    let (opened, store) = (handle.clone(), world.memory.clone());
    let taker = TakeWith::new(process.log.clone(), move |session: WriterSession| {
        let (opened, store) = (opened.clone(), store.clone());
        async move {
            let builder = Db::builder(ROOT, store).with_wal_writer(session.writer_init()).with_system_clock(session.clock());
            let db = builder.with_settings(settings()).build().await?;
            *opened.lock().unwrap() = Some(db.clone());
            Ok(Some(db))
        }
    });
    let options = HoldingOptions { flush_slots: 1_000, poll: Duration::from_millis(100), ..HoldingOptions::default() };
    let holder = Holder::take(process.log.clone(), &taker, options).await.unwrap();
    let db = handle.lock().unwrap().clone().unwrap();
    (holder, db)
}

async fn applied(holder: &Holder, number: u64) {
    holder.folded().wait_for(|folded| folded.applied >= Some(sequence(number))).await.unwrap();
}

/// A world with six slots that are applied and not flushed where the checkpoint is taken, and thirty that are flushed later.
async fn with_checkpoint(lifetime: Option<Duration>) -> (World, Process, CheckpointCreateResult) {
    let world = World::new().await;
    let process = world.commit_through(6).await;
    let (holder, db) = hold(&world, &process).await;
    applied(&holder, 6).await;
    let options = CheckpointOptions { lifetime, ..CheckpointOptions::default() };
    let checkpoint = db.create_checkpoint(CheckpointScope::Durable, &options).await.unwrap();
    while process.head() < 30 {
        process.commit().await;
    }
    applied(&holder, 30).await;
    holder.stop().await.unwrap();
    (world, process, checkpoint)
}

async fn pinned(world: &World, checkpoint: &CheckpointCreateResult) -> Result<DbReader, slatedb::Error> {
    let session = ReaderSession::new(world.process_with(LogOptions::default()).log, Tail::Followed);
    DbReader::builder(ROOT, world.memory.clone())
        .with_wal_reader(session.reader())
        .with_reader_mode(DbReaderMode::Checkpoint(checkpoint.id))
        .build()
        .await
}

async fn assert_pinned_reader_has(world: &World, checkpoint: &CheckpointCreateResult, slots: u64) {
    let reader = pinned(world, checkpoint).await.unwrap();
    let mut rows = reader.scan(..).await.unwrap();
    let mut found = 0;
    while rows.next().await.unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, slots);
    reader.close().await.unwrap();
}

fn admin(world: &World) -> Admin {
    AdminBuilder::new(ROOT, world.memory.clone()).build()
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_without_expiry_keeps_its_slots_until_it_is_deleted() {
    let (world, process, checkpoint) = with_checkpoint(None).await;
    assert_eq!(run(&process).await.unwrap(), Retired { pages: pages(0, 0), swept: 0, first_kept: Page::new(0) });
    assert_pinned_reader_has(&world, &checkpoint, 6).await;
    admin(&world).delete_checkpoint(checkpoint.id).await.unwrap();
    assert_eq!(run(&process).await.unwrap(), Retired { pages: pages(0, 7), swept: 0, first_kept: Page::new(7) });
    assert!(pinned(&world, &checkpoint).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_checkpoint_keeps_its_slots_until_slatedbs_collector_has_given_it_up() {
    let (world, process, checkpoint) = with_checkpoint(Some(Duration::from_millis(1))).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    assert_eq!(run(&process).await.unwrap().pages, pages(0, 0), "no clock of ours decides that it lapsed");
    let collected_by_slatedb = || {
        let wal_options = GarbageCollectorDirectoryOptions { interval: None, min_age: Duration::ZERO, dry_run: false };
        let options = GarbageCollectorOptions { wal_options: Some(wal_options), ..nothing() };
        let session = WriterSession::new(process.log.clone());
        let collector = GarbageCollectorBuilder::new(ROOT, world.memory.clone()).with_options(options);
        collector.with_system_clock(session.clock()).with_wal_gc(session.wal_gc(NonZeroU32::MIN)).build()
    };
    collected_by_slatedb().run_gc_once().await;
    assert!(world.slot(1).await.is_none() && world.slot(29).await.is_some());
    assert!(pinned(&world, &checkpoint).await.is_err(), "an error, never fewer rows");
}

#[tokio::test(start_paused = true)]
async fn a_pass_goes_on_when_the_session_that_its_collector_came_from_was_dropped() {
    let (world, process, checkpoint) = with_checkpoint(None).await;
    admin(&world).delete_checkpoint(checkpoint.id).await.unwrap();
    let cue = process.scripted.script(1, |_| true, Fate::Hold);
    let collector = WriterSession::new(process.log.clone()).wal_gc(NonZeroU32::MIN);
    let pass = tokio::spawn(async move { collector.collect(Vec::new(), Duration::ZERO, false).await });
    cue.reached().await;
    cue.release();
    pass.await.unwrap().unwrap();
    assert!(world.slot(1).await.is_none() && world.slot(29).await.is_some());
}

/// A collector of SlateDB's that does nothing.
pub(crate) fn nothing() -> GarbageCollectorOptions {
    GarbageCollectorOptions {
        manifest_options: None,
        wal_options: None,
        wal_fence_options: None,
        compacted_options: None,
        compactions_options: None,
        detach_options: None,
        ..GarbageCollectorOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_taken_while_the_collector_runs_keeps_its_slots() {
    // The collector waits at each request in turn while the checkpoint is taken.
    for nth in 1.. {
        let world = World::new().await;
        let process = world.commit_through(17).await;
        let (holder, db) = hold(&world, &process).await;
        applied(&holder, 17).await;
        db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.unwrap();
        while process.head() < 22 {
            process.commit().await;
        }
        applied(&holder, 22).await;
        let slow = world.process_with(LogOptions::default());
        slow.load(Some(17)).await;
        let cue = slow.scripted.script(nth, |_| true, Fate::Hold);
        let pass = tokio::spawn(async move { run(&slow).await });
        while !pass.is_finished() && !cue.was_reached() {
            tokio::task::yield_now().await;
        }
        let checkpoint = db.create_checkpoint(CheckpointScope::Durable, &CheckpointOptions::default()).await.unwrap();
        holder.stop().await.unwrap();
        cue.release();
        let retired = pass.await.unwrap().unwrap();
        assert!(retired.pages.end.max(retired.first_kept) >= Page::new(4), "{retired:?}");
        assert_pinned_reader_has(&world, &checkpoint, 22).await;
        // What the store has folded since goes no further than the checkpoint lets it.
        run(&process).await.unwrap();
        assert_pinned_reader_has(&world, &checkpoint, 22).await;
        if !cue.was_reached() {
            assert!(nth > 20, "{nth}");
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_whose_manifest_is_not_there_stops_the_collector() {
    let (world, process, checkpoint) = with_checkpoint(None).await;
    let checkpoints = admin(&world).list_checkpoints(None).await.unwrap();
    let named = checkpoints.iter().find(|listed| listed.id == checkpoint.id).unwrap();
    world.delete(ObjectName::Manifest(named.manifest_id)).await;
    assert!(matches!(run(&process).await, Err(RetireError::CheckpointWithoutManifest)));
    assert!(world.slot(1).await.is_some());
}
