//! A base never moves and costs what it says.

use std::time::Duration;

use object_store::{ObjectStoreExt, PutPayload};
use slatedb::config::{CompactorOptions, Settings};

use super::kit::*;
use crate::envelope::Write;
use crate::view::*;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::db_cache::foyer::FoyerCache;

async fn world_of_three_flushes() -> (World, slatedb::Db) {
    let world = World::new();
    let db = world.db().await;
    for number in 1..=3 {
        fold(&db, &slot(number, vec![Write::put(format!("k{number}"), "old"), Write::put("last", number.to_string())])).await;
        flush(&db).await;
    }
    (world, db)
}

#[tokio::test]
async fn a_base_of_a_known_manifest_opens_with_one_get() {
    let (world, _db) = world_of_three_flushes().await;
    let id = world.manifest().await.id;
    let before = world.bucket.requests();
    let manifest = fetch_manifest(&world.real(), &World::path(), id).await.unwrap().unwrap();
    let base = Base::open(&world.settings(), &manifest).await.unwrap();
    assert_eq!(world.bucket.requests().since(before), Requests { gets: 1, lists: 0, writes: 0 });
    assert_eq!(base.covered(), Some(sequence(3)));
    assert_eq!(base.manifest_id(), Some(id));
    assert_eq!(base.manifest().unwrap().writer_epoch(), 1);
    base.close().await;
}

#[tokio::test]
async fn the_newest_manifest_takes_one_list_and_one_get_and_nothing_newer_takes_one_list() {
    let (world, db) = world_of_three_flushes().await;
    let before = world.bucket.requests();
    let found = newest_manifest(&world.real(), &World::path(), Some(1)).await.unwrap().unwrap();
    assert_eq!(world.bucket.requests().since(before), Requests { gets: 1, lists: 1, writes: 0 });
    assert_eq!(found.id, world.manifest().await.id);

    let before = world.bucket.requests();
    assert!(newest_manifest(&world.real(), &World::path(), Some(found.id)).await.unwrap().is_none());
    assert_eq!(world.bucket.requests().since(before), Requests { gets: 0, lists: 1, writes: 0 });

    fold(&db, &slot(4, vec![Write::put("k4", "new")])).await;
    flush(&db).await;
    assert!(newest_manifest(&world.real(), &World::path(), Some(found.id)).await.unwrap().unwrap().id > found.id);
}

#[tokio::test]
async fn a_store_that_does_not_exist_has_no_manifest_and_an_empty_base() {
    let world = World::new();
    assert!(newest_manifest(&world.real(), &World::path(), None).await.unwrap().is_none());
    let view = View::new(Arc::new(Base::empty()), sequence(1), Bytes::from_static(RESERVED));
    assert_eq!(view.head(), None);
    assert_eq!(view.get(b"k").await.unwrap(), None);
    assert!(everything(&view).await.is_empty());
    view.base().close().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_base_makes_no_request_in_an_hour_nor_when_it_is_closed() {
    let (world, db) = world_of_three_flushes().await;
    db.close().await.unwrap();
    let base = world.base().await;
    let before = world.bucket.requests();
    world.clock.sleep(Duration::from_secs(3_600)).await;
    assert_eq!(world.bucket.requests(), before);
    base.close().await;
    base.close().await;
    assert_eq!(world.bucket.requests(), before);
    assert!(matches!(base.get(b"k1").await, Err(ReadError::Outlived { .. })));
}

#[tokio::test]
async fn a_closed_base_leaves_no_task_behind() {
    let (world, db) = world_of_three_flushes().await;
    db.close().await.unwrap();
    tokio::task::yield_now().await;
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for _ in 0..50 {
        let base = world.base().await;
        base.get(b"k1").await.unwrap();
        base.close().await;
    }
    assert!(tokio::runtime::Handle::current().metrics().num_alive_tasks() <= before);
}

#[tokio::test(start_paused = true)]
async fn reads_stay_at_the_manifest_while_the_store_is_overwritten_flushed_and_compacted() {
    let world = World::new();
    let compactor = CompactorOptions {
        poll_interval: Duration::from_millis(20),
        commit_compacted_interval: Duration::from_millis(20),
        ..CompactorOptions::default()
    };
    let settings = Settings { compactor_options: Some(compactor), garbage_collector_options: None, ..Settings::default() };
    let db = world.db_with(settings).await;
    fold(&db, &slot(1, (0..50).map(|row| Write::put(format!("k{row:03}"), "old")).collect())).await;
    flush(&db).await;
    let view = View::new(world.base().await, sequence(1), Bytes::from_static(RESERVED));
    let before = everything(&view).await;
    let frozen = view.base().manifest_id();

    for number in 2..=12 {
        let rows = (0..50).step_by(2).map(|row| Write::delete(format!("k{row:03}")));
        let writes = rows.chain([Write::put("k001", "new"), Write::put(format!("n{number}"), "new")]).collect();
        fold(&db, &slot(number, writes)).await;
        flush(&db).await;
    }
    for _ in 0..1_000 {
        if !db.manifest().compacted().is_empty() {
            break;
        }
        world.clock.sleep(Duration::from_millis(20)).await;
    }
    assert!(!db.manifest().compacted().is_empty(), "compacted");

    assert_eq!(everything(&view).await, before);
    assert_eq!(view.get(b"k000").await.unwrap().unwrap(), "old");
    assert_eq!(view.get(b"n2").await.unwrap(), None);
    assert_eq!(view.base().manifest_id(), frozen);
    view.base().close().await;
    db.close().await.unwrap();
}

#[tokio::test]
async fn every_write_through_a_frozen_bucket_is_refused_and_none_arrives() {
    let (world, _db) = world_of_three_flushes().await;
    let manifest = world.manifest().await;
    let frozen = FrozenBucket::new(world.real(), &World::path(), &manifest).await.unwrap();
    let file = world.files().await.remove(0);
    let before = world.bucket.requests();
    let refused = |result: object_store::Result<()>| {
        assert!(matches!(result, Err(object_store::Error::NotSupported { .. })), "{result:?}");
    };
    for path in [file.clone(), World::path().join("manifest").join("x"), Path::from("elsewhere")] {
        refused(frozen.put(&path, PutPayload::from_static(b"x")).await.map(drop));
        refused(frozen.put_multipart(&path).await.map(drop));
        refused(frozen.delete(&path).await);
        refused(frozen.copy(&file, &path).await);
        refused(frozen.copy_if_not_exists(&file, &path).await);
        refused(frozen.rename(&file, &path).await);
        refused(frozen.rename_if_not_exists(&file, &path).await);
    }
    assert_eq!(world.bucket.requests(), before);
}

#[tokio::test]
async fn a_frozen_bucket_shows_one_manifest_no_wal_and_the_files_of_parents() {
    use futures::TryStreamExt;
    let (world, _db) = world_of_three_flushes().await;
    let manifest = world.manifest().await;
    let parents = Path::from("parent/compacted/1.sst");
    world.bucket.put(&parents, PutPayload::from_static(b"file")).await.unwrap();
    let frozen = FrozenBucket::new(world.real(), &World::path(), &manifest).await.unwrap();
    let listed: Vec<_> = frozen.list(None).map_ok(|found| found.location).try_collect().await.unwrap();
    assert_eq!(listed, [Path::from(format!("{}/manifest/{:020}.manifest", World::path(), manifest.id))]);
    for absent in ["manifest/00000000000000000001.manifest", "gc/manifest.boundary", "wal/00000000000000000001.sst"] {
        let path = Path::from(format!("{}/{absent}", World::path()));
        assert!(matches!(frozen.get(&path).await, Err(object_store::Error::NotFound { .. })), "{absent}");
    }
    assert_eq!(frozen.get(&parents).await.unwrap().bytes().await.unwrap(), "file");
}

#[tokio::test]
async fn a_manifest_that_is_none_is_a_typed_error_and_leaves_no_task() {
    let world = World::new();
    let manifest = ManifestObject { id: 1, bytes: Bytes::from_static(b"this is not a manifest, it only looks like one") };
    let error = Base::open(&world.settings(), &manifest).await.unwrap_err();
    assert!(matches!(error, ReadError::Corrupt { manifest: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn bases_of_one_store_share_a_cache() {
    let (world, _db) = world_of_three_flushes().await;
    let settings = BaseSettings { cache: Some(SharedCache { cache: Arc::new(FoyerCache::new()), id: 7 }), ..world.settings() };
    let first = Base::open(&settings, &world.manifest().await).await.unwrap();
    first.get(b"k1").await.unwrap();
    first.close().await;
    let second = Base::open(&settings, &world.manifest().await).await.unwrap();
    let before = world.bucket.requests();
    assert_eq!(second.get(b"k1").await.unwrap().unwrap(), "old");
    assert_eq!(world.bucket.requests(), before);
    second.close().await;
}

#[tokio::test]
async fn what_the_embedder_customises_is_kept_where_it_is_not_the_librarys() {
    let (world, db) = world_of_three_flushes().await;
    fold(&db, &slot(4, vec![Write::put("k4", "in the wal only")])).await;
    let settings = BaseSettings {
        customise: Some(Arc::new(|builder| {
            builder
                .with_reader_mode(slatedb::DbReaderMode::ManagedCheckpoint)
                .with_options(slatedb::config::DbReaderOptions::default())
        })),
        ..world.settings()
    };
    let before = world.bucket.requests().writes;
    let base = Base::open(&settings, &world.manifest().await).await.unwrap();
    assert_eq!(base.get(b"k4").await.unwrap(), None);
    assert_eq!(world.bucket.requests().writes, before);
    base.close().await;
}

#[tokio::test]
async fn a_superseded_base_is_closed_once_its_last_view_is_gone() {
    let (world, _db) = world_of_three_flushes().await;
    let mut reaper = Reaper::new();
    let view = View::new(world.base().await, sequence(1), Bytes::from_static(RESERVED));
    assert_eq!(reaper.supersede(Arc::clone(view.base())).await, 0);
    let scan = view.scan(.., ScanOrder::Ascending);
    drop(view);
    assert_eq!(reaper.reap().await, 0, "the scan still reads it");
    assert_eq!(collect(scan).await.len(), 4);
    assert_eq!(reaper.reap().await, 1);
    assert_eq!(reaper.waiting(), 0);
}

#[tokio::test]
async fn past_the_bound_the_oldest_base_is_closed_under_its_views() {
    let (world, _db) = world_of_three_flushes().await;
    let mut reaper = Reaper::new();
    let mut views = Vec::new();
    for _ in 0..=MAX_SUPERSEDED {
        let view = View::new(world.base().await, sequence(1), Bytes::from_static(RESERVED));
        reaper.supersede(Arc::clone(view.base())).await;
        views.push(view);
    }
    assert_eq!(reaper.waiting(), MAX_SUPERSEDED);
    assert!(matches!(views[0].get(b"k1").await, Err(ReadError::Outlived { .. })));
    assert!(views[1].get(b"k1").await.unwrap().is_some());
    reaper.close().await;
    assert_eq!(reaper.waiting(), 0);
}
