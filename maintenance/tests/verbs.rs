//! The verbs as they are typed, on real directories: what goes in comes out, and what is damaged is named.
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
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use kit::{commit_log, fails, lines, run, well};

/// A file of `rows` rows with `keys` keys, each repeated with other values.
fn repeated(directory: &Path, rows: usize, keys: usize) -> (PathBuf, BTreeMap<String, String>) {
    let (mut text, mut last) = (String::new(), BTreeMap::new());
    for row in 0..rows {
        let (key, value) = (format!("key-{:03}", row * 7 % keys), format!("value {row}\twith a tab"));
        let _ = writeln!(text, "{key}\t{value}");
        last.insert(key, value);
    }
    let file = directory.join("rows.tsv");
    std::fs::write(&file, text).unwrap();
    (file, last)
}

fn as_tsv(rows: &BTreeMap<String, String>) -> String {
    rows.iter().fold(String::new(), |text, (key, value)| text + key + "\t" + value + "\n")
}

fn load(store: &Path, file: &Path, batch: usize) -> String {
    well(&run(&["load", &store.display().to_string(), "--from", &file.display().to_string(), "--batch", &batch.to_string()]))
}

fn scan(store: &Path, more: &[&str]) -> String {
    well(&run(&[&["scan", &store.display().to_string()], more].concat()))
}

/// The files of a folder of the store, in the order of their names.
fn files_of(store: &Path, folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(store.join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    match files.first() {
        Some(only) if only.is_dir() => files_of(only, ""),
        _ => files,
    }
}

#[test]
fn a_file_with_repeated_keys_loaded_by_four_processes_keeps_the_last_of_each() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    let (file, last) = repeated(home.path(), 2_000, 300);
    let said = load(&store, &file, 50);
    assert!(said.starts_with("2000 rows committed by 4 writers in ") && said.contains("rows/s"), "{said}");
    assert_eq!(scan(&store, &[]), as_tsv(&last));
    let reversed: Vec<_> = as_tsv(&last).lines().rev().map(str::to_owned).collect();
    assert_eq!(lines(&scan(&store, &["--reverse"])), reversed);
    assert_eq!(scan(&store, &["--prefix", "key-00"]).lines().count(), 10);
    let key = last.keys().next().unwrap();
    assert_eq!(well(&run(&["get", &store.display().to_string(), key])), last[key]);
    let status = well(&run(&["status", &store.display().to_string()]));
    assert!(status.contains("tail            0 slots not folded yet, 0 B of rows"), "{status}");
    assert!(status.contains("with epoch 1, taken "), "{status}");
    assert_eq!(fails(&run(&["get", &store.display().to_string(), "absent"])), "there is no row of this key\n");
}

#[test]
fn rows_of_any_bytes_come_back_as_json_lines_and_tsv_names_what_it_cannot_hold() {
    let home = tempfile::tempdir().unwrap();
    let (store, file) = (home.path().join("store"), home.path().join("rows.json"));
    let text = "{\"key\":\"a\",\"value\":\"one\"}\n{\"key\":\"b\\tc\",\"value\":\"two\\nlines\"}\n{\"key_base64\":\"/w==\",\"value_base64\":\"/v8=\"}\n";
    std::fs::write(&file, text).unwrap();
    let (store_name, file_name) = (store.display().to_string(), file.display().to_string());
    well(&run(&["load", &store_name, "--from", &file_name, "--json", "--writers", "2"]));
    let json = scan(&store, &["--json"]);
    assert_eq!(json, text);
    let output = run(&["scan", &store_name]);
    assert_eq!(output.stdout, b"a\tone\n", "rows before it are printed");
    assert_eq!(fails(&output), "error: row \"b\\tc\": a TSV line cannot hold a key with a tab; use --json\n");
    assert_eq!(run(&["get", &store_name, "/w==", "--key-base64"]).stdout, [0xfe, 0xff]);
    let again = home.path().join("again");
    std::fs::write(&file, &json).unwrap();
    well(&run(&["load", &again.display().to_string(), "--from", &file_name, "--json"]));
    assert_eq!(scan(&again, &["--json"]), text);
}

#[test]
fn every_wrong_place_is_one_line_and_creates_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (file, _) = repeated(home.path(), 10, 10);
    let file = file.display().to_string();
    let missing = home.path().join("missing").display().to_string();
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty_name = empty.display().to_string();
    let demo = home.path().join("demo").display().to_string();
    let wrong: [(&[&str], &str); 17] = [
        (&["scan", "http://h/p"], "expected a directory, or a file:, s3:, az: or gs: URL"),
        (&["load", "memory:///", "--from", &file], "expected a directory, or a file:, s3:, az: or gs: URL"),
        (&["status", &missing], "no such directory"),
        (&["get", &missing, "key"], "no such directory"),
        (&["outcome", &missing, "000102030405060708090a0b0c0dfeff", "1", "--close"], "no such directory"),
        (&["retire", &missing], "no such directory"),
        (&["retire", &missing, "--dry-run"], "no such directory"),
        (&["scan", &empty_name], "there is no commit log here"),
        (&["retire", &empty_name], "there is no commit log here"),
        (&["retire", &file], "is not a directory"),
        (&["retire", "s3://bucket/p"], "cannot connect"),
        (&["status", &file], "is not a directory"),
        (&["load", &missing, "--from", &missing], "opening failed: entity not found"),
        (&["load", &missing, "--from", &empty_name], "is not a file"),
        (&["load", "s3://bucket/p", "--from", &file], "cannot connect"),
        (&["status", "s3://bucket/p"], "cannot connect"),
        (&["demo", &demo, "--store", "s3://bucket/p"], "cannot connect"),
    ];
    for (typed, expected) in wrong {
        let output = run(typed);
        let text = fails(&output);
        assert!(text.starts_with("error: ") && text.contains(expected), "{typed:?}: {text}");
        assert_eq!((text.lines().count(), output.stdout.len()), (1, 0), "{typed:?}: {text}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2, "the file and the empty directory");
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_bad_line_is_named_before_anything_is_committed() {
    let home = tempfile::tempdir().unwrap();
    let (store, file) = (home.path().join("store"), home.path().join("rows.tsv"));
    std::fs::write(&file, "a\t1\nb\t2\nno tab\n").unwrap();
    let output = run(&["load", &store.display().to_string(), "--from", &file.display().to_string()]);
    assert!(fails(&output).contains("line 3: expected a key, a tab and a value"));
    assert!(!store.exists());
}

#[test]
fn a_row_that_no_slot_holds_is_refused_with_the_limit() {
    let home = tempfile::tempdir().unwrap();
    let (store, file) = (home.path().join("store"), home.path().join("rows.tsv"));
    std::fs::write(&file, format!("big\t{}\n", "x".repeat(9 << 20))).unwrap();
    let text = fails(&run(&["load", &store.display().to_string(), "--from", &file.display().to_string()]));
    assert!(text.lines().count() == 1 && text.contains("8388608"), "{text}");
    assert_eq!(scan(&store, &[]), "");
}

#[test]
fn a_damaged_slot_is_named_and_no_rows_are_shown_instead() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    let (file, _) = repeated(home.path(), 60, 60);
    load(&store, &file, 5);
    // The last slots are not folded: a writer of its own adds them.
    kit::commit(&store, &["x", "y", "z"]);
    let slots = files_of(&store, "commits");
    let damaged = &slots[slots.len() - 2];
    let mut bytes = std::fs::read(damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(damaged, bytes).unwrap();
    let number = damaged.file_name().unwrap().to_str().unwrap().trim_start_matches('0').to_owned();
    for typed in [&["scan"][..], &["get", "key-001"], &["get", "x"], &["status"]] {
        let store = store.display().to_string();
        let output = run(&[&[typed[0], &store], &typed[1..]].concat());
        let text = fails(&output);
        assert!(text.contains(&format!("slot {number} is damaged")), "{text}");
        assert_eq!((text.lines().count(), output.stdout.len()), (1, 0), "{text}");
    }
    std::fs::remove_file(damaged).unwrap();
    let text = fails(&run(&["scan", &store.display().to_string()]));
    assert!(text.contains(&format!("slot {number} is missing below slot ")), "{text}");
}

#[test]
fn a_load_that_was_killed_midway_gives_the_whole_file_when_it_is_done_again() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    let (file, last) = repeated(home.path(), 3_000, 500);
    let (store_name, file_name) = (store.display().to_string(), file.display().to_string());
    let mut command = commit_log(&["load", &store_name, "--from", &file_name, "--batch", "2"]);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // In the middle: some slots are there, and far from all.
    kit::until(|| store.join("commits").exists() && files_of(&store, "commits").len() > 40);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let some = files_of(&store, "commits").len();
    assert!(some < 1_400, "{some}: it was done before");
    // Its writers end when their parent is gone. Once two loads in a row add the same number of slots, nobody else does.
    let added = || {
        let before = files_of(&store, "commits").len();
        load(&store, &file, 500);
        files_of(&store, "commits").len() - before
    };
    kit::until(|| added() == added());
    assert_eq!(scan(&store, &[]), as_tsv(&last));
}

#[test]
fn what_became_of_a_transaction_is_told_and_an_open_slot_is_closed() {
    let home = tempfile::tempdir().unwrap();
    let store = home.path().join("store");
    let committed = kit::commit(&store, &["x"]);
    let store_name = store.display().to_string();
    let (transaction, sequence) = (committed.transaction.to_string(), committed.sequence.to_string());
    let outcome = |transaction: &str, sequence: &str, more: &[&str]| {
        let output = run(&[&["outcome", &store_name, transaction, sequence], more].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(outcome(&transaction, &sequence, &[]), (Some(0), "landed: it is committed, as slot 1\n".to_owned()));
    let other = "000102030405060708090a0b0c0dfeff";
    assert!(outcome(other, "1", &[]).1.starts_with("never: "));
    assert!(matches!(outcome(other, "2", &[]), (Some(1), text) if text.starts_with("open: ")));
    assert!(matches!(outcome(other, "2", &["--close"]), (Some(0), text) if text.starts_with("never: ")));
    assert!(matches!(outcome(other, "2", &[]), (Some(0), text) if text.starts_with("never: ")));
}
