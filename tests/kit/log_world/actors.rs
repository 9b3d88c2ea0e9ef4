//! The tasks of a log world that the director starts, kills and buries: committers, collectors, readers with a checkpoint.

use std::sync::Arc;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::task::JoinHandle;

use super::collector::{Collecting, Memory};
use super::committer::Committer;
use super::manifests::CheckpointNumber;
use super::pinned::PinnedReader;
use super::state::Shared;
use super::tally::Event;
use crate::bucket::Process;
use crate::checkers::Violation;

/// A task, and the process that it runs in.
pub(super) struct Actor {
    /// The process whose link it uses.
    pub(super) process: Process,
    /// Its own number: the process's, unless it runs beside another.
    number: Process,
    task: JoinHandle<()>,
}

/// All of them.
pub(super) struct Actors {
    shared: Arc<Shared>,
    pub(super) committers: Vec<Actor>,
    pub(super) collectors: Vec<Actor>,
    readers: Vec<Actor>,
}

impl Actors {
    /// Starts the committers.
    pub(super) fn start(shared: &Arc<Shared>) -> Actors {
        let mut actors =
            Actors { shared: Arc::clone(shared), committers: Vec::new(), collectors: Vec::new(), readers: Vec::new() };
        for number in 0..shared.plan.committers as usize {
            let actor = actors.committer(number);
            actors.committers.push(actor);
        }
        actors
    }

    fn committer(&self, number: usize) -> Actor {
        let process = self.shared.new_process();
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move { Committer::start(&shared, number, process).await.work().await });
        Actor { process, number: process, task }
    }

    /// Starts a collector: in a process of its own, or beside a committer that lives.
    pub(super) fn start_collector(&mut self, random: &mut StdRng) {
        if !self.collectors.is_empty() {
            self.shared.count(Event::CollectorsRaced);
        }
        let number = self.shared.new_process();
        let committers: Vec<_> = self.shared.state().logs.clone().into_iter().collect();
        let (process, memory) = match random.random_range(0..3) {
            0 => (number, Memory::Loaded),
            1 if !committers.is_empty() => {
                self.shared.count(Event::CollectorShared);
                let (process, log) = committers[random.random_range(0..committers.len())].clone();
                (process, Memory::Shared(log))
            }
            _ => (number, Memory::Empty),
        };
        let collecting = Collecting::new(&self.shared, process, number);
        let task = tokio::spawn(async move { collecting.work(memory).await });
        self.collectors.push(Actor { process, number, task });
    }

    /// Starts a reader of a checkpoint.
    pub(super) fn start_reader(&mut self, checkpoint: CheckpointNumber) {
        let process = self.shared.new_process();
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move { PinnedReader::start(&shared, process, checkpoint).await.work().await });
        self.readers.push(Actor { process, number: process, task });
    }

    /// Kills a committer with all that runs beside it, and starts it again from what it made durable.
    pub(super) fn restart(&mut self, number: usize) {
        let again = self.committer(number);
        let killed = std::mem::replace(&mut self.committers[number], again);
        self.kill_process(killed);
        self.shared.count(Event::Restarted);
    }

    /// Kills a collector, and its process if it has one for itself.
    pub(super) fn kill_collector(&mut self) {
        let Some(collector) = self.collectors.pop() else { return };
        self.count_kill(&collector);
        if collector.process == collector.number {
            self.kill_process(collector);
        } else {
            collector.task.abort();
        }
    }

    fn count_kill(&self, collector: &Actor) {
        let mut state = self.shared.state();
        if state.collecting.remove(&collector.number) {
            state.tally.count(Event::CollectorKilled);
            if state.chronicle.is_amid_a_page() {
                state.tally.count(Event::CollectorKilledAmidPage);
            }
        }
    }

    fn kill_process(&mut self, actor: Actor) {
        actor.task.abort();
        let beside = |collector: &Actor| collector.process == actor.process;
        let (killed, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.collectors).into_iter().partition(beside);
        self.collectors = left;
        for collector in killed {
            self.count_kill(&collector);
            collector.task.abort();
        }
        self.shared.bucket.kill(actor.process);
        let mut state = self.shared.state();
        state.dead.insert(actor.process);
        state.offering.remove(&actor.process);
        state.logs.remove(&actor.process);
    }

    /// Kills the first `count` committers, and everybody else.
    pub(super) fn kill_all_but_committers_from(&mut self, count: usize) {
        while !self.collectors.is_empty() {
            self.kill_collector();
        }
        for reader in std::mem::take(&mut self.readers) {
            self.kill_process(reader);
        }
        for committer in self.committers.drain(..count).collect::<Vec<_>>() {
            self.kill_process(committer);
        }
    }

    /// Buries those whose work is over. An actor that panicked, or a committer that ended, is a broken world.
    pub(super) async fn reap(&mut self) -> Result<(), Violation> {
        let broken = |what: String| Violation { invariant: "progress", what };
        if let Some(committer) = self.committers.iter().find(|committer| committer.task.is_finished()) {
            return Err(broken(format!("{:?} ended by itself", committer.process)));
        }
        for actors in [&mut self.collectors, &mut self.readers] {
            let (done, running): (Vec<_>, Vec<_>) = std::mem::take(actors).into_iter().partition(|it| it.task.is_finished());
            *actors = running;
            for actor in done {
                actor.task.await.map_err(|panic| broken(format!("{:?} ended: {panic}", actor.number)))?;
            }
        }
        Ok(())
    }

    /// Any of them; mostly one that has an offer under way, if there is any.
    pub(super) fn any(&self, random: &mut StdRng) -> Process {
        let offering: Vec<_> = self.shared.state().offering.iter().copied().collect();
        if offering.is_empty() || random.random_bool(0.3) {
            let all: Vec<_> = self.committers.iter().chain(&self.collectors).chain(&self.readers).collect();
            return all[random.random_range(0..all.len())].process;
        }
        offering[random.random_range(0..offering.len())]
    }
}
