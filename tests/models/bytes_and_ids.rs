//! Equal id, equal bytes: an own id comes from the content, and a member id says whose transaction it carries.

use std::fmt;

use crate::explore::{Model, Next};
use crate::pair::{must_be_caught, must_hold};
use crate::violation::Violation;

/// Where an own id comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OwnId {
    /// Drawn: a machine image started twice draws the same.
    Drawn,
    /// The hash of the whole body.
    OfContent,
}

/// Whether an offer looks for its member id under another own id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Members {
    Ignored,
    Recognised,
}

/// Who makes the two attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attempts {
    /// Two copies of one machine, each with a transaction of its own.
    ByClones,
    /// One process, one transaction, prepared again after an unknown end.
    OfOneTransaction,
}

/// An envelope is named by its attempt: the first or the second.
type Envelope = usize;

const ATTEMPTS: usize = 2;
/// Two sequences, one page: enough for a loss and the offer after it.
const SEQUENCES: usize = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Phase {
    Fresh,
    /// Sent at this place, and sent again until it settles.
    Sent(usize),
    /// The slot is read, the ledger is not.
    Judging(usize, Envelope),
    /// Given up as unknown; its put stays in the air at the first place.
    Unknown,
    Settled,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct World {
    slots: [Option<Envelope>; SEQUENCES],
    genuine: [Option<Envelope>; SEQUENCES],
    /// The ledger of the page, once there.
    ledger: Option<[Envelope; SEQUENCES]>,
    phases: [Phase; ATTEMPTS],
}

#[derive(Clone, Copy, Debug)]
struct Step(&'static str, Option<Envelope>, usize);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(attempt) => write!(f, "attempt {attempt}: {} {}", self.0, self.2 + 1),
            None => write!(f, "{} {}", self.0, self.2 + 1),
        }
    }
}

#[derive(Debug)]
struct Offers {
    own_id: OwnId,
    members: Members,
    attempts: Attempts,
}

impl Offers {
    fn member(&self, envelope: Envelope) -> usize {
        match self.attempts {
            Attempts::ByClones => envelope,
            Attempts::OfOneTransaction => 0,
        }
    }

    fn same_id(&self, left: Envelope, right: Envelope) -> bool {
        match (self.own_id, self.attempts) {
            (OwnId::OfContent, _) | (OwnId::Drawn, Attempts::OfOneTransaction) => left == right,
            (OwnId::Drawn, Attempts::ByClones) => true,
        }
    }

    fn land(&self, world: &World, attempt: Envelope, at: usize) -> Next<World> {
        let mut next = *world;
        if next.slots[at].is_some() {
            return Ok(next);
        }
        next.slots[at] = Some(attempt);
        if next.genuine[at].is_none() {
            let member = self.member(attempt);
            let twice = world.genuine.iter().flatten().any(|other| self.member(*other) == member);
            next.genuine[at] = Some(attempt);
            if twice {
                return Err(Violation::DoubleCommit);
            }
        }
        Ok(next)
    }

    /// The ledger was read after the slot: it decides alone, else the slot does.
    fn judge_offer(&self, world: &World, attempt: Envelope, at: usize, slot: Envelope) -> Next<World> {
        let winner = world.ledger.map_or(slot, |ledger| ledger[at]);
        let mut next = *world;
        next.phases[attempt] = Phase::Settled;
        if self.same_id(winner, attempt) {
            return if world.genuine[at] == Some(attempt) { Ok(next) } else { Err(Violation::FalseWin) };
        }
        let same_member = self.member(winner) == self.member(attempt);
        if self.members == Members::Recognised && same_member {
            return Ok(next);
        }
        if world.ledger.is_none() && at + 1 < SEQUENCES {
            next.phases[attempt] = Phase::Sent(at + 1);
        }
        Ok(next)
    }

    fn attempt_steps(&self, world: &World, attempt: Envelope, out: &mut Vec<(Step, Next<World>)>) {
        let to = |phase| {
            let mut next = *world;
            next.phases[attempt] = phase;
            next
        };
        match world.phases[attempt] {
            Phase::Fresh => {
                let second_waits = self.attempts == Attempts::OfOneTransaction && attempt == 1;
                if !second_waits || world.phases[0] == Phase::Unknown {
                    out.push((Step("sends its put at", Some(attempt), 0), Ok(to(Phase::Sent(0)))));
                }
            }
            Phase::Sent(at) => {
                let landed = self.land(world, attempt, at);
                out.push((Step("its put takes effect, unanswered, at", Some(attempt), at), landed));
                if let Some(slot) = world.slots[at] {
                    let next = Ok(to(Phase::Judging(at, slot)));
                    out.push((Step("is answered \"exists\" and reads slot", Some(attempt), at), next));
                }
                if self.attempts == Attempts::OfOneTransaction && attempt == 0 && at == 0 {
                    out.push((Step("passes its deadline at", Some(attempt), at), Ok(to(Phase::Unknown))));
                }
            }
            Phase::Judging(at, slot) => {
                let next = self.judge_offer(world, attempt, at, slot);
                out.push((Step("reads the ledger after slot", Some(attempt), at), next));
            }
            Phase::Unknown => {
                let landed = self.land(world, attempt, 0);
                out.push((Step("its put takes effect late at", Some(attempt), 0), landed));
            }
            Phase::Settled => {}
        }
    }
}

impl Model for Offers {
    type State = World;
    type Step = Step;

    fn initial(&self) -> World {
        World { slots: [None; SEQUENCES], genuine: [None; SEQUENCES], ledger: None, phases: [Phase::Fresh; ATTEMPTS] }
    }

    fn steps(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        for attempt in 0..ATTEMPTS {
            self.attempt_steps(world, attempt, out);
        }
        if let [Some(first), Some(second)] = world.genuine {
            let next = World { ledger: Some([first, second]), ..*world };
            out.push((Step("a collector puts the ledger, last slot", None, 1), Ok(next)));
        }
        for at in 0..SEQUENCES {
            if world.ledger.is_some() && world.slots[at].is_some() {
                let mut next = *world;
                next.slots[at] = None;
                out.push((Step("a collector deletes slot", None, at), Ok(next)));
            }
        }
    }

    fn actor(&self, step: &Step) -> usize {
        step.1.map_or(0, |attempt| attempt + 1)
    }

    fn show(&self, world: &World) -> String {
        format!("slots{:?} genuine{:?} ledger {:?}", world.slots, world.genuine, world.ledger)
    }
}

#[test]
fn copies_of_one_machine_never_take_each_others_bytes_for_theirs() {
    let attempts = Attempts::ByClones;
    let naive = Offers { own_id: OwnId::Drawn, members: Members::Recognised, attempts };
    must_be_caught("ids drawn by clones", &naive, Violation::FalseWin);
    let safe = Offers { own_id: OwnId::OfContent, ..naive };
    println!("ids of content: safe held, {}", must_hold("ids of content", &safe));
}

#[test]
fn a_transaction_that_landed_by_another_attempt_has_not_lost() {
    let attempts = Attempts::OfOneTransaction;
    let naive = Offers { own_id: OwnId::OfContent, members: Members::Ignored, attempts };
    must_be_caught("own ids only", &naive, Violation::DoubleCommit);
    let safe = Offers { members: Members::Recognised, ..naive };
    println!("member ids: safe held, {}", must_hold("member ids", &safe));
}
