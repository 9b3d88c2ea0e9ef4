//! How a store comes onto a log: finding its adoption record, or beginning a log on a path where nothing is.

mod clone;

use std::time::Duration;

use bytes::Bytes;

use crate::bucket::{Bucket, Deadline, Distrusted, Found, ObjectName, ProbeFailed};
use crate::envelope::Rules;
use crate::error::{Corruption, Unavailable};
use crate::guard::{FRESH_GUARD_ID, guard, guarded_log};
use crate::identity::LogId;
use crate::record::{AdoptedFrom, AdoptionRecord, ContentRule};
use crate::slot::{Page, PageSize, Sequence};

pub(crate) use clone::{CloneBegun, CloneLog, begin_clone, clone_begun};

/// The properties of a log that is begun. They are the log's for ever; a log that is there already keeps its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshLog {
    /// How many sequences a page has.
    pub page_size: PageSize,
    /// What its slots may hold.
    pub content_rule: ContentRule,
    /// The key that the log keeps for itself. With a segment extractor it must be one that the extractor routes.
    pub reserved_key: Bytes,
    /// How long a page is kept at least after its last slot.
    pub least_retention: Duration,
}

impl Default for FreshLog {
    /// Pages of 1,024 slots, no rule on their content, no promise of retention.
    fn default() -> FreshLog {
        FreshLog {
            page_size: PageSize::DEFAULT,
            content_rule: ContentRule::Free,
            reserved_key: Bytes::from_static(b"\0commit-log"),
            least_retention: Duration::ZERO,
        }
    }
}

/// Why a store is not opened.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptionError {
    /// There is no log here. Whoever only reads never creates one.
    #[error("there is no commit log here")]
    NoLog,
    /// SlateDB's own history is here, and adopting it is not supported.
    #[error("a SlateDB store with history of its own is here ({found}): choose another path")]
    NativeHistory {
        /// What shows it.
        found: ObjectName,
    },
    /// There is a guard and more, and no adoption record: a deletion was interrupted, or the record is lost. Finish the deletion.
    #[error(
        "the log here has no adoption record, and {found} or later ones: its deletion was interrupted, or the record is lost"
    )]
    RecordMissing {
        /// The first that can be there.
        found: ObjectName,
    },
    /// Another store is here, where a clone was to begin.
    #[error("another store is here ({found}): choose another path")]
    Taken {
        /// What shows it.
        found: ObjectName,
    },
    /// The store left its log.
    #[error("the store has left its commit log")]
    Left,
    /// Another log is here by now: the store was dropped and created again, or put back from a copy. Open it anew.
    #[error("the store is on another commit log than the one it was opened with")]
    OtherLog,
    /// The bucket's conditional put cannot be trusted.
    #[error("the bucket cannot hold a commit log: {0}")]
    Distrusted(#[from] Distrusted),
    /// The log's properties are not what they may be.
    #[error("the reserved key has {bytes} bytes, expected 1 to {limit}")]
    ReservedKey {
        /// Its size.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// A record is damaged, or of a newer format: then upgrade this binary.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl AdoptionError {
    /// The same as an error that has places of its own for damage and for a bucket that failed; `otherwise` is for the rest.
    pub(crate) fn sorted<E: From<Corruption> + From<Unavailable>>(self, otherwise: impl FnOnce(AdoptionError) -> E) -> E {
        match self {
            AdoptionError::Corrupt(corruption) => corruption.into(),
            AdoptionError::Unavailable(failure) => failure.into(),
            error @ (AdoptionError::NoLog
            | AdoptionError::NativeHistory { .. }
            | AdoptionError::RecordMissing { .. }
            | AdoptionError::Taken { .. }
            | AdoptionError::Left
            | AdoptionError::OtherLog
            | AdoptionError::Distrusted(_)
            | AdoptionError::ReservedKey { .. }) => otherwise(error),
        }
    }
}

impl From<ProbeFailed> for AdoptionError {
    fn from(failed: ProbeFailed) -> AdoptionError {
        match failed {
            ProbeFailed::Distrusted(distrusted) => distrusted.into(),
            ProbeFailed::Unavailable(failure) => failure.into(),
        }
    }
}

/// Finds the record of the log that is here. Writes nothing.
///
/// # Errors
///
/// [`AdoptionError::NoLog`] when there is none.
pub async fn find(bucket: &Bucket, deadline: &Deadline) -> Result<AdoptionRecord, AdoptionError> {
    bucket.probe_absence(deadline).await?;
    let record = newest_record(bucket, deadline).await?.ok_or(AdoptionError::NoLog)?;
    refuse_left(bucket, record, deadline).await
}

/// Finds the record of the log that is here, or begins a log where nothing is. Whoever finds what another began and did not
/// finish, finishes it; racing beginners end on one log.
///
/// # Errors
///
/// A bucket that cannot be trusted; a store with history of its own; a record of a newer format.
pub async fn find_or_begin(bucket: &Bucket, fresh: &FreshLog, deadline: &Deadline) -> Result<AdoptionRecord, AdoptionError> {
    begin_unless_there(bucket, fresh, StoreSeen::Unopened, deadline).await
}

/// What whoever begins a log has seen of the store that goes with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreSeen {
    /// It was not opened: where it has a manifest, something came before the log.
    Unopened,
    /// It is being opened as its writer by this process, under an epoch of its own, and its manifest has nothing yet.
    OpenedEmpty,
}

/// The same, by whoever has seen more of the store.
pub(crate) async fn begin_unless_there(
    bucket: &Bucket,
    fresh: &FreshLog,
    store: StoreSeen,
    deadline: &Deadline,
) -> Result<AdoptionRecord, AdoptionError> {
    bucket.probe_absence(deadline).await?;
    bucket.probe_put_if_absent(deadline).await?;
    match newest_record(bucket, deadline).await? {
        Some(record) => refuse_left(bucket, record, deadline).await,
        None => begin(bucket, fresh, store, deadline).await,
    }
}

/// Whether the log `log` was left.
///
/// # Errors
///
/// A failed read.
pub(crate) async fn was_left(bucket: &Bucket, log: LogId, deadline: &Deadline) -> Result<bool, Unavailable> {
    Ok(bucket.read(ObjectName::Leaving(log), deadline).await?.is_some())
}

/// Makes sure that the store is still on `log`. What was read of the store before this was asked is then of that log, too: an
/// identity is never used twice, and the record of a store is there before its first manifest.
///
/// # Errors
///
/// [`AdoptionError::OtherLog`] or [`AdoptionError::NoLog`] when it is not.
pub(crate) async fn still_on(bucket: &Bucket, log: LogId, deadline: &Deadline) -> Result<(), AdoptionError> {
    match newest_record(bucket, deadline).await? {
        Some(record) if record.log == log => Ok(()),
        Some(_) => Err(AdoptionError::OtherLog),
        None => Err(AdoptionError::NoLog),
    }
}

async fn refuse_left(bucket: &Bucket, record: AdoptionRecord, deadline: &Deadline) -> Result<AdoptionRecord, AdoptionError> {
    if was_left(bucket, record.log, deadline).await? { Err(AdoptionError::Left) } else { Ok(record) }
}

/// The record with the highest number: a store that was put back from a copy has several.
pub(crate) async fn newest_record(bucket: &Bucket, deadline: &Deadline) -> Result<Option<AdoptionRecord>, AdoptionError> {
    let names = bucket.list_from(ObjectName::Adoption(1), deadline).await?;
    let Some(newest) = names.iter().filter_map(|name| Sequence::from_name(name)).max() else { return Ok(None) };
    read_record(bucket, newest.get(), deadline).await
}

async fn read_record(bucket: &Bucket, number: u64, deadline: &Deadline) -> Result<Option<AdoptionRecord>, AdoptionError> {
    let decode = |bytes| AdoptionRecord::decode(&bytes);
    match bucket.read_decoded(ObjectName::Adoption(number), deadline, decode).await? {
        Found::Absent => Ok(None),
        Found::Present(record) => Ok(Some(record)),
        Found::Damaged(corruption) => Err(corruption.into()),
    }
}

/// The guard first: it decides the log's identity and bars native history before anything says that there is a log.
async fn begin(
    bucket: &Bucket,
    fresh: &FreshLog,
    store: StoreSeen,
    deadline: &Deadline,
) -> Result<AdoptionRecord, AdoptionError> {
    let (bytes, limit) = (fresh.reserved_key.len(), Rules::MAX_KEY_BYTES);
    if bytes == 0 || bytes > limit {
        return Err(AdoptionError::ReservedKey { bytes, limit });
    }
    let guard_name = ObjectName::NativeWal(FRESH_GUARD_ID);
    let begun = stored_guard(bucket, guard_name, deadline).await?;
    if let Some(log) = begun {
        if let Some(record) = record_or_refuse_rest(bucket, log, store, deadline).await? {
            return refuse_left(bucket, record, deadline).await;
        }
    } else {
        if store == StoreSeen::Unopened {
            refuse_history(bucket, ObjectName::Manifest(1), deadline).await?;
        }
        refuse_history(bucket, guard_name, deadline).await?;
        let minted = LogId::random(&bucket.environment().randomness);
        // The guard is read back below: what is stored counts.
        bucket.create_settled(guard_name, guard(minted), deadline).await?;
    }
    let log = stored_guard(bucket, guard_name, deadline).await?.ok_or(AdoptionError::NativeHistory { found: guard_name })?;
    let record = AdoptionRecord {
        log,
        page_size: fresh.page_size,
        origin: Sequence::FIRST,
        content_rule: fresh.content_rule,
        reserved_key: fresh.reserved_key.clone(),
        least_retention_millis: u64::try_from(fresh.least_retention.as_millis()).unwrap_or(u64::MAX),
        guard_id: FRESH_GUARD_ID,
        adopted_from: AdoptedFrom::default(),
    };
    settle_record(bucket, &record, deadline).await
}

/// A beginner that dies leaves its guard and nothing else. Where there is more, the record was there and is gone, unless another
/// finished the log just now: then that is the record.
async fn record_or_refuse_rest(
    bucket: &Bucket,
    log: LogId,
    store: StoreSeen,
    deadline: &Deadline,
) -> Result<Option<AdoptionRecord>, AdoptionError> {
    let of_the_store = (store == StoreSeen::Unopened).then_some(ObjectName::Manifest(1));
    let of_the_log = [ObjectName::Slot(log, Sequence::FIRST), ObjectName::Ledger(log, Page::new(0))];
    for found in of_the_log.into_iter().chain(of_the_store) {
        if !bucket.list_from(found, deadline).await?.is_empty() {
            let record = newest_record(bucket, deadline).await?;
            return record.map(Some).ok_or(AdoptionError::RecordMissing { found });
        }
    }
    Ok(None)
}

/// The log whose guard stands there. `None` for anything else and for nothing.
async fn stored_guard(bucket: &Bucket, name: ObjectName, deadline: &Deadline) -> Result<Option<LogId>, Unavailable> {
    Ok(bucket.read(name, deadline).await?.and_then(|bytes| guarded_log(&bytes)))
}

/// Puts the first record and reads it back: the first one counts, whoever wrote it.
async fn settle_record(bucket: &Bucket, record: &AdoptionRecord, deadline: &Deadline) -> Result<AdoptionRecord, AdoptionError> {
    bucket.create_settled(ObjectName::Adoption(1), record.encode(), deadline).await?;
    let stored = read_record(bucket, 1, deadline).await?;
    stored.ok_or(AdoptionError::Distrusted(Distrusted::OtherBytes))
}

async fn refuse_history(bucket: &Bucket, first: ObjectName, deadline: &Deadline) -> Result<(), AdoptionError> {
    match bucket.list_from(first, deadline).await?.is_empty() {
        true => Ok(()),
        false => Err(AdoptionError::NativeHistory { found: first }),
    }
}
