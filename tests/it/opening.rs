//! Opening: beginning a log where nothing is, finding the one that is there, and refusing what cannot be trusted.

use std::sync::Arc;

use bytes::Bytes;
use commit_log::adoption::{AdoptionError, FreshLog, find, find_or_begin};
use commit_log::bucket::{Bucket, Distrusted, ObjectName};
use commit_log::error::Corruption;
use commit_log::frame::Damage;
use commit_log::guard::guarded_log;
use commit_log::log::{LogOptions, TailError};
use commit_log::record::{AdoptionRecord, ContentRule};
use commit_log::slot::{Page, PageSize};
use commit_log_kit::bucket::Operation;
use commit_log_kit::clock::Timeline;
use commit_log_kit::scripted::{Fate, PathClass, ScriptedBucket};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use slatedb::Db;

use crate::stores::{Liar, Lie};
use crate::support::{ROOT, World, is, scripted, sequence};

fn opener(store: &Arc<dyn ObjectStore>, seed: u64) -> (ScriptedBucket, Bucket) {
    scripted(store.clone(), Timeline::begin(), seed)
}

fn empty() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

async fn open(bucket: &Bucket) -> Result<AdoptionRecord, AdoptionError> {
    find_or_begin(bucket, &FreshLog::default(), &bucket.deadline()).await
}

async fn object(store: &Arc<dyn ObjectStore>, name: ObjectName) -> Bytes {
    store.get(&name.path(&Path::from(ROOT))).await.unwrap().bytes().await.unwrap()
}

fn writes(requests: &ScriptedBucket) -> usize {
    let is_write = |operation| !matches!(operation, Operation::Get | Operation::Head | Operation::List);
    requests.log().iter().filter(|request| is_write(request.operation) && request.class() != PathClass::Probe).count()
}

#[tokio::test(start_paused = true)]
async fn a_fresh_store_gets_its_guard_and_then_its_record() {
    let store = empty();
    let (requests, bucket) = opener(&store, 1);
    let record = open(&bucket).await.unwrap();
    assert_eq!(guarded_log(&object(&store, ObjectName::NativeWal(1)).await), Some(record.log));
    assert_eq!(AdoptionRecord::decode(&object(&store, ObjectName::Adoption(1)).await), Ok(record));
    let creates: Vec<_> = requests.log().into_iter().filter(|request| request.operation == Operation::Create).collect();
    let classes: Vec<_> = creates.iter().map(|request| request.class()).filter(|class| *class != PathClass::Probe).collect();
    assert_eq!(classes, [PathClass::Wal, PathClass::Adoption]);
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_the_guard_is_finished_by_the_next_opener_under_the_guards_log() {
    let store = empty();
    let (requests, bucket) = opener(&store, 1);
    // Given an opener that dies before its record lands.
    let record = requests.script(1, is(Operation::Create, PathClass::Adoption), Fate::Hang);
    let crashed = tokio::spawn(async move { open(&bucket).await });
    record.reached().await;
    crashed.abort();
    let log = guarded_log(&object(&store, ObjectName::NativeWal(1)).await).unwrap();
    // When others only read, there is no log yet; whoever may write finishes it.
    let (_, reader) = opener(&store, 2);
    assert!(matches!(find(&reader, &reader.deadline()).await, Err(AdoptionError::NoLog)));
    let (_, next) = opener(&store, 3);
    assert_eq!(open(&next).await.unwrap().log, log);
    assert_eq!(find(&reader, &reader.deadline()).await.unwrap().log, log);
}

#[tokio::test(start_paused = true)]
async fn racing_openers_end_on_one_log_with_one_set_of_properties() {
    // The first is held at its guard, and then at its record, while the second goes all the way.
    for held_at in [PathClass::Wal, PathClass::Adoption] {
        let store = empty();
        let (requests, first) = opener(&store, 1);
        let held = requests.script(1, is(Operation::Create, held_at), Fate::Hold);
        let other =
            FreshLog { page_size: PageSize::new(16).unwrap(), content_rule: ContentRule::OneMember, ..FreshLog::default() };
        let first = tokio::spawn(async move { find_or_begin(&first, &other, &first.deadline()).await });
        held.reached().await;
        let (_, second) = opener(&store, 2);
        let second = open(&second).await.unwrap();
        held.release();
        assert_eq!(first.await.unwrap().unwrap(), second, "held at {held_at}");
        assert_eq!(AdoptionRecord::decode(&object(&store, ObjectName::Adoption(1)).await), Ok(second));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_while_a_log_is_begun_changes_nothing() {
    for class in [PathClass::Wal, PathClass::Adoption, PathClass::Probe] {
        let store = empty();
        let (requests, bucket) = opener(&store, 1);
        requests.script(1, is(Operation::Create, class), Fate::LoseAnswer);
        let record = open(&bucket).await.unwrap();
        assert_eq!(guarded_log(&object(&store, ObjectName::NativeWal(1)).await), Some(record.log));
    }
}

#[tokio::test]
async fn a_store_with_history_of_its_own_is_refused_and_nothing_is_written() {
    // One that wrote, and one that was only created.
    for writes_rows in [1, 0] {
        let store = empty();
        let db = Db::open(ROOT, store.clone()).await.unwrap();
        for _ in 0..writes_rows {
            db.put(b"key", b"value").await.unwrap();
        }
        db.close().await.unwrap();
        let (requests, bucket) = opener(&store, 1);
        let refused = open(&bucket).await.unwrap_err();
        assert!(matches!(refused, AdoptionError::NativeHistory { .. }), "{refused:?}");
        let text = refused.to_string();
        assert!(text.contains("history of its own") && text.contains("choose another path"), "{text}");
        assert_eq!(writes(&requests), 0);
        // It is what it was.
        let db = Db::open(ROOT, store).await.unwrap();
        assert_eq!(db.get(b"key").await.unwrap().is_some(), writes_rows > 0);
        db.close().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn read_access_to_an_empty_bucket_creates_nothing_and_says_so() {
    let store = empty();
    let (requests, bucket) = opener(&store, 1);
    let error = find(&bucket, &bucket.deadline()).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no commit log here");
    assert!(requests.log().iter().all(|request| matches!(request.operation, Operation::Get | Operation::List)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_breaks_conditional_puts_is_refused_and_nothing_is_written() {
    for seed in 0..20 {
        for lie in [Lie::IgnoresCreate, Lie::LooksThenPuts] {
            let liar: Arc<dyn ObjectStore> = Liar::new(empty(), lie);
            let (requests, bucket) = opener(&liar, seed);
            let refused = open(&bucket).await.unwrap_err();
            assert!(matches!(refused, AdoptionError::Distrusted(Distrusted::SeveralWinners { .. })), "{refused:?}");
            assert!(refused.to_string().contains("does not keep put-if-absent"), "{refused}");
            assert_eq!(writes(&requests), 0);
        }
    }
}

#[tokio::test]
async fn honest_stores_pass_the_probe_every_time() {
    let folder = tempfile::tempdir().unwrap();
    let files = LocalFileSystem::new_with_prefix(folder.path()).unwrap().with_fsync(true);
    let stores: [Arc<dyn ObjectStore>; 2] = [empty(), Arc::new(files)];
    for store in stores {
        for seed in 0..50 {
            let (_, bucket) = opener(&store, seed);
            open(&bucket).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_that_forbids_reading_a_free_name_is_refused_and_says_what_to_allow() {
    let honest = empty();
    open(&opener(&honest, 1).1).await.unwrap();
    let liar: Arc<dyn ObjectStore> = Liar::new(honest, Lie::ForbidsAbsence);
    let (requests, bucket) = opener(&liar, 2);
    for refused in [open(&bucket).await, find(&bucket, &bucket.deadline()).await] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, AdoptionError::Distrusted(Distrusted::AbsenceForbidden)), "{refused:?}");
        assert!(refused.to_string().ends_with("allow reading objects and listing the bucket"), "{refused}");
    }
    assert_eq!(writes(&requests), 0);
}

/// The same object, as a later build might write it.
fn newer(bytes: &Bytes) -> Bytes {
    const FORMAT_AT: usize = 5;
    const CHECKSUM: std::ops::Range<usize> = 16..20;
    let mut newer = bytes.to_vec();
    newer[FORMAT_AT] += 1;
    let checksum = crc32c(&[&newer[..CHECKSUM.start], &newer[CHECKSUM.end..]].concat());
    newer[CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
    Bytes::from(newer)
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

fn is_newer(corruption: &Corruption, name: ObjectName) -> bool {
    matches!(corruption, Corruption::Damaged { object, damage: Damage::NewerFormat { .. } } if *object == name)
}

#[tokio::test(start_paused = true)]
async fn a_newer_format_of_the_record_a_slot_or_a_ledger_says_so() {
    let world = World::new().await;
    world.commit_through(5).await;
    // A slot.
    let slot = world.slot_name(3);
    let whole = world.read(slot).await.unwrap();
    world.write(slot, newer(&whole)).await;
    let process = world.process_with(LogOptions::default());
    let loaded = process.log.load(None, &process.deadline()).await;
    assert!(matches!(&loaded, Err(TailError::Corrupt(corruption)) if is_newer(corruption, slot)), "{loaded:?}");
    assert!(loaded.unwrap_err().to_string().contains("is newer than"));
    world.write(slot, whole).await;
    // A ledger.
    world.seal(0).await;
    let ledger = ObjectName::Ledger(world.record.log, Page::new(0));
    world.write(ledger, newer(&world.read(ledger).await.unwrap())).await;
    let loaded = process.log.load(None, &process.deadline()).await;
    assert!(matches!(&loaded, Err(TailError::Corrupt(corruption)) if is_newer(corruption, ledger)), "{loaded:?}");
    // The record.
    let record = ObjectName::Adoption(1);
    world.write(record, newer(&world.read(record).await.unwrap())).await;
    let (requests, bucket) = opener(&world.memory, 9);
    for refused in [open(&bucket).await, find(&bucket, &bucket.deadline()).await] {
        assert!(matches!(&refused, Err(AdoptionError::Corrupt(corruption)) if is_newer(corruption, record)), "{refused:?}");
    }
    assert_eq!(writes(&requests), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reserved_key_that_cannot_be_is_refused_and_nothing_is_written() {
    let store = empty();
    let (requests, bucket) = opener(&store, 1);
    for bytes in [0, 1 << 16] {
        let fresh = FreshLog { reserved_key: Bytes::from(vec![1; bytes]), ..FreshLog::default() };
        let refused = find_or_begin(&bucket, &fresh, &bucket.deadline()).await;
        assert!(matches!(refused, Err(AdoptionError::ReservedKey { .. })), "{refused:?}");
    }
    assert_eq!(writes(&requests), 0);
}

#[tokio::test]
async fn a_slatedb_without_the_plug_is_refused_by_the_guard_and_loses_nothing() {
    let world = World::new().await;
    world.commit_through(3).await;
    // When a stock binary opens the store, more than once.
    for _ in 0..3 {
        let opened = Db::open(ROOT, world.memory.clone()).await;
        assert_eq!(opened.err().map(|error| error.kind()), Some(slatedb::ErrorKind::Data));
    }
    // Then the log is what it was, and goes on.
    let process = world.process().await;
    assert_eq!(process.head(), 3);
    process.commit().await;
    assert!(world.slot(4).await.is_some_and(|slot| slot.sequence() == sequence(4)));
}
