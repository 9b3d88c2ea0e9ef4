//! Finding a store's newest manifest and fetching it as bytes. Nothing is decoded here.

use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::error::ReadError;

/// The largest manifest that is read, in bytes. A manifest names every file of its store in some hundred bytes, so this
/// is a store of a quarter of a million files; above it a process would rather fail than swap.
pub const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// How often a search begins again because the manifest it found was collected before it was read. A collector keeps the
/// newest, so this takes a newer manifest and a collection between one LIST and one GET, each time.
pub const MAX_SEARCHES: usize = 4;

const DIGITS: usize = 20;
const SUFFIX: &str = ".manifest";

/// One manifest object, as it is in the bucket.
#[derive(Clone, Debug)]
pub struct ManifestObject {
    /// Its id.
    pub id: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Where the manifest `id` of the store at `path` lies.
pub(crate) fn manifest_path(path: &Path, id: u64) -> Path {
    manifest_folder(path).join(format!("{id:020}{SUFFIX}"))
}

fn manifest_folder(path: &Path) -> Path {
    path.clone().join("manifest")
}

fn manifest_id(location: &Path) -> Option<u64> {
    let digits = location.filename()?.strip_suffix(SUFFIX)?;
    let only_digits = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| digits.parse().ok()).flatten()
}

/// Fetches the manifest `id` of the store at `path`: one GET. `None` when there is none of that id, or no longer.
///
/// # Errors
///
/// [`ReadError::Unavailable`] when the bucket did not answer, [`ReadError::Corrupt`] for a manifest too large to be one.
/// Nothing is tried again here. Dropping the future has no effect on the store.
pub async fn fetch_manifest(bucket: &Arc<dyn ObjectStore>, path: &Path, id: u64) -> Result<Option<ManifestObject>, ReadError> {
    let unavailable = |cause| ReadError::Unavailable { manifest: id, cause: Arc::new(cause) };
    let found = match bucket.get(&manifest_path(path, id)).await {
        Ok(found) => found,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(unavailable(error)),
    };
    if found.meta.size > MAX_MANIFEST_BYTES {
        return Err(ReadError::Corrupt { manifest: id, cause: Arc::new(TooLarge { bytes: found.meta.size }) });
    }
    let bytes = found.bytes().await.map_err(unavailable)?;
    Ok(Some(ManifestObject { id, bytes }))
}

/// Finds the newest manifest of the store at `path` above `known` and fetches it: one LIST, and one GET when there is one.
/// `None` when there is none above `known`, or none at all.
///
/// # Errors
///
/// As [`fetch_manifest`]. Nothing is tried again here but a search whose find was collected before it was read.
pub async fn newest_manifest(
    bucket: &Arc<dyn ObjectStore>,
    path: &Path,
    known: Option<u64>,
) -> Result<Option<ManifestObject>, ReadError> {
    for _ in 0..MAX_SEARCHES {
        let Some(id) = newest_id(bucket, path, known).await? else { return Ok(None) };
        if let Some(found) = fetch_manifest(bucket, path, id).await? {
            return Ok(Some(found));
        }
    }
    Err(ReadError::Unavailable { manifest: known.unwrap_or(0), cause: Arc::new(AlwaysCollected) })
}

async fn newest_id(bucket: &Arc<dyn ObjectStore>, path: &Path, known: Option<u64>) -> Result<Option<u64>, ReadError> {
    let folder = manifest_folder(path);
    let listed = match known {
        Some(known) => bucket.list_with_offset(Some(&folder), &manifest_path(path, known)),
        None => bucket.list(Some(&folder)),
    };
    // A listing has no order that a store must keep to.
    let newest = listed
        .try_fold(None, |newest, found| async move { Ok(newest.max(manifest_id(&found.location))) })
        .await
        .map_err(|cause| ReadError::Unavailable { manifest: known.unwrap_or(0), cause: Arc::new(cause) })?;
    Ok(newest.filter(|newest| known.is_none_or(|known| known < *newest)))
}

#[derive(Debug, thiserror::Error)]
#[error("the manifest has {bytes} bytes, more than {MAX_MANIFEST_BYTES}")]
struct TooLarge {
    bytes: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("the newest manifest was collected before it was read, {MAX_SEARCHES} times")]
struct AlwaysCollected;
