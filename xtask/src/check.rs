//! `cargo xtask check`: everything that must hold before a change lands, in the order in which it fails fastest.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

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
    Step { name: "tests", arguments: &["test", "--release", "--workspace", "--locked", "--all-targets"], rustdoc: None },
    Step {
        name: "documents",
        arguments: &["doc", "--release", "--workspace", "--locked", "--no-deps", "--document-private-items"],
        rustdoc: Some("--deny warnings"),
    },
];

/// Runs every step, and stops at the first that fails.
pub(crate) fn run() -> ExitCode {
    for step in STEPS {
        println!("\n== {} ==", step.name);
        let mut command = cargo();
        command.args(step.arguments);
        if let Some(flags) = step.rustdoc {
            command.env("RUSTDOCFLAGS", flags);
        }
        if !succeeds(&mut command) {
            eprintln!("\n{} failed: cargo {}", step.name, step.arguments.join(" "));
            return ExitCode::FAILURE;
        }
    }
    println!("\n== dependencies ==");
    if dependencies_hold() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Licences, bans and sources must hold. Advisories need a database from the network: where it cannot be fetched, that is
/// said aloud.
fn dependencies_hold() -> bool {
    let Some(deny) = cargo_deny() else {
        eprintln!("dependencies failed: cargo-deny {DENY_VERSION} could not be installed");
        return false;
    };
    if !succeeds(Command::new(&deny).args(["--locked", "check", "licenses", "bans", "sources"])) {
        eprintln!("dependencies failed: see deny.toml");
        return false;
    }
    let fetched = Command::new(&deny).args(["--locked", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
    if !fetched {
        println!("SKIPPED: advisories. Their database could not be fetched from here.");
        return true;
    }
    succeeds(Command::new(&deny).args(["--locked", "check", "--disable-fetch", "advisories"]))
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

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
