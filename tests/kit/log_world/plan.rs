//! What a seed decides before a log world begins: its pages, its processes, its faults.

use std::time::Duration;

use commit_log::bucket::Pace;
use commit_log::slot::PageSize;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::bucket::{Faults, Latency, Rates};

/// Public calls in the fault phase of one world.
const STEPS: u64 = 200;

/// What one world is made of.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The seed.
    pub(super) seed: u64,
    /// Small, so that pages retire while somebody sleeps.
    pub(super) page_size: PageSize,
    /// How many processes commit.
    pub(super) committers: u32,
    /// Public calls until the faults stop.
    pub(super) steps: u64,
    /// What befalls every link.
    pub(super) faults: Faults,
    /// Whether a store stood here before.
    pub(super) past: Past,
    /// How long the log promises to keep a page after its last slot.
    pub(super) least_retention: Duration,
    /// The log's setting.
    pub(super) prove_every: u32,
}

/// What the store's place has seen before the world begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// Nothing.
    Fresh,
    /// The store was put back from a copy: an older log's objects and record are there.
    Restored,
}

/// What belongs to one purpose of one seed: no two streams of random numbers are alike.
pub(super) fn stream(seed: u64, purpose: u64) -> StdRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&purpose.to_le_bytes());
    bytes[31] = 0x57;
    StdRng::from_seed(bytes)
}

/// As likely between 1 and 2 as between 1,000 and 2,000, times `from`, up to `up_to`.
pub(super) fn log_uniform(random: &mut StdRng, from: Duration, up_to: Duration) -> Duration {
    let doublings = (up_to.as_micros() / from.as_micros().max(1)).max(1).ilog2();
    let base = from * (1 << random.random_range(0..=doublings));
    base.mul_f64(1.0 + random.random::<f64>()).min(up_to)
}

impl Plan {
    /// What `seed` decides.
    pub(super) fn of(seed: u64) -> Plan {
        let mut random = stream(seed, 0);
        Plan {
            seed,
            page_size: PageSize::new(random.random_range(2..=8)).expect("a small page"),
            committers: random.random_range(2..=5),
            steps: STEPS,
            faults: faults(&mut random),
            past: if random.random_bool(0.3) { Past::Restored } else { Past::Fresh },
            least_retention: match random.random_bool(0.15) {
                true => Duration::from_millis(random.random_range(1..=15_000)),
                false => Duration::ZERO,
            },
            prove_every: random.random_range(1..=6),
        }
    }
}

/// A tenth of the worlds have no faults and high concurrency; the others a mixture of everything, mild or harsh.
fn faults(random: &mut StdRng) -> Faults {
    let calm = Faults { page_size: 1..=random.random_range(1..=10), ..Faults::none() };
    if random.random_bool(0.1) {
        return calm;
    }
    let level = random.random_range(0.002..0.03);
    Faults {
        latency: Latency {
            usual: Duration::from_millis(1)..=Duration::from_millis(random.random_range(5..=60)),
            tail: random.random_range(0.0..0.04),
            tail_up_to: Duration::from_secs(random.random_range(1..=60)),
        },
        puts: Rates { late: level * 2.0, ..Rates::each(level) },
        gets: Rates::each(level / 2.0),
        lists: Rates::each(level),
        deletes: Rates { late: level * 2.0, ..Rates::each(level) },
        // Most late landings come within the world's few minutes, some a day later.
        late_by: Duration::from_secs(if random.random_bool(0.8) { 120 } else { 24 * 3600 }),
        hang: Some(Duration::from_secs(random.random_range(20..=180))),
        spurious_exists: level,
        bursts: level / 20.0,
        burst_up_to: Duration::from_secs(20),
        broken_bodies: level / 2.0,
        shuffled_pages: 0.1,
        cut_by_kill: 0.3,
        ..calm
    }
}

/// How a process waits. The patient ones are the sleepers: they still wait for an answer when it comes, however late.
pub(super) fn pace(random: &mut StdRng) -> Pace {
    let (call, attempt) = match random.random_range(0..3) {
        0 => (Duration::from_millis(500), Duration::from_millis(200)),
        1 => (Duration::from_secs(10), Duration::from_secs(2)),
        _ => (Duration::from_secs(240), Duration::from_secs(120)),
    };
    let (first_pause, longest_pause) = (Duration::from_millis(50), Duration::from_secs(2));
    Pace { call, attempt, first_pause, longest_pause, log_every: Duration::from_secs(3600) }
}
