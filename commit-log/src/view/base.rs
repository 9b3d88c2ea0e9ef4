//! A base: the store as of one manifest, which never moves.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::config::{DbReaderOptions, ScanOptions};
use slatedb::db_cache::DbCache;
use slatedb::{
    DbIterator, DbReader, DbReaderBuilder, DbReaderMode, KeyValue, MergeOperator, PrefixExtractor, VersionedManifest,
};
use slatedb_common::SystemClock;
use slatedb_common::clock::SystemClockTicker;
use tokio::runtime::Handle;

use super::error::ReadError;
use super::frozen::FrozenBucket;
use super::manifest::ManifestObject;
use super::range::{KeyRange, ScanOrder};
use crate::bucket::{Deadline, Pace};
use crate::slot::Sequence;

/// How often SlateDB tries a read of a file again, unless the settings say another number. With its back-off, from 100 ms
/// to a second, that is some ten seconds; SlateDB itself would try for ever, and a reader would hang with the bucket.
pub const MAX_READ_RETRIES: u32 = 10;

/// How much a scan fetches at once, in bytes, unless the settings say another number: a request costs the same for one
/// block of 4 KiB and for sixteen.
pub const SCAN_READ_AHEAD_BYTES: usize = 64 << 10;

/// What a block cache is to the stores that share it.
#[derive(Clone)]
pub struct SharedCache {
    /// The cache.
    pub cache: Arc<dyn DbCache>,
    /// The store's number in it: the same for its `Db` and for all its bases.
    pub id: u64,
}

/// The embedder's own settings of a reader.
pub type Customise = Arc<dyn Fn(DbReaderBuilder<Path>) -> DbReaderBuilder<Path> + Send + Sync>;

/// How the bases of one store are opened.
#[derive(Clone)]
pub struct BaseSettings {
    /// The bucket.
    pub bucket: Arc<dyn ObjectStore>,
    /// The store's path in it.
    pub path: Path,
    /// The clock, which paces tries of reads that failed.
    pub clock: Arc<dyn SystemClock>,
    /// The block cache. Without one every read of a file goes to the bucket, unless `customise` sets one.
    pub cache: Option<SharedCache>,
    /// The reader's options. The poll interval and `skip_wal_replay` are the library's.
    pub options: DbReaderOptions,
    /// How scans read. The order is the scan's own.
    pub scan: ScanOptions,
    /// The store's merge operator. Only rows that are older than the log can need one.
    pub merge_operator: Option<Arc<dyn MergeOperator + Send + Sync>>,
    /// The store's segment extractor.
    pub segment_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// How long one read may take, whatever the bucket does.
    pub read_deadline: Duration,
    /// What else the reader needs: filters, a block transformer, metrics. It runs first, so what the library sets wins.
    pub customise: Option<Customise>,
}

impl BaseSettings {
    /// The defaults: no cache, no operators, reads tried again for some ten seconds.
    pub fn new(bucket: Arc<dyn ObjectStore>, path: Path, clock: Arc<dyn SystemClock>) -> BaseSettings {
        BaseSettings {
            bucket,
            path,
            clock,
            cache: None,
            options: DbReaderOptions { object_store_max_retries: Some(MAX_READ_RETRIES), ..DbReaderOptions::default() },
            scan: ScanOptions::new().with_read_ahead_bytes(SCAN_READ_AHEAD_BYTES).with_cache_blocks(true),
            merge_operator: None,
            segment_extractor: None,
            read_deadline: Pace::default().call,
            customise: None,
        }
    }

    fn builder(&self, frozen: FrozenBucket) -> DbReaderBuilder<Path> {
        // SlateDB would give every base a cache of its own, half a gigabyte large.
        let mut builder = DbReaderBuilder::new(self.path.clone(), Arc::new(frozen)).with_db_cache_disabled();
        if let Some(customise) = &self.customise {
            builder = customise(builder);
        }
        if let Some(SharedCache { cache, id }) = &self.cache {
            builder = builder.with_db_cache(Arc::clone(cache), *id);
        }
        if let Some(merge_operator) = &self.merge_operator {
            builder = builder.with_merge_operator(Arc::clone(merge_operator));
        }
        if let Some(segment_extractor) = &self.segment_extractor {
            builder = builder.with_segment_extractor(Arc::clone(segment_extractor));
        }
        builder
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_system_clock(Arc::new(PollerNeverWakes(Arc::clone(&self.clock))))
            .with_options(DbReaderOptions {
                manifest_poll_interval: NEVER,
                skip_wal_replay: true,
                object_store_max_retries: self.options.object_store_max_retries.or(Some(MAX_READ_RETRIES)),
                ..self.options.clone()
            })
    }
}

impl fmt::Debug for BaseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseSettings").field("path", &self.path).finish_non_exhaustive()
    }
}

/// The store as of one manifest, or a store that does not exist yet.
///
/// - It never moves: what it answers today it answers for as long as it answers at all.
/// - Opening one from a manifest that was fetched costs no request, nor does an idle one, nor closing it.
/// - It is closed by its owner, see [`super::Reaper`], or closes itself in a task of its own when it is dropped unclosed.
pub struct Base {
    store: Option<Opened>,
}

struct Opened {
    reader: Arc<DbReader>,
    manifest: VersionedManifest,
    covered: Option<Sequence>,
    scan: ScanOptions,
    clock: Arc<dyn SystemClock>,
    read_deadline: Duration,
    closed: AtomicBool,
    outlived: AtomicBool,
}

impl Base {
    /// The base of a store that has no manifest yet: no rows.
    pub fn empty() -> Base {
        Base { store: None }
    }

    /// Opens the store as of `manifest`. No request: the one GET was the manifest's own.
    ///
    /// # Errors
    ///
    /// [`ReadError::Corrupt`] for a manifest that cannot be decoded or is that of a clone still being made,
    /// [`ReadError::Settings`] for another segment extractor than the store's.
    pub async fn open(settings: &BaseSettings, manifest: &ManifestObject) -> Result<Base, ReadError> {
        let unavailable = |cause| ReadError::Unavailable { manifest: manifest.id, cause: Arc::new(cause) };
        let frozen = FrozenBucket::new(Arc::clone(&settings.bucket), &settings.path, manifest).await.map_err(unavailable)?;
        let opened = settings.builder(frozen).build().await;
        let reader = Arc::new(opened.map_err(|error| ReadError::from_store(manifest.id, error))?);
        let found = reader.manifest();
        let covered = match found.last_l0_seq() {
            0 => None,
            number => match Sequence::new(number) {
                Some(covered) => Some(covered),
                None => {
                    // Unclosed it would leave its task behind.
                    close(&reader).await;
                    return Err(ReadError::Corrupt { manifest: manifest.id, cause: Arc::new(OutOfBounds(number)) });
                }
            },
        };
        let opened = Opened {
            reader,
            manifest: found,
            covered,
            scan: settings.scan.clone(),
            clock: Arc::clone(&settings.clock),
            read_deadline: settings.read_deadline,
            closed: AtomicBool::new(false),
            outlived: AtomicBool::new(false),
        };
        Ok(Base { store: Some(opened) })
    }

    /// The last slot whose rows are in it, with all before: `last_l0_seq` of its manifest.
    pub fn covered(&self) -> Option<Sequence> {
        self.store.as_ref().and_then(|store| store.covered)
    }

    /// Its manifest: id, replay point, epochs, checkpoints. `None` for the base of a store that does not exist yet.
    pub fn manifest(&self) -> Option<&VersionedManifest> {
        self.store.as_ref().map(|store| &store.manifest)
    }

    /// Its manifest's id.
    pub fn manifest_id(&self) -> Option<u64> {
        self.manifest().map(VersionedManifest::id)
    }

    /// Whether a read of it found its files gone. Whoever serves it looks for a newer one.
    pub(crate) fn has_outlived(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.outlived.load(Ordering::Acquire))
    }

    /// The value of `key`, `None` when there is no row. The value keeps the block it lies in in memory; copy it to keep it.
    ///
    /// # Errors
    ///
    /// See [`ReadError`]. Dropping the future has no effect.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        let Some(store) = &self.store else { return Ok(None) };
        store.in_time(store.reader.get(key)).await
    }

    /// Begins a scan, `None` where there is nothing to scan.
    pub(super) async fn scan(&self, range: &KeyRange, order: ScanOrder) -> Result<Option<DbIterator>, ReadError> {
        let Some(store) = &self.store else { return Ok(None) };
        if range.is_empty() {
            return Ok(None);
        }
        let options = store.scan.clone().with_order(order.into());
        store.in_time(store.reader.scan_with_options(range.bounds(), &options)).await.map(Some)
    }

    /// The next row of a scan of it.
    pub(super) async fn next_row(&self, rows: &mut DbIterator) -> Result<Option<KeyValue>, ReadError> {
        let Some(store) = &self.store else { return Ok(None) };
        store.in_time(rows.next()).await
    }

    /// Ends its task. No request. Reads that begin afterwards fail with [`ReadError::Outlived`]. Closing it twice is
    /// closing it once; a close that was dropped is to be called again.
    pub async fn close(&self) {
        let Some(store) = &self.store else { return };
        if !store.closed.load(Ordering::Acquire) {
            close(&store.reader).await;
            store.closed.store(true, Ordering::Release);
        }
    }
}

impl Opened {
    /// A read of the store, bounded: SlateDB itself waits for an answer as long as the bucket's client does.
    async fn in_time<T>(&self, read: impl Future<Output = Result<T, slatedb::Error>>) -> Result<T, ReadError> {
        let manifest = self.manifest.id();
        match Deadline::of_clock(Arc::clone(&self.clock), self.read_deadline).bound(read).await {
            Ok(read) => read.map_err(|error| {
                let error = ReadError::from_store(manifest, error);
                if matches!(error, ReadError::Outlived { .. }) {
                    self.outlived.store(true, Ordering::Release);
                }
                error
            }),
            Err(passed) => Err(ReadError::Unavailable { manifest, cause: Arc::new(passed) }),
        }
    }
}

async fn close(reader: &DbReader) {
    // The task is gone either way; the error is how it ended.
    if let Err(error) = reader.close().await {
        tracing::warn!(%error, "a base's reader had failed before it was closed");
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        match Handle::try_current() {
            // An open that failed after it had its base, or that was given up, or a store that was dropped as a whole.
            Ok(runtime) => drop(runtime.spawn(close_detached(Arc::clone(&self.reader)))),
            Err(_) => tracing::warn!(manifest = self.manifest.id(), "a base was dropped outside a runtime: its task stays"),
        }
    }
}

async fn close_detached(reader: Arc<DbReader>) {
    close(&reader).await;
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "base (manifest {:?}, up to {:?})", self.manifest_id(), self.covered())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the manifest covers sequence {0}, which no log reaches")]
struct OutOfBounds(u64);

/// The poll interval of a reader that has nothing to poll for.
const NEVER: Duration = Duration::MAX;

/// The longest sleep that comes to an end. SlateDB backs off for two seconds at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(60 * 60);

/// The embedder's clock, by which the reader's poller never wakes.
///
/// A frozen manifest has no successor, so a poll could only burn time, once for every base that is still in use. Short
/// sleeps are the back-off of reads and end as they should.
///
/// SUBTLE: not even the first poll runs. A ticker counts from the earliest date there is, some quarter of a million years
/// ago, and the interval is longer than that.
#[derive(Debug)]
struct PollerNeverWakes(Arc<dyn SystemClock>);

impl SystemClock for PollerNeverWakes {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }

    fn sleep<'a>(&'a self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        if duration > LONGEST_SLEEP { Box::pin(std::future::pending()) } else { self.0.sleep(duration) }
    }

    fn ticker<'a>(&'a self, duration: Duration) -> SystemClockTicker<'a> {
        SystemClockTicker::new(self, duration)
    }
}
