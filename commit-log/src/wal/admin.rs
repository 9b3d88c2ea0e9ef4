//! `WalAdmin`: deleting a store's log, looking whether it is empty, and beginning the log of a clone.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::VersionedManifest;
use slatedb::wal::{WalAdmin, WalError, WalFileRange, WalGc};

use crate::adoption::{AdoptionError, CloneBegun, CloneLog, begin_clone, clone_begun, find};
use crate::bucket::{Bucket, Deadline, Folder, ObjectName, Pace, Walked};
use crate::environment::Environment;
use crate::error::{Corruption, Unavailable};
use crate::frame::Damage;
use crate::guard::{GUARD_BYTES, guarded_log};
use crate::log::{LogOptions, SlotLog, TailError};
use crate::record::{AdoptedFrom, AdoptionRecord};
use crate::retire::RetireOptions;
use crate::slot::{Sequence, sequence_after};

use super::gc::LogGc;

/// In which order a log is deleted. Each place has its reason, for whoever meets what an interrupted call left:
///
/// - Slots first, while the guard bars a SlateDB without the plug; then the ledgers, so that no slot that was created again in a
///   retired page is ever taken for genuine.
/// - The guard before the record. A guard without a record is what a beginner leaves, and the next opener would finish it: an
///   empty log, under the old identity. Record and no guard is refused or served as the log it is, never begun.
/// - Of several records the one that counts goes last.
/// - A leaving record stays as long as the record that it takes back. By itself it means nothing.
const DELETED_IN_ORDER: [Folder; 7] =
    [Folder::Commits, Folder::Retired, Folder::Takes, Folder::Probe, Folder::NativeWal, Folder::Adoption, Folder::Leaving];

/// The commit log's part in what SlateDB's `Admin` does with whole stores: give it to `AdminBuilder::with_wal_admin`.
///
/// One serves any number of stores of a bucket. It does no I/O before it is asked to.
#[derive(Clone)]
pub struct LogAdmin {
    store: Arc<dyn ObjectStore>,
    environment: Environment,
    pace: Pace,
    retain_pages: NonZeroU32,
}

/// Why SlateDB's `Admin` was refused. [`AdminError::of`] finds it in SlateDB's error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// There is no log, it was left, or something else is where a clone was to begin.
    #[error(transparent)]
    Adoption(AdoptionError),
    /// The manifest that was to be cloned lacks slots that have landed. Fold the store, then clone it.
    #[error("the manifest covers the log up to slot {} of {head}: fold the store first", covered.map_or(0, Sequence::get))]
    Tail {
        /// The last slot up to which it covers everything.
        covered: Option<Sequence>,
        /// The last slot of the log.
        head: Sequence,
    },
    /// The log was retired past what was asked for: the store was folded since.
    #[error("the log was retired past slot {}", after.map_or(0, Sequence::get))]
    Retired {
        /// The last slot that was known to the caller.
        after: Option<Sequence>,
    },
    /// The log is damaged, or a record of it.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl AdminError {
    /// What [`LogAdmin`] told SlateDB, if that is what `error` came from.
    pub fn of(error: &slatedb::Error) -> Option<&AdminError> {
        // SlateDB keeps the source that it was given, an `Arc`, in a box.
        let source = std::error::Error::source(error)?.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>()?;
        source.downcast_ref()
    }
}

impl From<AdoptionError> for AdminError {
    fn from(error: AdoptionError) -> AdminError {
        error.sorted(AdminError::Adoption)
    }
}

impl From<TailError> for AdminError {
    fn from(error: TailError) -> AdminError {
        match error {
            TailError::Behind { after } => AdminError::Retired { after },
            TailError::Corrupt(corruption) => corruption.into(),
            TailError::Unavailable(failure) => failure.into(),
        }
    }
}

impl From<AdminError> for WalError {
    fn from(error: AdminError) -> WalError {
        match error {
            AdminError::Unavailable(_) => WalError::Unavailable(Arc::new(error)),
            AdminError::Adoption(_) | AdminError::Tail { .. } | AdminError::Retired { .. } | AdminError::Corrupt(_) => {
                WalError::DataError(Arc::new(error))
            }
        }
    }
}

/// What a deletion does with what it finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeleteMode {
    Delete,
    DryRun,
}

impl LogAdmin {
    /// An admin of the stores of a bucket.
    pub fn new(store: Arc<dyn ObjectStore>, environment: Environment, pace: Pace) -> LogAdmin {
        LogAdmin { store, environment, pace, retain_pages: RetireOptions::default().retain_pages }
    }

    /// How many pages its collectors keep behind a store's last flush, the page of that flush included. Two by default.
    #[must_use]
    pub fn retain_pages(mut self, pages: NonZeroU32) -> LogAdmin {
        self.retain_pages = pages;
        self
    }

    fn bucket(&self, path: &Path) -> Bucket {
        Bucket::new(self.store.clone(), path.clone(), self.environment.clone(), self.pace.clone())
    }

    async fn holds_none(&self, path: &Path, after: u64, last: u64) -> Result<bool, AdminError> {
        // As SlateDB's own: a manifest that counts nothing past its replay point is not asked about, nor is there a need for a
        // log. Where it does count something, that there is no log is an error, as a missing file is.
        if last <= after {
            return Ok(true);
        }
        let bucket = self.bucket(path);
        let deadline = bucket.deadline();
        let log = passing(&bucket, find(&bucket, &deadline).await?);
        let origin = log.record().origin;
        let first = Sequence::new(after.saturating_add(1)).map_or(origin, |first| first.max(origin));
        if first.get() > last {
            return Ok(true);
        }
        // Reads on from the slot before, and proves the end: where `first` is missing, nothing is past it.
        log.load(first.previous(), &deadline).await?;
        Ok(log.head() < Some(first))
    }

    async fn clone_log(
        &self,
        from_path: &Path,
        manifest: &VersionedManifest,
        to_path: &Path,
    ) -> Result<AdoptionRecord, AdminError> {
        let (from, to) = (self.bucket(from_path), self.bucket(to_path));
        let deadline = from.deadline();
        let record = find(&from, &deadline).await?;
        let cloned_from = AdoptedFrom {
            manifest_id: manifest.id(),
            last_l0_seq: manifest.last_l0_seq(),
            replay_after_wal_id: manifest.replay_after_wal_id(),
            next_wal_sst_id: manifest.next_wal_sst_id(),
        };
        let clone = CloneLog::new(record.clone(), cloned_from).ok_or(Corruption::Damaged {
            object: ObjectName::Manifest(manifest.id()),
            damage: Damage::Field("it counts further than any log"),
        })?;
        // Once the guard stands the clone is decided. Whoever comes back finishes it, also when the source has gone on since.
        if clone_begun(&to, &clone, &deadline).await? == CloneBegun::No {
            refuse_tail(&passing(&from, record), &cloned_from, &deadline).await?;
        }
        Ok(begin_clone(&to, &clone, &deadline).await?)
    }

    async fn delete_log(&self, path: &Path, mode: DeleteMode) -> Result<BTreeSet<String>, AdminError> {
        let bucket = self.bucket(path);
        let mut names = BTreeSet::new();
        for folder in DELETED_IN_ORDER {
            let mut walk = bucket.walk(folder);
            // Ends with the listing.
            while let Some(batch) = walk.next().await? {
                let ours = ours(&bucket, folder, batch).await?;
                names.extend(ours.iter().map(|name| name.path(path).to_string()));
                if mode == DeleteMode::Delete {
                    delete(&bucket, folder, ours).await?;
                }
            }
        }
        Ok(names)
    }
}

/// The log of `record`, for one look at it.
fn passing(bucket: &Bucket, record: AdoptionRecord) -> SlotLog {
    SlotLog::new(bucket.clone(), record, LogOptions { remembered_bytes: 0, ..LogOptions::default() })
}

/// A manifest may be cloned only if all that has landed is in its files: what is not would be missing from the clone, and the
/// clone's own commits would begin in its place.
async fn refuse_tail(log: &SlotLog, cloned: &AdoptedFrom, deadline: &Deadline) -> Result<(), AdminError> {
    log.load(Sequence::new(cloned.last_l0_seq), deadline).await?;
    // Of a half-applied manifest one of the two points leads; only what both have is surely in the files.
    let covered = Sequence::new(cloned.last_l0_seq.min(cloned.replay_after_wal_id));
    if let Some(head) = log.head().filter(|head| Some(*head) > covered) {
        return Err(AdminError::Tail { covered, head });
    }
    let last = log.head().max(log.record().origin.previous());
    match Sequence::new(cloned.next_wal_sst_id.saturating_sub(1)).filter(|counted| Some(*counted) > last) {
        Some(counted) => Err(Corruption::Hole { missing: sequence_after(last, Sequence::FIRST), below: counted.next() }.into()),
        None => Ok(()),
    }
}

/// What of a batch belongs to the log. In SlateDB's own folder only guards do.
async fn ours(bucket: &Bucket, folder: Folder, batch: Vec<Walked>) -> Result<Vec<ObjectName>, AdminError> {
    if folder != Folder::NativeWal {
        return Ok(batch.into_iter().map(|walked| walked.name).collect());
    }
    let mut guards = Vec::new();
    for Walked { name, .. } in batch.into_iter().filter(|walked| walked.bytes == GUARD_BYTES) {
        let stored = bucket.read(name, &bucket.deadline()).await?;
        guards.extend(stored.and_then(|bytes| guarded_log(&bytes)).map(|_| name));
    }
    Ok(guards)
}

async fn delete(bucket: &Bucket, folder: Folder, mut names: Vec<ObjectName>) -> Result<(), AdminError> {
    if folder != Folder::Adoption {
        return Ok(bucket.delete_all(names, &bucket.deadline()).await?);
    }
    // The highest number counts, so it is the last to go.
    names.sort();
    for name in names {
        bucket.delete_all(vec![name], &bucket.deadline()).await?;
    }
    Ok(())
}

#[async_trait]
impl WalAdmin for LogAdmin {
    fn garbage_collector(&self, path: &Path) -> Arc<dyn WalGc> {
        Arc::new(CollectorAt { bucket: self.bucket(path), retain_pages: self.retain_pages })
    }

    /// Deletes what belongs to any log at `path`: slots, ledgers, take, adoption and leaving records, probes, and the guard.
    /// Nothing else is deleted or named, no file of SlateDB's either. Stop every process that uses the store first.
    ///
    /// An interrupted call is made again. Dropping the future withdraws nothing that was sent. What is told are paths in the
    /// bucket; with `dry_run` no delete is sent.
    async fn delete_wal(&self, path: &Path, dry_run: bool) -> Result<Vec<String>, WalError> {
        let mode = if dry_run { DeleteMode::DryRun } else { DeleteMode::Delete };
        Ok(Box::pin(self.delete_log(path, mode)).await?.into_iter().collect())
    }

    /// Whether no slot from `replay_after_wal_id` on, that one excluded, up to `wal_id_last_seen` has landed. A range that was
    /// retired in part, a record that cannot be read and a failed read are errors, never "empty".
    async fn is_empty(&self, path: &Path, replay_after_wal_id: u64, wal_id_last_seen: u64) -> Result<bool, WalError> {
        Ok(Box::pin(self.holds_none(path, replay_after_wal_id, wal_id_last_seen)).await?)
    }

    /// Begins the clone's own log, at the first page past everything that `from_manifest` has. Copies nothing: a manifest that
    /// does not cover the log to its end is refused.
    ///
    /// Called again, after any crash and by anybody, it ends on the same log. What it returns says that nothing is replayed
    /// and that the clone's log begins after it.
    async fn clone_wal(
        &self,
        from_path: &Path,
        from_manifest: VersionedManifest,
        to_path: &Path,
    ) -> Result<(u64, u64), WalError> {
        let record = Box::pin(self.clone_log(from_path, &from_manifest, to_path)).await?;
        let before_origin = record.origin.get() - 1;
        Ok((before_origin, before_origin))
    }
}

impl fmt::Debug for LogAdmin {
    // The store itself is never formatted: its Debug may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogAdmin")
    }
}

/// A collector of whatever log is at a path when it runs.
struct CollectorAt {
    bucket: Bucket,
    retain_pages: NonZeroU32,
}

#[async_trait]
impl WalGc for CollectorAt {
    async fn collect(&self, ranges: Vec<WalFileRange>, min_age: Duration, dry_run: bool) -> Result<(), WalError> {
        match find(&self.bucket, &self.bucket.deadline()).await {
            Ok(record) => LogGc::new(passing(&self.bucket, record), self.retain_pages).collect(ranges, min_age, dry_run).await,
            // Nothing is left to be collected.
            Err(AdoptionError::NoLog | AdoptionError::Left) => Ok(()),
            Err(error) => Err(AdminError::from(error).into()),
        }
    }
}
