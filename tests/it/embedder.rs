//! An embedder that opens its own SlateDB stores and hands them to the library, as a catalog does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use commit_log::adoption::FreshLog;
use commit_log::commit_store::{CommitStore, CommitStoreError, CommitStoreSettings, Hooks, SlotOffer};
use commit_log::envelope::Write;
use commit_log::holder::HoldingOptions;
use commit_log::identity::TransactionId;
use commit_log::log::{Commit, LogOptions, SlotLog};
use commit_log::place::LogPlace;
use commit_log::record::ContentRule;
use commit_log::slot::PageSize;
use commit_log::take::{TakeStore, TakeWith};
use commit_log::wal::{ReaderSession, Tail, WriterSession};
use commit_log_kit::clock::Timeline;
use commit_log_kit::scripted::ScriptedBucket;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use slatedb::config::{DbReaderOptions, Settings};
use slatedb::{Db, DbReader, DbReaderMode};

use crate::holding::settings;
use crate::support::{PAGE, ROOT, scripted, sequence};

/// How often a reader looks at the store by itself: so seldom that only a nudge explains a look.
pub(crate) const READER_POLL: Duration = Duration::from_secs(1000);

/// A bucket in which nothing is yet.
pub(crate) struct Lake {
    pub(crate) memory: Arc<dyn ObjectStore>,
    timeline: Timeline,
    seeds: AtomicU64,
}

/// One process of the embedder.
pub(crate) struct Embedder {
    pub(crate) scripted: ScriptedBucket,
    pub(crate) place: LogPlace,
}

impl Lake {
    pub(crate) fn new() -> Lake {
        Lake { memory: Arc::new(InMemory::new()), timeline: Timeline::begin(), seeds: AtomicU64::new(1) }
    }

    /// A process that has looked at nothing yet.
    pub(crate) fn process(&self) -> Embedder {
        self.process_with(LogOptions::default())
    }

    pub(crate) fn process_with(&self, options: LogOptions) -> Embedder {
        let seed = self.seeds.fetch_add(1, Ordering::Relaxed);
        let (scripted, bucket) = scripted(self.memory.clone(), self.timeline, seed);
        let page_size = PageSize::new(PAGE).unwrap();
        let fresh = FreshLog { page_size, content_rule: ContentRule::OneMember, ..FreshLog::default() };
        Embedder { scripted, place: LogPlace::new(bucket, fresh, options) }
    }

    /// A process that holds a store which is on its log, with the stamp as slot 1.
    pub(crate) async fn adopted(&self) -> (Embedder, CommitStore) {
        let process = self.process();
        let store = process.held(hooks()).await;
        store.adopt(process.stamp()).await.unwrap();
        (process, store)
    }

    /// The same, whose embedder keeps the store's own handle, too.
    pub(crate) async fn adopted_beside_its_db(&self) -> (Embedder, Db, CommitStore) {
        let process = self.process();
        let session = process.writer_session();
        let db = process.open_db(&session).await.unwrap();
        let store = CommitStore::held(db.clone(), session, hooks());
        store.adopt(process.stamp()).await.unwrap();
        (process, db, store)
    }

    /// A store that is on its log, up to slot `head`, and that nobody has open.
    pub(crate) async fn adopted_through(&self, head: u64) {
        let (process, store) = self.adopted().await;
        for number in 2..=head {
            won(&store.write_at(sequence(number), process.commit()).await);
        }
        store.close().await.unwrap();
    }

    /// The rows that a fresh open has, by the transactions that put them.
    pub(crate) async fn assert_has(&self, transactions: &[TransactionId]) {
        let process = self.process();
        let db = process.open_db(&process.writer_session()).await.unwrap();
        for transaction in transactions {
            assert_eq!(db.get(transaction.to_string()).await.unwrap(), Some(Bytes::from("value")), "row of {transaction}");
        }
        db.close().await.unwrap();
    }
}

impl Embedder {
    pub(crate) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::new(self.scripted.clone())
    }

    pub(crate) fn log(&self) -> SlotLog {
        self.place.known().unwrap()
    }

    pub(crate) fn writer_session(&self) -> WriterSession {
        WriterSession::new(self.place.clone())
    }

    pub(crate) async fn open_db(&self, session: &WriterSession) -> Result<Db, slatedb::Error> {
        open(self.store(), session, settings()).await
    }

    /// What opens the store as its writer, and counts how often.
    pub(crate) fn taker(&self, settings: Settings, takes: &Arc<AtomicUsize>) -> Arc<dyn TakeStore> {
        let (store, takes) = (self.store(), takes.clone());
        Arc::new(TakeWith::new(self.place.clone(), move |session| {
            takes.fetch_add(1, Ordering::SeqCst);
            let (store, settings) = (store.clone(), settings.clone());
            async move { Ok(Some(open(store, &session, settings).await?)) }
        }))
    }

    pub(crate) async fn held(&self, hooks: Hooks) -> CommitStore {
        self.held_with(settings(), hooks).await
    }

    pub(crate) async fn held_with(&self, settings: Settings, hooks: Hooks) -> CommitStore {
        let session = self.writer_session();
        let db = open(self.store(), &session, settings).await.unwrap();
        CommitStore::held(db, session, hooks)
    }

    pub(crate) async fn open_reader(&self, session: &ReaderSession) -> Arc<DbReader> {
        let options = DbReaderOptions { manifest_poll_interval: READER_POLL, ..DbReaderOptions::default() };
        let reader = DbReader::builder(ROOT, self.store())
            .with_wal_reader(session.reader())
            .with_system_clock(session.clock())
            .with_reader_mode(DbReaderMode::FollowLatest)
            .with_options(options)
            .build();
        Arc::new(Box::pin(reader).await.unwrap())
    }

    pub(crate) async fn followed(&self, hooks: Hooks) -> (Arc<DbReader>, CommitStore) {
        let session = ReaderSession::new(self.place.clone(), Tail::Followed);
        let reader = self.open_reader(&session).await;
        (reader.clone(), CommitStore::followed(reader, session, hooks))
    }

    /// What says that the store is on the log.
    pub(crate) fn stamp(&self) -> Commit {
        self.commit_of(&[("format", Some("1"))])
    }

    /// A commit of one row, of a transaction of its own.
    pub(crate) fn commit(&self) -> Commit {
        let transaction = TransactionId::random(&self.place.bucket().environment().randomness);
        Commit::of(transaction, vec![Write::put(transaction.to_string(), "value")])
    }

    pub(crate) fn commit_of(&self, rows: &[(&str, Option<&str>)]) -> Commit {
        let transaction = TransactionId::random(&self.place.bucket().environment().randomness);
        let write = |(key, value): &(&str, Option<&str>)| Write {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
        };
        Commit::of(transaction, rows.iter().map(write).collect())
    }
}

pub(crate) async fn open(
    store: Arc<dyn ObjectStore>,
    session: &WriterSession,
    settings: Settings,
) -> Result<Db, slatedb::Error> {
    let opening = Db::builder(ROOT, store)
        .with_wal_writer(session.writer_init())
        .with_system_clock(session.clock())
        .with_settings(settings)
        .build();
    // The future of an open is larger than a test's should be.
    Box::pin(opening).await
}

/// Flushes by hand only, unless a test wants otherwise.
pub(crate) fn hooks() -> Hooks {
    let holding = HoldingOptions { poll: Duration::from_millis(100), ..HoldingOptions::default() };
    Hooks { settings: CommitStoreSettings { holding, ..CommitStoreSettings::default() }, ..Hooks::default() }
}

pub(crate) fn won(offer: &Result<SlotOffer, CommitStoreError>) {
    assert!(matches!(offer, Ok(SlotOffer::Won { .. })), "{offer:?}");
}
