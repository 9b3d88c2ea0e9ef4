//! `WalIterator`: slots of a range, in large chunks, believed chunk by chunk.

use std::sync::Arc;

use async_trait::async_trait;
use slatedb::wal::{WalError, WalIterator, WalRows};

use crate::envelope::Slot;
use crate::log::{Proof, SlotLog, TailError};
use crate::slot::Sequence;

use super::rows::{Replay, wal_rows};
use super::wal_error;
use super::watermark::Watermark;

/// How many bytes of slots one chunk has before it is handed over. SlateDB cuts its tables between chunks, so they are large;
/// and they are held in memory, so they are bounded.
const CHUNK_BYTES: usize = 8 << 20;

/// Where a range ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RangeEnd {
    /// With this slot, which is known to be there.
    Last(Sequence),
    /// Before anything.
    Empty,
    /// Never: later slots are waited for.
    Open,
}

/// Iterates over the slots of a range.
pub(super) struct SlotIterator {
    log: SlotLog,
    next: Sequence,
    end: RangeEnd,
    replay: Replay,
    /// Where failures are kept for whoever asks, when there is somebody.
    watermark: Option<Arc<Watermark>>,
}

impl SlotIterator {
    pub(super) fn new(log: SlotLog, first: Sequence, end: RangeEnd, replay: Replay, watermark: Option<Arc<Watermark>>) -> Self {
        SlotIterator { log, next: first, end, replay, watermark }
    }

    async fn next_slots(&mut self) -> Result<Vec<Arc<Slot>>, TailError> {
        let deadline = self.log.bucket().deadline();
        let last = match self.end {
            RangeEnd::Empty => return Ok(Vec::new()),
            RangeEnd::Last(last) => last,
            RangeEnd::Open => self.wait_for_more().await?,
        };
        if self.next > last {
            return Ok(Vec::new());
        }
        let slots = self.log.slots(self.next, last, CHUNK_BYTES, &deadline).await?;
        if let Some(last) = slots.last() {
            self.next = last.sequence().next();
        }
        Ok(slots)
    }

    /// Waits until the log has the next slot, however long that takes.
    async fn wait_for_more(&self) -> Result<Sequence, TailError> {
        let bucket = self.log.bucket();
        loop {
            match self.log.head() {
                Some(head) if head >= self.next => return Ok(head),
                _ => self.log.catch_up(Proof::NowAndThen, &bucket.deadline()).await?,
            }
            if self.log.head() < Some(self.next) {
                bucket.environment().clock.sleep(bucket.pace().longest_pause).await;
            }
        }
    }
}

#[async_trait]
impl WalIterator for SlotIterator {
    async fn next(&mut self) -> Result<Option<WalRows>, WalError> {
        let slots = match self.next_slots().await {
            Ok(slots) => slots,
            Err(error) => {
                if let Some(watermark) = &self.watermark {
                    watermark.failed(error.clone().into());
                }
                return Err(wal_error(error));
            }
        };
        if slots.is_empty() {
            return Ok(None);
        }
        Ok(Some(wal_rows(slots.iter().map(AsRef::as_ref), self.replay)))
    }
}
