//! Publication through the seam: the catalog says how, the library when.

use std::sync::Arc;

use async_trait::async_trait;
use slatedb::Db;
use slatedb::admin::AdminBuilder;

use crate::support::ROOT;

use super::catalog::Opener;
use super::lake::Lake;
use super::traits::{self, CatalogHooks, CommitLogSettings, Error, TakeStore, WriterSession};

/// A catalog that opens its store, and knows nothing of publications.
pub(super) struct OnlyTakes(pub(super) Opener);

#[async_trait]
impl TakeStore for OnlyTakes {
    async fn take(&self) -> traits::Result<Option<(Db, Arc<dyn WriterSession>)>> {
        self.0.take().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_win_is_reported_once_the_catalogs_read_checkpoint_covers_it_whoever_holds_the_store() {
    let lake = Lake::written_through(1).await;
    let publishing = || {
        let opener = lake.process().opener;
        let settings = CommitLogSettings { published: Some("head".into()), ..opener.settings.clone() };
        Opener { settings, ..opener }
    };
    let published = async || {
        let newest = lake.process().opener.manifest().await.unwrap().unwrap();
        let named = newest.checkpoints().iter().filter(|checkpoint| checkpoint.name.as_deref() == Some("head"));
        let manifest_id = named.map(|checkpoint| checkpoint.manifest_id).max().unwrap();
        let admin = AdminBuilder::new(ROOT, lake.0.memory.clone()).build();
        admin.read_manifest(Some(manifest_id)).await.unwrap().unwrap().next_wal_sst_id() - 1
    };
    // With nobody to hold it a follower publishes, through the catalog's take; at its limit of files, too.
    let full = Opener { l0_limit: 0, ..publishing() };
    let follower = full.attach().await.unwrap();
    follower.count_up().await;
    assert_eq!(published().await, 2);
    // A publication that is refused leaves the commit where it landed.
    let refusing = CatalogHooks { take: Arc::new(OnlyTakes(full.clone())), ..full.hooks() };
    let session = full.reader_session();
    let reader = full.open_reader(&*session).await.unwrap();
    let refused = full.provider.following(reader, session, refusing);
    let batch = follower.prepare(&[]).await;
    let offered = refused.write_at(batch.sequence, batch.commit).await;
    assert!(matches!(offered, Err(Error::CommitOutcomeUnknown { sequence: 3, .. })), "{offered:?}");
    // A holder publishes its own wins and those of others.
    let holder = publishing().open().await.unwrap();
    holder.count_up().await;
    assert_eq!(published().await, 4);
    follower.count_up().await;
    assert_eq!(published().await, 5);
    for store in [refused, follower.store, holder.store] {
        store.close().await.unwrap();
    }
}
