//! What the tests of the command share: running it, and committing behind its back.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use commit_log::store::{BodyError, Committed, Store, TransactError};
use commit_log::transaction::Transaction;
use object_store::local::LocalFileSystem;

/// The command, in a world without credentials where nobody listens.
pub(crate) fn commit_log(typed: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_commit-log"));
    command.args(typed);
    command.env("AWS_ENDPOINT", "http://127.0.0.1:1").env("AWS_ALLOW_HTTP", "true").env("AWS_REGION", "nowhere");
    command.env("AWS_ACCESS_KEY_ID", "AKIAFAKE").env("AWS_SECRET_ACCESS_KEY", "FAKE");
    command
}

/// Runs it to its end.
pub(crate) fn run(typed: &[&str]) -> Output {
    commit_log(typed).output().unwrap()
}

/// What it printed, when all is well.
#[track_caller]
pub(crate) fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it said on standard error, when something is off.
#[track_caller]
pub(crate) fn fails(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_ne!(output.status.code(), Some(0), "{said}");
    said
}

/// Its lines.
pub(crate) fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// Waits until `holds`, which looks at what other processes do.
pub(crate) fn until(mut holds: impl FnMut() -> bool) {
    // Bounded by the test runner; a look is a few calls to the file system.
    while !holds() {
        std::thread::yield_now();
    }
}

/// Runs `work` on a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(work)
}

/// The store in a directory, as an embedder opens it.
pub(crate) async fn open(directory: &Path) -> Store {
    std::fs::create_dir_all(directory).unwrap();
    let bucket = Arc::new(LocalFileSystem::new_with_prefix(directory).unwrap());
    Store::builder(object_store::path::Path::default(), bucket).open().await.unwrap()
}

/// Runs one transaction.
pub(crate) async fn transact(
    store: &Store,
    mut change: impl FnMut(&mut Transaction) -> Result<(), BodyError>,
) -> Result<Committed, TransactError<BodyError>> {
    let body = |mut transaction: Transaction| {
        let changed = change(&mut transaction);
        async move { changed.map(|()| (transaction, ())) }
    };
    store.transact(body).await.map(|((), committed)| committed)
}

/// Commits a row of each key, a slot each, and folds nothing. The last commit.
pub(crate) fn commit(directory: &Path, keys: &[&str]) -> Committed {
    block_on(async {
        let store = open(directory).await;
        let mut last = None;
        for key in keys {
            let put = |transaction: &mut Transaction| Ok(transaction.put(key.to_string(), "value")?);
            last = Some(transact(&store, put).await.unwrap());
        }
        store.close().await;
        last.unwrap()
    })
}
