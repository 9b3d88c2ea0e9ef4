//! The fault phase of a log world: who is stopped, killed and cut off when, how far the ideal store has folded, and what
//! checkpoints are held on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use commit_log::retire::ManifestPoint;
use commit_log::slot::Sequence;
use rand::RngExt;
use rand::rngs::StdRng;

use super::actors::Actors;
use super::manifests::CheckpointNumber;
use super::plan::{log_uniform, stream};
use super::state::Shared;
use super::tally::Event;
use crate::bucket::{Action, Match, Operation, Partition, Process, Stage};
use crate::checkers::Violation;

/// A world whose processes are all stopped makes no steps; its faults end after so long.
const LONGEST_FAULT_PHASE: Duration = Duration::from_secs(3600);

/// More checkpoints at once would hold back every page of most worlds.
const MOST_CHECKPOINTS: usize = 2;

/// How many of the director's own acts pass between two looks of the checkers.
const ACTS_BETWEEN_CHECKS: u64 = 24;

/// What is to be undone, at its time.
#[derive(Clone, Copy, Debug)]
enum Undo {
    Resume(Process),
    Heal(Process),
    Release(usize),
    Drop(CheckpointNumber),
}

/// The director.
pub(super) struct Director {
    shared: Arc<Shared>,
    random: StdRng,
    actors: Actors,
    stages: Vec<Stage>,
    undo: BTreeMap<Duration, Undo>,
}

impl Director {
    /// Starts the committers.
    pub(super) fn start(shared: &Arc<Shared>) -> Director {
        let (random, actors) = (stream(shared.plan.seed, 1), Actors::start(shared));
        Director { shared: Arc::clone(shared), random, actors, stages: Vec::new(), undo: BTreeMap::new() }
    }

    /// Directs until the world has made its steps, then stops whatever goes wrong.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    pub(super) async fn fault_phase(&mut self) -> Result<(), Violation> {
        let mut acts = 0;
        while self.shared.state().steps < self.shared.plan.steps && self.elapsed() < LONGEST_FAULT_PHASE {
            let pause = log_uniform(&mut self.random, Duration::from_millis(20), Duration::from_secs(3));
            self.shared.wait(pause).await;
            self.undo_due();
            self.act();
            acts += 1;
            if acts % ACTS_BETWEEN_CHECKS == 0 {
                self.shared.check()?;
            }
            self.actors.reap().await?;
        }
        self.end_faults();
        self.shared.check()
    }

    fn elapsed(&self) -> Duration {
        self.shared.world.timeline().elapsed()
    }

    fn act(&mut self) {
        match self.random.random_range(0..100) {
            0..29 => self.fold(),
            29..48 => self.collect(),
            48..53 => self.take_checkpoint(),
            53..67 => self.pause(),
            67..75 => self.restart(),
            75..81 => self.actors.kill_collector(),
            81..86 => self.cut_off(),
            86..97 => self.stage(),
            _ => self.jump(),
        }
    }

    /// The ideal holder: applies genuine slots up to anywhere, and flushes up to anywhere of that, or half, or not yet.
    fn fold(&mut self) {
        let now = self.shared.mark();
        let (head, latest) = {
            let state = self.shared.state();
            (state.chronicle.head().map_or(0, Sequence::get), state.manifests.latest())
        };
        let applied = self.anywhere(latest.next_wal_sst_id - 1, head);
        let flushed = self.anywhere(latest.replay_after_wal_id.max(latest.last_l0_seq), applied);
        let point = ManifestPoint { next_wal_sst_id: applied + 1, ..latest };
        let point = match self.random.random_range(0..10) {
            0 => point,
            // A flush that died half way. The next one that does not makes up for it.
            1..3 => ManifestPoint { replay_after_wal_id: flushed, ..point },
            _ => ManifestPoint { replay_after_wal_id: flushed, last_l0_seq: flushed, ..point },
        };
        if point.replay_after_wal_id > point.last_l0_seq {
            self.shared.count(Event::HalfFlushed);
        }
        self.shared.state().manifests.write(now, point);
    }

    /// The upper one as likely as any of the others.
    fn anywhere(&mut self, lower: u64, upper: u64) -> u64 {
        if self.random.random_bool(0.5) { upper } else { self.random.random_range(lower..=upper) }
    }

    /// At most two collectors race.
    fn collect(&mut self) {
        if self.actors.collectors.len() < 2 {
            self.actors.start_collector(&mut self.random);
        }
    }

    /// Of the newest manifest, now and then of one that is held already; mostly with a reader.
    fn take_checkpoint(&mut self) {
        let now = self.shared.mark();
        let held: Vec<_> = self.shared.state().manifests.held().map(|(number, _)| number).collect();
        if held.len() >= MOST_CHECKPOINTS {
            return;
        }
        let copied = held.first().copied().filter(|_| self.random.random_bool(0.3));
        let checkpoint = self.shared.state().manifests.take_checkpoint(now, copied);
        self.shared.count(Event::CheckpointTaken);
        if self.random.random_bool(0.8) {
            self.actors.start_reader(checkpoint);
        }
        self.undo_after(Undo::Drop(checkpoint), 60);
    }

    fn undo_after(&mut self, undo: Undo, up_to_secs: u64) {
        let after = log_uniform(&mut self.random, Duration::from_millis(100), Duration::from_secs(up_to_secs));
        let mut at = self.elapsed() + after;
        while self.undo.contains_key(&at) {
            at += Duration::from_micros(1);
        }
        self.undo.insert(at, undo);
    }

    /// Stops a process, of those that offer if it can, for long enough that a page or two retire.
    fn pause(&mut self) {
        let process = self.actors.any(&mut self.random);
        if self.shared.state().offering.contains(&process) {
            self.shared.count(Event::PausedInOffer);
        }
        self.shared.bucket.pause(process);
        self.undo_after(Undo::Resume(process), 90);
    }

    fn cut_off(&mut self) {
        let process = self.actors.any(&mut self.random);
        let partition = if self.random.random_bool(0.5) { Partition::Failing } else { Partition::Hanging };
        self.shared.bucket.partition(process, partition);
        self.undo_after(Undo::Heal(process), 20);
    }

    fn restart(&mut self) {
        let number = self.random.random_range(0..self.actors.committers.len());
        self.actors.restart(number);
    }

    /// The next put of a slot, or of anybody's ledger, meets a chosen fate.
    fn stage(&mut self) {
        let put = Match::first().operation(Operation::Create);
        let slot_of = |process| put.clone().of(process).path("/commits/");
        let late = log_uniform(&mut self.random, Duration::from_secs(1), Duration::from_secs(120));
        let process = self.actors.any(&mut self.random);
        let (matcher, action) = match self.random.random_range(0..8) {
            0 => (slot_of(process), Action::Hold),
            1 => (slot_of(process), Action::HoldAnswer),
            2 => (slot_of(process), Action::LandAfter(late)),
            3 => (slot_of(process), Action::LoseAnswer),
            4 => (slot_of(process), Action::Resend(2)),
            5 => (slot_of(process), Action::SpuriousExists),
            6 => (put.path("/retired/"), Action::LandAfter(late)),
            _ => (put.path("/retired/"), Action::SpuriousExists),
        };
        self.stages.push(self.shared.bucket.stage(matcher, action));
        self.undo_after(Undo::Release(self.stages.len() - 1), 60);
    }

    fn jump(&mut self) {
        // Clocks that jump are the processes' own; their sleeps go on, as a monotonic clock's would.
        let by = TimeDelta::seconds(self.random.random_range(-600..=600));
        let clocks = self.shared.state().clocks.clone();
        if !clocks.is_empty() {
            clocks[self.random.random_range(0..clocks.len())].jump(by);
        }
    }

    fn undo_due(&mut self) {
        let later = self.undo.split_off(&(self.elapsed() + Duration::from_nanos(1)));
        for undo in std::mem::replace(&mut self.undo, later).into_values() {
            self.undo_one(undo);
        }
    }

    fn undo_one(&self, undo: Undo) {
        match undo {
            Undo::Resume(process) => self.shared.bucket.resume(process),
            // A process that was killed meanwhile has no link any more; healing it would make one.
            Undo::Heal(process) if self.shared.state().dead.contains(&process) => {}
            Undo::Heal(process) => self.shared.bucket.heal(process),
            Undo::Release(stage) => self.stages[stage].release(),
            Undo::Drop(checkpoint) => {
                let now = self.shared.mark();
                self.shared.state().manifests.drop_checkpoint(now, checkpoint);
            }
        }
    }

    /// All faults stop, links heal, and a random part of the processes, at least one, is dead and stays so.
    fn end_faults(&mut self) {
        self.shared.bucket.set_all_faults(super::quiet::faults(&self.shared.plan));
        for undo in std::mem::take(&mut self.undo).into_values() {
            // The checkpoints stay, for readers that meet no fault.
            if !matches!(undo, Undo::Drop(_)) {
                self.undo_one(undo);
            }
        }
        for stage in &self.stages {
            stage.release();
        }
        let dead = self.random.random_range(1..=self.actors.committers.len());
        self.actors.kill_all_but_committers_from(dead);
    }

    /// Stops the committers that still live: whoever resolves their attempts is another process.
    pub(super) fn stop_committers(&mut self) {
        let all = self.actors.committers.len();
        self.actors.kill_all_but_committers_from(all);
    }
}
