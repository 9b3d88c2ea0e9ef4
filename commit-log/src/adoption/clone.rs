//! How a clone of a store comes onto a log of its own.

use crate::bucket::{Bucket, Deadline, ObjectName};
use crate::guard::{guard, guarded_log};
use crate::identity::LogId;
use crate::record::{AdoptedFrom, AdoptionRecord};
use crate::slot::Sequence;

use super::{AdoptionError, newest_record, settle_record, stored_guard};

/// The log that a clone of a store begins with: everything but its identity, which its guard decides.
#[derive(Clone, Debug)]
pub(crate) struct CloneLog {
    /// The record of the store that is cloned: the clone's log has the same properties.
    source: AdoptionRecord,
    /// The manifest that is cloned.
    cloned_from: AdoptedFrom,
    /// The first sequence of the clone's log.
    origin: Sequence,
}

impl CloneLog {
    /// `None` when a manifest counts further than any log.
    ///
    /// ```text
    ///       what the manifest has        origin
    ///   ─────────────────────────┤·········├── the clone's own slots
    ///                          the rest of its page
    /// ```
    ///
    /// - The origin, which begins a page, is past everything that the manifest counts: no row of the clone's own is older.
    /// - SUBTLE: it is never the first page of all, also where nothing was ever counted. The clone's guard stands at the
    ///   origin, and a guard at the id of fresh ones would be finished, by an opener that comes between guard and record, as
    ///   the guard of a log that begins at slot 1.
    pub(crate) fn new(source: AdoptionRecord, cloned_from: AdoptedFrom) -> Option<CloneLog> {
        let AdoptedFrom { manifest_id: _, last_l0_seq, replay_after_wal_id, next_wal_sst_id } = cloned_from;
        let counted = last_l0_seq.max(replay_after_wal_id).max(next_wal_sst_id.saturating_sub(1));
        let page = source.page_size.page_of(Sequence::new(counted.max(1))?).next();
        let origin = *source.page_size.sequences(page)?.start();
        Some(CloneLog { source, cloned_from, origin })
    }

    fn guard(&self) -> ObjectName {
        // The first id that a SlateDB without the plug would replay of the clone.
        ObjectName::NativeWal(self.origin.get())
    }

    fn record(&self, log: LogId) -> AdoptionRecord {
        AdoptionRecord {
            log,
            origin: self.origin,
            guard_id: self.origin.get(),
            adopted_from: self.cloned_from,
            ..self.source.clone()
        }
    }
}

/// How far a clone's log was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CloneBegun {
    /// Nothing is there.
    No,
    /// Its guard stands: the identity is decided, the record may be missing.
    Guarded(LogId),
    /// Its record is there.
    Recorded(AdoptionRecord),
}

/// How far the log of `clone` was begun in `bucket`, the clone's folder. Writes nothing.
///
/// # Errors
///
/// [`AdoptionError::Taken`] when something else is there: another log, or a WAL file that is not the clone's guard.
pub(crate) async fn clone_begun(bucket: &Bucket, clone: &CloneLog, deadline: &Deadline) -> Result<CloneBegun, AdoptionError> {
    if let Some(stored) = newest_record(bucket, deadline).await? {
        let found = ObjectName::Adoption(1);
        let ours = stored == clone.record(stored.log);
        return if ours { Ok(CloneBegun::Recorded(stored)) } else { Err(AdoptionError::Taken { found }) };
    }
    let guard = clone.guard();
    let first = ObjectName::NativeWal(0);
    if bucket.list_from(first, deadline).await?.iter().any(|name| *name != guard.file_name()) {
        return Err(AdoptionError::Taken { found: first });
    }
    match bucket.read(guard, deadline).await? {
        None => Ok(CloneBegun::No),
        Some(bytes) => {
            let log = guarded_log(&bytes).ok_or(AdoptionError::Taken { found: guard })?;
            Ok(CloneBegun::Guarded(log))
        }
    }
}

/// Begins the log of a clone: the guard, then the record. Whoever finds it begun finishes it; the guard decides the identity, so
/// that any number of calls, one after another or at once, end on one log.
///
/// # Errors
///
/// As [`clone_begun`].
pub(crate) async fn begin_clone(
    bucket: &Bucket,
    clone: &CloneLog,
    deadline: &Deadline,
) -> Result<AdoptionRecord, AdoptionError> {
    let log = match clone_begun(bucket, clone, deadline).await? {
        CloneBegun::Recorded(record) => return Ok(record),
        CloneBegun::Guarded(log) => log,
        CloneBegun::No => {
            let minted = LogId::random(&bucket.environment().randomness);
            bucket.create_settled(clone.guard(), guard(minted), deadline).await?;
            let stored = stored_guard(bucket, clone.guard(), deadline).await?;
            stored.ok_or(AdoptionError::Taken { found: clone.guard() })?
        }
    };
    let stored = settle_record(bucket, &clone.record(log), deadline).await?;
    if stored == clone.record(log) { Ok(stored) } else { Err(AdoptionError::Taken { found: ObjectName::Adoption(1) }) }
}
