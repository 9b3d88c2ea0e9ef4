//! `WalWriter`: the slots are in the log before they are written to the store, so there is nothing left to write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::FutureExt;
use slatedb::RowEntry;
use slatedb::wal::{WalError, WalFlushResult, WalObserver, WalStatus, WalWriter};

use super::cursor::{Cursor, Observer};

pub(super) struct LogWriter {
    cursor: Arc<Cursor>,
    /// SlateDB watches every WAL that it is going to write, before anything else.
    observed: AtomicBool,
}

/// The store was opened without a WAL: its replay point would never move, and the log never be folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the commit log needs the setting wal_enabled")]
pub(super) struct WalDisabled;

impl LogWriter {
    pub(super) fn new(cursor: Arc<Cursor>) -> LogWriter {
        LogWriter { cursor, observed: AtomicBool::new(false) }
    }
}

#[async_trait]
impl WalWriter for LogWriter {
    async fn append(&mut self, write_batch: &[RowEntry]) -> Result<(), WalError> {
        let first = write_batch.first().map(|row| row.seq);
        let of_one_sequence = write_batch.iter().all(|row| Some(row.seq) == first);
        // SUBTLE: SlateDB calls this before the rows can be read, so listeners are told later, when they can.
        self.cursor.append(first.filter(|_| of_one_sequence)).map_err(|refused| WalError::InternalError(Arc::new(refused)))
    }

    async fn flush(&mut self) -> Result<WalFlushResult, WalError> {
        Ok(WalFlushResult { wal_id: self.cursor.last_wal_id(), completion: async { Ok(()) }.boxed() })
    }

    fn observer(&self) -> Box<dyn WalObserver> {
        self.observed.store(true, Ordering::Relaxed);
        Box::new(Observer(self.cursor.clone()))
    }

    fn status(&self) -> Result<WalStatus, WalStatus> {
        self.cursor.status()
    }

    async fn close(&mut self) -> Result<(), WalError> {
        if !self.observed.load(Ordering::Relaxed) {
            return Err(WalError::InternalError(Arc::new(WalDisabled)));
        }
        self.cursor.close(WalError::Closed);
        Ok(())
    }
}
