//! The log presented to SlateDB as its write-ahead log. Nothing else imports `slatedb::wal`.
//!
//! A slot is one WAL file: its sequence is the file's id and the SlateDB sequence number of all its rows.

mod admin;
mod clock;
mod cursor;
mod gc;
mod iterator;
mod reader;
mod reader_clock;
mod rows;
mod watermark;
mod writer;
mod writer_init;

use std::num::NonZeroU32;
use std::sync::Arc;

use slatedb::wal::{WalError, WalGc, WalReader, WriterInit};
use tokio::sync::watch;

use crate::adoption::AdoptionError;
use crate::environment::SystemClock;
use crate::error::{Corruption, Unavailable};
use crate::log::{SlotLog, TailError};
use crate::place::LogPlace;
use crate::slot::Sequence;

use clock::RatchetClock;
use cursor::Cursor;
use reader::LogReader;
use reader_clock::ReaderClock;
use watermark::Watermark;
use writer_init::LogWriterInit;

pub use admin::{AdminError, LogAdmin};
pub use gc::LogGc;
pub use rows::write_batch;

/// What one open of the store as writer shares with its plug. Made before the store is opened, handed back with it.
///
/// One session serves one open. Making one does no I/O and cannot fail.
#[derive(Clone, Debug)]
pub struct WriterSession {
    place: LogPlace,
    cursor: Arc<Cursor>,
    clock: Arc<RatchetClock>,
    closing: watch::Sender<bool>,
}

impl WriterSession {
    /// A session for the next open of the store there. Where no log is, that open begins it, if the store is empty.
    pub fn new(place: impl Into<LogPlace>) -> WriterSession {
        let place = place.into();
        let clock = Arc::new(RatchetClock::new(place.bucket().environment().clock.clone()));
        WriterSession { place, cursor: Arc::default(), clock, closing: watch::Sender::new(false) }
    }

    /// What the store's builder is given as its WAL writer.
    pub fn writer_init(&self) -> Box<dyn WriterInit> {
        Box::new(LogWriterInit::new(self.place.clone(), self.cursor.clone(), self.clock.clone()))
    }

    /// Whether the store is on a log, whose first slot has landed. May be asked before the store is opened. Writes nothing.
    ///
    /// # Errors
    ///
    /// See [`AccessError`]. An answer that was not had is not "no".
    pub async fn adopted(&self) -> Result<bool, AccessError> {
        let deadline = self.place.bucket().deadline();
        match self.place.find(&deadline).await {
            Ok(log) => Ok(log.has_begun(&deadline).await?),
            Err(AdoptionError::NoLog) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What the store's garbage collector may be given as its WAL collector: it retires pages that nothing needs, and keeps
    /// `retain_pages` pages, the one of the store's last flush included.
    pub fn wal_gc(&self, retain_pages: NonZeroU32) -> Arc<dyn WalGc> {
        Arc::new(LogGc::new(self.place.clone(), retain_pages).until(self.closing.subscribe()))
    }

    /// Ends a pass of the collector that is under way: SlateDB's close would wait for it.
    pub(crate) fn closes(&self) {
        self.closing.send_replace(true);
    }

    /// The clock that the store must be opened with: never behind the last tick that an earlier holder stored, which SlateDB
    /// would refuse to flush.
    pub fn clock(&self) -> Arc<dyn SystemClock> {
        self.clock.clone()
    }

    /// From now on its clock is never behind `millis`, in ms since the Unix epoch.
    pub(crate) fn raise_clock(&self, millis: i64) {
        self.clock.raise(millis);
    }

    /// The log that its store was opened over. `None` when no store was.
    pub(crate) fn opened_over(&self) -> Option<SlotLog> {
        self.place.known().filter(|_| self.cursor.has_started())
    }

    /// Tells the plug which slot is written to the store next. Every other write is refused, and kills the store's handle.
    pub(crate) fn announce(&self, sequence: Sequence) {
        self.cursor.announce(sequence);
    }

    /// Tells SlateDB that the slot is in its memtable: only now may it say so to anybody.
    pub(crate) fn applied(&self, sequence: Sequence) {
        self.cursor.publish(sequence);
    }

    /// The last slot that the store has, replayed or applied. `None` before the replay has ended or when it has none.
    pub(crate) fn last_applied(&self) -> Option<Sequence> {
        self.cursor.last_applied()
    }
}

/// What a reader of the store is shown of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tail {
    /// What has landed, as it lands.
    #[default]
    Followed,
    /// Only what the store had folded, and what a checkpoint counts when the reader is of one.
    Hidden,
}

/// What one reader of the store shares with its plug.
///
/// One session serves one reader. Making one does no I/O and cannot fail.
#[derive(Clone, Debug)]
pub struct ReaderSession {
    place: LogPlace,
    watermark: Arc<Watermark>,
    reader: Arc<LogReader>,
    clock: Arc<ReaderClock>,
}

impl ReaderSession {
    /// A session for a reader of the store there.
    pub fn new(place: impl Into<LogPlace>, tail: Tail) -> ReaderSession {
        let place = place.into();
        let watermark = Arc::<Watermark>::default();
        let reader = Arc::new(LogReader::new(place.clone(), tail, watermark.clone()));
        let clock = RatchetClock::new(place.bucket().environment().clock.clone());
        let clock = Arc::new(ReaderClock::new(clock, watermark.clone()));
        ReaderSession { place, watermark, reader, clock }
    }

    /// What the reader's builder is given as its WAL reader.
    pub fn reader(&self) -> Arc<dyn WalReader> {
        self.reader.clone()
    }

    /// The clock that the reader should be opened with. Its pause between two looks at the store can be cut short, and then
    /// whoever waits for a slot waits for one look, not for the next.
    pub fn clock(&self) -> Arc<dyn SystemClock> {
        self.clock.clone()
    }

    /// The last slot that the reader serves. SlateDB announces new slots before it serves them; this is told by the reader
    /// itself, so a slot at or below it is visible in every read that begins afterwards.
    pub fn watermark(&self) -> Option<Sequence> {
        self.watermark.served()
    }

    /// Why the reader could not go on, since it last could. SlateDB's reader retries without telling anybody.
    pub fn last_error(&self) -> Option<AccessError> {
        self.watermark.last_error()
    }

    /// Where its log is.
    pub(crate) fn place(&self) -> &LogPlace {
        &self.place
    }

    /// What the reader serves, and every look of it.
    pub(crate) fn watermark_source(&self) -> &Arc<Watermark> {
        &self.watermark
    }

    /// Lets the reader look at the store now.
    pub(crate) fn nudge(&self) {
        self.clock.nudge();
    }
}

/// Why the log cannot be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// There is no log to read, or it cannot be used.
    #[error(transparent)]
    Adoption(AdoptionError),
    /// The log could not be read.
    #[error(transparent)]
    Tail(#[from] TailError),
}

impl From<AdoptionError> for AccessError {
    fn from(error: AdoptionError) -> AccessError {
        error.sorted(AccessError::Adoption)
    }
}

impl From<Corruption> for AccessError {
    fn from(corruption: Corruption) -> AccessError {
        AccessError::Tail(corruption.into())
    }
}

impl From<Unavailable> for AccessError {
    fn from(failure: Unavailable) -> AccessError {
        AccessError::Tail(failure.into())
    }
}

/// How a failure of the log is told to SlateDB. Never as "truncated", which SlateDB takes for the end of the log.
fn wal_error(error: TailError) -> WalError {
    match error {
        TailError::Corrupt(corruption) => WalError::DataError(Arc::new(corruption)),
        // Somebody folded further meanwhile: whoever asks again with a newer manifest fares better.
        error @ (TailError::Behind { .. } | TailError::Unavailable(_)) => WalError::Unavailable(Arc::new(error)),
    }
}

/// The same of a log that may not be there.
fn access_error(error: AccessError) -> WalError {
    match error {
        AccessError::Adoption(error) => WalError::DataError(Arc::new(error)),
        AccessError::Tail(error) => wal_error(error),
    }
}

#[cfg(test)]
mod tests;
