//! The scripted bucket: nothing gets past its script, and its counts are exact.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{CopyMode, GetOptions, ObjectStore, ObjectStoreExt, PutMode, RenameOptions};

use super::*;
use crate::runtime::{Limits, run_world};

fn scripted_memory() -> ScriptedBucket {
    ScriptedBucket::new(Arc::new(InMemory::new()))
}

fn run<F: Future<Output = ()>>(test: F) {
    run_world(1, Limits::default(), |_| test).unwrap();
}

/// Whether each method of the trait, called once on `store`, succeeded, with the operation it counts as.
async fn each_method(store: &dyn ObjectStore) -> Vec<(Operation, bool)> {
    let (a, b, c) = (Path::from("commits/a"), Path::from("commits/b"), Path::from("commits/c"));
    let create = || PutMode::Create.into();
    let mut done = vec![
        (Operation::Create, store.put_opts(&a, "1".into(), create()).await.is_ok()),
        (Operation::Overwrite, store.put(&a, "1".into()).await.is_ok()),
        (Operation::Get, store.get(&a).await.is_ok()),
        (Operation::Head, store.get_opts(&a, GetOptions::new().with_head(true)).await.is_ok()),
        (Operation::Get, store.get_ranges(&a, &[0..1, 0..1]).await.is_ok()),
    ];
    let copied = store.copy_opts(&a, &b, CopyOptions::new().with_mode(CopyMode::Create)).await;
    done.push((Operation::Copy, copied.is_ok()));
    done.push((Operation::Copy, store.rename_opts(&b, &c, RenameOptions::new()).await.is_ok()));
    let all_ok = |list: Vec<Result<ObjectMeta>>| list.iter().all(Result::is_ok);
    let prefix = Path::from("commits");
    done.push((Operation::List, all_ok(store.list(Some(&prefix)).collect().await)));
    done.push((Operation::List, all_ok(store.list_with_offset(Some(&prefix), &a).collect().await)));
    done.push((Operation::List, store.list_with_delimiter(Some(&prefix)).await.is_ok()));
    let deletes = store.delete_stream(stream::iter([Ok(a.clone())]).boxed());
    done.push((Operation::Delete, deletes.map(|deleted| deleted.is_ok()).all(|ok| async move { ok }).await));
    let upload = store.put_multipart(&a).await;
    done.push((Operation::UploadStart, upload.is_ok()));
    if let Ok(mut upload) = upload {
        done.push((Operation::UploadPart, upload.put_part("1".into()).await.is_ok()));
        done.push((Operation::UploadComplete, upload.complete().await.is_ok()));
    }
    done
}

#[test]
fn every_method_is_counted_once_and_none_gets_past_the_script() {
    run(async {
        let bucket = scripted_memory();
        let done = each_method(&bucket).await;
        assert!(done.iter().all(|(_, ok)| *ok), "{done:?}");
        let logged: Vec<_> = bucket.log().iter().map(|request| request.operation).collect();
        let asked: Vec<_> = done.iter().map(|(operation, _)| *operation).collect();
        assert_eq!(logged, asked);
        for fate in [Fate::Fail, Fate::LoseAnswer] {
            let bucket = scripted_memory();
            for nth in 1..=20 {
                bucket.script(nth, |_| true, fate);
            }
            let done = each_method(&bucket).await;
            assert!(done.iter().all(|(_, ok)| !ok), "{fate:?}: {done:?}");
            assert_eq!(bucket.log().len(), done.len());
        }
    });
}

#[test]
fn a_failed_request_does_not_land_and_one_whose_answer_is_lost_does() {
    run(async {
        let bucket = scripted_memory();
        let path = Path::from("store/commits/1");
        let is_create = |request: &Request| request.operation == Operation::Create;
        let fails = bucket.script(1, is_create, Fate::Fail);
        bucket.script(2, is_create, Fate::LoseAnswer);
        let create = || bucket.put_opts(&path, "1".into(), PutMode::Create.into());
        assert!(matches!(create().await, Err(Error::Generic { .. })));
        assert!(fails.was_reached());
        assert!(matches!(bucket.head(&path).await, Err(Error::NotFound { .. })));
        assert!(matches!(create().await, Err(Error::Generic { .. })));
        bucket.head(&path).await.unwrap();
        assert!(matches!(create().await, Err(Error::AlreadyExists { .. })));
    });
}

#[test]
fn a_hung_request_is_never_answered_and_a_held_one_once_it_is_released() {
    run(async {
        let bucket = scripted_memory();
        let path = Path::from("x");
        bucket.script(1, |_| true, Fate::Hang);
        let mut hung = Box::pin(bucket.put(&path, "1".into()));
        assert!((&mut hung).now_or_never().is_none());
        let cue = bucket.script(1, |_| true, Fate::Hold);
        let held = tokio::spawn({
            let (bucket, path) = (bucket.clone(), path.clone());
            async move { bucket.put(&path, "2".into()).await }
        });
        cue.reached().await;
        assert!(matches!(bucket.head(&path).await, Err(Error::NotFound { .. })));
        cue.release();
        held.await.unwrap().unwrap();
        assert!(hung.now_or_never().is_none());
    });
}

#[test]
fn rounds_are_groups_of_overlapping_requests_of_a_class() {
    run(async {
        let bucket = scripted_memory();
        let path = |name: &str| Path::from(format!("store/commits/{name}"));
        let held = bucket.script(1, |_| true, Fate::Hold);
        let (first, second) = (path("1"), path("2"));
        let mut one = Box::pin(bucket.head(&first));
        assert!((&mut one).now_or_never().is_none());
        bucket.head(&second).await.ok();
        bucket.head(&Path::from("store/manifest/1")).await.ok();
        held.release();
        one.await.ok();
        bucket.head(&first).await.ok();
        let commits = bucket.overlap(PathClass::Commits);
        assert_eq!((commits.rounds, commits.most_in_flight, commits.in_flight), (2, 2, 0));
        assert_eq!(bucket.overlap(PathClass::Manifest).rounds, 1);
        let mark = bucket.mark();
        assert!(bucket.counts_since(mark).is_empty());
        assert_eq!(bucket.counts()[&(Operation::Head, PathClass::Commits)], 3);
        assert!(bucket.list(Some(&first)).next().await.is_none());
        let counts = bucket.counts_since(mark);
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [((Operation::List, PathClass::Commits), 1)]);
        assert_eq!(bucket.overlap(PathClass::Commits).in_flight, 0);
    });
}
