//! Staging: hand-written tests say which request meets which fate, instead of a seed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::plan::{Ending, Landing, Plan};
use super::request::{Address, Operation, Process, RequestId};

type PathTest = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// Which requests a stage is about. Starts as the first request of all and is narrowed.
#[derive(Clone)]
pub struct Match {
    process: Option<Process>,
    operation: Option<Operation>,
    path: PathTest,
    occurrence: Occurrence,
}

#[derive(Clone, Copy, Debug)]
enum Occurrence {
    Nth(u64),
    Every,
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Match")
            .field("process", &self.process)
            .field("operation", &self.operation)
            .field("occurrence", &self.occurrence)
            .finish_non_exhaustive()
    }
}

impl Match {
    /// The first request of anybody.
    pub fn first() -> Self {
        Self::nth(1)
    }

    /// The `n`-th request that matches, from 1, counted from the moment of staging.
    pub fn nth(n: u64) -> Self {
        assert!(n > 0, "occurrences count from 1");
        Self { process: None, operation: None, path: Arc::new(|_| true), occurrence: Occurrence::Nth(n) }
    }

    /// Every request that matches.
    pub fn every() -> Self {
        Self { occurrence: Occurrence::Every, ..Self::first() }
    }

    /// Only this process's.
    pub fn of(mut self, process: Process) -> Self {
        self.process = Some(process);
        self
    }

    /// Only this operation.
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only paths with this text in them.
    pub fn path(self, text: &str) -> Self {
        let text = text.to_owned();
        self.path_where(move |path| path.contains(&text))
    }

    /// Only paths that pass this test.
    pub fn path_where(mut self, test: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.path = Arc::new(test);
        self
    }

    fn matches(&self, address: &Address) -> bool {
        self.process.is_none_or(|process| process == address.process)
            && self.operation.is_none_or(|operation| operation == address.operation)
            && (self.path)(&address.path)
    }
}

/// What becomes of a staged request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An error; nothing takes effect.
    FailBefore,
    /// It takes effect; an error.
    LoseAnswer,
    /// Never answered; nothing takes effect.
    HangBefore,
    /// It takes effect; never answered.
    HangAfter,
    /// It waits before its effect until the stage is released, and is then served.
    Hold,
    /// It takes effect; the answer waits until the stage is released.
    HoldAnswer,
    /// An error now; it takes effect this much later.
    LandAfter(Duration),
    /// 409 although the name is absent; nothing takes effect. For creates.
    SpuriousExists,
    /// It takes effect this often (2 or 3), and the caller hears what the last copy met.
    Resend(usize),
}

/// What a stage did not let pass at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    Nothing,
    Request,
    Answer,
}

#[derive(Debug)]
pub(crate) struct Rule {
    matcher: Match,
    action: Action,
    gate: Gate,
    seen: u64,
    pub(crate) hits: u64,
    pub(crate) held: Vec<RequestId>,
}

#[derive(Debug, PartialEq, Eq)]
enum Gate {
    Shut,
    /// A released stage lets everything pass from then on.
    Open,
}

impl Rule {
    pub(crate) fn new(matcher: Match, action: Action) -> Self {
        Self { matcher, action, gate: Gate::Shut, seen: 0, hits: 0, held: Vec::new() }
    }

    /// The action, if this rule is about this request.
    pub(crate) fn fires(&mut self, address: &Address) -> Option<Action> {
        if self.gate == Gate::Open || !self.matcher.matches(address) {
            return None;
        }
        self.seen += 1;
        let fires = match self.matcher.occurrence {
            Occurrence::Nth(n) => self.seen == n,
            Occurrence::Every => true,
        };
        if !fires {
            return None;
        }
        self.hits += 1;
        match self.action {
            Action::Hold | Action::HoldAnswer => self.held.push(address.id),
            Action::FailBefore | Action::LoseAnswer | Action::HangBefore | Action::HangAfter => {}
            Action::LandAfter(_) | Action::SpuriousExists | Action::Resend(_) => {}
        }
        Some(self.action)
    }

    pub(crate) fn action(&self) -> Action {
        self.action
    }

    /// Opens the gate and gives back what waited at it.
    pub(crate) fn release(&mut self) -> Vec<RequestId> {
        self.gate = Gate::Open;
        std::mem::take(&mut self.held)
    }
}

impl Action {
    /// Turns the plan of a served request into this action's.
    pub(crate) fn shape(self, plan: &mut Plan) -> Holding {
        match self {
            Self::FailBefore => plan.drop_before_effect(Ending::Failed),
            Self::LoseAnswer => plan.lose_answer(Ending::Failed),
            Self::HangBefore => plan.drop_before_effect(Ending::Hangs),
            Self::HangAfter => plan.lose_answer(Ending::Hangs),
            Self::Hold => return Holding::Request,
            Self::HoldAnswer => return Holding::Answer,
            Self::LandAfter(by) => plan.land_late(by, Ending::Failed),
            Self::SpuriousExists => plan.landing = Landing::Conflict,
            Self::Resend(copies) => plan.resend_in_order(copies),
        }
        Holding::Nothing
    }
}
