//! The house rules that can be checked by reading the project's own text.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A file longer than this is two files.
const MAX_LINES: usize = 500;

/// Files that are longer, each with its reason and the number of lines that it may not exceed.
const LONGER: &[(&str, usize, &str)] = &[];

/// What each module of the library may use of the others. What is not listed may not be used.
const IMPORTS: &[(&str, &[&str])] = &[
    ("slot", &[]),
    ("environment", &[]),
    ("frame", &[]),
    ("identity", &["environment"]),
    ("envelope", &["frame", "identity", "slot"]),
    ("ledger", &["envelope", "frame", "identity", "slot"]),
    ("record", &["envelope", "frame", "identity", "slot"]),
    ("guard", &["identity"]),
    ("bucket", &["environment", "error", "frame", "identity", "slot"]),
    ("error", &["bucket", "frame", "slot"]),
    ("log", &["bucket", "envelope", "environment", "error", "identity", "ledger", "record", "slot"]),
    ("adoption", &["bucket", "envelope", "error", "guard", "identity", "record", "slot"]),
    ("place", &["adoption", "bucket", "log", "record"]),
    ("manifest", &["bucket"]),
    ("inspect", &["envelope", "identity", "slot"]),
    ("publish", &["bucket", "manifest", "slot"]),
    ("retire", &["adoption", "bucket", "error", "ledger", "log", "manifest", "record", "slot"]),
    (
        "wal",
        &[
            "adoption",
            "bucket",
            "envelope",
            "environment",
            "error",
            "frame",
            "guard",
            "log",
            "place",
            "record",
            "retire",
            "slot",
        ],
    ),
    ("take", &["place", "wal"]),
    ("holder", &["bucket", "envelope", "error", "inspect", "log", "manifest", "publish", "slot", "take", "wal"]),
    (
        "commit_store",
        &[
            "adoption", "bucket", "envelope", "error", "holder", "identity", "inspect", "ledger", "log", "manifest", "publish",
            "retire", "slot", "take", "wal",
        ],
    ),
    ("view", &["bucket", "envelope", "identity", "slot"]),
    ("transaction", &["envelope", "identity", "slot", "view"]),
    (
        "store",
        &[
            "adoption",
            "bucket",
            "commit_store",
            "envelope",
            "environment",
            "error",
            "holder",
            "identity",
            "log",
            "publish",
            "record",
            "retire",
            "slot",
            "take",
            "transaction",
            "view",
            "wal",
        ],
    ),
];

/// Crates that only some modules of the library may know.
const CRATES: &[(&str, &[&str])] = &[
    ("slatedb::wal", &["wal"]),
    (
        "slatedb::",
        &[
            "environment",
            "manifest",
            "publish",
            "retire",
            "wal",
            "take",
            "holder",
            "commit_store",
            "view",
            "transaction",
            "store",
        ],
    ),
    ("object_store::", &["bucket", "error", "wal", "view", "store"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Every file under `folder` with this extension, as a path from the project's root, in order.
fn files(folder: &str, extension: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.insert(path.strip_prefix(root()).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The library's files by module, without their tests.
fn library() -> BTreeMap<String, Vec<(String, String)>> {
    let mut modules = BTreeMap::<String, Vec<(String, String)>>::new();
    for path in files("commit-log/src", "rs") {
        let inside = path.strip_prefix("commit-log/src/").unwrap();
        let module = inside.split(['/', '.']).next().unwrap().to_owned();
        let tests = path.ends_with("/tests.rs") || path.contains("/tests/");
        if module != "lib" && !tests {
            let text = text(&path);
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            modules.entry(module).or_default().push((path, code));
        }
    }
    modules
}

#[test]
fn a_module_uses_only_what_stands_below_it() {
    let allowed: BTreeMap<_, _> = IMPORTS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (module, files) in library() {
        let Some(allowed) = allowed.get(module.as_str()) else {
            wrong.push(format!("{module} has no line in the table"));
            continue;
        };
        for (path, code) in files {
            for used in code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(used_modules) {
                if used != module && !allowed.contains(&used.as_str()) {
                    wrong.push(format!("{path} uses {used}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// The modules that a line names as `crate::module`.
fn used_modules(line: &str) -> Vec<String> {
    let after = line.split("crate::").skip(1);
    let names = after.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>());
    names.filter(|name| !name.is_empty()).collect()
}

#[test]
fn a_crate_is_known_only_where_it_is_meant_to_be() {
    let mut wrong = Vec::new();
    for (module, files) in library() {
        for (path, code) in files {
            for (name, knowing) in CRATES {
                let knows = code.lines().any(|line| !line.trim_start().starts_with("//") && line.contains(name));
                if knows && !knowing.contains(&module.as_str()) {
                    wrong.push(format!("{path} knows {name}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_file_says_first_what_it_owns_and_stays_short() {
    let longer: BTreeMap<_, _> = LONGER.iter().map(|(path, lines, _)| (*path, *lines)).collect();
    let mut wrong = Vec::new();
    for path in files("", "rs") {
        let text = text(&path);
        let lines = text.lines().count();
        let limit = longer.get(path.as_str()).copied().unwrap_or(MAX_LINES);
        if lines > limit {
            wrong.push(format!("{path} has {lines} lines, more than {limit}"));
        }
        // The tests of one file may stand beside it under its own first line.
        if !text.starts_with("//!") && !path.ends_with("tests.rs") {
            wrong.push(format!("{path} does not say what it owns"));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_path_that_a_document_names_exists() {
    let mut wrong = Vec::new();
    for document in ["README.md", "ARCHITECTURE.md"].into_iter().map(String::from).chain(files("docs", "md")) {
        for path in named_paths(&text(&document)) {
            if !root().join(&path).exists() {
                wrong.push(format!("{document} names {path}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// What stands between backticks and looks like a path of this project.
fn named_paths(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let folders = ["commit-log/", "maintenance/", "tests/", "benches/", "xtask/", "docs/", "scripts/", ".ci/", ".cargo/"];
    let paths =
        quoted.filter(|quoted| folders.iter().any(|folder| quoted.starts_with(folder)) && !quoted.contains(['*', '<', ' ']));
    paths.map(String::from).collect()
}

#[test]
fn the_example_of_the_readme_is_the_one_that_is_compiled() {
    let readme = text("README.md");
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let compiled = text("commit-log/examples/visits.rs");
    let compiled: Vec<_> = compiled.lines().map(str::trim).collect();
    let missing: Vec<_> = shown.lines().map(str::trim).filter(|line| !compiled.contains(line)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn every_test_that_holds_a_rule_exists() {
    let sources: String = files("", "rs").iter().map(|path| text(path)).collect();
    let named: Vec<_> = text("docs/rules.md").lines().filter(|line| line.starts_with('|')).flat_map(quoted_names).collect();
    assert!(named.len() > 10, "the table names tests");
    let missing: Vec<_> = named.into_iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert_eq!(missing, Vec::<String>::new());
}

/// The names of functions between backticks in a line of a table.
fn quoted_names(line: &str) -> Vec<String> {
    let quoted = line.split('`').skip(1).step_by(2);
    let names = quoted
        .filter(|name| name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'));
    names.filter(|name| name.matches('_').count() >= 3).map(String::from).collect()
}

#[test]
fn no_rule_is_silenced_without_a_reason() {
    let mut wrong = Vec::new();
    for path in files("", "rs") {
        for (number, line) in text(&path).lines().enumerate() {
            let allows = line.trim_start().starts_with("#[allow(") || line.trim_start().starts_with("#![allow(");
            let closes = text(&path).lines().skip(number).take(12).collect::<String>();
            if allows && !closes.split(")]").next().unwrap().contains("reason") {
                wrong.push(format!("{path}:{}", number + 1));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
