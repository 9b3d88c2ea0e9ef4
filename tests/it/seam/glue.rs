//! The seam's traits over the library: conversions and nothing else. The only file here that knows both.

use std::any::Any;
use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use commit_log::adoption::FreshLog;
use commit_log::bucket::{Bucket, Pace};
use commit_log::commit_store::{self as library, CommitStoreError, CommitStoreSettings, Hooks, NotServing, Winner};
use commit_log::envelope::Write;
use commit_log::environment::{Environment, SystemClock};
use commit_log::holder::HoldingOptions;
use commit_log::identity::TransactionId;
use commit_log::inspect::{Content, Inspect, Refusal};
use commit_log::log::{Commit, LogOptions};
use commit_log::place::LogPlace;
use commit_log::publish::{Publication, Publish, PublishFailure};
use commit_log::slot::Sequence;
use commit_log::take::{self, TakeError};
use commit_log::wal::{self, AccessError, LogGc, Tail};
use object_store::{ObjectStore, path::Path};
use slatedb::{Db, DbReader, wal::WalGc, wal::WalReader, wal::WriterInit};

use super::traits::{
    CatalogHooks, CommitLogProvider, CommitLogSettings, CommitStore, Error, ReaderSession, Result, SlotAdoption, SlotCommit,
    SlotEnvelope, SlotOffer, TakeStore, WriterSession,
};

/// The library as a provider. What the seam has no place for, whoever links both crates says here.
#[derive(Debug)]
pub(crate) struct Provider {
    pub(crate) environment: Environment,
    pub(crate) fresh: FreshLog,
    pub(crate) options: LogOptions,
    pub(crate) retain_pages: NonZeroU32,
    pub(crate) external_compaction: bool,
}

struct Writer(wal::WriterSession);

struct Reader(wal::ReaderSession);

/// A store of the library, for everything that the seam does not carry.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) library: library::CommitStore,
}

/// The catalog's take, for the library.
struct Taker(Arc<dyn TakeStore>);

/// The catalog's publication, for the library.
struct Publisher(CatalogHooks);

/// The clock that a session's store must be opened with, and its reader should be. The seam has no place for it.
pub(crate) fn clock(session: &dyn Any) -> Option<Arc<dyn SystemClock>> {
    let writer = session.downcast_ref().map(|Writer(session)| session.clock());
    writer.or_else(|| session.downcast_ref().map(|Reader(session)| session.clock()))
}

impl Provider {
    fn place(&self, log_store: Arc<dyn ObjectStore>, path: &str) -> LogPlace {
        let bucket = Bucket::new(log_store, Path::from(path), self.environment.clone(), Pace::default());
        LogPlace::new(bucket, self.fresh.clone(), self.options.clone())
    }

    fn hooks(&self, hooks: CatalogHooks) -> Hooks {
        let CatalogHooks { take, inspect, settings, path: _, object_store: _ } = hooks.clone();
        let CommitLogSettings { fold_every, flush_slots, fold_poll, published, retain_slots: _, committer_poll: _ } = settings;
        let own = CommitStoreSettings::default();
        let external_compaction = self.external_compaction;
        let holding = HoldingOptions { flush_slots, poll: fold_poll, external_compaction, ..own.holding };
        let settings = CommitStoreSettings { fold_every, retain_pages: self.retain_pages, holding, ..own };
        let check = move |content: &Content<'_>| {
            inspect(content.sequence.get(), &envelope(content)).map_err(|error| Arc::new(error) as Refusal)
        };
        let publication = published.map(|name| Publication::new(name, Arc::new(Publisher(hooks))));
        Hooks { take: Some(Arc::new(Taker(take))), inspect: Inspect::with(check), publication, settings }
    }
}

impl CommitLogProvider for Provider {
    fn writer_session(&self, log_store: Arc<dyn ObjectStore>, path: &str) -> Arc<dyn WriterSession> {
        Arc::new(Writer(wal::WriterSession::new(self.place(log_store, path))))
    }

    fn reader_session(&self, log_store: Arc<dyn ObjectStore>, path: &str, tail: bool) -> Arc<dyn ReaderSession> {
        let tail = if tail { Tail::Followed } else { Tail::Hidden };
        Arc::new(Reader(wal::ReaderSession::new(self.place(log_store, path), tail)))
    }

    fn holding(&self, db: Db, session: Arc<dyn WriterSession>, hooks: CatalogHooks) -> Arc<dyn CommitStore> {
        let held = |Writer(session): &Writer| library::CommitStore::held(db, session.clone(), self.hooks(hooks));
        let library = session.as_any().downcast_ref().map_or_else(library::CommitStore::of_foreign_session, held);
        Arc::new(Store { library })
    }

    fn following(&self, reader: Arc<DbReader>, session: Arc<dyn ReaderSession>, hooks: CatalogHooks) -> Arc<dyn CommitStore> {
        let followed = |Reader(session): &Reader| library::CommitStore::followed(reader, session.clone(), self.hooks(hooks));
        let library = session.as_any().downcast_ref().map_or_else(library::CommitStore::of_foreign_session, followed);
        Arc::new(Store { library })
    }

    fn garbage_collector(&self, log_store: Arc<dyn ObjectStore>, path: &str) -> Arc<dyn WalGc> {
        Arc::new(LogGc::new(self.place(log_store, path), self.retain_pages))
    }

    fn external_compaction(&self) -> bool {
        self.external_compaction
    }
}

#[async_trait]
impl WriterSession for Writer {
    fn writer_init(&self) -> Box<dyn WriterInit> {
        self.0.writer_init()
    }

    async fn adopted(&self) -> Result<bool> {
        Ok(self.0.adopted().await?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl ReaderSession for Reader {
    fn reader(&self) -> Arc<dyn WalReader> {
        self.0.reader()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[async_trait]
impl CommitStore for Store {
    async fn adopted(&self) -> Result<bool> {
        Ok(self.library.adopted().await?)
    }

    async fn adopt(&self, stamp: SlotCommit) -> Result<SlotAdoption> {
        Ok(match self.library.adopt(commit(stamp)).await? {
            library::SlotAdoption::Ours { sequence } => SlotAdoption::Ours { sequence: sequence.get() },
            library::SlotAdoption::Theirs { sequence, winner } => {
                SlotAdoption::Theirs { sequence: sequence.get(), winner: won_by(sequence, winner) }
            }
        })
    }

    async fn write_at(&self, sequence: u64, batch: SlotCommit) -> Result<SlotOffer> {
        let sequence = Sequence::new(sequence).ok_or(Error::NoSequence { sequence })?;
        Ok(match self.library.write_at(sequence, commit(batch)).await? {
            library::SlotOffer::Won { sequence } => SlotOffer::Won { sequence: sequence.get() },
            library::SlotOffer::Lost { sequence, winner, through } => {
                SlotOffer::Lost { sequence: sequence.get(), winner: won_by(sequence, winner), through: through.get() }
            }
        })
    }

    async fn fold_tail(&self) -> Result<u64> {
        Ok(self.library.fold_tail().await?)
    }

    async fn close(&self) -> Result<()> {
        Ok(self.library.close().await?)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[async_trait]
impl take::TakeStore for Taker {
    async fn take(&self) -> Result<Option<(Db, wal::WriterSession)>, TakeError> {
        self.0.take().await.map_err(take_error)?.map(taken).transpose()
    }

    async fn take_for_publication(&self) -> Result<(Db, wal::WriterSession), TakeError> {
        taken(self.0.take_for_publication().await.map_err(take_error)?)
    }
}

fn taken((db, session): (Db, Arc<dyn WriterSession>)) -> Result<(Db, wal::WriterSession), TakeError> {
    let Writer(session) = session.as_any().downcast_ref().ok_or_else(|| take_error(Error::ForeignSession))?;
    Ok((db, session.clone()))
}

#[async_trait]
impl Publish for Publisher {
    async fn publish(&self, db: &Db) -> Result<(), PublishFailure> {
        self.0.publish(db).await.map_err(|error| Arc::new(error) as PublishFailure)
    }
}

fn commit(SlotCommit { transaction_id, validated_head, changes_made, writes }: SlotCommit) -> Commit {
    let writes = writes.into_iter().map(|(key, value)| Write { key, value }).collect();
    Commit { transaction: TransactionId::from_bytes(transaction_id), validated_head, changes_made, writes }
}

fn envelope(content: &Content<'_>) -> SlotEnvelope {
    SlotEnvelope {
        sequence: content.sequence.get(),
        transaction_id: first_of(content.members),
        validated_head: content.validated_head.clone(),
        changes_made: content.changes_made.clone(),
        writes: content.writes.iter().map(|Write { key, value }| (key.clone(), value.clone())).collect(),
    }
}

/// Of a slot that is forgotten its rows are gone, and what it changed may be; below the origin there never was one.
fn won_by(sequence: Sequence, winner: Winner) -> SlotEnvelope {
    let nothing = SlotEnvelope { sequence: sequence.get(), ..SlotEnvelope::default() };
    match winner {
        Winner::Slot(slot) => envelope(&Content::from(&*slot)),
        Winner::Retired(entry) => SlotEnvelope {
            transaction_id: first_of(&entry.members),
            validated_head: entry.validated_head,
            changes_made: entry.changes_made.unwrap_or_default(),
            ..nothing
        },
        Winner::BelowTheOrigin => nothing,
    }
}

/// A log of the catalog's has one transaction a slot.
fn first_of(members: &[TransactionId]) -> [u8; 16] {
    members.first().map_or([0; 16], |member| *member.as_bytes())
}

fn take_error(error: Error) -> TakeError {
    // SlateDB's own are sorted by the library. Nobody else has this one.
    if let Error::Store(error) = error {
        Arc::try_unwrap(error).map_or_else(TakeError::Refused, TakeError::from)
    } else if matches!(error, Error::Fenced) {
        TakeError::Fenced
    } else if matches!(error, Error::TakeRefused) {
        TakeError::Declined
    } else {
        let passes = matches!(error, Error::Unavailable(_));
        let sorted = if passes { slatedb::Error::unavailable } else { slatedb::Error::internal };
        sorted(error.to_string()).with_source(Box::new(error)).into()
    }
}

impl From<CommitStoreError> for Error {
    fn from(error: CommitStoreError) -> Error {
        use CommitStoreError as E;
        match error {
            E::NotServed { sequence, .. }
            | E::NotPublished { sequence, .. }
            | E::Unknown { sequence, .. }
            | E::OpenElsewhere { at: sequence, .. }
            | E::StillOpen { sequence } => Error::CommitOutcomeUnknown { sequence: sequence.get(), source: Arc::new(error) },
            E::Refused(_) | E::Inspected(_) | E::NoFillers => Error::Refused(Arc::new(error)),
            E::TooFarAhead { .. } => Error::Conflict(Arc::new(error)),
            E::NotSent(_) | E::NotFolded(_) | E::L0Full { .. } | E::Unavailable(_) | E::Behind => {
                Error::Unavailable(Arc::new(error))
            }
            E::NotCaughtUp { source, .. } => source.into(),
            E::Fenced => Error::Fenced,
            E::HoldEnded(_) | E::ReaderClosed { .. } => Error::Reopen(Arc::new(error)),
            E::NotClosed(_) => Error::NotClosed(Arc::new(error)),
            E::NotAdopted => Error::NotAdopted,
            E::Left | E::Adoption(_) => Error::Unusable(Arc::new(error)),
            E::ForeignWriter { .. } | E::SlotRefused { .. } | E::Corrupt(_) => Error::Corrupt(Arc::new(error)),
            E::ForeignSession => Error::ForeignSession,
            E::Closed => Error::Closed,
            _ => Error::UnknownToThisBuild(Arc::new(error)),
        }
    }
}

impl From<NotServing> for Error {
    fn from(error: NotServing) -> Error {
        match error {
            NotServing::Held(source) => CommitStoreError::from(source).into(),
            NotServing::Reader(source) => source.into(),
            NotServing::ReaderClosed => Error::Reopen(Arc::new(error)),
            NotServing::TimedOut => Error::Unavailable(Arc::new(error)),
            NotServing::Closed => Error::Closed,
            _ => Error::UnknownToThisBuild(Arc::new(error)),
        }
    }
}

impl From<AccessError> for Error {
    fn from(error: AccessError) -> Error {
        match error {
            AccessError::Adoption(source) => CommitStoreError::from(source).into(),
            AccessError::Tail(source) => CommitStoreError::from(source).into(),
            _ => Error::UnknownToThisBuild(Arc::new(error)),
        }
    }
}
