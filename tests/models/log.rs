//! The protocol of one log as a state machine: the bucket, committers, a reader, collectors, an ideal other
//! committer and an ideal holder that moves the floor. Any of them may take its next step at any time.
//!
//! - A read is atomic when the server answers; its process may sleep before it uses the answer.
//! - A put or a delete, once sent, may take effect at any later time and any number of times, answered or not.
//! - A slot's parent is the genuine slot below: true as long as nothing is violated, and a run stops when something is.
//! - An id whose owner has its verdict turns into `OTHER` where it is genuine and into `DEAD` where it is not.
//! - `Collecting::Abstract` and `Zombies::AnyDeadOffer` allow more than real collectors and real late puts do,
//!   except that the abstract ledger put is atomic; `Collecting::Explicit` has every request of a collector.

mod alone;
mod bounds;
mod collector;
mod committer;
mod reader;
mod server;
mod tail;
mod verdict;
mod world;

use std::fmt;

pub(crate) use bounds::{Again, Bounds, Closing, Collecting, FloorMoves, Reading, Resolution, Verdicts, Zombies};
use world::World;

use crate::design::Design;
use crate::explore::{Model, Next};
use crate::violation::Violation;

/// Who takes a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Committer(usize),
    Reader,
    Collector(usize),
    Other,
    Holder,
    Bucket,
}

/// Whether a process would take the step if nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chance {
    Calm,
    Fault,
}

/// One step's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    actor: Actor,
    what: &'static str,
    at: u8,
    chance: Chance,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.actor {
            Actor::Committer(who) => write!(f, "{}", ["P", "Q", "R"][who])?,
            Actor::Reader => write!(f, "reader")?,
            Actor::Collector(who) => write!(f, "collector {who}")?,
            Actor::Other => write!(f, "another committer")?,
            Actor::Holder => write!(f, "holder")?,
            Actor::Bucket => write!(f, "~")?,
        }
        write!(f, ": {} {}", self.what, self.at)
    }
}

/// The steps found so far in one state.
struct Moves<'a> {
    out: &'a mut Vec<(Step, Next<World>)>,
    actor: Actor,
}

impl Moves<'_> {
    fn step(&mut self, what: &'static str, at: u8, next: impl Into<Leads>) {
        self.push(what, at, Chance::Calm, next.into().0);
    }

    fn fault(&mut self, what: &'static str, at: u8, next: impl Into<Leads>) {
        self.push(what, at, Chance::Fault, next.into().0);
    }

    fn push(&mut self, what: &'static str, at: u8, chance: Chance, next: Next<World>) {
        self.out.push((Step { actor: self.actor, what, at, chance }, next));
    }
}

/// A step's end, from a world or from a result.
struct Leads(Next<World>);

impl From<World> for Leads {
    fn from(world: World) -> Self {
        Self(Ok(world))
    }
}

impl From<Next<World>> for Leads {
    fn from(next: Next<World>) -> Self {
        Self(next)
    }
}

impl From<Violation> for Leads {
    fn from(violation: Violation) -> Self {
        Self(Err(violation))
    }
}

/// One version of the protocol within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    pub(crate) design: Design,
    pub(crate) bounds: Bounds,
}

impl Model for Log {
    type State = World;
    type Step = Step;

    fn initial(&self) -> World {
        World::empty()
    }

    fn steps(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        self.server_steps(world, out);
        for who in 0..self.bounds.committers {
            self.committer_steps(world, who, out);
        }
        self.reader_steps(world, out);
        if let Collecting::Explicit(collectors) = self.bounds.collecting {
            for who in 0..collectors {
                self.collector_steps(world, who, out);
            }
        }
    }

    fn judge(&self, world: &World) -> Option<Violation> {
        match self.bounds.resolution {
            Resolution::Unchecked => None,
            Resolution::Checked => self.alone(world),
        }
    }

    fn actor(&self, step: &Step) -> usize {
        match step.actor {
            Actor::Other => 0,
            Actor::Holder => 1,
            Actor::Bucket => 2,
            Actor::Reader => 3,
            Actor::Committer(who) => 4 + who,
            Actor::Collector(who) => 8 + who,
        }
    }

    fn show(&self, world: &World) -> String {
        world.show(self.bounds.sequences)
    }
}
