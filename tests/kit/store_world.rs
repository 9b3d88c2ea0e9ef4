//! The full world: several processes, each with a real store of its own over one simulated bucket. They commit, read, hold
//! the store and hand it over, are killed and started again, from one seed; then all is judged.

pub mod checks;
mod client;
mod director;
mod process;
mod quiet;
pub mod record;
pub mod rows;
mod settings;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::bucket::{Counters, Faults, SimulatedBucket};
use crate::fingerprint::Hash128;
use crate::runtime::{Limits, World, run_world};
use process::Scene;
use record::Record;
use settings::Draw;

/// What a world leaves behind.
#[derive(Clone, Debug)]
pub struct Report {
    /// The hash of everything the bucket was asked, did and answered.
    pub fingerprint: Hash128,
    /// How often each fault landed.
    pub faults: Counters,
    /// How often what happened.
    pub counts: BTreeMap<&'static str, u64>,
    /// How many requests were sent.
    pub requests: u64,
    /// How long it lasted, in its own time.
    pub lasted: Duration,
}

/// A world in which something is wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[error("store world {seed}: {what}")]
pub struct Broken {
    /// Its seed.
    pub seed: u64,
    /// What is wrong.
    pub what: String,
}

/// More than any healthy world needs: most last two simulated minutes and send some twenty thousand requests.
const LIMITS: Limits = Limits { simulated: Duration::from_secs(4 * 3600), requests: 1_000_000 };

/// Runs the world of a seed and judges it.
///
/// # Errors
///
/// What is wrong with it, a world that comes to no end included.
pub fn run(seed: u64) -> Result<Report, Broken> {
    let broken = |what| Broken { seed, what };
    run_world(seed, LIMITS, live).map_err(|error| broken(error.to_string()))?.map_err(broken)
}

async fn live(world: World) -> Result<Report, String> {
    let draw = Arc::new(Draw::of(world.seed()));
    let bucket = SimulatedBucket::start(&world, Faults::none());
    let scene = Scene { draw, bucket, timeline: world.timeline(), record: Record::default() };
    quiet::begin(&scene).await?;
    scene.bucket.set_all_faults(scene.draw.faults.clone());
    director::direct(&scene).await;
    let evidence = Box::pin(quiet::end(&scene)).await?;
    let recorded = scene.record.read();
    let mut counts = recorded.counts.clone();
    let folds = evidence.judge(&recorded)?;
    counts.insert("folds", folds);
    let Scene { bucket, timeline, .. } = scene;
    let (fingerprint, faults, requests) = (bucket.fingerprint(), bucket.counters(), bucket.requests());
    Ok(Report { fingerprint, faults, counts, requests, lasted: timeline.elapsed() })
}
