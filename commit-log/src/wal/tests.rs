//! Each rule that keeps SlateDB from losing a slot, on the real engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::config::{CloseOptions, DbReaderOptions, FlushOptions, FlushType, MergeOptions, Settings, WriteOptions};
use slatedb::wal::{WalError, WalEvent, WalFileRange, WalWriter};
use slatedb::{Db, DbReader, DbReaderMode, RowEntry, ValueDeletable, WriteBatch};

use super::writer::LogWriter;
use super::*;
use crate::adoption::{FreshLog, find_or_begin};
use crate::bucket::{Bucket, ObjectName, Pace};
use crate::envelope::Write;
use crate::environment::{Environment, Randomness, SystemStopwatch};
use crate::holder::{HoldError, Holder, HoldingOptions};
use crate::identity::TransactionId;
use crate::log::{Commit, LogOptions, Offer};
use crate::take::{TakeError, TakeWith};

struct World {
    store: Arc<InMemory>,
    environment: Environment,
}

impl World {
    fn new() -> World {
        let clock = Arc::new(slatedb_common::clock::DefaultSystemClock::new());
        let randomness = Arc::new(Randomness::from_seed(1));
        World {
            store: Arc::default(),
            environment: Environment { clock, stopwatch: Arc::new(SystemStopwatch::start()), randomness },
        }
    }

    fn bucket(&self) -> Bucket {
        Bucket::new(self.store.clone(), Path::from("store"), self.environment.clone(), Pace::default())
    }

    /// The log, as a process that just started knows it.
    async fn log(&self) -> SlotLog {
        self.log_with(LogOptions::default()).await
    }

    async fn log_with(&self, options: LogOptions) -> SlotLog {
        let bucket = self.bucket();
        let record = find_or_begin(&bucket, &FreshLog::default(), &bucket.deadline()).await.unwrap();
        SlotLog::new(bucket, record, options)
    }

    async fn open(&self, session: &WriterSession) -> Result<Db, slatedb::Error> {
        let settings = Settings { compactor_options: None, garbage_collector_options: None, ..Settings::default() };
        Db::builder("store", self.store.clone() as Arc<dyn ObjectStore>)
            .with_wal_writer(session.writer_init())
            .with_system_clock(session.clock())
            .with_settings(settings)
            .build()
            .await
    }

    /// Takes the store over a log that knows nothing yet, as after a restart.
    async fn reopen(&self) -> (Db, WriterSession) {
        let session = WriterSession::new(self.log().await);
        (self.open(&session).await.unwrap(), session)
    }

    async fn forget(&self, name: ObjectName) {
        self.store.delete(&name.path(&Path::from("store"))).await.unwrap();
    }
}

async fn load(log: &SlotLog) {
    log.load(None, &log.bucket().deadline()).await.unwrap();
}

async fn commit(log: &SlotLog, number: u64) {
    let transaction = TransactionId::random(&log.bucket().environment().randomness);
    let commit = Commit::of(transaction, vec![Write::put(key(number), number.to_string())]);
    let offer = log.offer(log.next(), commit, &log.bucket().deadline()).await.unwrap();
    assert!(matches!(offer, Offer::Won { slot: Some(_) }));
}

async fn apply(db: &Db, session: &WriterSession, log: &SlotLog, number: u64) {
    let sequence = Sequence::new(number).unwrap();
    let slots = log.remembered_after(sequence.previous()).unwrap();
    session.announce(sequence);
    db.write_with_options(write_batch(&slots[0]), &WriteOptions { seqnum: number }).await.unwrap();
    session.applied(sequence);
}

fn key(number: u64) -> Bytes {
    Bytes::from(format!("key {number}"))
}

async fn assert_has(db: &Db, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let value = db.get(key(number)).await.unwrap();
        assert_eq!(value, Some(Bytes::from(number.to_string())), "row of slot {number}");
    }
}

async fn flush(db: &Db) {
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.unwrap();
}

/// Leaves the store as a process that was killed leaves it: nothing more is written.
async fn crash(db: Db) {
    db.close_with_options(CloseOptions { flush_type: None }).await.unwrap();
}

fn row(sequence: u64) -> RowEntry {
    RowEntry { key: key(1), value: ValueDeletable::Tombstone, seq: sequence, create_ts: None, expire_ts: None }
}

#[tokio::test(start_paused = true)]
async fn listeners_hear_of_a_slot_only_after_it_was_applied() {
    let session = WriterSession::new(World::new().log().await);
    let mut writer = LogWriter::new(session.cursor.clone());
    let heard = Arc::new(AtomicUsize::new(0));
    let listener = heard.clone();
    let subscribe = writer.observer().subscribe(Arc::new(move |event| {
        if let WalEvent::WalFlushed(status) = event {
            listener.store(status.last_flushed_seq.unwrap() as usize, Ordering::SeqCst);
        }
    }));
    subscribe.unwrap();
    session.announce(Sequence::FIRST);
    writer.append(&[row(1)]).await.unwrap();
    assert_eq!(heard.load(Ordering::SeqCst), 0, "the row cannot be read yet");
    assert_eq!(writer.status().unwrap().last_flushed_wal_id, 1, "a freeze in the same task records it");
    session.applied(Sequence::FIRST);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_durable_sequence_is_told_only_when_its_rows_can_be_read() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    commit(&log, 1).await;
    session.announce(Sequence::FIRST);
    let slot = log.remembered_after(None).unwrap()[0].clone();
    db.write_with_options(write_batch(&slot), &WriteOptions { seqnum: 1 }).await.unwrap();
    assert_eq!(db.status().durable_seq, 0);
    session.applied(Sequence::FIRST);
    assert_eq!(db.status().durable_seq, 1);
}

#[tokio::test(start_paused = true)]
async fn the_replay_point_never_passes_a_slot_that_was_won_and_not_applied() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    for number in 1..=3 {
        commit(&log, number).await;
    }
    apply(&db, &session, &log, 1).await;
    session.announce(Sequence::new(2).unwrap());
    flush(&db).await;
    assert_eq!(db.manifest().replay_after_wal_id(), 1);
    crash(db).await;
    let (db, _) = world.reopen().await;
    assert_has(&db, 1..=3).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_beside_the_log_is_refused_and_never_in_the_store() {
    let world = World::new();
    let (db, _) = world.reopen().await;
    assert!(db.put(b"beside", b"the log").await.is_err());
    assert!(db.get(b"beside").await.is_err(), "the handle is dead");
    let (db, _) = world.reopen().await;
    assert_eq!(db.get(b"beside").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn only_the_announced_slot_is_taken() {
    let session = WriterSession::new(World::new().log().await);
    let mut writer = LogWriter::new(session.cursor.clone());
    let second = Sequence::FIRST.next();
    session.announce(second);
    for rows in [vec![row(1)], vec![row(3)], vec![row(2), row(3)], vec![]] {
        assert!(matches!(writer.append(&rows).await, Err(WalError::InternalError(_))), "{rows:?}");
    }
    writer.append(&[row(2), row(2)]).await.unwrap();
    assert!(writer.append(&[row(2)]).await.is_err(), "once");
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_the_store_refused_is_folded_by_a_reopen_and_nothing_goes_over_it() {
    let world = Arc::new(World::new());
    let log = world.log().await;
    let handle: Arc<std::sync::Mutex<Option<Db>>> = Arc::default();
    let (opened, opening) = (handle.clone(), world.clone());
    let taker = TakeWith::new(log.clone(), move |session| {
        let (opened, world) = (opened.clone(), opening.clone());
        async move {
            let db = world.open(&session).await?;
            *opened.lock().unwrap() = Some(db.clone());
            Ok::<_, TakeError>(Some(db))
        }
    });
    load(&log).await;
    commit(&log, 1).await;
    let holder = Holder::take(log.clone(), &taker, HoldingOptions::default()).await.unwrap();
    let db = handle.lock().unwrap().clone().unwrap();
    // A refused write burns its sequence: the embedder's operand has no operator.
    let mut operand = WriteBatch::new();
    operand.merge_with_options(b"key", b"operand", &MergeOptions::default());
    assert!(db.write_with_options(operand, &WriteOptions { seqnum: 2 }).await.is_err());
    commit(&log, 2).await;
    commit(&log, 3).await;
    let ended = holder.ended().await;
    assert!(matches!(ended, Err(HoldError::NotApplied { sequence, .. }) if sequence.get() == 2), "{ended:?}");
    let (db, _) = world.reopen().await;
    assert_has(&db, 1..=3).await;
    assert_eq!(db.manifest().replay_after_wal_id(), 0, "closed without a flush");
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_replays_older_slots_flushes_without_invalid_clock_tick() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    for number in 1..=10 {
        commit(&log, number).await;
    }
    tokio::time::advance(Duration::from_millis(20)).await;
    for number in 1..=5 {
        apply(&db, &session, &log, number).await;
    }
    flush(&db).await;
    crash(db).await;
    let (db, _) = world.reopen().await;
    flush(&db).await;
    assert_eq!((db.manifest().replay_after_wal_id(), db.manifest().last_l0_seq()), (10, 10));
    crash(db).await;
    let (db, _) = world.reopen().await;
    assert_has(&db, 1..=10).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_whose_clock_is_an_hour_behind_applies_and_flushes() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    commit(&log, 1).await;
    tokio::time::advance(Duration::from_secs(3600)).await;
    apply(&db, &session, &log, 1).await;
    flush(&db).await;
    crash(db).await;
    // A clock that was made later starts at the machine's time again, without the hour that this world was advanced by.
    let clock = Arc::new(slatedb_common::clock::DefaultSystemClock::new());
    let behind = World { store: world.store.clone(), environment: Environment { clock, ..world.environment.clone() } };
    let log = behind.log().await;
    let session = WriterSession::new(log.clone());
    let db = behind.open(&session).await.unwrap();
    commit(&log, 2).await;
    apply(&db, &session, &log, 2).await;
    flush(&db).await;
    assert_has(&db, 1..=2).await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_whose_clock_is_behind_the_name_of_the_newest_file_flushes() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    commit(&log, 1).await;
    apply(&db, &session, &log, 1).await;
    // The file is named an hour after its last row was written.
    tokio::time::advance(Duration::from_secs(3600)).await;
    flush(&db).await;
    crash(db).await;
    let clock = Arc::new(slatedb_common::clock::DefaultSystemClock::new());
    let behind = World { store: world.store.clone(), environment: Environment { clock, ..world.environment.clone() } };
    let log = behind.log().await;
    let session = WriterSession::new(log.clone());
    let db = behind.open(&session).await.unwrap();
    commit(&log, 2).await;
    apply(&db, &session, &log, 2).await;
    flush(&db).await;
    assert_eq!(db.manifest().last_l0_seq(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_slot_is_a_data_error_and_never_the_end_of_the_log() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    crash(world.open(&session).await.unwrap()).await;
    for number in 1..=3 {
        commit(&log, number).await;
    }
    world.forget(ObjectName::Slot(log.record().log, Sequence::new(2).unwrap())).await;
    // A process that knows the head, and remembers no slot.
    let knowing = world.log_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() }).await;
    let reader = ReaderSession::new(knowing.clone(), Tail::Followed);
    let error = read(&reader, 1, 4).await.unwrap_err();
    assert!(matches!(error, WalError::DataError(_)), "{error:?}");
    assert!(matches!(reader.last_error(), Some(AccessError::Tail(TailError::Corrupt(_)))));
    // A reader that just started.
    let opened = DbReader::builder("store", world.store.clone() as Arc<dyn ObjectStore>)
        .with_wal_reader(ReaderSession::new(world.log().await, Tail::Followed).reader())
        .with_reader_mode(DbReaderMode::FollowLatest)
        .build()
        .await;
    assert!(opened.is_err(), "slot 3 must not be hidden behind a hole");
}

#[tokio::test(start_paused = true)]
async fn a_pinned_reader_sees_every_slot_of_its_range_or_an_error() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    for number in 1..=3 {
        commit(&log, number).await;
        apply(&db, &session, &log, number).await;
    }
    let options = slatedb::config::CheckpointOptions::default();
    let checkpoint = db.create_checkpoint(slatedb::config::CheckpointScope::Durable, &options).await.unwrap();
    crash(db).await;
    let pinned = async || {
        DbReader::builder("store", world.store.clone() as Arc<dyn ObjectStore>)
            .with_wal_reader(ReaderSession::new(world.log().await, Tail::Followed).reader())
            .with_reader_mode(DbReaderMode::Checkpoint(checkpoint.id))
            .build()
            .await
    };
    let reader = pinned().await.unwrap();
    for number in 1..=3 {
        assert_eq!(reader.get(key(number)).await.unwrap(), Some(Bytes::from(number.to_string())));
    }
    for missing in [3, 1] {
        world.forget(ObjectName::Slot(log.record().log, Sequence::new(missing).unwrap())).await;
        assert!(pinned().await.is_err(), "slot {missing} is gone");
    }
}

async fn read(reader: &ReaderSession, first: u64, end: u64) -> Result<Vec<RowEntry>, WalError> {
    let mut iterator = reader.reader().iterator(WalFileRange::from(first..end)).await?;
    let mut rows = Vec::new();
    while let Some(next) = iterator.next().await? {
        rows.extend(next.rows);
    }
    Ok(rows)
}

#[tokio::test(start_paused = true)]
async fn the_replay_never_ends_short_of_what_the_manifest_has_counted() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    for number in 1..=3 {
        commit(&log, number).await;
        apply(&db, &session, &log, number).await;
    }
    // Closing without a flush leaves the count in the manifest, and the replay point behind.
    crash(db).await;
    let (db, _) = world.reopen().await;
    assert_eq!((db.manifest().replay_after_wal_id(), db.manifest().next_wal_sst_id()), (0, 4));
    flush(&db).await;
    crash(db).await;
    // With nothing left to replay the count is the status from the start, else the first manifest write is refused.
    let (db, session) = world.reopen().await;
    assert_eq!(session.last_applied(), Sequence::new(3));
    crash(db).await;
    let (db, _) = world.reopen().await;
    assert_has(&db, 1..=3).await;
}

#[tokio::test(start_paused = true)]
async fn a_log_that_ends_before_what_the_manifest_has_counted_is_refused() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    for number in 1..=2 {
        commit(&log, number).await;
        apply(&db, &session, &log, number).await;
    }
    crash(db).await;
    world.forget(ObjectName::Slot(log.record().log, Sequence::new(2).unwrap())).await;
    let session = WriterSession::new(world.log().await);
    let error = world.open(&session).await.err().unwrap();
    assert_eq!(error.kind(), slatedb::ErrorKind::Data);
}

#[tokio::test(start_paused = true)]
async fn a_store_whose_covered_slot_the_log_does_not_have_is_refused() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    let db = world.open(&session).await.unwrap();
    for number in 1..=2 {
        commit(&log, number).await;
        apply(&db, &session, &log, number).await;
    }
    flush(&db).await;
    crash(db).await;
    for number in 1..=2 {
        world.forget(ObjectName::Slot(log.record().log, Sequence::new(number).unwrap())).await;
    }
    let session = WriterSession::new(world.log().await);
    assert_eq!(world.open(&session).await.err().unwrap().kind(), slatedb::ErrorKind::Data);
}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_wal_is_refused() {
    let session = WriterSession::new(World::new().log().await);
    // What SlateDB does with a WAL that it is told not to use.
    let mut writer = LogWriter::new(session.cursor.clone());
    assert!(matches!(writer.close().await, Err(WalError::InternalError(_))));
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_served_what_lands_and_says_how_far() {
    let world = World::new();
    let log = world.log().await;
    let session = WriterSession::new(log.clone());
    crash(world.open(&session).await.unwrap()).await;
    commit(&log, 1).await;
    let follower = ReaderSession::new(world.log().await, Tail::Followed);
    let options = DbReaderOptions { manifest_poll_interval: Duration::from_millis(100), ..DbReaderOptions::default() };
    let reader = DbReader::builder("store", world.store.clone() as Arc<dyn ObjectStore>)
        .with_wal_reader(follower.reader())
        .with_reader_mode(DbReaderMode::FollowLatest)
        .with_options(options)
        .build()
        .await
        .unwrap();
    assert_eq!(reader.get(key(1)).await.unwrap(), Some(Bytes::from("1")));
    commit(&log, 2).await;
    while follower.watermark() < Sequence::new(2) {
        tokio::time::advance(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(reader.get(key(2)).await.unwrap(), Some(Bytes::from("2")));
    reader.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_watermark_is_what_the_reader_has_installed_and_not_what_the_log_has() {
    let world = World::new();
    let log = world.log().await;
    load(&log).await;
    for number in 1..=3 {
        commit(&log, number).await;
    }
    let follower = ReaderSession::new(world.log().await, Tail::Followed);
    assert_eq!(follower.reader().last_wal_file_id(1).await.unwrap(), 3);
    assert_eq!(follower.watermark(), Sequence::new(1));
}
