//! What an offer or `outcome` ends with, and whether that is true.

use super::Log;
use super::bounds::{Again, Verdicts};
use super::world::{Id, Offered, Phase, Prepared, Sequence, WhenAsked, World};
use crate::design::AfterLoss;
use crate::explore::Next;
use crate::violation::Violation;

/// A committer's offer at a sequence.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) who: usize,
    pub(super) at: Sequence,
    pub(super) what: Offered,
}

impl Offer {
    pub(super) fn id(self) -> Id {
        match self.what {
            Offered::Transaction => Id::transaction(self.who),
            Offered::Filler => Id::filler(self.who),
        }
    }

    fn transaction(self) -> Id {
        Id::transaction(self.who)
    }
}

/// An answer about the transaction.
#[derive(Clone, Copy)]
pub(super) enum Verdict {
    Won,
    /// Lost, with everything up to this slot folded.
    Lost(Sequence),
    Behind,
    Landed,
    Never,
}

impl Log {
    /// The put was created and nothing speaks against it.
    pub(super) fn created(&self, world: &World, offer: Offer) -> Next<World> {
        match offer.what {
            Offered::Transaction => self.conclude(world, offer, Verdict::Won),
            Offered::Filler => self.conclude(world, offer, Verdict::Never),
        }
    }

    /// A ledger decides alone.
    pub(super) fn by_ledger(&self, world: &World, offer: Offer, entry: Id) -> Next<World> {
        let ours = entry == offer.transaction();
        let verdict = match (offer.what, ours) {
            (Offered::Transaction, true) => Verdict::Won,
            (Offered::Transaction, false) => Verdict::Behind,
            (Offered::Filler, true) => Verdict::Landed,
            (Offered::Filler, false) => Verdict::Never,
        };
        self.conclude(world, offer, verdict)
    }

    /// Another's slot was there, and everything up to `head` is folded.
    pub(super) fn lost(&self, world: &World, offer: Offer, winner: Id, head: Sequence) -> Next<World> {
        let verdict = match offer.what {
            Offered::Transaction => Verdict::Lost(head),
            Offered::Filler if winner == offer.transaction() => Verdict::Landed,
            Offered::Filler => Verdict::Never,
        };
        self.conclude(world, offer, verdict)
    }

    /// `outcome` answers from the slot.
    pub(super) fn by_slot(&self, world: &World, offer: Offer, slot: Id, when: WhenAsked) -> Next<World> {
        if slot == offer.transaction() {
            return self.conclude(world, offer, Verdict::Landed);
        }
        if slot != Id::ABSENT {
            return self.conclude(world, offer, Verdict::Never);
        }
        match when {
            WhenAsked::Decided => Err(Violation::FalseOpen),
            WhenAsked::Undecided => {
                let mut next = *world;
                next.committers[offer.who].phase = Phase::Open { at: offer.at };
                Ok(next)
            }
        }
    }

    fn contradicted(&self, world: &World, offer: Offer, verdict: Verdict) -> Option<Violation> {
        let truth = world.truth(offer.at);
        let ours = truth == offer.transaction();
        let anothers = truth != Id::ABSENT && !ours;
        let unasserted = self.bounds.verdicts == Verdicts::EndToEnd;
        let (holds, violation) = match verdict {
            Verdict::Won => (ours, Violation::FalseWin),
            Verdict::Landed => (ours, Violation::FalseLanded),
            Verdict::Never => (anothers, Violation::FalseNever),
            Verdict::Lost(_) => (anothers || unasserted, Violation::FalseLoss),
            Verdict::Behind => (anothers || unasserted, Violation::FalseBehind),
        };
        (!holds).then_some(violation)
    }

    pub(super) fn conclude(&self, world: &World, offer: Offer, verdict: Verdict) -> Next<World> {
        if let Some(violation) = self.contradicted(world, offer, verdict) {
            return Err(violation);
        }
        let mut next = *world;
        let again = match self.bounds.again {
            Again::Stops => Phase::Done,
            Again::StartsAnother => Phase::Ready,
        };
        next.release(Id::filler(offer.who));
        let committer = &mut next.committers[offer.who];
        committer.prepared = Prepared::AtHead;
        match verdict {
            Verdict::Won => {
                committer.phase = again;
                committer.head = committer.head.max(offer.at);
            }
            Verdict::Landed => committer.phase = again,
            Verdict::Never => committer.phase = Phase::Ready,
            Verdict::Behind => {
                committer.phase = Phase::Ready;
                committer.head = committer.head.max(world.floor);
            }
            Verdict::Lost(head) => {
                committer.phase = Phase::Ready;
                committer.head = head;
                if self.design.after_loss == AfterLoss::OfferedAsItIs {
                    committer.prepared = Prepared::BeforeALoss;
                }
            }
        }
        match verdict {
            Verdict::Won | Verdict::Landed => next.release(Id::transaction(offer.who)),
            Verdict::Lost(_) | Verdict::Behind | Verdict::Never => {}
        }
        Ok(next)
    }
}
