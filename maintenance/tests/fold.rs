//! `fold` and `hold` as they are typed, on real directories and real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "test code: a broken expectation must stop the test that met it"
)]

mod kit;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use commit_log::commit_store::Folding;
use commit_log::store::Store;
use commit_log::transaction::Transaction;
use kit::{commit_log, fails, run, well};
use object_store::local::LocalFileSystem;

/// Commits `slots` slots to the store at `directory`, which is folded by nobody.
fn committed(directory: &Path, slots: u32) -> String {
    std::fs::create_dir_all(directory).unwrap();
    let bucket = Arc::new(LocalFileSystem::new_with_prefix(directory).unwrap());
    kit::block_on(async {
        let builder = Store::builder(object_store::path::Path::default(), bucket).folding(Folding::Never);
        let store = builder.open().await.unwrap();
        for slot in 0..slots {
            let put = |transaction: &mut Transaction| Ok(transaction.put(format!("key-{slot:02}"), "value")?);
            kit::transact(&store, put).await.unwrap();
        }
        store.close().await;
    });
    directory.display().to_string()
}

fn line(printed: &str, title: &str) -> String {
    let line = printed.lines().find(|line| line.starts_with(title)).unwrap_or_else(|| panic!("no {title}: {printed}"));
    line[title.len()..].trim().to_owned()
}

#[test]
fn a_store_is_folded_once_and_then_there_is_nothing_to_fold() {
    let directory = tempfile::tempdir().unwrap();
    let store = committed(&directory.path().join("store"), 5);
    assert_eq!(line(&well(&run(&["fold", &store])), "folded"), "through slot 5");
    assert_eq!(line(&well(&run(&["fold", &store])), "folded"), "already, or by whoever holds it");
    assert_eq!(well(&run(&["get", &store, "key-00"])), "value");
}

#[test]
fn a_process_that_holds_folds_what_others_commit_and_gives_the_store_back_when_it_is_told_to_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store = committed(&path, 3);
    for signal in ["-TERM", "-INT"] {
        let mut holder = commit_log(&["hold", &store]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.find(|line| line.starts_with("holds")).is_some(), "it holds");
        committed(&path, 4);
        assert!(Command::new("kill").args([signal, &holder.id().to_string()]).status().unwrap().success());
        let gave_back = lines.find(|line| line.starts_with("gave it back")).unwrap();
        assert!(holder.wait().unwrap().success());
        let head = if signal == "-TERM" { 7 } else { 11 };
        assert!(gave_back.ends_with(&format!("folded through slot {head}")), "{gave_back}");
    }
}

#[test]
fn a_place_without_a_store_is_neither_held_nor_folded() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = directory.path().display().to_string();
    for verb in ["hold", "fold"] {
        assert!(fails(&run(&[verb, &nothing])).contains("no commit log"), "{verb}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
