//! One world's runtime: a single thread, paused time, a seeded scheduler, and the limits that turn a world that
//! goes nowhere into a failure with its seed.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, RngSeed, Runtime};
use tokio::sync::Notify;

use crate::clock::Timeline;

/// What a world may spend before it counts as stuck.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Simulated time. Paused time jumps from back-off to back-off, so a livelock reaches it in no real time.
    pub simulated: Duration,
    /// Requests that the world's buckets accept.
    pub requests: u64,
}

impl Default for Limits {
    /// Thirty simulated days and a million requests: more than any healthy world needs.
    fn default() -> Self {
        Self { simulated: Duration::from_secs(30 * 24 * 3600), requests: 1_000_000 }
    }
}

/// Why a world was stopped. Both are failures of liveness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// The simulated deadline passed before the world's future was ready.
    #[error("world of seed {seed} passed its simulated deadline of {deadline:?}")]
    Deadline {
        /// The world's seed.
        seed: u64,
        /// The deadline that passed.
        deadline: Duration,
    },
    /// The world's buckets were asked for more requests than its budget.
    #[error("world of seed {seed} spent its budget of {requests} requests")]
    Requests {
        /// The world's seed.
        seed: u64,
        /// The budget that was spent.
        requests: u64,
    },
}

/// The request budget that the buckets of one world draw on.
#[derive(Debug)]
pub struct RequestBudget {
    left: AtomicU64,
    spent: Notify,
}

/// No request is left in the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request budget is spent")]
pub struct BudgetSpent;

impl RequestBudget {
    /// A budget of `requests`.
    pub fn new(requests: u64) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(requests), spent: Notify::new() })
    }

    /// Takes one request from the budget. The failure also wakes whoever waits for the budget's end.
    pub fn take(&self) -> Result<(), BudgetSpent> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            self.spent.notify_one();
            return Err(BudgetSpent);
        }
        self.left.store(left - 1, Ordering::Relaxed);
        Ok(())
    }
}

/// What a world's future is given: its seed, its timeline and its budget.
#[derive(Clone, Debug)]
pub struct World {
    seed: u64,
    timeline: Timeline,
    budget: Arc<RequestBudget>,
}

impl World {
    /// The seed that every random choice of this world comes from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The world's true time.
    pub fn timeline(&self) -> Timeline {
        self.timeline
    }

    /// The budget that the world's buckets draw on.
    pub fn budget(&self) -> Arc<RequestBudget> {
        Arc::clone(&self.budget)
    }
}

/// A runtime whose every scheduling choice comes from `seed`: one thread, paused time, no I/O driver.
pub fn simulated_runtime(seed: u64) -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .rng_seed(RngSeed::from_bytes(&seed.to_le_bytes()))
        .build()
        .expect("a runtime without drivers always builds")
}

/// Runs one world to the end of its future, then drops everything it spawned.
///
/// Fails when the simulated deadline passes or the request budget is spent first. It does not catch a task that
/// spins without sleeping and without asking the bucket anything.
pub fn run_world<T, F>(seed: u64, limits: Limits, world: impl FnOnce(World) -> F) -> Result<T, WorldError>
where
    F: Future<Output = T>,
{
    let Limits { simulated, requests } = limits;
    let budget = RequestBudget::new(requests);
    simulated_runtime(seed).block_on(async {
        let timeline = Timeline::begin();
        let given = World { seed, timeline, budget: Arc::clone(&budget) };
        let future = Box::pin(world(given));
        tokio::select! {
            biased;
            value = future => Ok(value),
            () = budget.spent.notified() => Err(WorldError::Requests { seed, requests }),
            () = timeline.sleep_until(simulated) => Err(WorldError::Deadline { seed, deadline: simulated }),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_that_waits_for_ever_fails_at_its_simulated_deadline() {
        let limits = Limits::default();
        let outcome = run_world(7, limits, |_| std::future::pending::<()>());
        let deadline = limits.simulated;
        assert_eq!(outcome, Err(WorldError::Deadline { seed: 7, deadline }));
    }

    #[test]
    fn a_livelock_fails_at_its_simulated_deadline() {
        let outcome = run_world(8, Limits::default(), |world| async move {
            for retry in 1u64.. {
                world.timeline().sleep_until(Duration::from_secs(600 * retry)).await;
            }
        });
        assert!(matches!(outcome, Err(WorldError::Deadline { seed: 8, .. })));
    }
}
