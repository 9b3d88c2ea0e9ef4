//! A store in memory, its slots, and a bucket that counts and fails on command.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions,
    PutPayload, PutResult, Result,
};
use rand::RngExt;
use rand::rngs::StdRng;
use slatedb::config::{FlushOptions, FlushType, Settings, WriteOptions};
use slatedb::{Db, WriteBatch};
use slatedb_common::SystemClock;
use slatedb_common::clock::DefaultSystemClock;

use crate::envelope::{Envelope, Rules, Slot, SlotKind, Turn, Write};
use crate::identity::{LogId, OwnId, TransactionId};
use crate::slot::Sequence;
use crate::view::{Base, BaseSettings, ManifestObject, Scan, View, newest_manifest};

pub(crate) const RESERVED: &[u8] = b"\0reserved";

pub(crate) type Rows = BTreeMap<Bytes, Bytes>;

/// A bucket that counts its requests and fails reads of files on command.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    inner: InMemory,
    gets: AtomicU64,
    lists: AtomicU64,
    writes: AtomicU64,
    file_reads: AtomicU64,
    failing_from: AtomicU64,
    failing_until: AtomicU64,
}

impl Counting {
    /// Fails the reads of files with these numbers, counted from one and from now on.
    pub(crate) fn fail_file_reads(&self, numbers: Range<u64>) {
        self.file_reads.store(0, Ordering::SeqCst);
        self.failing_from.store(numbers.start, Ordering::SeqCst);
        self.failing_until.store(numbers.end, Ordering::SeqCst);
    }

    pub(crate) fn file_reads(&self) -> u64 {
        self.file_reads.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Requests {
        Requests {
            gets: self.gets.load(Ordering::SeqCst),
            lists: self.lists.load(Ordering::SeqCst),
            writes: self.writes.load(Ordering::SeqCst),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) gets: u64,
    pub(crate) lists: u64,
    pub(crate) writes: u64,
}

impl Requests {
    pub(crate) fn since(self, before: Requests) -> Requests {
        Requests { gets: self.gets - before.gets, lists: self.lists - before.lists, writes: self.writes - before.writes }
    }
}

impl fmt::Display for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Counting")
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.gets.fetch_add(1, Ordering::SeqCst);
        if location.as_ref().ends_with(".sst") {
            let number = self.file_reads.fetch_add(1, Ordering::SeqCst) + 1;
            let failing = self.failing_from.load(Ordering::SeqCst)..self.failing_until.load(Ordering::SeqCst);
            if failing.contains(&number) {
                return Err(object_store::Error::Generic { store: "Counting", source: "the script says no".into() });
            }
        }
        self.inner.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.inner.copy_opts(from, to, options).await
    }
}

/// A store in memory and its bucket.
pub(crate) struct World {
    pub(crate) bucket: Arc<Counting>,
    pub(crate) clock: Arc<dyn SystemClock>,
}

impl World {
    pub(crate) fn new() -> World {
        World { bucket: Arc::default(), clock: Arc::new(DefaultSystemClock::new()) }
    }

    pub(crate) fn path() -> Path {
        Path::from("lake/store")
    }

    pub(crate) fn real(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.bucket) as Arc<dyn ObjectStore>
    }

    /// A reader without a cache that never tries a read again.
    pub(crate) fn settings(&self) -> BaseSettings {
        let mut settings = BaseSettings::new(self.real(), World::path(), Arc::clone(&self.clock));
        settings.options.object_store_max_retries = Some(0);
        settings
    }

    /// A writer that neither compacts nor collects.
    pub(crate) async fn db(&self) -> Db {
        self.db_with(Settings { compactor_options: None, garbage_collector_options: None, ..Settings::default() }).await
    }

    pub(crate) async fn db_with(&self, settings: Settings) -> Db {
        Db::builder(World::path(), self.real()).with_settings(settings).build().await.unwrap()
    }

    pub(crate) async fn manifest(&self) -> ManifestObject {
        newest_manifest(&self.real(), &World::path(), None).await.unwrap().unwrap()
    }

    pub(crate) async fn base(&self) -> Arc<Base> {
        Arc::new(Base::open(&self.settings(), &self.manifest().await).await.unwrap())
    }

    pub(crate) async fn files(&self) -> Vec<Path> {
        let folder = World::path().join("compacted");
        let mut files: Vec<Path> = self.bucket.inner.list(Some(&folder)).map(|file| file.unwrap().location).collect().await;
        files.sort();
        files
    }
}

pub(crate) fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

pub(crate) fn transaction_id(number: u8) -> TransactionId {
    TransactionId::from_bytes([number; 16])
}

pub(crate) fn rules() -> Rules {
    Rules { reserved_key: Bytes::from_static(RESERVED), max_slot_bytes: 1 << 20, route: None }
}

/// A slot with these writes.
pub(crate) fn slot(number: u64, mut writes: Vec<Write>) -> Arc<Slot> {
    writes.sort_by(|one, other| one.key.cmp(&other.key));
    let only_reserved = writes.iter().all(|write| write.key == RESERVED);
    let envelope = Envelope {
        log: LogId::from_bytes([1; 16]),
        sequence: sequence(number),
        nonce: [2; 16],
        parent: OwnId::from_bytes([3; 16]),
        kind: if only_reserved { SlotKind::Filler } else { SlotKind::Commit },
        validated_head: Bytes::new(),
        changes_made: Bytes::new(),
        members: vec![transaction_id(4)],
        stamp: 1_000 + number,
        turn: Turn::default(),
        writes,
    };
    Arc::new(Slot::seal(envelope, &rules()).unwrap())
}

/// Folds a slot into the store, as its holder does.
pub(crate) async fn fold(db: &Db, slot: &Slot) {
    let mut batch = WriteBatch::new();
    for write in &slot.envelope().writes {
        match &write.value {
            Some(value) => batch.put(&write.key, value),
            None => batch.delete(&write.key),
        }
    }
    db.write_with_options(batch, &WriteOptions { seqnum: slot.sequence().get() }).await.unwrap();
}

pub(crate) async fn flush(db: &Db) {
    db.flush_with_options(FlushOptions { flush_type: FlushType::MemTable }).await.unwrap();
}

/// Applies writes to a model.
pub(crate) fn apply(rows: &mut Rows, writes: &[Write]) {
    for write in writes.iter().filter(|write| write.key != RESERVED) {
        match &write.value {
            Some(value) => rows.insert(write.key.clone(), value.clone()),
            None => rows.remove(&write.key),
        };
    }
}

pub(crate) async fn collect(mut scan: Scan) -> Vec<(Bytes, Bytes)> {
    let mut rows = Vec::new();
    while let Some(row) = scan.next().await.unwrap() {
        rows.push(row);
    }
    rows
}

pub(crate) async fn everything(view: &View) -> Rows {
    collect(view.scan(.., crate::view::ScanOrder::Ascending)).await.into_iter().collect()
}

pub(crate) fn random_key(random: &mut StdRng) -> Bytes {
    const BYTES: [u8; 5] = [0, b'a', b'b', b'c', 0xff];
    let length = random.random_range(1..4);
    (0..length).map(|_| BYTES[random.random_range(0..BYTES.len())]).collect::<Vec<_>>().into()
}

pub(crate) fn random_writes(random: &mut StdRng) -> Vec<Write> {
    if random.random_range(0..20) == 0 {
        return vec![Write::delete(RESERVED)];
    }
    let rows: BTreeMap<Bytes, Option<Bytes>> = (0..random.random_range(1..12))
        .map(|_| {
            let value = random.random_range(0..3) != 0;
            (random_key(random), value.then(|| Bytes::from(random.random_range(0..1_000_000).to_string())))
        })
        .collect();
    rows.into_iter().map(|(key, value)| Write { key, value }).collect()
}
