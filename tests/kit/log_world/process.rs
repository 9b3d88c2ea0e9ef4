//! One process of a log world: a link, a clock and random numbers of its own, and the real log over them.

use std::sync::{Arc, Mutex};

use chrono::TimeDelta;
use commit_log::adoption;
use commit_log::bucket::{Bucket, Deadline};
use commit_log::environment::{Environment, Randomness};
use commit_log::error::Corruption;
use commit_log::log::{BeforePut, LogOptions, Proof, SlotLog, TailError};
use commit_log::slot::Sequence;
use rand::RngExt;
use rand::rngs::StdRng;

use super::plan::{log_uniform, pace, stream};
use super::state::Shared;
use super::tally::Event;
use super::told::{Claim, Mark, SeenSlot};
use crate::bucket::Process;
use crate::clock::{ClockMode, SimulatedClock, Skew};

/// A process with its log open.
pub(super) struct Running {
    /// The world it is in.
    pub(super) shared: Arc<Shared>,
    /// Its number.
    pub(super) process: Process,
    /// The real log.
    pub(super) log: SlotLog,
    /// Up to where it was noted what the log believes.
    noted: Mutex<Option<Sequence>>,
}

/// The door to the bucket of a process, with a clock and random numbers of its own.
fn door(shared: &Shared, process: Process) -> Bucket {
    let mut random = stream(shared.plan.seed, 1_000 + u64::from(process.0));
    let skew = Skew {
        offset: TimeDelta::milliseconds(random.random_range(-7_200_000..=7_200_000)),
        drift_ppm: random.random_range(-50_000..=50_000),
    };
    let clock = Arc::new(SimulatedClock::new(shared.world.timeline(), ClockMode::Wild, skew));
    shared.state().clocks.push(Arc::clone(&clock));
    let randomness = Arc::new(Randomness::from_seed(random.random()));
    let environment = Environment { clock: clock.clone(), stopwatch: clock, randomness };
    Bucket::new(shared.bucket.link(process), Shared::root(), environment, pace(&mut random))
}

/// What a process waits for its start at most, in tries. A link that is cut off is healed before so many.
const START_TRIES: u32 = 1_000;

impl Running {
    /// Starts a process: finds the log that the store is on, and loads it.
    pub(super) async fn start(shared: &Arc<Shared>, process: Process, before_put: Option<BeforePut>) -> Running {
        let running = Running::find(shared, process, before_put).await;
        // A start that could not load goes on from nothing: its first look tells it so.
        drop(running.load().await);
        running
    }

    /// Starts a process that has read nothing of its log.
    pub(super) async fn start_unread(shared: &Arc<Shared>, process: Process) -> Running {
        Running::find(shared, process, None).await
    }

    async fn find(shared: &Arc<Shared>, process: Process, before_put: Option<BeforePut>) -> Running {
        let bucket = door(shared, process);
        for _ in 0..START_TRIES {
            let asked = shared.mark();
            shared.step();
            match adoption::find(&bucket, &bucket.deadline()).await {
                Ok(record) => {
                    shared.tell(process, asked, Claim::Opened(record.log));
                    let options = LogOptions { before_put, prove_every: shared.plan.prove_every, ..LogOptions::default() };
                    let log = SlotLog::new(bucket, record, options);
                    return Running { shared: Arc::clone(shared), process, log, noted: Mutex::new(None) };
                }
                Err(adoption::AdoptionError::Corrupt(corruption)) => shared.tell(process, asked, Claim::Corrupt(corruption)),
                Err(_) => {}
            }
        }
        panic!("process {process:?} never started")
    }

    /// The time that one call of this process may take.
    pub(super) fn deadline(&self) -> Deadline {
        self.log.bucket().deadline()
    }

    /// Takes note of an answer.
    pub(super) fn tell(&self, asked: Mark, claim: Claim) {
        self.shared.tell(self.process, asked, claim);
    }

    /// Takes note of damage that was reported.
    pub(super) fn tell_corrupt(&self, asked: Mark, corruption: Corruption) {
        self.tell(asked, Claim::Corrupt(corruption));
    }

    /// Loads from the ideal store: what a process does at its start, and whenever it fell behind.
    pub(super) async fn load(&self) -> Result<(), TailError> {
        self.shared.step();
        let asked = self.shared.mark();
        let covered = self.shared.state().manifests.covered();
        let loaded = self.log.load(covered, &self.deadline()).await;
        self.note_beliefs(asked);
        match &loaded {
            Ok(()) => self.tell(asked, Claim::End(self.log.head())),
            Err(error) => self.note_error(asked, error),
        }
        loaded
    }

    /// Reads on.
    pub(super) async fn catch_up(&self, proof: Proof) -> Result<(), TailError> {
        self.shared.step();
        let asked = self.shared.mark();
        let caught_up = self.log.catch_up(proof, &self.deadline()).await;
        self.note_beliefs(asked);
        match &caught_up {
            Ok(()) if proof == Proof::Always => self.tell(asked, Claim::End(self.log.head())),
            Ok(()) => {}
            Err(error) => self.note_error(asked, error),
        }
        caught_up
    }

    /// Reads slots that are known to be there once more.
    pub(super) async fn read_again(&self, random: &mut StdRng) {
        let (head, first) = {
            let state = self.shared.state();
            (state.chronicle.head(), state.manifests.covered().unwrap_or(state.chronicle.origin()))
        };
        let Some(head) = head.filter(|head| *head >= first) else { return };
        self.shared.step();
        let last = first.plus(random.random_range(0..=u32::try_from(head.above(Some(first))).expect("a short log")));
        let asked = self.shared.mark();
        match self.log.slots(first, last, usize::MAX, &self.deadline()).await {
            Ok(slots) => {
                let slots = slots.iter().map(|slot| SeenSlot::of(slot)).collect();
                self.tell(asked, Claim::Served { first, last, slots });
            }
            Err(error) => self.note_error(asked, &error),
        }
    }

    /// Takes note of every slot that the log took in since the last time.
    pub(super) fn note_beliefs(&self, asked: Mark) {
        let mut noted = self.noted.lock().unwrap();
        let head = self.log.head();
        // A log that was loaded again further on remembers from there.
        while *noted < head {
            let Some(slots) = self.log.remembered_after(*noted) else {
                *noted = Some(noted.map_or(self.shared.state().chronicle.origin(), Sequence::next));
                continue;
            };
            *noted = slots.last().map(|slot| slot.sequence()).max(*noted);
            self.tell(asked, Claim::Believed(slots.iter().map(|slot| SeenSlot::of(slot)).collect()));
        }
    }

    /// Takes note of what an error says about the log.
    pub(super) fn note_error(&self, asked: Mark, error: &TailError) {
        match error {
            TailError::Behind { after } => {
                self.shared.count(Event::ReaderBehind);
                self.tell(asked, Claim::Retired { after: *after });
            }
            TailError::Corrupt(corruption) => self.tell_corrupt(asked, corruption.clone()),
            TailError::Unavailable(_) => {}
        }
    }

    /// Sleeps by the process's own clock.
    pub(super) async fn sleep(&self, random: &mut StdRng, from_millis: u64, up_to_millis: u64) {
        use std::time::Duration;
        let pause = log_uniform(random, Duration::from_millis(from_millis), Duration::from_millis(up_to_millis));
        self.log.bucket().environment().clock.sleep(pause).await;
    }
}
