//! The store's manifests, read through SlateDB and in bounded time.

use std::sync::Arc;

use slatedb::VersionedManifest;
use slatedb::admin::{Admin, AdminBuilder};

use crate::bucket::{Bucket, Deadline, DeadlinePassed};

/// Reads manifests. All reads of one together have the time of a call.
pub(crate) struct Manifests {
    admin: Admin,
    deadline: Deadline,
}

/// Why a manifest was not read.
pub(crate) enum ManifestUnread {
    Failed(Arc<slatedb::Error>),
    TimedOut(DeadlinePassed),
}

impl Manifests {
    /// The manifests of the store in the folder of `bucket`.
    pub(crate) fn of(bucket: &Bucket) -> Manifests {
        let environment = bucket.environment();
        let admin = AdminBuilder::new(bucket.root().clone(), bucket.object_store().clone())
            .with_system_clock(environment.clock.clone())
            .with_seed(environment.randomness.number())
            .build();
        Manifests { admin, deadline: bucket.deadline() }
    }

    /// The newest manifest. `None` while there is no store.
    pub(crate) async fn newest(&self) -> Result<Option<VersionedManifest>, ManifestUnread> {
        self.read(None).await
    }

    /// The manifest of that id. `None` when it is gone.
    pub(crate) async fn numbered(&self, id: u64) -> Result<Option<VersionedManifest>, ManifestUnread> {
        self.read(Some(id)).await
    }

    async fn read(&self, id: Option<u64>) -> Result<Option<VersionedManifest>, ManifestUnread> {
        // Bounded here: SlateDB itself asks for ever.
        let read = self.deadline.bound(Box::pin(self.admin.read_manifest(id))).await.map_err(ManifestUnread::TimedOut)?;
        read.map_err(|error| ManifestUnread::Failed(Arc::new(error)))
    }
}

/// The unmerged files of the fullest tree: the root's, or a segment's.
pub(crate) fn unmerged_files(manifest: &VersionedManifest) -> usize {
    let of_segments = manifest.segments().iter().map(|segment| segment.l0().len()).max();
    manifest.l0().len().max(of_segments.unwrap_or(0))
}
