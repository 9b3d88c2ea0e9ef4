//! The fault phase of a log world: who is stopped, killed and cut off when, and how far the ideal store has folded.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use commit_log::record::AdoptionRecord;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::collector::Collector;
use super::committer::Committer;
use super::plan::{log_uniform, stream};
use super::state::Shared;
use super::tally::Event;
use crate::bucket::{Action, Match, Operation, Partition, Process, Stage};
use crate::checkers::Violation;

/// A world whose processes are all stopped makes no steps; its faults end after so long.
const LONGEST_FAULT_PHASE: Duration = Duration::from_secs(3600);

/// How many of the director's own acts pass between two looks of the checkers.
const ACTS_BETWEEN_CHECKS: u64 = 24;

/// What is to be undone, at its time.
#[derive(Clone, Copy, Debug)]
enum Undo {
    Resume(Process),
    Heal(Process),
    Release(usize),
}

struct Actor {
    process: Process,
    task: JoinHandle<()>,
}

/// The director.
pub(super) struct Director {
    shared: Arc<Shared>,
    record: AdoptionRecord,
    random: StdRng,
    committers: Vec<Actor>,
    collectors: Vec<Actor>,
    stages: Vec<Stage>,
    undo: BTreeMap<Duration, Undo>,
}

impl Director {
    /// Starts the committers.
    pub(super) fn start(shared: &Arc<Shared>, record: AdoptionRecord) -> Director {
        let mut director = Director {
            shared: Arc::clone(shared),
            record,
            random: stream(shared.plan.seed, 1),
            committers: Vec::new(),
            collectors: Vec::new(),
            stages: Vec::new(),
            undo: BTreeMap::new(),
        };
        for number in 0..shared.plan.committers as usize {
            let actor = director.committer(number);
            director.committers.push(actor);
        }
        director
    }

    fn committer(&self, number: usize) -> Actor {
        let process = self.shared.new_process();
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move { Committer::start(&shared, number, process).await.work().await });
        Actor { process, task }
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
            self.reap().await?;
        }
        self.end_faults();
        self.shared.check()
    }

    fn elapsed(&self) -> Duration {
        self.shared.world.timeline().elapsed()
    }

    fn act(&mut self) {
        match self.random.random_range(0..100) {
            0..30 => self.fold(),
            30..50 => self.collect(),
            50..64 => self.pause(),
            64..72 => self.restart(),
            72..78 => self.kill_collector(),
            78..84 => self.cut_off(),
            84..96 => self.stage(),
            _ => self.jump(),
        }
    }

    /// The ideal holder: folds genuine slots up to anywhere.
    fn fold(&mut self) {
        let mut state = self.shared.state();
        let (Some(head), covered) = (state.chronicle.head(), state.covered) else { return };
        let ahead = head.above(covered);
        let folded = if self.random.random_bool(0.5) { ahead } else { self.random.random_range(0..=ahead) };
        let folded = u32::try_from(folded).expect("a short log");
        state.covered = match covered {
            Some(covered) => Some(covered.plus(folded)),
            None => folded.checked_sub(1).map(|further| state.chronicle.origin().plus(further)),
        };
    }

    /// At most two collectors race.
    fn collect(&mut self) {
        if self.collectors.len() > 1 {
            return;
        }
        if self.collectors.len() == 1 {
            self.shared.count(Event::CollectorsRaced);
        }
        let process = self.shared.new_process();
        let collector = Collector::new(&self.shared, process, self.record.clone());
        let task = tokio::spawn(async move { collector.pass().await });
        self.collectors.push(Actor { process, task });
    }

    /// Buries the collectors whose pass is over. An actor that panicked, or a committer that ended, is a broken world.
    async fn reap(&mut self) -> Result<(), Violation> {
        if let Some(committer) = self.committers.iter().find(|committer| committer.task.is_finished()) {
            return Err(Violation { invariant: "progress", what: format!("{:?} ended by itself", committer.process) });
        }
        let (done, running) = std::mem::take(&mut self.collectors).into_iter().partition(|it| it.task.is_finished());
        self.collectors = running;
        let done: Vec<Actor> = done;
        for collector in done {
            let ended = collector.task.await;
            ended.map_err(|panic| Violation { invariant: "progress", what: format!("a collector ended: {panic}") })?;
        }
        Ok(())
    }

    fn any(&mut self) -> Process {
        let offering: Vec<_> = self.shared.state().offering.iter().copied().collect();
        let of_all = self.random.random_range(0..self.committers.len());
        if offering.is_empty() || self.random.random_bool(0.2) {
            return self.committers[of_all].process;
        }
        offering[self.random.random_range(0..offering.len())]
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
        let process = self.any();
        if self.shared.state().offering.contains(&process) {
            self.shared.count(Event::PausedInOffer);
        }
        self.shared.bucket.pause(process);
        self.undo_after(Undo::Resume(process), 90);
    }

    fn cut_off(&mut self) {
        let process = self.any();
        let partition = if self.random.random_bool(0.5) { Partition::Failing } else { Partition::Hanging };
        self.shared.bucket.partition(process, partition);
        self.undo_after(Undo::Heal(process), 20);
    }

    fn kill(&self, actor: &Actor) {
        actor.task.abort();
        self.shared.bucket.kill(actor.process);
        let mut state = self.shared.state();
        state.dead.insert(actor.process);
        state.offering.remove(&actor.process);
    }

    /// Kills a committer, and starts it again from what it made durable.
    fn restart(&mut self) {
        let number = self.random.random_range(0..self.committers.len());
        self.kill(&self.committers[number]);
        self.committers[number] = self.committer(number);
        self.shared.count(Event::Restarted);
    }

    fn kill_collector(&mut self) {
        if let Some(collector) = self.collectors.pop() {
            if !collector.task.is_finished() {
                self.shared.count(Event::CollectorKilled);
            }
            self.kill(&collector);
        }
    }

    /// The next put of a slot, or of anybody's ledger, meets a chosen fate.
    fn stage(&mut self) {
        let put = Match::first().operation(Operation::Create);
        let slot_of = |process| put.clone().of(process).path("/commits/");
        let late = log_uniform(&mut self.random, Duration::from_secs(1), Duration::from_secs(120));
        let process = self.any();
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
        }
    }

    /// All faults stop, links heal, and a random part of the processes, at least one, is dead and stays so.
    fn end_faults(&mut self) {
        self.shared.bucket.set_all_faults(super::quiet::faults(&self.shared.plan));
        for undo in std::mem::take(&mut self.undo).into_values() {
            self.undo_one(undo);
        }
        for stage in &self.stages {
            stage.release();
        }
        let dead = self.random.random_range(1..=self.committers.len());
        for actor in self.committers.iter().take(dead).chain(&self.collectors) {
            self.kill(actor);
        }
        self.collectors.clear();
        self.committers.drain(..dead);
    }

    /// Stops the committers that still live: whoever resolves their attempts is another process.
    pub(super) fn stop_committers(&mut self) {
        for actor in std::mem::take(&mut self.committers) {
            self.kill(&actor);
        }
    }
}
