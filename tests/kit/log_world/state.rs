//! What the tasks of one log world share: the bucket, the true log, what was told, and what the world itself remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use commit_log::identity::TransactionId;
use commit_log::log::{Attempt, Commit, Outcome, SlotLog};
use commit_log::slot::Sequence;
use object_store::path::Path;

use super::chronicle::Chronicle;
use super::manifests::Manifests;
use super::plan::Plan;
use super::tally::{Event, Tally};
use super::told::{Claim, Mark, Told};
use crate::bucket::{Process, SimulatedBucket};
use crate::checkers::{Evidence, Violation, check_all};
use crate::clock::SimulatedClock;
use crate::runtime::World;

/// The store's folder in every world's bucket.
pub(super) const ROOT: &str = "store";

/// The world.
pub(super) struct Shared {
    /// What its seed decided.
    pub(super) plan: Plan,
    /// Its time and limits.
    pub(super) world: World,
    /// Its bucket.
    pub(super) bucket: SimulatedBucket,
    state: Mutex<State>,
}

/// What changes.
pub(super) struct State {
    /// The true log.
    pub(super) chronicle: Chronicle,
    /// What clients were told.
    pub(super) told: Vec<Told>,
    /// How often what happened.
    pub(super) tally: Tally,
    /// The ideal store.
    pub(super) manifests: Manifests,
    /// What each committer made durable. It outlives its processes.
    pub(super) memories: Vec<Memory>,
    /// Public calls so far.
    pub(super) steps: u64,
    /// The processes that have an offer under way.
    pub(super) offering: BTreeSet<Process>,
    /// The collectors that have a pass under way.
    pub(super) collecting: BTreeSet<Process>,
    /// The logs of the committers that live.
    pub(super) logs: BTreeMap<Process, SlotLog>,
    /// The clocks of all processes so far.
    pub(super) clocks: Vec<Arc<SimulatedClock>>,
    /// The processes that were killed.
    pub(super) dead: BTreeSet<Process>,
    next_process: u32,
}

/// What one committer keeps on a disk of its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// What it wants committed and does not know to be.
    pub(super) intents: BTreeMap<TransactionId, Commit>,
    /// Where each was offered, from before the first put until it is known not to be there.
    pub(super) attempts: BTreeMap<TransactionId, Sequence>,
}

impl Memory {
    /// Notes an attempt whose outcome is not known.
    pub(super) fn open(&mut self, attempt: Attempt) {
        self.attempts.insert(attempt.transaction, attempt.sequence);
    }

    /// Notes what became of an attempt.
    pub(super) fn decided(&mut self, attempt: Attempt, outcome: Outcome) {
        let is_open_there = self.attempts.get(&attempt.transaction) == Some(&attempt.sequence);
        match outcome {
            Outcome::Landed => {
                self.attempts.remove(&attempt.transaction);
                self.intents.remove(&attempt.transaction);
            }
            Outcome::Never if is_open_there => drop(self.attempts.remove(&attempt.transaction)),
            Outcome::Never | Outcome::Open => {}
        }
    }
}

impl Shared {
    /// A world in which nothing has happened yet.
    pub(super) fn new(plan: Plan, world: World, bucket: SimulatedBucket, chronicle: Chronicle) -> Shared {
        let memories = vec![Memory::default(); plan.committers as usize];
        let manifests = Manifests::new(chronicle.origin());
        let state = State {
            chronicle,
            told: Vec::new(),
            tally: Tally::default(),
            manifests,
            memories,
            logs: BTreeMap::new(),
            steps: 0,
            offering: BTreeSet::new(),
            collecting: BTreeSet::new(),
            clocks: Vec::new(),
            dead: BTreeSet::new(),
            // The numbers below are the setup's own.
            next_process: 10,
        };
        Shared { plan, world, bucket, state: Mutex::new(state) }
    }

    /// The state, with the chronicle as of now.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap();
        self.bucket.history(|history| state.chronicle.read_on(history));
        state
    }

    /// The store's folder.
    pub(super) fn root() -> Path {
        Path::from(ROOT)
    }

    /// Now, in the bucket's history.
    pub(super) fn mark(&self) -> Mark {
        mark(&self.bucket)
    }

    /// A process that never was before.
    pub(super) fn new_process(&self) -> Process {
        let mut state = self.state.lock().unwrap();
        state.next_process += 1;
        Process(state.next_process)
    }

    /// Takes note of what a client was told.
    pub(super) fn tell(&self, process: Process, asked: Mark, claim: Claim) {
        let heard = self.mark();
        self.state().told.push(Told { process, asked, heard, claim });
    }

    /// Counts a public call.
    pub(super) fn step(&self) {
        self.state.lock().unwrap().steps += 1;
    }

    /// Counts what the world did.
    pub(super) fn count(&self, event: Event) {
        self.state.lock().unwrap().tally.count(event);
    }

    /// Waits on the world's own time.
    pub(super) async fn wait(&self, duration: Duration) {
        let timeline = self.world.timeline();
        timeline.sleep_until(timeline.elapsed() + duration).await;
    }

    /// Judges everything so far.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    pub(super) fn check(&self) -> Result<(), Violation> {
        let state = self.state();
        check_all(&Evidence { chronicle: &state.chronicle, told: &state.told, manifests: &state.manifests })
    }
}

/// Now, in a bucket's history.
pub(super) fn mark(bucket: &SimulatedBucket) -> Mark {
    bucket.history(|history| Mark { effects: history.effects().len(), sent: history.sent().len() })
}
