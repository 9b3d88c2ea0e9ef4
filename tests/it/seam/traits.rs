//! RFC 0027's seam, word for word, and the least of what it names without saying what it is.
//!
//! This is the catalog's side: it knows SlateDB and nothing of the library.
#![allow(unreachable_pub, reason = "the words of the contract, which are public where a catalog declares them")]

use std::any::Any;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use object_store::ObjectStore;
use slatedb::config::{CheckpointOptions, CheckpointScope, FlushOptions, FlushType};
use slatedb::wal::{WalGc, WalReader, WriterInit};

#[async_trait]
pub trait CommitStore: Any + fmt::Debug + Send + Sync + 'static {
    async fn adopted(&self) -> Result<bool>;
    async fn adopt(&self, stamp: SlotCommit) -> Result<SlotAdoption>;
    async fn write_at(&self, sequence: u64, commit: SlotCommit) -> Result<SlotOffer>;
    async fn fold_tail(&self) -> Result<u64>;
    async fn close(&self) -> Result<()>;
    fn as_any(&self) -> &dyn Any;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotOffer {
    Won { sequence: u64 },
    Lost { sequence: u64, winner: SlotEnvelope, through: u64 },
}

pub trait CommitLogProvider: fmt::Debug + Send + Sync + 'static {
    fn writer_session(&self, log_store: Arc<dyn ObjectStore>, path: &str) -> Arc<dyn WriterSession>;
    fn reader_session(&self, log_store: Arc<dyn ObjectStore>, path: &str, tail: bool) -> Arc<dyn ReaderSession>;
    fn holding(&self, db: slatedb::Db, session: Arc<dyn WriterSession>, hooks: CatalogHooks) -> Arc<dyn CommitStore>;
    fn following(
        &self,
        reader: Arc<slatedb::DbReader>,
        session: Arc<dyn ReaderSession>,
        hooks: CatalogHooks,
    ) -> Arc<dyn CommitStore>;
    fn garbage_collector(&self, log_store: Arc<dyn ObjectStore>, path: &str) -> Arc<dyn WalGc>;
    fn external_compaction(&self) -> bool;
}

#[async_trait]
pub trait WriterSession: Any + Send + Sync + 'static {
    fn writer_init(&self) -> Box<dyn WriterInit>;
    async fn adopted(&self) -> Result<bool>;
    fn as_any(&self) -> &dyn Any;
}

pub trait ReaderSession: Any + Send + Sync + 'static {
    fn reader(&self) -> Arc<dyn WalReader>;
    fn as_any(&self) -> &dyn Any;
}

/// How long a read checkpoint lives: longer than readers of a fixed state take to make one of their own.
const PUBLISHED_FOR: Duration = Duration::from_secs(600);

/// What the contract calls `inspect`.
pub type InspectSlot = Arc<dyn Fn(u64, &SlotEnvelope) -> Result<()> + Send + Sync>;

#[derive(Clone)]
pub struct CatalogHooks {
    pub take: Arc<dyn TakeStore>,
    pub inspect: InspectSlot,
    #[allow(dead_code, reason = "the library has it from the session, and publication from the store's own handle")]
    pub path: String,
    #[allow(dead_code, reason = "the library has it from the session, and publication from the store's own handle")]
    pub object_store: Arc<dyn ObjectStore>,
    pub settings: CommitLogSettings,
}

impl CatalogHooks {
    /// Makes what `db` has applied durable, and the current read checkpoint cover it.
    pub async fn publish(&self, db: &slatedb::Db) -> Result<()> {
        db.flush_with_options(FlushOptions { flush_type: FlushType::Wal }).await?;
        let options = CheckpointOptions { lifetime: Some(PUBLISHED_FOR), source: None, name: self.settings.published.clone() };
        db.create_checkpoint(CheckpointScope::Durable, &options).await?;
        Ok(())
    }
}

#[async_trait]
pub trait TakeStore: Send + Sync + 'static {
    async fn take(&self) -> Result<Option<(slatedb::Db, Arc<dyn WriterSession>)>>;
    async fn take_for_publication(&self) -> Result<(slatedb::Db, Arc<dyn WriterSession>)> {
        self.take().await?.ok_or(Error::TakeRefused)
    }
}

// From here on: what the contract names without saying what it is.

/// A batch as it is offered. Its rows are in ascending order of keys, each key once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCommit {
    pub transaction_id: [u8; 16],
    pub validated_head: Bytes,
    pub changes_made: Bytes,
    pub writes: Vec<(Bytes, Option<Bytes>)>,
}

/// A batch that has a sequence. Of one that is forgotten, what is remembered; the rest is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotEnvelope {
    pub sequence: u64,
    pub transaction_id: [u8; 16],
    pub validated_head: Bytes,
    pub changes_made: Bytes,
    pub writes: Vec<(Bytes, Option<Bytes>)>,
}

/// Whose format stamp put the store on the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotAdoption {
    Ours { sequence: u64 },
    Theirs { sequence: u64, winner: SlotEnvelope },
}

/// The catalog's `commit_log_*` options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitLogSettings {
    /// The winner of every so many slots has the store folded.
    pub fold_every: NonZeroU64,
    /// A holder flushes after so many slots.
    pub flush_slots: u64,
    /// How many slots are kept behind the store's last flush.
    #[allow(dead_code, reason = "the library counts in pages, and is told by whoever makes the provider")]
    pub retain_slots: u64,
    /// What the read checkpoint is called that every win is published in, if any is.
    pub published: Option<String>,
    /// How often a holder looks for what has landed.
    pub fold_poll: Duration,
    /// How often a committer over a reader looks for what has landed.
    pub committer_poll: Duration,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is behind an error.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// What a catalog reports: one error for each thing that its caller does next.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// It is committed, or it may be, or come to be. Open the catalog anew; do not offer the batch anywhere else.
    #[error("the outcome of the commit at sequence {sequence} is unknown")]
    CommitOutcomeUnknown {
        sequence: u64,
        #[source]
        source: Cause,
    },
    /// Another process took the store.
    #[error("another process took the store")]
    Fenced,
    /// Nothing was sent: prepare the batch again.
    #[error("the batch was prepared against a head that the log does not have")]
    Conflict(#[source] Cause),
    /// Nothing was sent: the batch breaks a rule.
    #[error("the batch is refused")]
    Refused(#[source] Cause),
    /// Nothing was sent: no slot has that sequence.
    #[error("{sequence} is no sequence")]
    NoSequence { sequence: u64 },
    /// Nothing is folded or served past it.
    #[error("the store or its log is corrupt")]
    Corrupt(#[source] Cause),
    /// The store is on no log yet.
    #[error("the store is on no log yet")]
    NotAdopted,
    /// The store cannot be used with its log.
    #[error("the store cannot be used with a log")]
    Unusable(#[source] Cause),
    /// Nothing of this call is committed: try again.
    #[error("the store is unavailable")]
    Unavailable(#[source] Cause),
    /// Nothing of this call is committed, and this handle serves no longer: open the catalog anew.
    #[error("the store must be opened anew")]
    Reopen(#[source] Cause),
    /// The store was closed.
    #[error("the store was closed")]
    Closed,
    /// The store did not close.
    #[error("the store did not close")]
    NotClosed(#[source] Cause),
    /// Whoever opens the store as its writer declined.
    #[error("the take of the store was declined")]
    TakeRefused,
    /// The session is none of the provider's own.
    #[error("the session is none of the provider's")]
    ForeignSession,
    /// SlateDB failed where the catalog called it.
    #[error("the store could not be used")]
    Store(#[source] Arc<slatedb::Error>),
    /// The library reports what this build has no name for. Whether anything was sent is not known.
    #[error("an error that this build does not know")]
    UnknownToThisBuild(#[source] Cause),
}

impl From<slatedb::Error> for Error {
    fn from(error: slatedb::Error) -> Error {
        Error::Store(Arc::new(error))
    }
}
