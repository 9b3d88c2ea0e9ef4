//! A bucket in which one manifest is frozen: the store as of that manifest, whatever becomes of it. Read-only.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::manifest::{ManifestObject, manifest_path};

/// The folder that holds a store's files; a clone's files lie in its parents' folders of this name.
const FILES: &str = "compacted";

/// A bucket that shows one manifest of one store and nothing that changes.
///
/// - Reads of files, which never change under their names, go to the real bucket.
/// - Everything else is answered from memory: one manifest, no WAL, no marks of a collector.
/// - Every write is refused, and never reaches the real bucket.
pub struct FrozenBucket {
    frozen: InMemory,
    real: Arc<dyn ObjectStore>,
}

impl FrozenBucket {
    /// Freezes the store at `path` as of `manifest`. No request.
    ///
    /// # Errors
    ///
    /// None that is known: what can fail is a put into memory.
    pub async fn new(real: Arc<dyn ObjectStore>, path: &Path, manifest: &ManifestObject) -> Result<FrozenBucket> {
        let frozen = InMemory::new();
        frozen.put(&manifest_path(path, manifest.id), PutPayload::from_bytes(manifest.bytes.clone())).await?;
        Ok(FrozenBucket { frozen, real })
    }

    fn holder_of(&self, location: &Path) -> &dyn ObjectStore {
        let folder = location.parts().rev().nth(1);
        if folder.is_some_and(|folder| folder.as_ref() == FILES) { &self.real } else { &self.frozen }
    }
}

impl fmt::Debug for FrozenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for FrozenBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FrozenBucket({})", self.real)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a frozen bucket is read-only: {0} refused")]
struct ReadOnly(&'static str);

/// SUBTLE: not one of the errors that SlateDB tries again, which by default it does for ever.
fn refused<T>(operation: &'static str) -> Result<T> {
    Err(object_store::Error::NotSupported { source: Box::new(ReadOnly(operation)) })
}

#[async_trait]
impl ObjectStore for FrozenBucket {
    async fn put_opts(&self, _: &Path, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        refused("put")
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        refused("put_multipart")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.holder_of(location).get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.holder_of(location).get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations.then(|_| async { refused("delete") }).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.frozen.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.frozen.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.frozen.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        refused("copy")
    }

    async fn rename_opts(&self, _: &Path, _: &Path, _: RenameOptions) -> Result<()> {
        refused("rename")
    }
}
