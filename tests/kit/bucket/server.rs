//! The server: accepts requests, lets them take effect, answers them, each at its own instant.
//!
//! ```text
//! submit ──▶ dispatch ─────────▶ effect (0 to 3 copies) ───────▶ answer ──▶ caller
//!    │           │                  │                               │
//!  paused:     plan drawn:       happens whatever became         killed: nobody hears
//!  waits       dropped = no      of the caller                   paused: waits
//!              effect                                            partitioned: lost
//! ```
//!
//! Requests live here, not in the callers' futures. Instants are ordered by time, then by when they were planned,
//! so one seed gives one order.

mod account;
mod control;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;

pub use control::Partition;

use super::faults::{Counters, Fault, Faults};
use super::objects::{Moment, Objects};
use super::plan::{Ending, Landing, Plan};
use super::request::{Address, Answer, Ask, Operation, Process, Reply, RequestId, already_exists, record_answer, transient};
use super::stage::{Holding, Rule};
use crate::clock::Timeline;
use crate::fingerprint::Fingerprint;
use crate::history::Sent;
use crate::runtime::RequestBudget;

/// One incarnation of a process, as the server sees it.
#[derive(Debug)]
struct LinkState {
    process: Process,
    random: StdRng,
    faults: Arc<Faults>,
    gate: Gate,
    partition: Option<Partition>,
    burst_until: Duration,
    /// Sent while paused: not yet accepted.
    unsent: Vec<RequestId>,
    /// Answered while paused: not yet delivered.
    unheard: Vec<RequestId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    Paused,
    Killed,
}

#[derive(Debug)]
struct Pending {
    address: Address,
    link: usize,
    ask: Ask,
    plan: Plan,
    /// The client's own time-out for this request, if it hangs.
    hang: Option<Duration>,
    origin: Origin,
    dispatched: Duration,
    caller: Option<oneshot::Sender<Answer>>,
    effects_left: usize,
    /// How many copies changed an object.
    landed: u64,
    result: Option<Answer>,
    answered: Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answered {
    NotYet,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Drawn,
    Staged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Duration,
    number: u64,
    request: RequestId,
    what: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Instant {
    Effect { copy: usize },
    Answer,
}

#[derive(Debug)]
pub(crate) struct Server {
    seed: u64,
    timeline: Timeline,
    budget: Arc<RequestBudget>,
    pub(crate) objects: Objects,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) counters: Counters,
    default_faults: Arc<Faults>,
    links: Vec<LinkState>,
    /// The living incarnation of each process.
    living: BTreeMap<Process, usize>,
    /// Boxed: each is taken out and put back at each of its instants.
    requests: BTreeMap<RequestId, Box<Pending>>,
    accepted: u64,
    events: BinaryHeap<Reverse<Event>>,
    planned: u64,
    rules: Vec<Rule>,
}

impl Server {
    pub(crate) fn new(seed: u64, timeline: Timeline, budget: Arc<RequestBudget>, faults: Faults) -> Self {
        Self {
            seed,
            timeline,
            budget,
            objects: Objects::default(),
            fingerprint: Fingerprint::default(),
            counters: Counters::default(),
            default_faults: Arc::new(faults),
            links: Vec::new(),
            living: BTreeMap::new(),
            requests: BTreeMap::new(),
            accepted: 0,
            events: BinaryHeap::new(),
            planned: 0,
            rules: Vec::new(),
        }
    }

    /// How many requests were sent so far.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    pub(crate) fn gate(&self, link: usize) -> Gate {
        self.links[link].gate
    }

    /// Takes a request from its caller. No answer ever comes if the process is dead or the budget is spent.
    pub(crate) fn submit(&mut self, link: usize, path: &str, ask: Ask) -> Option<oneshot::Receiver<Answer>> {
        let gate = self.links[link].gate;
        if gate == Gate::Killed || self.budget.take().is_err() {
            return None;
        }
        self.accepted += 1;
        let id = RequestId(self.accepted);
        let (caller, answer) = oneshot::channel();
        let state = &mut self.links[link];
        let address = Address { id, process: state.process, operation: ask.operation(), path: Arc::from(path) };
        let plan = Plan::served(&mut state.random, &state.faults);
        self.requests.insert(
            id,
            Box::new(Pending {
                address,
                link,
                ask,
                plan,
                hang: state.faults.hang,
                origin: Origin::Drawn,
                dispatched: Duration::ZERO,
                caller: Some(caller),
                effects_left: 0,
                landed: 0,
                result: None,
                answered: Answered::NotYet,
            }),
        );
        match gate {
            Gate::Paused => self.links[link].unsent.push(id),
            Gate::Open | Gate::Killed => self.dispatch(id),
        }
        Some(answer)
    }

    /// Accepts a request: its fate is decided here.
    fn dispatch(&mut self, id: RequestId) {
        let now = self.timeline.elapsed();
        let mut request = self.requests.remove(&id).expect("dispatched once");
        request.dispatched = now;
        self.record_accepted(&request, now);
        let address = &request.address;
        let action = self.rules.iter_mut().find_map(|rule| rule.fires(address));
        let holding = match action {
            Some(action) => {
                request.origin = Origin::Staged;
                request.hang = None;
                action.shape(&mut request.plan)
            }
            None => {
                self.expose(&mut request, now);
                Holding::Nothing
            }
        };
        request.effects_left = request.plan.effects.len();
        match holding {
            Holding::Nothing => {
                self.plan_effects(&request, now);
                self.plan_answer(&request, now);
            }
            Holding::Answer => self.plan_effects(&request, now),
            Holding::Request => {}
        }
        self.requests.insert(id, request);
    }

    /// Exposes a request to the faults, the partition and the bursts of its link.
    fn expose(&mut self, request: &mut Pending, now: Duration) {
        let state = &mut self.links[request.link];
        let plan = &mut request.plan;
        plan.expose(&mut state.random, &state.faults, request.address.operation);
        if let Some(partition) = state.partition {
            plan.drop_before_effect(partition.ending());
            plan.fault = Some(Fault::Partitioned);
            return;
        }
        let begins = state.faults.bursts > 0.0 && state.random.random_bool(state.faults.bursts);
        if begins {
            let length = state.faults.burst_up_to.mul_f64(state.random.random::<f64>());
            state.burst_until = state.burst_until.max(now + length);
        }
        if begins || now < state.burst_until {
            plan.fail_in_burst();
        }
    }

    fn plan_effects(&mut self, request: &Pending, from: Duration) {
        for (copy, after) in request.plan.effects.iter().enumerate() {
            self.plan_event(from + *after, request.address.id, Instant::Effect { copy });
        }
    }

    fn plan_answer(&mut self, request: &Pending, from: Duration) {
        let after = match (request.plan.ending, request.hang) {
            (Ending::Hangs, Some(hang)) => request.plan.answer.max(hang),
            (Ending::Hangs | Ending::Answered | Ending::Failed, _) => request.plan.answer,
        };
        self.plan_event(from + after, request.address.id, Instant::Answer);
    }

    fn plan_event(&mut self, at: Duration, request: RequestId, what: Instant) {
        self.planned += 1;
        let number = self.planned;
        self.events.push(Reverse(Event { at, number, request, what }));
    }

    /// When the next instant is due.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        self.events.peek().map(|Reverse(event)| event.at)
    }

    /// Lives through every instant that is due.
    pub(crate) fn run_due(&mut self) {
        let now = self.timeline.elapsed();
        while self.next_due().is_some_and(|at| at <= now) {
            let Some(Reverse(event)) = self.events.pop() else {
                return;
            };
            let Some(mut request) = self.requests.remove(&event.request) else {
                continue; // cut by a kill
            };
            match event.what {
                Instant::Effect { copy } => self.take_effect(&mut request, copy, event.at),
                Instant::Answer => self.answer(&mut request, event.at),
            }
            if request.effects_left > 0 || request.answered == Answered::NotYet {
                self.requests.insert(event.request, request);
            }
        }
    }

    fn take_effect(&mut self, request: &mut Pending, copy: usize, at: Duration) {
        request.effects_left -= 1;
        let before = self.objects.changes();
        let result = self.land(request, at);
        let changed = self.objects.changes() > before;
        self.count_effect(request, copy, &result, changed.then_some(before));
        request.landed += u64::from(changed);
        self.fingerprint.number(2).number(request.address.id.0).number(micros(at));
        if copy + 1 == request.plan.effects.len() {
            request.result = Some(self.mangle(result, request));
        }
    }

    fn land(&mut self, request: &Pending, at: Duration) -> Answer {
        let Pending { address, ask, plan, .. } = request;
        let moment = Moment { elapsed: at, calendar: self.timeline.at(at) };
        let absent = self.objects.get(&address.path).is_none();
        match plan.landing {
            Landing::Conflict if absent && address.operation == Operation::Create => {
                self.counters.count(Fault::SpuriousExists);
                Err(already_exists(&address.path))
            }
            Landing::Pretended => {
                if !absent {
                    self.counters.count(Fault::DeleteAnsweredNotDone);
                }
                Ok(Reply::Done)
            }
            Landing::Real | Landing::Conflict => self.objects.apply(address, ask, plan.page_size, moment),
        }
    }

    fn answer(&mut self, request: &mut Pending, at: Duration) {
        let state = &mut self.links[request.link];
        if state.gate == Gate::Paused {
            state.unheard.push(request.address.id);
            return;
        }
        if let (Some(partition), Ending::Answered) = (state.partition, request.plan.ending) {
            request.plan.ending = partition.ending();
            request.plan.fault = Some(Fault::Partitioned);
            if let (Ending::Hangs, Some(hang)) = (request.plan.ending, request.hang) {
                self.plan_event((request.dispatched + hang).max(at), request.address.id, Instant::Answer);
                return;
            }
        }
        request.answered = Answered::Done;
        self.count_answer(request);
        let answer = match (request.plan.ending, request.hang) {
            (Ending::Answered, _) => Some(request.result.take().expect("its effect came before")),
            (Ending::Failed, _) | (Ending::Hangs, Some(_)) => Some(Err(transient("no answer"))),
            (Ending::Hangs, None) => None,
        };
        self.fingerprint.number(3).number(request.address.id.0).number(micros(at));
        let (Some(answer), Some(caller)) = (answer, request.caller.take()) else {
            self.fingerprint.text("unheard");
            return;
        };
        record_answer(&answer, &mut self.fingerprint);
        // A caller that went away changes nothing here.
        caller.send(answer).ok();
    }

    fn record_accepted(&mut self, request: &Pending, now: Duration) {
        if let Ask::Put { payload, content, .. } = &request.ask {
            let create = request.address.operation == Operation::Create;
            self.objects.history.append_sent(Sent {
                request: request.address.id,
                process: request.address.process,
                operation: request.address.operation,
                path: Arc::clone(&request.address.path),
                content: *content,
                bytes: create.then(|| payload.clone()),
                at: now,
            });
        }
        let Address { id, process, operation, path } = &request.address;
        self.fingerprint
            .number(1)
            .number(id.0)
            .number(u64::from(process.0))
            .number(*operation as u64)
            .number(micros(now))
            .text(path);
        request.ask.record(&mut self.fingerprint);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("less than 584,000 years")
}

/// The random stream of one incarnation: no two share one, or their ids would be equal too.
fn stream(seed: u64, process: Process, incarnation: u64) -> StdRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..12].copy_from_slice(&process.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&incarnation.to_le_bytes());
    StdRng::from_seed(bytes)
}
