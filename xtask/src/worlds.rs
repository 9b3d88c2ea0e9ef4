//! `cargo xtask worlds`: many log worlds, with their rate, what took place in them, and the verdict.

use crate::cargo::{Place, Worlds, target, workspace};
use crate::options::Options;

/// As many as every change is held to.
const WORLDS: u64 = 30_000;

/// Runs the verb.
#[allow(clippy::disallowed_methods, reason = "the rate is of real time")]
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let worlds = Worlds { first: options.number("first-seed", 0)?, count: options.number("count", WORLDS)? };
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
