//! Publication: a checkpoint of an agreed name that covers what was won, for readers of a fixed state.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use slatedb::config::{CheckpointOptions, CheckpointScope};
use slatedb::{Db, VersionedManifest};

use crate::bucket::Bucket;
use crate::manifest::{ManifestUnread, Manifests};
use crate::slot::Sequence;

/// Publishes what a store has, in the embedder's own way.
#[async_trait]
pub trait Publish: Send + Sync + 'static {
    /// Makes the newest checkpoint of the agreed name cover everything that `db` has applied.
    ///
    /// - It writes the store's manifest **as its writer**, as [`Db::create_checkpoint`] does. A pointer that is written beside it is
    ///   taken back by a publisher that slept: nothing fences that one.
    /// - It flushes no file: it must work when the store has as many unmerged files as it may have.
    /// - It is idempotent. It may be called again for what it has published, and its future may be dropped when it takes too long.
    ///
    /// # Errors
    ///
    /// Whatever kept it. What was won has landed all the same, and is published by the next call.
    async fn publish(&self, db: &Db) -> Result<(), PublishFailure>;
}

/// Why nothing was published, in the embedder's own words.
pub type PublishFailure = Arc<dyn Error + Send + Sync>;

/// What is published, and how. The same in every process that commits to the store.
#[derive(Clone)]
pub struct Publication {
    name: String,
    publish: Arc<dyn Publish>,
}

impl Publication {
    /// Publishes with `publish`, which gives its checkpoints the name `name`.
    pub fn new(name: impl Into<String>, publish: Arc<dyn Publish>) -> Publication {
        Publication { name: name.into(), publish }
    }

    /// Publishes with a checkpoint of SlateDB's that is called `name` and expires after `lifetime`.
    ///
    /// - A holder renews it when half of that is over. Of a store that nobody holds it lapses `lifetime` after the last commit.
    /// - A reader of a fixed state finds the newest one of that name and makes a checkpoint of its own out of it.
    /// - SlateDB's collector takes those that expired out of the manifest. Until then the manifest carries one for every
    ///   publication: as many as commits that do not share one, times `lifetime`.
    pub fn by_checkpoint(name: impl Into<String>, lifetime: Duration) -> Publication {
        let name = name.into();
        Publication::new(name.clone(), Arc::new(CheckpointPublisher { name, lifetime }))
    }

    /// What the checkpoints are called.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publication").field("name", &self.name).finish_non_exhaustive()
    }
}

struct CheckpointPublisher {
    name: String,
    lifetime: Duration,
}

#[async_trait]
impl Publish for CheckpointPublisher {
    async fn publish(&self, db: &Db) -> Result<(), PublishFailure> {
        let options = CheckpointOptions { lifetime: Some(self.lifetime), source: None, name: Some(self.name.clone()) };
        // Durable: all that is applied came out of the log, so nothing has to be flushed for it.
        match db.create_checkpoint(CheckpointScope::Durable, &options).await {
            Ok(_) => Ok(()),
            Err(error) => Err(Arc::new(error)),
        }
    }
}

/// What is published of one store.
pub(crate) struct Publisher {
    bucket: Bucket,
    publication: Publication,
    /// The last manifest that was read for its checkpoint, and what it counts as the next slot: both never change.
    read: Mutex<Option<(u64, u64)>>,
}

/// How far a store is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// The last slot that it covers.
    pub(crate) through: Sequence,
    /// When its checkpoint was made, in ms since the Unix epoch.
    pub(crate) made_millis: i64,
    /// Half of its checkpoint's life, in ms. `None` of one that never expires.
    pub(crate) half_life_millis: Option<i64>,
}

impl Publisher {
    pub(crate) fn new(bucket: Bucket, publication: Publication) -> Publisher {
        Publisher { bucket, publication, read: Mutex::default() }
    }

    pub(crate) async fn publish(&self, db: &Db) -> Result<(), PublishFailure> {
        self.publication.publish.publish(db).await
    }

    /// What is published by the newest live checkpoint of the name that `newest` has. `None` when it has none.
    ///
    /// A checkpoint says which manifest it is of and no more, so that one is read, unless it is `newest` itself or was read before.
    pub(crate) async fn published(&self, newest: &VersionedManifest) -> Result<Option<Published>, ManifestUnread> {
        let now = self.bucket.environment().clock.now();
        let named = newest.checkpoints().iter().filter(|checkpoint| checkpoint.name.as_ref() == Some(&self.publication.name));
        let live = named.filter(|checkpoint| checkpoint.expire_time.is_none_or(|expires| expires > now));
        let Some(checkpoint) = live.max_by_key(|checkpoint| (checkpoint.manifest_id, checkpoint.expire_time)) else {
            return Ok(None);
        };
        let Some(next_wal_sst_id) = self.next_wal_sst_id(newest, checkpoint.manifest_id).await? else { return Ok(None) };
        let made_millis = checkpoint.create_time.timestamp_millis();
        let half_life_millis = checkpoint.expire_time.map(|expires| (expires - checkpoint.create_time).num_milliseconds() / 2);
        let through = Sequence::new(next_wal_sst_id.saturating_sub(1));
        Ok(through.map(|through| Published { through, made_millis, half_life_millis }))
    }

    /// What the manifest of that id counts as the next slot. `None` when it is gone, as its checkpoint then is.
    async fn next_wal_sst_id(&self, newest: &VersionedManifest, id: u64) -> Result<Option<u64>, ManifestUnread> {
        if id == newest.id() {
            return Ok(Some(newest.next_wal_sst_id()));
        }
        if let Some((read, next_wal_sst_id)) = *self.read.lock().unwrap_or_else(PoisonError::into_inner)
            && read == id
        {
            return Ok(Some(next_wal_sst_id));
        }
        let Some(manifest) = Manifests::of(&self.bucket).numbered(id).await? else { return Ok(None) };
        let next_wal_sst_id = manifest.next_wal_sst_id();
        // One plain value: never half written.
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some((id, next_wal_sst_id));
        Ok(Some(next_wal_sst_id))
    }
}
