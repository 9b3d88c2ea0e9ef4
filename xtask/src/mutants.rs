//! `cargo xtask mutants`: breaks a copy of the code in ways that are known to be wrong, one at a time, and wants the log worlds
//! to find each within its number of seeds.

mod patch;

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo::{Place, Worlds, target, workspace};
use crate::options::Options;
use patch::{Expected, Mutant};

/// What is copied: everything that the tests are built from. The copy lies inside the workspace, so cargo finds the same
/// configuration above it; a second copy of that would count its flags twice and build every dependency again.
const COPIED: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain.toml",
    "clippy.toml",
    "commit-log",
    "maintenance",
    "tests",
    "benches",
    "xtask",
];

/// Runs the verb.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let original = workspace()?;
    let mutants = read_all(&original.join("tests/mutants"))?;
    for mutant in &mutants {
        mutant.apply(&original)?;
    }
    let folder = original.join("target/mutants");
    let place = Place { workspace: folder.join("workspace"), target: folder.join("target") };
    copy_workspace(&original, &place)?;
    // What an earlier run left built may be a mutant's: whatever any mutant changes is newer than that.
    for file in mutants.iter().flat_map(Mutant::files) {
        write(&place.workspace.join(file), &read(&original.join(file))?)?;
    }
    let mut survived = Vec::new();
    println!("{:<44} {:<44} seeds", "mutant", "found as");
    for mutant in mutants.iter().filter(|mutant| options.text("only").is_none_or(|only| mutant.name.contains(only))) {
        let found = try_one(&original, &place, mutant)?;
        println!("{:<44} {found}", mutant.name);
        if found.starts_with(SURVIVED) {
            survived.push(mutant.name.clone());
        }
    }
    if survived.is_empty() { Ok(()) } else { Err(format!("survived: {}", survived.join(", "))) }
}

const SURVIVED: &str = "survived";

/// Builds one mutant and runs worlds until the first is red.
fn try_one(original: &Path, place: &Place, mutant: &Mutant) -> Result<String, String> {
    for (file, text) in mutant.apply(original)? {
        write(&place.workspace.join(file), &text)?;
    }
    let built = place.build();
    let ran = built.and_then(|()| place.run(Worlds { first: 0, count: mutant.seeds }));
    for file in mutant.files() {
        let whole = read(&original.join(file))?;
        write(&place.workspace.join(file), &whole)?;
    }
    let printed = String::from_utf8_lossy(&ran?.stdout).into_owned();
    let red = printed.lines().find_map(|line| line.strip_prefix("red world of seed "));
    let refused = printed.lines().find_map(|line| line.trim().strip_prefix("RefusedOpenElsewhere "));
    Ok(match (mutant.expected, red, refused) {
        (Expected::Red, Some(red), _) => {
            let (seed, what) = red.split_once(": ").ok_or("a red world without a reason")?;
            let invariant = what.split(": ").next().unwrap_or(what);
            let seeds: u64 = seed.parse().map_err(|_| "a red world without a seed")?;
            format!("{invariant:<44} {}", seeds + 1)
        }
        (Expected::Refused, None, Some(times)) => {
            format!("{:<44} {}", format!("refused {times} times, no world red"), mutant.seeds)
        }
        (Expected::Red, None, _) => format!("{SURVIVED} {} seeds", mutant.seeds),
        (Expected::Refused, red, refused) => format!("{SURVIVED}: refused {refused:?} times, red {red:?}"),
    })
}

fn read_all(folder: &Path) -> Result<Vec<Mutant>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(|e| e.to_string())?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "mutant"));
    paths.sort();
    paths.iter().map(|path| Mutant::parse(&path.file_stem().unwrap_or_default().to_string_lossy(), &read(path)?)).collect()
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Copies the sources, and once what was built, so that a mutant rebuilds nothing but the project.
///
/// SUBTLE: never build a mutant where the workspace itself is built. Cargo tells packages of a workspace apart by their place in
/// it, so the mutant's code would pass for the original's.
fn copy_workspace(original: &Path, place: &Place) -> Result<(), String> {
    // There may be none yet; one that cannot be removed fails the copy.
    let _ = fs::remove_dir_all(&place.workspace);
    for name in COPIED {
        copy(&original.join(name), &place.workspace.join(name))?;
    }
    let (built, own) = (target(original).join("release"), place.target.join("release"));
    if !own.exists() && built.exists() {
        for name in ["deps", "build", ".fingerprint"] {
            copy(&built.join(name), &own.join(name))?;
        }
    }
    Ok(())
}

/// Keeps the times of change: they say what need not be built again.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    }
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().map_err(|error| error.to_string())?;
    if copied.success() { Ok(()) } else { Err(format!("{} was not copied", from.display())) }
}
