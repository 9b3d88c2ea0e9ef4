//! The log world: the real log code of several processes over one simulated bucket, all from one seed.
//!
//! ```text
//! setup ──▶ fault phase, about 200 public calls ──▶ quiet phase ──▶ a hole ──▶ verdict
//!           committers, sleepers, readers,          everything        is called
//!           closers, collectors, an ideal store     resolves          damage
//!           with checkpoints and their readers
//! ```
//!
//! What holds is judged by the checkers from the bucket's history and from what clients were told.

mod actors;
pub mod batch;
pub mod chronicle;
mod collector;
mod committer;
mod director;
mod hole;
pub mod manifests;
mod pinned;
mod plan;
mod process;
mod quiet;
mod state;
pub mod tally;
pub mod told;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use commit_log::adoption::{FreshLog, find_or_begin};
use commit_log::bucket::{Bucket, ObjectName, Pace};
use commit_log::environment::{Environment, Randomness};
use commit_log::identity::{LogId, TransactionId};
use commit_log::log::{Commit, LogOptions, SlotLog};
use commit_log::record::AdoptionRecord;
use rand::RngExt;

use crate::bucket::{Counters, Fault, Process, SimulatedBucket};
use crate::checkers::Violation;
use crate::clock::{ClockMode, SimulatedClock, Skew};
use crate::fingerprint::{Fingerprint, Hash128};
use crate::runtime::{Limits, World, run_world};

use chronicle::Chronicle;
use director::Director;
use plan::{Past, Plan, stream};
use state::{ROOT, Shared, mark};
use tally::{Event, Tally};

/// A world that lasts longer is stuck. Late landings come up to a day late.
const LONGEST_WORLD: Duration = Duration::from_secs(3 * 24 * 3600);

/// A world that asks the bucket more often is stuck: ten times what the busiest need.
const MOST_REQUESTS: u64 = 100_000;

/// The process that puts the store on its log.
const FOUNDER: Process = Process(0);

/// How a world ended.
#[derive(Debug)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What broke, if anything did.
    pub verdict: Result<(), Violation>,
    /// The faults that landed.
    pub faults: Counters,
    /// What it did.
    pub tally: Tally,
    /// One hash over everything that was asked, answered and told.
    pub fingerprint: Hash128,
    /// The requests that were sent.
    pub requests: u64,
    /// The transactions that were committed.
    pub commits: usize,
}

/// Runs the world of `seed`.
pub fn run(seed: u64) -> Report {
    let limits = Limits { simulated: LONGEST_WORLD, requests: MOST_REQUESTS };
    // A world shares nothing with another, so one that panicked leaves nothing half done.
    let world = AssertUnwindSafe(|| run_world(seed, limits, |world| live(world, Plan::of(seed))));
    match catch_unwind(world) {
        Ok(Ok(report)) => report,
        Ok(Err(stuck)) => failed(seed, stuck.to_string()),
        Err(_) => failed(seed, "the world panicked".to_owned()),
    }
}

fn failed(seed: u64, what: String) -> Report {
    Report {
        seed,
        verdict: Err(Violation { invariant: "progress", what }),
        faults: Counters::default(),
        tally: Tally::default(),
        fingerprint: Hash128([0; 16]),
        requests: 0,
        commits: 0,
    }
}

async fn live(world: World, plan: Plan) -> Report {
    let bucket = SimulatedBucket::start(&world, quiet::faults(&plan));
    let record = found(&world, &bucket, &plan).await;
    let chronicle = Chronicle::new(&Shared::root(), record.log, record.page_size, record.origin, mark(&bucket));
    let faults = plan.faults.clone();
    let shared = Arc::new(Shared::new(plan, world, bucket.clone(), chronicle));
    bucket.set_all_faults(faults);
    let verdict = phases(&shared).await;
    report(&shared, verdict)
}

async fn phases(shared: &Arc<Shared>) -> Result<(), Violation> {
    let mut director = Director::start(shared);
    director.fault_phase().await?;
    quiet::quiet_phase(shared, &mut director).await?;
    hole::destroy_a_slot(shared, 0).await
}

fn report(shared: &Shared, verdict: Result<(), Violation>) -> Report {
    let mut state = shared.state();
    // A log holds its callback, and that holds the world.
    state.logs.clear();
    let (commits, zombies, pages) =
        (state.chronicle.commits(), state.chronicle.zombies().len(), state.chronicle.retired().len());
    let swept = state.chronicle.swept();
    state.tally.count_many(Event::Commit, commits);
    state.tally.count_many(Event::ZombiePlanted, zombies);
    state.tally.count_many(Event::ZombieSwept, swept);
    state.tally.count_many(Event::PageRetired, pages);
    if shared.plan.past == Past::Restored {
        state.tally.count(Event::OpenedRestored);
    }
    let mut fingerprint = Fingerprint::default();
    fingerprint.hash(shared.bucket.fingerprint());
    state.told.iter().for_each(|told| told.record(&mut fingerprint));
    Report {
        seed: shared.plan.seed,
        verdict,
        faults: shared.bucket.counters(),
        tally: state.tally.clone(),
        fingerprint: fingerprint.value(),
        requests: shared.bucket.requests(),
        commits,
    }
}

/// Puts the store on its log, and where the place has a past, on another one before.
async fn found(world: &World, bucket: &SimulatedBucket, plan: &Plan) -> AdoptionRecord {
    let clock = Arc::new(SimulatedClock::new(world.timeline(), ClockMode::Steady, Skew::default()));
    let mut random = stream(plan.seed, 4);
    let environment =
        Environment { clock: clock.clone(), stopwatch: clock, randomness: Arc::new(Randomness::from_seed(random.random())) };
    let door = Bucket::new(bucket.link(FOUNDER), ROOT.into(), environment, Pace::default());
    let deadline = door.deadline();
    let fresh = FreshLog { page_size: plan.page_size, least_retention: plan.least_retention, ..FreshLog::default() };
    let first = find_or_begin(&door, &fresh, &deadline).await.expect("a healthy link");
    if plan.past == Past::Fresh {
        return first;
    }
    let log = SlotLog::new(door.clone(), first.clone(), LogOptions::default());
    for number in 0..random.random_range(1..=4) {
        let transaction = TransactionId::from_bytes([number; 16]);
        let commit = Commit::of(transaction, vec![commit_log::envelope::Write::put("before", "")]);
        log.offer(log.next(), commit, &deadline).await.expect("a healthy link");
    }
    let record = AdoptionRecord { log: LogId::random(&door.environment().randomness), ..first };
    let put = door.create_settled(ObjectName::Adoption(2), record.encode(), &deadline).await;
    assert_eq!(put.expect("a healthy link"), record.encode());
    record
}

/// How many answers were lost after what they answer had landed.
pub fn answers_lost(faults: &Counters) -> u64 {
    faults.of(Fault::AnswerLost) + faults.of(Fault::AnswerLostHanging)
}
