//! A view that cannot be read is an error, never fewer rows.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStoreExt;
use slatedb::db_cache::foyer::FoyerCache;

use super::kit::*;
use crate::envelope::Write;
use crate::view::*;

const KEYS: usize = 60;

/// A store of three files that overlap, and what is in it.
async fn three_files() -> (World, Rows) {
    let world = World::new();
    let db = world.db().await;
    let mut rows = Rows::new();
    for number in 1..=3 {
        let writes: Vec<Write> = (0..KEYS)
            .filter(|row| row % number as usize == 0)
            .map(|row| match (row + number as usize) % 7 {
                0 => Write::delete(format!("k{row:03}")),
                _ => Write::put(format!("k{row:03}"), vec![number as u8; 600]),
            })
            .collect();
        apply(&mut rows, &writes);
        fold(&db, &slot(number, writes)).await;
        flush(&db).await;
    }
    db.close().await.unwrap();
    (world, rows)
}

fn caches() -> [Option<SharedCache>; 2] {
    [None, Some(SharedCache { cache: Arc::new(FoyerCache::new()), id: 1 })]
}

async fn open(world: &World, cache: Option<SharedCache>) -> View {
    let mut settings = BaseSettings { cache, ..world.settings() };
    settings.scan.read_ahead_bytes = 1;
    let base = Base::open(&settings, &world.manifest().await).await.unwrap();
    View::new(Arc::new(base), sequence(1), Bytes::from_static(RESERVED))
}

/// Scans everything. What came before an error must be the beginning of the truth.
async fn scan(view: &View, order: ScanOrder, rows: &Rows) -> Result<(), ReadError> {
    let mut truth: Vec<_> = rows.iter().collect();
    if order == ScanOrder::Descending {
        truth.reverse();
    }
    let mut scan = view.scan(.., order);
    for (key, value) in truth {
        let row = match scan.next().await {
            Ok(row) => row,
            Err(error) => {
                assert!(scan.next().await.is_err(), "a scan that failed stays failed");
                return Err(error);
            }
        };
        assert_eq!(row.as_ref().map(|(key, value)| (key, value)), Some((key, value)));
    }
    scan.next().await.map(|row| assert_eq!(row, None))
}

#[tokio::test]
async fn a_deleted_file_is_a_typed_error_never_fewer_rows() {
    for cached in 0..caches().len() {
        for file in 0..3 {
            let (world, rows) = three_files().await;
            let files = world.files().await;
            assert_eq!(files.len(), 3);
            let view = open(&world, caches()[cached].clone()).await;
            world.bucket.delete(&files[file]).await.unwrap();
            for order in [ScanOrder::Ascending, ScanOrder::Descending] {
                let error = scan(&view, order, &rows).await.expect_err("a file is missing");
                assert!(matches!(error, ReadError::Outlived { .. }), "{error:?}");
            }
            let mut failed = 0;
            for row in 0..KEYS {
                let key = format!("k{row:03}");
                match view.get(key.as_bytes()).await {
                    Ok(value) => assert_eq!(value.as_ref(), rows.get(key.as_bytes()), "{key}"),
                    Err(ReadError::Outlived { .. }) => failed += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            assert!(failed > 0);
            view.base().close().await;
        }
    }
}

/// A read that fails once, and an outage that begins with it. Behind a cache SlateDB reads once more by itself, so that the
/// first is an error or the truth there.
fn failures(read: u64) -> [Range<u64>; 2] {
    [read..read + 1, read..u64::MAX]
}

#[tokio::test]
async fn a_read_of_a_file_that_fails_is_an_error_whichever_it_is() {
    let (world, rows) = three_files().await;
    for cached in 0..caches().len() {
        for order in [ScanOrder::Ascending, ScanOrder::Descending] {
            let reads = {
                let view = open(&world, caches()[cached].clone()).await;
                world.bucket.fail_file_reads(0..0);
                scan(&view, order, &rows).await.unwrap();
                view.base().close().await;
                world.bucket.file_reads()
            };
            assert!(reads > 3);
            for failing in (1..=reads).flat_map(failures) {
                let view = open(&world, caches()[cached].clone()).await;
                world.bucket.fail_file_reads(failing.clone());
                match scan(&view, order, &rows).await {
                    Err(ReadError::Unavailable { .. }) => {}
                    Ok(()) if cached == 1 && failing.end != u64::MAX => {}
                    other => panic!("{failing:?} of {reads}, {order:?}: {other:?}"),
                }
                world.bucket.fail_file_reads(0..0);
                scan(&view, order, &rows).await.unwrap();
                view.base().close().await;
            }
        }
    }
}

#[tokio::test]
async fn a_get_whose_read_fails_is_an_error_or_the_truth() {
    let (world, rows) = three_files().await;
    for cached in 0..caches().len() {
        for row in 0..KEYS {
            let key = format!("k{row:03}");
            let mut failed = 0;
            for failing in (1..=12).flat_map(failures) {
                let view = open(&world, caches()[cached].clone()).await;
                world.bucket.fail_file_reads(failing.clone());
                match view.get(key.as_bytes()).await {
                    Ok(value) => assert_eq!(value.as_ref(), rows.get(key.as_bytes()), "{key}, {failing:?}"),
                    Err(ReadError::Unavailable { .. }) => failed += 1,
                    Err(error) => panic!("{error:?}"),
                }
                view.base().close().await;
            }
            assert!(failed > 0, "{key}");
        }
    }
}

#[tokio::test]
async fn a_call_of_next_that_was_dropped_is_not_taken_for_the_end() {
    let (world, rows) = three_files().await;
    let view = open(&world, None).await;
    let mut scan = view.scan(.., ScanOrder::Ascending);
    let dropped = futures::FutureExt::now_or_never(scan.next());
    assert!(dropped.is_none(), "the call waits for a file");
    assert!(matches!(scan.next().await, Err(ReadError::Interrupted)));
    assert_eq!(view.scan(.., ScanOrder::Ascending).next().await.unwrap().unwrap().0, rows.keys().next().unwrap());
}
