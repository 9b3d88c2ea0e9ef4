//! `WalReader`: the log for a reader of the store.

use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader};

use crate::log::{Proof, SlotLog, TailError};
use crate::slot::{Sequence, sequence_after};

use super::iterator::{RangeEnd, SlotIterator};
use super::rows::Replay;
use super::wal_error;

/// What a reader has installed, and why it could not go on.
#[derive(Debug, Default)]
pub(super) struct Watermark(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    installed: Option<Sequence>,
    last_error: Option<TailError>,
}

impl Watermark {
    fn state(&self) -> MutexGuard<'_, State> {
        // Two plain fields: nothing is ever half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn installed(&self) -> Option<Sequence> {
        self.state().installed
    }

    pub(super) fn last_error(&self) -> Option<TailError> {
        self.state().last_error.clone()
    }

    pub(super) fn failed(&self, error: TailError) {
        self.state().last_error = Some(error);
    }

    fn serves(&self, installed: Option<Sequence>) {
        let mut state = self.state();
        state.installed = state.installed.max(installed);
    }

    fn goes_on(&self) {
        self.state().last_error = None;
    }
}

#[derive(Debug)]
pub(super) struct LogReader {
    log: SlotLog,
    watermark: Arc<Watermark>,
}

impl LogReader {
    pub(super) fn new(log: SlotLog) -> LogReader {
        LogReader { log, watermark: Arc::default() }
    }

    pub(super) fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    /// Reads on, from the store's own point when the log was retired past what this process knows.
    async fn catch_up(&self, covered: Option<Sequence>) -> Result<(), TailError> {
        let deadline = self.log.bucket().deadline();
        if self.log.head() < covered {
            return self.log.load(covered, &deadline).await;
        }
        match self.log.catch_up(Proof::NowAndThen, &deadline).await {
            Err(TailError::Behind { .. }) => self.log.load(covered, &deadline).await,
            caught_up => caught_up,
        }
    }
}

#[async_trait]
impl WalReader for LogReader {
    async fn iterator(&self, wal_file_id_range: WalFileRange) -> Result<Box<dyn WalIterator>, WalError> {
        let WalFileRange(start, end) = wal_file_id_range;
        let first = match start {
            Bound::Included(id) => Sequence::new(id).unwrap_or(Sequence::FIRST),
            Bound::Excluded(id) => sequence_after(Sequence::new(id), Sequence::FIRST),
            Bound::Unbounded => Sequence::FIRST,
        };
        let last = match end {
            Bound::Included(id) => Some(Sequence::new(id)),
            Bound::Excluded(id) => Some(id.checked_sub(1).and_then(Sequence::new)),
            Bound::Unbounded => None,
        };
        // Nothing lies below the origin but what the guard bars.
        let origin = self.log.record().origin;
        let end = last.map_or(RangeEnd::Open, |last| last.map_or(RangeEnd::Empty, RangeEnd::Last));
        let replay = Replay { tick: None, consumed_at_least: 0 };
        let watermark = Some(self.watermark.clone());
        Ok(Box::new(SlotIterator::new(self.log.clone(), first.max(origin), end, replay, watermark)))
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        // SUBTLE: SlateDB passes the last slot that it has installed, so this call tells what is visible by now. What it
        // publishes as durable runs ahead of that.
        let installed = Sequence::new(replay_after_wal_id);
        self.watermark.serves(installed);
        match self.catch_up(installed).await {
            Ok(()) => {
                self.watermark.goes_on();
                Ok(self.log.head().map_or(0, Sequence::get).max(replay_after_wal_id))
            }
            Err(error) => {
                self.watermark.failed(error.clone());
                Err(wal_error(error))
            }
        }
    }
}
