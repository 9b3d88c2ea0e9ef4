//! `cargo xtask check`: everything that must hold before a change lands, in the order in which it fails fastest.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::cargo;
use crate::options::Options;

/// The version of cargo-deny that is installed where there is none. Built once, into the target folder.
const DENY_VERSION: &str = "0.20.2";

/// A step: what it is called, and the arguments of `cargo`.
struct Step {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Whether rustdoc's warnings are errors.
    rustdoc: Option<&'static str>,
}

/// One feature set and one profile throughout, so that nothing is built twice.
const STEPS: &[Step] = &[
    Step { name: "format", arguments: &["fmt", "--all", "--check"], rustdoc: None },
    Step {
        name: "lints",
        arguments: &["clippy", "--release", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"],
        rustdoc: None,
    },
    Step { name: "tidy", arguments: &["test", "--release", "--workspace", "--locked", "--test", "tidy"], rustdoc: None },
    Step {
        name: "documents",
        arguments: &["doc", "--release", "--workspace", "--locked", "--no-deps", "--document-private-items"],
        rustdoc: Some("--deny warnings"),
    },
    Step { name: "tests", arguments: &["test", "--release", "--workspace", "--locked", "--all-targets"], rustdoc: None },
];

/// Runs every step, and stops at the first that fails.
pub(crate) fn run(_options: &Options) -> Result<(), String> {
    for step in STEPS {
        println!("\n== {} ==", step.name);
        let mut command = cargo();
        command.args(step.arguments);
        if let Some(flags) = step.rustdoc {
            command.env("RUSTDOCFLAGS", flags);
        }
        if !succeeds(&mut command) {
            return Err(format!("\n{} failed: cargo {}", step.name, step.arguments.join(" ")));
        }
    }
    println!("\n== dependencies ==");
    check_dependencies()
}

/// Licences, bans and sources must hold. Advisories need a database from the network: where it cannot be fetched, that is
/// said aloud.
fn check_dependencies() -> Result<(), String> {
    let deny = cargo_deny().ok_or_else(|| format!("dependencies failed: cargo-deny {DENY_VERSION} could not be installed"))?;
    let holds = |what: &[&str]| succeeds(Command::new(&deny).args(["--locked", "check"]).args(what));
    if !holds(&["licenses", "bans", "sources"]) {
        return Err("dependencies failed: see deny.toml".to_owned());
    }
    let fetched = Command::new(&deny).args(["--locked", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !fetched {
        println!("SKIPPED: advisories. Their database could not be fetched from here.");
        return Ok(());
    }
    if holds(&["--disable-fetch", "advisories"]) {
        Ok(())
    } else {
        Err("dependencies failed: see the advisories above".to_owned())
    }
}

/// The cargo-deny of the machine, or the one that is built into the target folder.
fn cargo_deny() -> Option<PathBuf> {
    let works = |program: &PathBuf| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let tools = PathBuf::from("target/tools");
    let candidates = [PathBuf::from("cargo-deny"), tools.join("bin/cargo-deny")];
    if let Some(found) = candidates.iter().find(|candidate| works(candidate)) {
        return Some(found.clone());
    }
    let mut install = cargo();
    install.args(["install", "cargo-deny", "--locked", "--version", DENY_VERSION, "--root"]).arg(&tools);
    // Its own flags: the project's are for the simulation.
    install.env("RUSTFLAGS", "").env("CARGO_TARGET_DIR", tools.join("build"));
    succeeds(&mut install).then(|| candidates[1].clone()).filter(works)
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
