//! A store is dropped and created again while requests of the old one sleep: names must carry the log's identity.

use std::fmt;

use crate::explore::{Model, Next};
use crate::pair::{must_be_caught, must_hold};
use crate::violation::Violation;

/// Sequences of a log here: one page.
const SEQUENCES: usize = 2;

/// Whether a name says which log it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Names {
    SequenceOnly,
    WithIdentity,
}

/// Which requests of the old log are still in the air.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sleeper {
    Deletes,
    Put,
    Ledger,
    /// A whole committer: its put, then its win check.
    Committer,
    /// All but the committer.
    Requests,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Log {
    Old,
    New,
}

/// A name's content: whose it is.
type Slot = Option<Log>;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Folder {
    slots: [Slot; SEQUENCES],
    ledger: Slot,
}

const EMPTY: Folder = Folder { slots: [None; SEQUENCES], ledger: None };

/// What the new log's committer does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Committing {
    Ready,
    Created,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    /// Where the old log's names lie, and the new one's: the same place when names say only the sequence.
    old: Folder,
    new: Folder,
    now: Log,
    /// Slots of the new log that were acknowledged, and how many of them a reader of it has folded.
    acknowledged: usize,
    read: usize,
    committing: Committing,
    /// The old log's committer, at the first free slot of its log.
    old_committing: Committing,
}

#[derive(Clone, Copy, Debug)]
struct Step(&'static str, usize);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

#[derive(Debug)]
struct Store {
    names: Names,
    sleeper: Sleeper,
}

impl Store {
    fn sleeps(&self, kind: Sleeper) -> bool {
        self.sleeper == kind || (self.sleeper == Sleeper::Requests && kind != Sleeper::Committer)
    }

    /// Where a request of the old log arrives.
    fn reached<'a>(&self, world: &'a mut World) -> &'a mut Folder {
        match (world.now, self.names) {
            (Log::New, Names::SequenceOnly) => &mut world.new,
            (Log::New, Names::WithIdentity) | (Log::Old, _) => &mut world.old,
        }
    }

    fn sleepers(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        for index in 0..SEQUENCES {
            let mut next = *world;
            let slot = &mut self.reached(&mut next).slots[index];
            if self.sleeps(Sleeper::Deletes) && slot.is_some() {
                // Nothing of the new log is covered by its store yet.
                let unfolded = slot.take() == Some(Log::New);
                let next = if unfolded { Err(Violation::UnfoldedSlotDeleted) } else { Ok(next) };
                out.push((Step("the old log's delete takes effect on", index + 1), next));
            } else if self.sleeps(Sleeper::Put) && slot.is_none() {
                *slot = Some(Log::Old);
                out.push((Step("the old log's put takes effect at", index + 1), Ok(next)));
            }
        }
        let mut next = *world;
        let ledger = &mut self.reached(&mut next).ledger;
        if self.sleeps(Sleeper::Ledger) && ledger.is_none() {
            *ledger = Some(Log::Old);
            out.push((Step("the old log's ledger put takes effect, page", 0), Ok(next)));
        }
    }

    /// Whoever is told "won" after the drop has a commit that no store contains.
    fn old_committer(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        let mut next = *world;
        let last = SEQUENCES - 1;
        let folder = self.reached(&mut next);
        match world.old_committing {
            Committing::Ready if folder.slots[last].is_none() => {
                folder.slots[last] = Some(Log::Old);
                next.old_committing = Committing::Created;
                out.push((Step("the old log's committer is answered \"created\" at", last + 1), Ok(next)));
            }
            Committing::Created if folder.ledger.is_none() => {
                let step = Step("the old log's committer reads no ledger after its put at", last + 1);
                out.push((step, Err(Violation::FalseWin)));
            }
            Committing::Ready | Committing::Created => {}
        }
    }

    fn commit(world: &World, out: &mut Vec<(Step, Next<World>)>) {
        let index = world.acknowledged;
        let mut next = *world;
        match world.committing {
            Committing::Ready if index < SEQUENCES && world.new.slots[index].is_none() => {
                next.new.slots[index] = Some(Log::New);
                next.committing = Committing::Created;
                out.push((Step("the new log's committer is answered \"created\" at", index + 1), Ok(next)));
            }
            Committing::Ready => {}
            Committing::Created => {
                next.committing = Committing::Ready;
                next.acknowledged += 1;
                let won = world.new.ledger.is_none();
                let next = if won { Ok(next) } else { Err(Violation::FalseBehind) };
                out.push((Step("the new log's committer reads the ledger after its put at", index + 1), next));
            }
        }
    }

    /// The chain check tells a foreign slot from the log's own, and with no ledger it can only be damage.
    fn read(world: &World, out: &mut Vec<(Step, Next<World>)>) {
        let next = match world.new.slots.get(world.read).copied().flatten() {
            None => return,
            Some(Log::Old) => Err(Violation::FalseCorruption),
            Some(Log::New) => Ok(World { read: world.read + 1, ..*world }),
        };
        out.push((Step("the new log's reader reads slot", world.read + 1), next));
    }
}

impl Model for Store {
    type State = World;
    type Step = Step;

    fn initial(&self) -> World {
        World {
            old: Folder { slots: [Some(Log::Old); SEQUENCES], ledger: None },
            new: EMPTY,
            now: Log::Old,
            acknowledged: 0,
            read: 0,
            committing: Committing::Ready,
            old_committing: Committing::Ready,
        }
    }

    fn steps(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        self.sleepers(world, out);
        match world.now {
            Log::Old => {
                let next = World { old: EMPTY, now: Log::New, ..*world };
                out.push((Step("the store is dropped and created again, last slot", 0), Ok(next)));
            }
            Log::New => {
                if self.sleeps(Sleeper::Committer) {
                    self.old_committer(world, out);
                }
                Self::commit(world, out);
                Self::read(world, out);
            }
        }
    }

    fn actor(&self, _step: &Step) -> usize {
        0
    }

    fn show(&self, world: &World) -> String {
        let names = match world.now {
            Log::Old => world.old,
            Log::New => world.new,
        };
        format!("slots{:?} ledger {:?}", names.slots, names.ledger)
    }
}

fn pair(name: &str, sleeper: Sleeper, caught: Violation) {
    must_be_caught(name, &Store { names: Names::SequenceOnly, sleeper }, caught);
    let held = must_hold(name, &Store { names: Names::WithIdentity, sleeper });
    println!("{name}: safe held, {held}");
}

#[test]
fn an_old_logs_delete_never_meets_a_new_slot() {
    pair("old delete wakes", Sleeper::Deletes, Violation::UnfoldedSlotDeleted);
}

#[test]
fn an_old_logs_put_never_lands_in_the_new_log() {
    pair("old put wakes", Sleeper::Put, Violation::FalseCorruption);
}

#[test]
fn an_old_logs_ledger_never_answers_for_the_new_log() {
    pair("old ledger wakes", Sleeper::Ledger, Violation::FalseBehind);
}

#[test]
fn whatever_wakes_of_an_old_log_the_new_one_holds() {
    let safe = Store { names: Names::WithIdentity, sleeper: Sleeper::Requests };
    println!("everything old wakes: safe held, {}", must_hold("everything old wakes", &safe));
}

/// A known limit, not a pair: names keep the new log whole, but nothing tells a committer that slept over the drop
/// that its log is gone. It is why every process is stopped before a store is dropped or put back.
#[test]
fn a_committer_that_slept_over_a_drop_is_told_won_of_a_log_that_is_gone() {
    let limit = Store { names: Names::WithIdentity, sleeper: Sleeper::Committer };
    must_be_caught("known limit, old committer wakes", &limit, Violation::FalseWin);
}
