//! `retire` as it is typed, on real directories: a dry run changes nothing, a run retires what was told, and errors are said plainly.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "test code: a broken expectation must stop the test that met it"
)]

mod kit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use commit_log::adoption::FreshLog;
use commit_log::slot::PageSize;
use commit_log::store::Store;
use commit_log::transaction::Transaction;
use kit::{fails, run, well};
use object_store::local::LocalFileSystem;
use slatedb::admin::AdminBuilder;
use slatedb::config::{CheckpointOptions, Settings};

/// Slots of the store of these tests: its last page is begun, and not full.
const SLOTS: u64 = 26;

/// A page's slots: the last fold is in page 6.
const PAGE: u32 = 4;

/// A store with [`SLOTS`] slots, all of them folded, of which no page is retired.
fn folded(directory: &Path) -> String {
    std::fs::create_dir_all(directory).unwrap();
    let bucket = Arc::new(LocalFileSystem::new_with_prefix(directory).unwrap());
    let fresh = FreshLog { page_size: PageSize::new(PAGE).unwrap(), ..FreshLog::default() };
    let settings = Settings { garbage_collector_options: None, ..Settings::default() };
    kit::block_on(async {
        let builder = Store::builder(object_store::path::Path::default(), bucket).fresh_log(fresh).settings(settings);
        let store = builder.open().await.unwrap();
        for slot in 1..=SLOTS {
            let put = |transaction: &mut Transaction| Ok(transaction.put(format!("key-{slot:02}"), "value")?);
            kit::transact(&store, put).await.unwrap();
        }
        store.hold().await.unwrap().stop().await.unwrap();
        store.close().await;
    });
    directory.display().to_string()
}

/// Every file below `directory`, with what is in it.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(contents(&path)),
            false => drop(all.insert(path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all
}

/// The numbers that the files below `folder` are named by.
fn numbers(store: &str, folder: &str) -> Vec<u64> {
    let number = |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    contents(&Path::new(store).join(folder)).keys().map(number).collect()
}

#[test]
fn a_dry_run_changes_nothing_a_run_retires_what_it_told_and_another_finds_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = folded(&home.path().join("store"));
    let rows = well(&run(&["scan", &store]));
    let before = contents(home.path());
    let told = well(&run(&["retire", &store, "--dry-run"]));
    let expected = "would retire    pages 0–4, slots 1–20\nwould sweep     0 names in pages that were retired before\nwould stay      \
                    everything from page 5 on\ndry run         nothing was written, nothing was deleted\n";
    assert_eq!(told, format!("store           {store}\n{expected}"));
    assert_eq!(contents(home.path()), before);
    assert!(well(&run(&["status", &store])).contains("first page      0, none is retired yet\n"));

    let told = well(&run(&["retire", &store]));
    let expected = "retired         pages 0–4, slots 1–20\nswept           0 names in pages that were retired before\nstays           \
                    everything from page 5 on\n";
    assert_eq!(told, format!("store           {store}\n{expected}"));
    assert_eq!(numbers(&store, "commits"), (21..=SLOTS).collect::<Vec<_>>());
    assert_eq!(numbers(&store, "retired"), [0, 1, 2, 3, 4]);
    assert_eq!(well(&run(&["scan", &store])), rows);
    assert!(well(&run(&["status", &store])).contains("first page      5, those below are retired\n"));

    let after = contents(home.path());
    assert!(well(&run(&["retire", &store])).contains("retired         nothing\n"));
    assert_eq!(contents(home.path()), after);
    let json = well(&run(&["retire", &store, "--retain-pages", "1", "--json"]));
    let pages = r#""retired":{"first":5,"last":5,"first_slot":21,"last_slot":24},"swept":0,"first_page":6,"later":null}"#;
    assert_eq!(json, format!("{{\"store\":\"{store}\",\"dry_run\":false,{pages}\n"));
    kit::commit(Path::new(&store), &["one more"]);
    assert_eq!(well(&run(&["scan", &store])).lines().count(), rows.lines().count() + 1);
}

#[test]
fn what_is_too_young_stays_and_a_name_that_was_put_again_is_swept() {
    let home = tempfile::tempdir().unwrap();
    let store = folded(&home.path().join("store"));
    let told = well(&run(&["retire", &store, "--min-age", "3600"]));
    assert!(
        told.contains("retired         nothing\n") && told.contains("stays           everything from page 0 on\n"),
        "{told}"
    );
    assert!(
        told.contains("later           pages 0–4, slots 1–20: not needed, but too young or left to the next run\n"),
        "{told}"
    );
    let slots = contents(&Path::new(&store).join("commits"));
    let (slept, bytes) = slots.first_key_value().unwrap();
    well(&run(&["retire", &store]));
    std::fs::write(slept, bytes).unwrap();
    assert!(well(&run(&["retire", &store, "--dry-run"])).contains("would sweep     1 name in pages"));
    assert!(slept.exists());
    assert!(well(&run(&["retire", &store])).contains("swept           1 name in pages"));
    assert!(!slept.exists());
}

#[test]
fn nothing_is_retired_of_a_store_that_nobody_folded() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    kit::commit(&store, &["a", "b"]);
    let before = contents(&store);
    let told = well(&run(&["retire", &store.display().to_string(), "--retain-pages", "1"]));
    assert!(told.contains("retired         nothing\n") && told.ends_with("everything from page 0 on\n"), "{told}");
    assert_eq!(contents(&store), before);
}

#[test]
fn a_damaged_slot_is_named_and_nothing_from_its_page_on_is_retired() {
    let home = tempfile::tempdir().unwrap();
    let store = folded(&home.path().join("store"));
    let damaged = contents(&Path::new(&store).join("commits")).into_keys().nth(9).unwrap();
    std::fs::write(&damaged, "no slot").unwrap();
    let output = run(&["retire", &store]);
    let text = fails(&output);
    assert!(text.starts_with(&format!("error: {store}: slot 10 is damaged")), "{text}");
    assert_eq!((text.lines().count(), output.stdout.len()), (1, 0), "{text}");
    assert_eq!(numbers(&store, "retired"), [0, 1]);
    assert_eq!(numbers(&store, "commits"), (9..=SLOTS).collect::<Vec<_>>());
}

#[test]
fn a_checkpoint_whose_manifest_is_gone_is_told_and_nothing_is_retired() {
    let home = tempfile::tempdir().unwrap();
    let store = folded(&home.path().join("store"));
    let checkpoint = kit::block_on(async {
        let bucket = Arc::new(LocalFileSystem::new_with_prefix(&store).unwrap());
        let admin = AdminBuilder::new(object_store::path::Path::default(), bucket).build();
        admin.create_detached_checkpoint(&CheckpointOptions::default()).await.unwrap()
    });
    let manifest = format!("{store}/manifest/{:020}.manifest", checkpoint.manifest_id);
    std::fs::remove_file(manifest).unwrap();
    let before = contents(home.path());
    let text = fails(&run(&["retire", &store]));
    assert_eq!(text, format!("error: {store}: a checkpoint of the store names a manifest that is not there\n"));
    assert_eq!(contents(home.path()), before);
}
