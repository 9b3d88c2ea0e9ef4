//! What a test does to the server: links and their faults, kill, pause, partition, stages.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::{Gate, Instant, LinkState, Origin, Pending, Server, stream};
use crate::bucket::faults::{Fault, Faults};
use crate::bucket::plan::Ending;
use crate::bucket::request::{Process, RequestId};
use crate::bucket::stage::{Action, Match, Rule};

/// What a process meets while it is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Errors.
    Failing,
    /// Silence, until the link's own time-out.
    Hanging,
}

impl Partition {
    pub(super) fn ending(self) -> Ending {
        match self {
            Self::Failing => Ending::Failed,
            Self::Hanging => Ending::Hangs,
        }
    }
}

impl Server {
    /// The living incarnation's link, or a new incarnation with a random stream of its own.
    pub(crate) fn link(&mut self, process: Process) -> usize {
        if let Some(link) = self.living.get(&process) {
            return *link;
        }
        let incarnation = self.links.iter().filter(|link| link.process == process).count();
        self.links.push(LinkState {
            process,
            random: stream(self.seed, process, incarnation as u64),
            faults: Arc::clone(&self.default_faults),
            gate: Gate::Open,
            partition: None,
            burst_until: Duration::ZERO,
            unsent: Vec::new(),
            unheard: Vec::new(),
        });
        let link = self.links.len() - 1;
        self.living.insert(process, link);
        link
    }

    pub(crate) fn set_faults(&mut self, process: Process, faults: Faults) {
        let link = self.link(process);
        self.links[link].faults = Arc::new(faults);
    }

    /// For every link, now and later. Requests already accepted keep their plans; bursts end.
    pub(crate) fn set_all_faults(&mut self, faults: Faults) {
        self.default_faults = Arc::new(faults);
        for link in &mut self.links {
            link.faults = Arc::clone(&self.default_faults);
            link.burst_until = Duration::ZERO;
        }
    }

    /// Nothing of this incarnation is ever answered again; what it sent may still land.
    pub(crate) fn kill(&mut self, process: Process) {
        let Some(link) = self.living.remove(&process) else {
            return;
        };
        let state = &mut self.links[link];
        state.gate = Gate::Killed;
        for unsent in std::mem::take(&mut state.unsent) {
            self.requests.remove(&unsent);
        }
        let state = &mut self.links[link];
        let mut cut = Vec::new();
        for (id, request) in &mut self.requests {
            if request.link != link {
                continue;
            }
            request.caller = None;
            let in_flight = request.effects_left == request.plan.effects.len() && request.effects_left > 0;
            let chance = state.faults.cut_by_kill;
            if in_flight && request.origin == Origin::Drawn && chance > 0.0 && state.random.random_bool(chance) {
                cut.push((*id, request.address.operation.changes()));
            }
        }
        for (id, changes) in cut {
            self.requests.remove(&id);
            if changes {
                self.counters.count(Fault::CutByKill);
            }
        }
        let unheard = std::mem::take(&mut self.links[link].unheard);
        self.answer_now(unheard);
    }

    /// The process stops: nothing it sends is accepted and no answer reaches it until it is resumed.
    pub(crate) fn pause(&mut self, process: Process) {
        let link = self.link(process);
        self.links[link].gate = Gate::Paused;
    }

    pub(crate) fn resume(&mut self, process: Process) {
        let Some(link) = self.living.get(&process) else {
            return;
        };
        let state = &mut self.links[*link];
        if state.gate != Gate::Paused {
            return;
        }
        state.gate = Gate::Open;
        let unheard = std::mem::take(&mut state.unheard);
        let unsent = std::mem::take(&mut state.unsent);
        for _ in unheard.iter().chain(&unsent) {
            self.counters.count(Fault::HeldByPause);
        }
        self.answer_now(unheard);
        for id in unsent {
            self.dispatch(id);
        }
    }

    fn answer_now(&mut self, unheard: Vec<RequestId>) {
        let now = self.timeline.elapsed();
        for id in unheard {
            self.plan_event(now, id, Instant::Answer);
        }
    }

    /// Cuts a process off, or heals it with none. What it sent before still takes effect; what it is answered while
    /// cut off is lost.
    pub(crate) fn set_partition(&mut self, process: Process, partition: Option<Partition>) {
        let link = self.link(process);
        self.links[link].partition = partition;
    }

    /// Stages an action and returns the stage's number.
    pub(crate) fn stage(&mut self, matcher: Match, action: Action) -> usize {
        self.rules.push(Rule::new(matcher, action));
        self.rules.len() - 1
    }

    pub(crate) fn stage_hits(&self, rule: usize) -> u64 {
        self.rules[rule].hits
    }

    /// Lets go what a stage holds, and whatever would have met it later.
    pub(crate) fn release(&mut self, rule: usize) {
        let now = self.timeline.elapsed();
        for id in self.rules[rule].release() {
            let Some(request) = self.requests.remove(&id) else {
                continue;
            };
            match self.rules[rule].action() {
                Action::HoldAnswer => self.release_answer(&request, now),
                Action::Hold
                | Action::FailBefore
                | Action::LoseAnswer
                | Action::HangBefore
                | Action::HangAfter
                | Action::LandAfter(_)
                | Action::SpuriousExists
                | Action::Resend(_) => {
                    self.plan_effects(&request, now);
                    self.plan_answer(&request, now);
                }
            }
            self.requests.insert(id, request);
        }
    }

    fn release_answer(&mut self, request: &Pending, now: Duration) {
        let due = request.dispatched + request.plan.answer;
        self.plan_event(due.max(now), request.address.id, Instant::Answer);
    }

    /// When the last effect that is planned takes place. What a stage holds is not planned.
    pub(crate) fn last_effect(&self) -> Option<Duration> {
        let effects = self.events.iter().filter(|event| matches!(event.0.what, Instant::Effect { .. }));
        let alive = effects.filter(|event| self.requests.contains_key(&event.0.request));
        alive.map(|event| event.0.at).max()
    }
}
