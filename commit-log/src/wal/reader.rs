//! `WalReader`: the log for a reader of the store.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use slatedb::wal::{WalError, WalFileRange, WalIterator, WalReader};

use crate::log::{Proof, SlotLog, TailError};
use crate::place::LogPlace;
use crate::slot::{Sequence, sequence_after};

use super::iterator::{RangeEnd, SlotIterator};
use super::rows::Replay;
use super::watermark::Watermark;
use super::{AccessError, Tail, access_error};

#[derive(Debug)]
pub(super) struct LogReader {
    place: LogPlace,
    tail: Tail,
    watermark: Arc<Watermark>,
}

impl LogReader {
    pub(super) fn new(place: LogPlace, tail: Tail, watermark: Arc<Watermark>) -> LogReader {
        LogReader { place, tail, watermark }
    }

    async fn log(&self) -> Result<SlotLog, AccessError> {
        Ok(self.place.find(&self.place.bucket().deadline()).await?)
    }

    /// The last slot of the log, when the reader has installed those up to `installed`.
    async fn head(&self, installed: Option<Sequence>) -> Result<Option<Sequence>, AccessError> {
        let log = self.log().await?;
        // What this process knows already is shown without a request; the next look asks what came after.
        if log.head() <= installed {
            catch_up(&log, installed).await?;
        }
        Ok(log.head())
    }

    fn failed(&self, error: AccessError) -> WalError {
        self.watermark.failed(error.clone());
        access_error(error)
    }
}

/// Reads on, from the store's own point when the log was retired past what this process knows.
async fn catch_up(log: &SlotLog, covered: Option<Sequence>) -> Result<(), TailError> {
    let deadline = log.bucket().deadline();
    if log.head() < covered {
        return log.load(covered, &deadline).await;
    }
    match log.catch_up(Proof::NowAndThen, &deadline).await {
        Err(TailError::Behind { .. }) => log.load(covered, &deadline).await,
        caught_up => caught_up,
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
        let log = self.log().await.map_err(|error| self.failed(error))?;
        // Nothing lies below the origin but what the guard bars.
        let origin = log.record().origin;
        let end = last.map_or(RangeEnd::Open, |last| last.map_or(RangeEnd::Empty, RangeEnd::Last));
        let replay = Replay { tick: None, consumed_at_least: 0 };
        let watermark = Some(self.watermark.clone());
        Ok(Box::new(SlotIterator::new(log, first.max(origin), end, replay, watermark)))
    }

    async fn last_wal_file_id(&self, replay_after_wal_id: u64) -> Result<u64, WalError> {
        // SUBTLE: SlateDB passes the last slot that it has installed, so this call tells what is visible by now. What it
        // publishes as durable runs ahead of that.
        let installed = Sequence::new(replay_after_wal_id);
        self.watermark.serves(installed);
        if self.tail == Tail::Hidden {
            return Ok(replay_after_wal_id);
        }
        let head = self.head(installed).await.map_err(|error| self.failed(error))?;
        self.watermark.goes_on();
        Ok(head.map_or(0, Sequence::get).max(replay_after_wal_id))
    }
}
