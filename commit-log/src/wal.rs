//! The log presented to SlateDB as its write-ahead log. Nothing else imports `slatedb::wal`.
//!
//! A slot is one WAL file: its sequence is the file's id and the SlateDB sequence number of all its rows.

mod admin;
mod clock;
mod cursor;
mod gc;
mod iterator;
mod reader;
mod rows;
mod writer;
mod writer_init;

use std::num::NonZeroU32;
use std::sync::Arc;

use slatedb::wal::{WalError, WalGc, WalReader, WriterInit};
use tokio::sync::watch;

use crate::environment::SystemClock;
use crate::log::{SlotLog, TailError};
use crate::slot::Sequence;

use clock::RatchetClock;
use cursor::Cursor;
use reader::LogReader;
use writer_init::LogWriterInit;

pub use admin::{AdminError, LogAdmin};
pub use gc::LogGc;
pub use rows::write_batch;

/// What one open of the store as writer shares with its plug. Made before the store is opened, handed back with it.
///
/// One session serves one open. It does no I/O and cannot fail.
#[derive(Clone, Debug)]
pub struct WriterSession {
    log: SlotLog,
    cursor: Arc<Cursor>,
    clock: Arc<RatchetClock>,
    closing: watch::Sender<bool>,
}

impl WriterSession {
    /// A session for the next open of the store of `log`.
    pub fn new(log: SlotLog) -> WriterSession {
        let clock = Arc::new(RatchetClock::new(log.bucket().environment().clock.clone()));
        WriterSession { log, cursor: Arc::default(), clock, closing: watch::Sender::new(false) }
    }

    /// What the store's builder is given as its WAL writer.
    pub fn writer_init(&self) -> Box<dyn WriterInit> {
        Box::new(LogWriterInit::new(self.log.clone(), self.cursor.clone(), self.clock.clone()))
    }

    /// What the store's garbage collector may be given as its WAL collector: it retires pages that nothing needs, and keeps
    /// `retain_pages` pages, the one of the store's last flush included.
    pub fn wal_gc(&self, retain_pages: NonZeroU32) -> Arc<dyn WalGc> {
        Arc::new(LogGc::new(self.log.clone(), retain_pages).until(self.closing.subscribe()))
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

/// What one reader of the store shares with its plug.
///
/// One session serves one reader. It does no I/O and cannot fail.
#[derive(Clone, Debug)]
pub struct ReaderSession {
    reader: Arc<LogReader>,
}

impl ReaderSession {
    /// A session for a reader of the store of `log`.
    pub fn new(log: SlotLog) -> ReaderSession {
        ReaderSession { reader: Arc::new(LogReader::new(log)) }
    }

    /// What the reader's builder is given as its WAL reader.
    pub fn reader(&self) -> Arc<dyn WalReader> {
        self.reader.clone()
    }

    /// The last slot that the reader serves. SlateDB announces new slots before it serves them; this is told by the reader
    /// itself, so a slot at or below it is visible in every read that begins afterwards.
    pub fn watermark(&self) -> Option<Sequence> {
        self.reader.watermark().installed()
    }

    /// Why the reader could not go on, since it last could. SlateDB's reader retries without telling anybody.
    pub fn last_error(&self) -> Option<TailError> {
        self.reader.watermark().last_error()
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

#[cfg(test)]
mod tests;
