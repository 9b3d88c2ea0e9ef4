//! A catalog in small. It opens its own stores, stamps every batch with its head, and knows SlateDB and the seam only.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use slatedb::admin::AdminBuilder;
use slatedb::config::{DbReaderOptions, Settings};
use slatedb::{Db, DbReader, DbReaderMode, VersionedManifest};
use slatedb_common::SystemClock;

use super::traits::{
    CatalogHooks, Cause, CommitLogProvider, CommitLogSettings, CommitStore, Error, InspectSlot, ReaderSession, Result,
    SlotAdoption, SlotCommit, SlotEnvelope, SlotOffer, TakeStore, WriterSession,
};

/// What every head stamp's key begins with.
const STAMPS: &str = "head/";

/// The catalog's own head stamp. The batch at sequence `n` sets it to `n`.
pub(crate) const STAMP: &str = "head/main";

/// What says that the store is on the log.
pub(crate) const FORMAT: &str = "format";

/// The one counter that is counted up.
pub(crate) const COUNTER: &str = "counter";

/// More losses in a row than there are other processes to lose to.
const ATTEMPTS: usize = 100;

/// The clock to open a session's store with, from whoever links the catalog with its provider: the seam has no place for it.
pub(crate) type ClockOf = fn(&dyn Any) -> Option<Arc<dyn SystemClock>>;

/// What one process of the catalog opens its stores with.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) provider: Arc<dyn CommitLogProvider>,
    pub(crate) object_store: Arc<dyn ObjectStore>,
    pub(crate) path: String,
    pub(crate) settings: CommitLogSettings,
    pub(crate) clock_of: ClockOf,
    pub(crate) inspect: InspectSlot,
    pub(crate) l0_limit: usize,
    pub(crate) transactions: Arc<Transactions>,
}

/// The identities that one process gives its batches.
pub(crate) struct Transactions {
    pub(crate) process: u64,
    pub(crate) count: AtomicU64,
}

impl Transactions {
    fn next(&self) -> [u8; 16] {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        (u128::from(self.process) << 64 | u128::from(count)).to_be_bytes()
    }
}

/// An open catalog.
pub(crate) struct Catalog {
    pub(crate) store: Arc<dyn CommitStore>,
    pub(crate) view: View,
    transactions: Arc<Transactions>,
}

/// What it reads.
pub(crate) enum View {
    Writer(Db),
    Reader(Arc<DbReader>),
}

/// A batch, and the sequence that its head implies.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) sequence: u64,
    pub(crate) commit: SlotCommit,
}

/// Refuses a slot that has not just one head stamp, that of its own sequence.
pub(crate) fn one_head_stamp(sequence: u64, slot: &SlotEnvelope) -> Result<()> {
    let stamps: Vec<_> = slot.writes.iter().filter(|(key, _)| key.starts_with(STAMPS.as_bytes())).collect();
    match stamps[..] {
        [(_, Some(head))] if *head == sequence.to_string() => Ok(()),
        [_] => Err(Error::Corrupt(cause(format!("slot {sequence} is stamped with another head")))),
        _ => Err(Error::Corrupt(cause(format!("slot {sequence} has {} head stamps, expected 1", stamps.len())))),
    }
}

fn cause(text: String) -> Cause {
    Cause::from(Box::<dyn std::error::Error + Send + Sync>::from(text))
}

/// SlateDB without a compactor and a collector.
fn store_settings() -> Settings {
    Settings { compactor_options: None, garbage_collector_options: None, ..Settings::default() }
}

impl Opener {
    pub(crate) fn hooks(&self) -> CatalogHooks {
        CatalogHooks {
            take: Arc::new(self.clone()),
            inspect: self.inspect.clone(),
            path: self.path.clone(),
            object_store: self.object_store.clone(),
            settings: self.settings.clone(),
        }
    }

    pub(crate) fn writer_session(&self) -> Arc<dyn WriterSession> {
        self.provider.writer_session(self.object_store.clone(), &self.path)
    }

    pub(crate) fn reader_session(&self) -> Arc<dyn ReaderSession> {
        self.provider.reader_session(self.object_store.clone(), &self.path, true)
    }

    pub(crate) async fn open_db(&self, session: &dyn WriterSession) -> Result<Db> {
        let mut db = Db::builder(self.path.clone(), self.object_store.clone())
            .with_wal_writer(session.writer_init())
            .with_settings(store_settings());
        if let Some(clock) = (self.clock_of)(session.as_any()) {
            db = db.with_system_clock(clock);
        }
        Ok(db.build().await?)
    }

    pub(crate) async fn open_reader(&self, session: &dyn ReaderSession) -> Result<Arc<DbReader>> {
        let poll = self.settings.committer_poll;
        let options = DbReaderOptions { manifest_poll_interval: poll, ..DbReaderOptions::default() };
        let mut reader = DbReader::builder(self.path.clone(), self.object_store.clone())
            .with_wal_reader(session.reader())
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options);
        if let Some(clock) = (self.clock_of)(session.as_any()) {
            reader = reader.with_system_clock(clock);
        }
        Ok(Arc::new(reader.build().await?))
    }

    /// Opens the catalog to read and write it, and puts it on the log if it is on none.
    pub(crate) async fn open(&self) -> Result<Catalog> {
        let session = self.writer_session();
        let adopted = session.adopted().await?;
        let db = self.open_db(&*session).await?;
        let store = self.provider.holding(db.clone(), session, self.hooks());
        let catalog = Catalog { store, view: View::Writer(db.clone()), transactions: self.transactions.clone() };
        if !adopted {
            db.flush().await?;
            catalog.adopt().await?;
        }
        Ok(catalog)
    }

    /// Opens the catalog as one that commits over a reader.
    pub(crate) async fn attach(&self) -> Result<Catalog> {
        let session = self.reader_session();
        let reader = self.open_reader(&*session).await?;
        let store = self.provider.following(reader.clone(), session, self.hooks());
        Ok(Catalog { store, view: View::Reader(reader), transactions: self.transactions.clone() })
    }

    /// The newest manifest of its store.
    pub(crate) async fn manifest(&self) -> Result<Option<VersionedManifest>> {
        Ok(AdminBuilder::new(self.path.clone(), self.object_store.clone()).build().read_manifest(None).await?)
    }
}

#[async_trait]
impl TakeStore for Opener {
    async fn take(&self) -> Result<Option<(Db, Arc<dyn WriterSession>)>> {
        let files = self.manifest().await?.map_or(0, |manifest| manifest.l0().len());
        if files >= self.l0_limit && !self.provider.external_compaction() {
            return Ok(None);
        }
        self.take_for_publication().await.map(Some)
    }

    /// No file is written for a publication, so the limit of files does not count.
    async fn take_for_publication(&self) -> Result<(Db, Arc<dyn WriterSession>)> {
        let session = self.writer_session();
        let db = self.open_db(&*session).await?;
        Ok((db, session))
    }
}

impl Catalog {
    pub(crate) async fn get(&self, key: &str) -> Option<Bytes> {
        match &self.view {
            View::Writer(db) => db.get(key).await.unwrap(),
            View::Reader(reader) => reader.get(key).await.unwrap(),
        }
    }

    pub(crate) async fn number(&self, key: &str) -> u64 {
        self.get(key).await.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
    }

    /// The head by its own stamp.
    pub(crate) async fn head(&self) -> u64 {
        self.number(STAMP).await
    }

    pub(crate) async fn adopt(&self) -> Result<SlotAdoption> {
        self.store.adopt(self.prepare_on(0, &[(FORMAT, "1")]).commit).await
    }

    /// A batch against the head as it is read now.
    pub(crate) async fn prepare(&self, rows: &[(&str, &str)]) -> Prepared {
        self.prepare_on(self.head().await, rows)
    }

    /// A batch against `head`, which may be another by now.
    pub(crate) fn prepare_on(&self, head: u64, rows: &[(&str, &str)]) -> Prepared {
        let sequence = head + 1;
        let stamp = sequence.to_string();
        let staged: BTreeMap<_, _> = rows.iter().copied().chain([(STAMP, stamp.as_str())]).collect();
        let keys: Vec<_> = rows.iter().map(|(key, _)| *key).collect();
        let copied = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let commit = SlotCommit {
            transaction_id: self.transactions.next(),
            validated_head: copied(&head.to_string()),
            changes_made: copied(&keys.join(",")),
            writes: staged.into_iter().map(|(key, value)| (copied(key), Some(copied(value)))).collect(),
        };
        Prepared { sequence, commit }
    }

    pub(crate) async fn write(&self, prepared: Prepared) -> Result<SlotOffer> {
        self.store.write_at(prepared.sequence, prepared.commit).await
    }

    /// Counts up by one, and tells how often it lost before.
    pub(crate) async fn count_up(&self) -> usize {
        for losses in 0..ATTEMPTS {
            // SUBTLE: the head first. A counter that is newer than it belongs to a sequence that is taken.
            let head = self.head().await;
            let counted = (self.number(COUNTER).await + 1).to_string();
            match self.write(self.prepare_on(head, &[(COUNTER, &counted)])).await.unwrap() {
                SlotOffer::Won { .. } => return losses,
                SlotOffer::Lost { through, .. } => assert!(self.head().await >= through, "a loss is served"),
            }
        }
        panic!("no batch won in {ATTEMPTS} attempts");
    }
}
