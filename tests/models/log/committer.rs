//! A committer: its offers, its tail, `outcome` and closing after an unknown end.

use super::bounds::Closing;
use super::tail::Belief;
use super::verdict::{Offer, Verdict};
use super::world::{Batch, Fence, Id, Offered, Phase, Prepared, Sequence, WhenAsked, World};
use super::{Actor, Log, Moves, Step};
use crate::design::{
    AbsentRule, AfterUnknown, ExistsRule, FillerCheck, HolderCheck, LossRule, OfferAt, OutcomeOrder, OwnObject, WinCheck,
};
use crate::explore::Next;

fn enter(world: &World, who: usize, phase: Phase) -> World {
    let mut next = *world;
    next.committers[who].phase = phase;
    next
}

fn at_head(world: &World, who: usize, head: Sequence) -> World {
    let mut next = enter(world, who, Phase::Ready);
    next.committers[who].head = head;
    next
}

fn reloaded(world: &World, who: usize) -> World {
    let mut next = at_head(world, who, world.committers[who].head.max(world.floor));
    next.committers[who].prepared = Prepared::AtHead;
    next
}

fn sent(world: &World, offer: Offer) -> World {
    let mut next = enter(world, offer.who, Phase::Waiting { at: offer.at, what: offer.what });
    next.send(offer.id(), offer.at);
    next
}

fn when_asked(world: &World, at: Sequence) -> WhenAsked {
    if world.decided(at) { WhenAsked::Decided } else { WhenAsked::Undecided }
}

impl Log {
    pub(super) fn committer_steps(&self, world: &World, who: usize, out: &mut Vec<(Step, Next<World>)>) {
        let moves = &mut Moves { out, actor: Actor::Committer(who) };
        let transaction = |at| Offer { who, at, what: Offered::Transaction };
        match world.committers[who].phase {
            Phase::Ready => self.ready(world, who, moves),
            Phase::Checking { at } => self.check_before_the_put(world, transaction(at), moves),
            Phase::Waiting { at, what } => self.wait(world, Offer { who, at, what }, moves),
            Phase::Created { at, what } => self.win_check(world, Offer { who, at, what }, moves),
            Phase::Doubtful { at, what } => self.doubt(world, Offer { who, at, what }, moves),
            Phase::Forejudged { at, what } => self.forejudged(world, Offer { who, at, what }, moves),
            Phase::Judging { at, what, batch } => {
                self.judge_offer(world, Offer { who, at, what }, batch, moves);
            }
            Phase::Tail { batch } => self.tail(world, who, batch, moves),
            Phase::Unknown { at } => self.ask(world, transaction(at), moves),
            Phase::Asked { at, when, slot } => self.answer(world, transaction(at), when, slot, moves),
            Phase::Open { at } => self.open(world, transaction(at), moves),
            Phase::Done => {}
        }
    }

    fn holder(&self, who: usize) -> HolderCheck {
        if who == 0 { self.design.holder } else { HolderCheck::AsEveryone }
    }

    fn ready(&self, world: &World, who: usize, moves: &mut Moves<'_>) {
        let committer = world.committers[who];
        let at = match self.design.offer_at {
            OfferAt::HeadPlusOne => committer.head.after(1),
            OfferAt::FurtherAhead => committer.head.after(2),
        };
        if at.0 <= self.bounds.sequences {
            let checks = self.design.win_check == WinCheck::BeforePut || self.holder(who) == HolderCheck::FenceBeforePut;
            if checks {
                moves.step("prepares a check before the put at", at.0, enter(world, who, Phase::Checking { at }));
            } else {
                let offer = Offer { who, at, what: Offered::Transaction };
                moves.step("sends its put at", at.0, sent(world, offer));
            }
            let batch = Batch::unread(self.bounds.batch);
            let first = committer.head.0 + 1;
            moves.step("starts to read the slots from", first, enter(world, who, Phase::Tail { batch }));
        }
        if committer.head < world.floor {
            moves.step("loads the store at", world.floor.0, reloaded(world, who));
        }
    }

    fn check_before_the_put(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let passes = sent(world, offer);
        if self.holder(offer.who) == HolderCheck::FenceBeforePut {
            let next = match world.fence {
                Fence::Holding => passes,
                Fence::Fenced => enter(world, offer.who, Phase::Ready),
            };
            return moves.step("looks at its fence before the put at", offer.at.0, next);
        }
        let next = match world.ledger(offer.at) {
            Some(entry) => self.by_ledger(world, offer, entry),
            None => Ok(passes),
        };
        moves.step("reads the ledger before the put at", offer.at.0, next);
    }

    fn wait(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let Offer { who, at, what } = offer;
        let doubt = match self.design.exists {
            ExistsRule::ReadTheSlot => Ok(enter(world, who, Phase::Doubtful { at, what })),
            ExistsRule::Lost => self.lost(world, offer, Id::OTHER, at.below()),
        };
        if world.slot(at).is_there() {
            moves.step("is answered \"exists\" at", at.0, doubt);
        } else {
            let landed = super::server::put(world, offer.id(), at, who);
            let next = landed.and_then(|world| self.answered_created(&world, offer));
            moves.step("is answered \"created\" at", at.0, next);
            moves.fault("is answered 409, which proves nothing, at", at.0, doubt);
        }
        self.deadline(world, offer, moves);
    }

    fn deadline(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let next = enter(world, offer.who, Phase::Unknown { at: offer.at });
        moves.fault("passes its deadline, or crashes, unknown at", offer.at.0, next);
    }

    fn answered_created(&self, world: &World, offer: Offer) -> Next<World> {
        let unchecked = match offer.what {
            Offered::Filler => self.design.filler == FillerCheck::None,
            Offered::Transaction => match self.holder(offer.who) {
                HolderCheck::SoleRetirer | HolderCheck::BelievesUnfenced | HolderCheck::FenceBeforePut => true,
                HolderCheck::AsEveryone | HolderCheck::FenceAfterPut => match self.design.win_check {
                    WinCheck::None | WinCheck::BeforePut => true,
                    WinCheck::AfterPut | WinCheck::PredecessorExists => false,
                },
            },
        };
        if unchecked {
            return self.created(world, offer);
        }
        Ok(enter(world, offer.who, Phase::Created { at: offer.at, what: offer.what }))
    }

    fn win_check(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let by_ledger = || match world.ledger(offer.at) {
            Some(entry) => self.by_ledger(world, offer, entry),
            None => self.created(world, offer),
        };
        let fence_decides = self.holder(offer.who) == HolderCheck::FenceAfterPut
            && world.fence == Fence::Holding
            && offer.what == Offered::Transaction;
        if fence_decides {
            moves.step("is not fenced, after the put at", offer.at.0, self.created(world, offer));
        } else if self.design.win_check == WinCheck::PredecessorExists {
            let below = offer.at.below();
            let there = below.0 == 0 || world.slot(below).is_there();
            let next = if there { self.created(world, offer) } else { by_ledger() };
            moves.step("looks whether the slot below is still there, at", offer.at.0, next);
        } else {
            moves.step("reads the ledger after the put at", offer.at.0, by_ledger());
        }
        self.deadline(world, offer, moves);
    }

    fn doubt(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let Offer { who, at, what } = offer;
        if self.design.loss == LossRule::LedgerThenSlot {
            let next = match world.ledger(at) {
                Some(entry) => self.by_ledger(world, offer, entry),
                None => Ok(enter(world, who, Phase::Forejudged { at, what })),
            };
            moves.step("reads the ledger before slot", at.0, next);
        } else {
            let slot = world.slot(at);
            let next = if self.design.loss == LossRule::SlotAlone && self.is_anothers(offer, slot) {
                self.lost(world, offer, slot, at.below())
            } else {
                let mut batch = Batch::unread(self.bounds.batch);
                batch.seen[0] = slot;
                Ok(enter(world, who, Phase::Judging { at, what, batch }))
            };
            moves.step("reads slot", at.0, next);
        }
        self.deadline(world, offer, moves);
    }

    fn is_anothers(&self, offer: Offer, slot: Id) -> bool {
        let own = self.design.own_object == OwnObject::Recognised && slot == offer.id();
        slot != Id::ABSENT && !own
    }

    /// The slot was read last, and nothing is read after it.
    fn forejudged(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let slot = world.slot(offer.at);
        let next = if slot == Id::ABSENT {
            Ok(sent(world, offer))
        } else if self.is_anothers(offer, slot) {
            self.lost(world, offer, slot, offer.at.below())
        } else {
            self.created(world, offer)
        };
        moves.step("reads slot", offer.at.0, next);
        self.deadline(world, offer, moves);
    }

    fn judge_offer(&self, world: &World, offer: Offer, batch: Batch, moves: &mut Moves<'_>) {
        let Offer { who, at, what } = offer;
        if !batch.awaits_direct_read() {
            moves.step("reads the ledger, after slot", at.0, self.judged(world, offer, batch));
        }
        if what == Offered::Transaction && self.is_anothers(offer, batch.seen[0]) {
            for index in self.reads(at.below(), &batch) {
                let batch = Self::read(world, at.below(), &batch, index);
                let next = enter(world, who, Phase::Judging { at, what, batch });
                moves.step("reads slot", at.0 + index as u8, next);
            }
        }
        self.deadline(world, offer, moves);
    }

    fn judged(&self, world: &World, offer: Offer, batch: Batch) -> Next<World> {
        let Offer { who, at, what } = offer;
        let slot = batch.seen[0];
        if let Some(entry) = world.ledger(at) {
            let unnamed = slot == Id::ABSENT && self.design.absent == AbsentRule::LedgerThereIsBehind;
            if unnamed && what == Offered::Transaction {
                return self.conclude(world, offer, Verdict::Behind);
            }
            return self.by_ledger(world, offer, entry);
        }
        if slot == Id::ABSENT {
            return Ok(sent(world, offer));
        }
        if !self.is_anothers(offer, slot) {
            return self.created(world, offer);
        }
        match self.settle(world, at.below(), &batch) {
            Belief::Going(batch) => Ok(enter(world, who, Phase::Judging { at, what, batch })),
            Belief::Head(head) => self.lost(world, offer, slot, head),
            Belief::Behind => self.lost(world, offer, slot, at.below()),
            Belief::Wrong(violation) => Err(violation),
        }
    }

    fn tail(&self, world: &World, who: usize, batch: Batch, moves: &mut Moves<'_>) {
        let head = world.committers[who].head;
        if let Some(belief) = self.believe(world, head, &batch) {
            let next = match belief {
                Belief::Going(batch) => Ok(enter(world, who, Phase::Tail { batch })),
                Belief::Head(head) => Ok(at_head(world, who, head)),
                Belief::Behind => Ok(reloaded(world, who)),
                Belief::Wrong(violation) => Err(violation),
            };
            moves.step("checks, and believes, its batch from", head.0 + 1, next);
        }
        for index in self.reads(head, &batch) {
            let batch = Self::read(world, head, &batch, index);
            moves.step("reads slot", head.0 + 1 + index as u8, enter(world, who, Phase::Tail { batch }));
        }
    }

    fn ask(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        let Offer { who, at, .. } = offer;
        if self.design.after_unknown == AfterUnknown::ReofferedAtTheNextSequence {
            return moves.step("goes on, and loads the store at", world.floor.0, reloaded(world, who));
        }
        let when = when_asked(world, at);
        if self.design.outcome == OutcomeOrder::LedgerThenSlot {
            let next = match world.ledger(at) {
                Some(entry) => self.recorded(world, offer, entry),
                None => Ok(enter(world, who, Phase::Asked { at, when, slot: Id::UNREAD })),
            };
            return moves.step("asks its outcome: reads the ledger of", at.0, next);
        }
        let slot = world.slot(at);
        let alone = self.design.outcome == OutcomeOrder::LedgerOnlyIfAbsent && slot.is_there();
        let next =
            if alone { self.by_slot(world, offer, slot, when) } else { Ok(enter(world, who, Phase::Asked { at, when, slot })) };
        moves.step("asks its outcome: reads slot", at.0, next);
    }

    fn recorded(&self, world: &World, offer: Offer, entry: Id) -> Next<World> {
        let landed = entry == Id::transaction(offer.who);
        self.conclude(world, offer, if landed { Verdict::Landed } else { Verdict::Never })
    }

    fn answer(&self, world: &World, offer: Offer, when: WhenAsked, slot: Id, moves: &mut Moves<'_>) {
        if slot == Id::UNREAD {
            let next = self.by_slot(world, offer, world.slot(offer.at), when);
            moves.step("outcome: reads slot", offer.at.0, next);
        } else {
            let next = match world.ledger(offer.at) {
                Some(entry) => self.recorded(world, offer, entry),
                None => self.by_slot(world, offer, slot, when),
            };
            moves.step("outcome: reads the ledger of", offer.at.0, next);
        }
        self.deadline(world, offer, moves);
    }

    fn open(&self, world: &World, offer: Offer, moves: &mut Moves<'_>) {
        if self.bounds.closing == Closing::ByFiller {
            let filler = Offer { what: Offered::Filler, ..offer };
            moves.step("closes: sends a filler at", offer.at.0, sent(world, filler));
        }
        moves.step("offers the same again at", offer.at.0, sent(world, offer));
        moves.step("asks again, at", offer.at.0, enter(world, offer.who, Phase::Unknown { at: offer.at }));
    }
}
