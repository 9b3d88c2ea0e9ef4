//! Running cargo: the simulation's tests in this workspace or a copy of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The workspace's folder.
pub(crate) fn workspace() -> Result<PathBuf, String> {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map(Path::to_path_buf).ok_or_else(|| "the workspace has no folder".to_owned())
}

/// Where a workspace is built.
pub(crate) fn target(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

/// The cargo that runs this.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

/// A workspace and where it is built.
pub(crate) struct Place {
    pub(crate) workspace: PathBuf,
    pub(crate) target: PathBuf,
}

/// The worlds that are to run.
#[derive(Clone, Copy)]
pub(crate) struct Worlds {
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Place {
    fn simulation(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.workspace).env("CARGO_TARGET_DIR", &self.target);
        command.args(["test", "--quiet", "--release", "--workspace", "--test", "simulation"]);
        command
    }

    /// Builds the simulation.
    pub(crate) fn build(&self) -> Result<(), String> {
        let built = self.simulation().arg("--no-run").output().map_err(|error| error.to_string())?;
        if built.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&built.stderr).into_owned()) }
    }

    /// Runs worlds. What they print is in the output.
    pub(crate) fn run(&self, worlds: Worlds) -> Result<Output, String> {
        let mut command = self.simulation();
        command.env("LOG_WORLDS", worlds.count.to_string()).env("LOG_WORLD_FIRST_SEED", worlds.first.to_string());
        command.env("RUST_BACKTRACE", "0");
        command.args(["--", "--exact", "log_worlds::every_invariant_holds_in_every_world", "--nocapture"]);
        command.output().map_err(|error| error.to_string())
    }
}
