//! What the store's manifests pin, read through SlateDB.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use slatedb::VersionedManifest;

use crate::bucket::Bucket;
use crate::manifest::Manifests;

use super::RetireError;
use super::plan::{ManifestPoint, Pins};

/// How many manifests are read at once.
const READS_AT_ONCE: usize = 16;

/// How often the reading begins again because a checkpoint was given up, and its manifest collected, between two reads. Each
/// time takes one such deletion within milliseconds.
const READINGS: usize = 4;

impl From<&VersionedManifest> for ManifestPoint {
    fn from(manifest: &VersionedManifest) -> ManifestPoint {
        ManifestPoint {
            replay_after_wal_id: manifest.replay_after_wal_id(),
            last_l0_seq: manifest.last_l0_seq(),
            next_wal_sst_id: manifest.next_wal_sst_id(),
        }
    }
}

/// Reads what the store pins: its newest manifest, then each one that a checkpoint names. `None` while there is no store.
///
/// # Errors
///
/// A manifest that cannot be read: then nothing may be retired.
pub(super) async fn read_pins(bucket: &Bucket) -> Result<Option<Pins>, RetireError> {
    let manifests = Manifests::of(bucket);
    for _ in 0..READINGS {
        let Some(latest) = manifests.newest().await? else { return Ok(None) };
        // A checkpoint on the newest manifest pins what that pins.
        let named: BTreeSet<u64> = latest.checkpoints().iter().map(|checkpoint| checkpoint.manifest_id).collect();
        let reads = named.into_iter().filter(|id| *id != latest.id()).map(|id| manifests.numbered(id));
        let checkpoints: Vec<_> = stream::iter(reads).buffered(READS_AT_ONCE).try_collect().await?;
        if let Some(checkpoints) = checkpoints.iter().map(|found| found.as_ref().map(ManifestPoint::from)).collect() {
            return Ok(Some(Pins { latest: ManifestPoint::from(&latest), checkpoints }));
        }
    }
    Err(RetireError::CheckpointWithoutManifest)
}
