//! `WriterInit`: after the epoch claim, and before anything is written under it.

use std::num::NonZeroU64;
use std::sync::Arc;

use async_trait::async_trait;
use slatedb::VersionedManifest;
use slatedb::wal::{WalError, WriterInit, WriterInitResult, WriterManifest};

use crate::adoption::{AdoptionError, StoreSeen, still_on, was_left};
use crate::bucket::{Deadline, ObjectName};
use crate::log::{Proof, SlotLog, TailError};
use crate::place::LogPlace;
use crate::record::TakeRecord;
use crate::retire::ManifestPoint;
use crate::slot::{Sequence, sequence_after};

use super::clock::RatchetClock;
use super::cursor::Cursor;
use super::iterator::{RangeEnd, SlotIterator};
use super::rows::Replay;
use super::writer::LogWriter;
use super::{access_error, wal_error};

pub(super) struct LogWriterInit {
    place: LogPlace,
    cursor: Arc<Cursor>,
    clock: Arc<RatchetClock>,
}

/// Why the store is not opened over this log.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("the manifest counts {next_wal_sst_id} as the next slot, and the log ends before slot {expected}")]
    LogTooShort { next_wal_sst_id: u64, expected: u64 },
}

impl LogWriterInit {
    pub(super) fn new(place: LogPlace, cursor: Arc<Cursor>, clock: Arc<RatchetClock>) -> LogWriterInit {
        LogWriterInit { place, cursor, clock }
    }

    /// The log that the store is opened over. It may have changed hands between the embedder's look at it and the epoch claim.
    async fn log(&self, manifest: &VersionedManifest, deadline: &Deadline) -> Result<SlotLog, AdoptionError> {
        let Some(log) = self.place.known() else {
            let store = if is_empty(manifest) { StoreSeen::OpenedEmpty } else { StoreSeen::Unopened };
            return self.place.find_or_begin(store, deadline).await;
        };
        let (bucket, id) = (log.bucket(), log.record().log);
        still_on(bucket, id, deadline).await?;
        if was_left(bucket, id, deadline).await? { Err(AdoptionError::Left) } else { Ok(log) }
    }
}

async fn record_take(log: &SlotLog, epoch: u64, deadline: &Deadline) -> Result<(), WalError> {
    let (bucket, id) = (log.bucket(), log.record().log);
    let take = TakeRecord { log: id, epoch, taken_millis: bucket.environment().now_millis() };
    // Without its record this holder would look like a stranger.
    match bucket.create_settled(ObjectName::Take(id, epoch), take.encode(), deadline).await {
        Ok(_) => Ok(()),
        Err(failure) => Err(WalError::Unavailable(Arc::new(failure))),
    }
}

/// Reads the log to its end, past which nothing is replayed.
async fn read_to_the_end(log: &SlotLog, manifest: &VersionedManifest, deadline: &Deadline) -> Result<(), TailError> {
    let covered = Sequence::new(manifest.last_l0_seq());
    // SUBTLE: a log that knows its head up to here has believed the covered slot already; one that does not must find it,
    // which also refuses a manifest that covers slots this log never had.
    if log.head().is_none() || log.head() < covered {
        return log.load(covered, deadline).await;
    }
    match log.catch_up(Proof::Always, deadline).await {
        Err(TailError::Behind { .. }) => log.load(covered, deadline).await,
        caught_up => caught_up,
    }
}

/// Whether the store has never had anything: no row, no file, no WAL of its own.
fn is_empty(manifest: &VersionedManifest) -> bool {
    let ManifestPoint { replay_after_wal_id, last_l0_seq, next_wal_sst_id } = ManifestPoint::from(manifest);
    replay_after_wal_id == 0 && last_l0_seq == 0 && next_wal_sst_id <= 1 && manifest.all_sst_views().next().is_none()
}

#[async_trait]
impl WriterInit for LogWriterInit {
    async fn fence_and_init(&self, manifest: &mut WriterManifest) -> Result<WriterInitResult, WalError> {
        let deadline = self.place.bucket().deadline();
        let epoch = manifest.epoch();
        let manifest = manifest.manifest();
        let log = self.log(&manifest, &deadline).await.map_err(|refused| access_error(refused.into()))?;
        record_take(&log, epoch, &deadline).await?;
        self.clock.raise(manifest.last_l0_clock_tick());
        self.clock.raise(newest_file_millis(&manifest));
        read_to_the_end(&log, &manifest, &deadline).await.map_err(wal_error)?;
        let tick = Some(manifest.last_l0_clock_tick()).filter(|tick| *tick > i64::MIN);
        let replay = plan(ManifestPoint::from(&manifest), tick, log.head(), log.record().origin, log.options().replay_slots)
            .map_err(|refused| WalError::DataError(Arc::new(refused)))?;
        self.cursor.start(replay.status_id);
        let iterator = SlotIterator::new(log, replay.first, replay.end, replay.rows, None);
        Ok(WriterInitResult { replay_iterator: Box::new(iterator), wal_writer: Box::new(LogWriter::new(self.cursor.clone())) })
    }
}

/// When the newest file of the store was named, by the clock of whoever wrote it: SlateDB takes no file with an older name.
///
/// SUBTLE: a file is named when it is flushed, so this is later than the last tick of its rows. Both the file's name and the
/// manifest's name for it count, and once it is merged the manifest keeps only the latter.
fn newest_file_millis(manifest: &VersionedManifest) -> i64 {
    let named = manifest.all_sst_views().flat_map(|view| [view.id.timestamp_ms(), view.sst.id.value().timestamp_ms()]);
    let merged = manifest.last_compacted_l0_sst_view_id().into_iter();
    let merged = merged.chain(manifest.segments().iter().filter_map(|segment| segment.last_compacted_l0_sst_view_id()));
    let newest = named.chain(merged.map(|id| id.timestamp_ms())).max();
    newest.and_then(|millis| i64::try_from(millis).ok()).unwrap_or(i64::MIN)
}

/// What is replayed.
#[derive(Debug, PartialEq, Eq)]
struct ReplayPlan {
    first: Sequence,
    end: RangeEnd,
    rows: Replay,
    /// What the status says from the start: the last id that the replay yields.
    status_id: u64,
}

/// Decides what is replayed. Pure.
///
/// ```text
///             covered                 head
///   ──────────────┤                     │
///     in L0       ├──── is replayed ────┤
/// ```
///
/// - From what is covered, not from the replay point: a flush that died half way may have moved the point alone, and then the
///   slots between the two are replayed in rows that say they consumed at least the point.
/// - Never short of the id before `next_wal_sst_id`: SlateDB lets WAL ids run forward only.
/// - Of what is longer than `at_most` slots only so many: whoever holds the store applies the rest, and flushes as it goes.
fn plan(
    manifest: ManifestPoint,
    tick: Option<i64>,
    head: Option<Sequence>,
    origin: Sequence,
    at_most: NonZeroU64,
) -> Result<ReplayPlan, Refused> {
    let ManifestPoint { replay_after_wal_id, last_l0_seq, next_wal_sst_id } = manifest;
    let covered = Sequence::new(last_l0_seq).filter(|covered| *covered >= origin);
    let least_end = next_wal_sst_id.saturating_sub(1).max(replay_after_wal_id);
    let last = head.map_or(0, Sequence::get);
    if least_end > last && least_end >= origin.get() {
        return Err(Refused::LogTooShort { next_wal_sst_id, expected: least_end });
    }
    let first = sequence_after(covered, origin);
    let enough = first.get().saturating_add(at_most.get() - 1).max(least_end);
    let replays = Sequence::new(last.min(enough)).filter(|last| *last >= first);
    Ok(ReplayPlan {
        first,
        end: replays.map_or(RangeEnd::Empty, RangeEnd::Last),
        rows: Replay { tick, consumed_at_least: replay_after_wal_id },
        status_id: replays.map_or(least_end, |last| last.get().max(least_end)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_MOST: NonZeroU64 = NonZeroU64::new(10).unwrap();

    fn sequence(number: u64) -> Sequence {
        Sequence::new(number).unwrap()
    }

    fn planned(replay_after_wal_id: u64, last_l0_seq: u64, next_wal_sst_id: u64, head: u64) -> ReplayPlan {
        let manifest = ManifestPoint { replay_after_wal_id, last_l0_seq, next_wal_sst_id };
        plan(manifest, Some(5), Sequence::new(head), Sequence::FIRST, AT_MOST).unwrap()
    }

    #[test]
    fn what_a_flushed_manifest_does_not_cover_is_replayed() {
        let rows = Replay { tick: Some(5), consumed_at_least: 4 };
        let end = RangeEnd::Last(sequence(9));
        assert_eq!(planned(4, 4, 5, 9), ReplayPlan { first: sequence(5), end, rows, status_id: 9 });
    }

    /// A flush that met an invalid clock tick has moved the replay point and nothing else.
    #[test]
    fn a_half_applied_manifest_is_replayed_from_what_is_covered_and_its_replay_point_does_not_go_back() {
        let rows = Replay { tick: Some(5), consumed_at_least: 7 };
        let end = RangeEnd::Last(sequence(9));
        assert_eq!(planned(7, 4, 8, 9), ReplayPlan { first: sequence(5), end, rows, status_id: 9 });
    }

    #[test]
    fn with_nothing_to_replay_the_status_is_what_the_manifest_has_counted() {
        let rows = Replay { tick: Some(5), consumed_at_least: 4 };
        assert_eq!(planned(4, 4, 5, 4), ReplayPlan { first: sequence(5), end: RangeEnd::Empty, rows, status_id: 4 });
    }

    #[test]
    fn of_a_long_tail_a_part_is_replayed_and_the_status_says_where_it_ends() {
        let rows = Replay { tick: Some(5), consumed_at_least: 4 };
        let part = ReplayPlan { first: sequence(5), end: RangeEnd::Last(sequence(14)), rows, status_id: 14 };
        assert_eq!(planned(4, 4, 5, 14), part);
        assert_eq!(planned(4, 4, 5, 100), part);
    }

    #[test]
    fn no_replay_ends_before_what_the_manifest_has_counted() {
        let rows = Replay { tick: Some(5), consumed_at_least: 4 };
        let end = RangeEnd::Last(sequence(39));
        assert_eq!(planned(4, 4, 40, 100), ReplayPlan { first: sequence(5), end, rows, status_id: 39 });
    }
}
