//! The directory of a demo: its store, its writers' journals, its report.

use std::path::{Path, PathBuf};

use super::journal::Journal;
use crate::failure::Failure;

/// What the directory of a demo is called that was given none.
pub const DEMO: &str = "commit-log-demo";

/// The store, in the demo's directory.
pub const STORE: &str = "store";

/// The report, in the demo's directory.
pub const REPORT: &str = "report.html";

/// How many names are tried for a demo that was given no directory. Whoever has so many old demos may delete some.
const MAX_NAMES: u32 = 1_000;

/// A directory for a demo, without another demo in it. Nothing is created.
///
/// # Errors
///
/// A directory that holds a demo.
pub fn fresh(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let directory = match given {
        Some(given) => given.to_owned(),
        None => unused(),
    };
    let holds = [directory.join(STORE), directory.join(REPORT), Journal::path(&directory, 0)];
    if holds.iter().any(|name| name.exists()) {
        return Err(Failure::DirectoryUsed { directory });
    }
    Ok(directory)
}

fn unused() -> PathBuf {
    let names = (2..=MAX_NAMES).map(|number| PathBuf::from(format!("{DEMO}-{number}")));
    let mut names = std::iter::once(PathBuf::from(DEMO)).chain(names);
    names.find(|name| !name.exists()).unwrap_or_else(|| PathBuf::from(DEMO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_a_demo_is_refused_and_any_other_is_used() {
        let home = tempfile::tempdir().unwrap();
        let given = home.path().join("a/b");
        assert_eq!(fresh(Some(&given)).unwrap(), given);
        assert!(!home.path().join("a").exists());
        std::fs::create_dir_all(&given).unwrap();
        std::fs::write(given.join("notes.txt"), "mine").unwrap();
        assert!(fresh(Some(&given)).is_ok());
        for name in [STORE, REPORT, "writer-1.journal"] {
            std::fs::write(given.join(name), "").unwrap();
            let error = fresh(Some(&given)).unwrap_err().to_string();
            assert!(error.ends_with("holds a demo already: name another directory, or delete it"), "{error}");
            std::fs::remove_file(given.join(name)).unwrap();
        }
    }
}
