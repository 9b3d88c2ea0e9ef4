//! `cargo xtask worlds`: many log worlds, with their rate, what took place in them, and the verdict.

use crate::cargo::{Place, Worlds, target, workspace};
use crate::options::Options;

/// As many as every change is held to.
const WORLDS: u64 = 30_000;

/// How far apart the seeds of two runs are that begin a second apart: more worlds than a second runs.
const SEEDS_A_SECOND: u64 = 1_000;

/// Runs the verb.
#[allow(clippy::disallowed_methods, reason = "the rate is of real time, and fresh seeds are of this moment")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let fresh = since_epoch.as_secs() * SEEDS_A_SECOND;
    let worlds = Worlds { first: options.number("first-seed", fresh)?, count: options.number("count", WORLDS)? };
    println!("worlds from seed {}", worlds.first);
    let workspace = workspace()?;
    let place = Place { target: target(&workspace), workspace };
    place.build()?;
    let begun = std::time::Instant::now();
    let output = place.run(worlds)?;
    let seconds = begun.elapsed().as_secs_f64();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{} worlds in {seconds:.0} s, {:.0} a second", worlds.count, worlds.count as f64 / seconds);
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
