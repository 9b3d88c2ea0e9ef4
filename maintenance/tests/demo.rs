//! The demo as it is typed: clean with kills, the same for a seed, and able to fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    missing_docs,
    reason = "test code: a broken expectation must stop the test that met it"
)]

mod kit;

use std::path::Path;
use std::process::{Output, Stdio};

use commit_log::transaction::Transaction;
use kit::{commit_log, fails, run, well};

const SMALL: [&str; 6] = ["--transfers", "160", "--accounts", "12", "--page-size", "32"];

fn demo(directory: &Path, more: &[&str]) -> Output {
    run(&[&["demo", &directory.display().to_string()], &SMALL[..], more].concat())
}

/// Audits a demo that ran, as it does itself: a fresh process. Its exit code and what it told.
fn audit(directory: &Path, seed: &str) -> (Option<i32>, String) {
    let (store, directory) = (directory.join("store").display().to_string(), directory.display().to_string());
    let place = ["--store", &store, "--directory", &directory, "--began-at", "0", "--seed", seed, "--writers", "4"];
    let mut command = commit_log(&[&["child", "demo-auditor"], &place[..], &SMALL[..]].concat());
    // An open standard input is a parent that is there.
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (input, output) = {
        let mut child = child;
        let input = child.stdin.take();
        (input, child.wait_with_output().unwrap())
    };
    drop(input);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Changes the store behind everybody's back.
fn tamper(directory: &Path, change: impl Fn(&mut Transaction)) {
    kit::block_on(async {
        let store = kit::open(&directory.join("store")).await;
        let body = |transaction: &mut Transaction| {
            change(transaction);
            Ok(())
        };
        kit::transact(&store, body).await.unwrap();
        store.close().await;
    });
}

#[test]
fn a_demo_with_two_kills_is_audited_clean() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("demo");
    let said = well(&demo(&directory, &["--seed", "7"]));
    for expected in [
        "160 transfers between 12 accounts by 4 writers, one process folds, seed 7\n",
        "commits    160 in ",
        "; a new process took over from each\n",
        "head 161, folded through 161 in ",
        " of 6 retired",
        "total      12000 before, 12000 after, in 12 accounts\n",
        "160 in the store\n",
        "audit      clean: nothing was lost, nothing was doubled\n",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("Nothing was lost.") && page.contains("killed at"));
    assert_eq!(page.matches("<title>successor</title>").count(), 2);
    assert_eq!(audit(&directory, "7").0, Some(0));
    let scanned = well(&run(&["scan", &directory.join("store").display().to_string(), "--prefix", "transfer/"]));
    assert_eq!(scanned.lines().count(), 160);
    // A second demo in the same place is refused, and changes nothing.
    let text = fails(&demo(&directory, &[]));
    assert!(text.lines().count() == 1 && text.contains("holds a demo already"), "{text}");
    assert_eq!(audit(&directory, "7").0, Some(0));
}

#[test]
fn a_demo_retires_pages_while_it_runs_and_is_audited_clean() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("demo");
    let typed = ["demo", &directory.display().to_string(), "--seed", "9", "--transfers", "1500", "--accounts", "12"];
    let said = well(&run(&[&typed[..], &["--page-size", "64", "--no-progress"]].concat()));
    assert!(said.contains("audit      clean: nothing was lost, nothing was doubled\n"), "{said}");
    let pages = said.lines().find_map(|line| line.strip_prefix("pages      ")).unwrap();
    let (retired, rest) = pages.split_once(" of 24 retired, through slot ").unwrap();
    let (retired, through): (u64, u64) = (retired.parse().unwrap(), rest.parse().unwrap());
    assert!((1..=22).contains(&retired) && through == retired * 64, "{pages}");
    let store = directory.join("store").display().to_string();
    assert!(well(&run(&["status", &store])).contains(&format!("first page      {retired}, those below are retired\n")));
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains(&format!("<dd>{retired} of 24</dd>")));
}

#[test]
fn a_seed_fixes_who_moves_what() {
    let home = tempfile::tempdir().unwrap();
    let planned = |name: &str, seed: &str| {
        let directory = home.path().join(name);
        well(&demo(&directory, &["--seed", seed, "--no-progress"]));
        let rows = well(&run(&["scan", &directory.join("store").display().to_string(), "--prefix", "transfer/"]));
        // Without the transactions, which are random, and what was moved, which depends on who came first.
        rows.lines().map(|row| row.split(",\"moved\"").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (first, same) = (planned("first", "3"), planned("same", "3"));
    assert_eq!(first, same);
    assert_ne!(first, planned("other", "4"));
}

#[test]
fn an_audit_finds_what_was_changed_behind_its_back() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("demo");
    well(&demo(&directory, &["--seed", "5", "--no-progress"]));
    let deleted = |transaction: &mut Transaction| transaction.delete("transfer/01/0000003").unwrap();
    tamper(&directory, deleted);
    let (code, told) = audit(&directory, "5");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(r#"{"missing":{"transfer":"transfer/01/0000003"}}"#), "{told}");
    assert!(told.contains(r#""unfinished":{"writer":1,"count":1}"#) && told.contains(r#""balance""#), "{told}");
}

#[test]
fn an_audit_finds_money_that_came_from_nowhere_and_rows_that_no_journal_announced() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("demo");
    well(&demo(&directory, &["--seed", "6", "--no-progress"]));
    let journal = directory.join("writer-2.journal");
    let whole = std::fs::read_to_string(&journal).unwrap();
    let without = whole.lines().filter(|line| !line.ends_with(" 4")).fold(String::new(), |text, line| text + line + "\n");
    std::fs::write(&journal, without).unwrap();
    let (code, told) = audit(&directory, "6");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(r#"{"unannounced":{"transfer":"transfer/01/0000004"}}"#), "{told}");
    std::fs::write(&journal, whole).unwrap();
    assert_eq!(audit(&directory, "6").0, Some(0));
    tamper(&directory, |transaction| transaction.put("account/000003", "999999").unwrap());
    let (code, told) = audit(&directory, "6");
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains(r#""total":{"expected":12000"#), "{told}");
}

#[test]
fn a_demo_that_is_disturbed_while_it_runs_ends_with_one_and_says_so() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("demo");
    let mut command = commit_log(&[&["demo", &directory.display().to_string(), "--seed", "8"], &SMALL[..]].concat());
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let journal = directory.join("writer-1.journal");
    kit::until(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("acknowledged")));
    tamper(&directory, |transaction| transaction.delete("transfer/00/0000000").unwrap());
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("OFF        `transfer/00/0000000` was acknowledged and is not there\n"), "{said}");
    assert!(said.contains("audit      ") && !said.contains("clean"), "{said}");
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("things are off.") && page.contains("transfer/00/0000000"));
}
