//! What happens without the processes of the model: the other committer, the holder's floor, what is in the air,
//! and collectors where they are abstract.

use super::bounds::{Collecting, FloorMoves, Zombies};
use super::world::{Fence, Id, LedgerInAir, PAGE, Page, Prepared, Sequence, World};
use super::{Actor, Log, Moves, Step};
use crate::design::{HolderCheck, RetireOrder, RetireWhen};
use crate::explore::Next;
use crate::violation::Violation;

impl Log {
    pub(super) fn server_steps(&self, world: &World, out: &mut Vec<(Step, Next<World>)>) {
        self.other_commits(world, &mut Moves { out, actor: Actor::Other });
        self.holder_steps(world, &mut Moves { out, actor: Actor::Holder });
        let mut moves = Moves { out, actor: Actor::Bucket };
        self.late_puts(world, &mut moves);
        self.dead_puts(world, &mut moves);
        match self.bounds.collecting {
            Collecting::Abstract => self.abstract_collection(world, &mut moves),
            Collecting::Explicit(_) => late_collection(world, &mut moves),
        }
    }

    pub(super) fn sequences(&self) -> impl Iterator<Item = Sequence> + use<> {
        (1..=self.bounds.sequences).map(Sequence)
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = Page> + use<> {
        (0..self.bounds.sequences / PAGE).map(Page)
    }

    fn other_commits(&self, world: &World, moves: &mut Moves<'_>) {
        let at = world.true_head().after(1);
        if at.0 <= self.bounds.sequences {
            moves.step("lands B at", at.0, world.land(Id::OTHER, at));
        }
    }

    fn holder_steps(&self, world: &World, moves: &mut Moves<'_>) {
        let slots = match self.bounds.floor {
            FloorMoves::BySlot => 1,
            FloorMoves::ByPage => PAGE,
        };
        let floor = world.floor.after(slots);
        if floor <= world.true_head() && self.may_fold_to(world, floor) {
            moves.step("folds and flushes, floor", floor.0, World { floor, ..*world });
        }
        match self.design.holder {
            HolderCheck::AsEveryone | HolderCheck::SoleRetirer => {}
            HolderCheck::BelievesUnfenced | HolderCheck::FenceBeforePut | HolderCheck::FenceAfterPut => {
                if world.fence == Fence::Holding {
                    let next = World { fence: Fence::Fenced, ..*world };
                    moves.step("is fenced by another process, unheard, at", world.floor.0, next);
                }
            }
        }
    }

    /// While P holds the store, nothing is folded that P has not applied.
    fn may_fold_to(&self, world: &World, floor: Sequence) -> bool {
        match self.design.holder {
            HolderCheck::AsEveryone => true,
            HolderCheck::SoleRetirer
            | HolderCheck::BelievesUnfenced
            | HolderCheck::FenceBeforePut
            | HolderCheck::FenceAfterPut => world.fence == Fence::Fenced || floor <= world.committers[0].head,
        }
    }

    fn late_puts(&self, world: &World, moves: &mut Moves<'_>) {
        for who in 0..self.bounds.committers {
            for id in [Id::transaction(who), Id::filler(who)] {
                for at in self.sequences() {
                    if world.was_sent(id, at) && !world.slot(at).is_there() {
                        moves.fault("a put in the air takes effect at", at.0, put(world, id, at, who));
                    }
                }
            }
        }
    }

    fn dead_puts(&self, world: &World, moves: &mut Moves<'_>) {
        for at in self.sequences() {
            if world.slot(at).is_there() {
                continue;
            }
            let possible = match self.bounds.zombies {
                Zombies::SentOnly => world.dead & at.bit() != 0,
                Zombies::AnyDeadOffer => world.has_ledger(at.page()),
            };
            if possible {
                moves.fault("a dead offer's put takes effect at", at.0, world.land(Id::DEAD, at));
            }
        }
    }

    /// Whether a page may be retired as far as the floor and the pages below go.
    pub(super) fn may_retire(&self, world: &World, page: Page) -> bool {
        let covered = match self.design.retire_when {
            RetireWhen::FirstSlotCovered => page.first(),
            RetireWhen::LastSlotCovered => page.last(),
        };
        let in_order = match self.design.retire_order {
            RetireOrder::Any => true,
            RetireOrder::Ascending => page.0 == 0 || world.has_ledger(Page(page.0 - 1)),
        };
        covered <= world.floor && in_order
    }

    fn abstract_collection(&self, world: &World, moves: &mut Moves<'_>) {
        for page in self.pages() {
            if !world.has_ledger(page) && self.may_retire(world, page) {
                let says = page.slots().map(|at| world.truth(at));
                let next = world.store_ledger(LedgerInAir { page, says });
                moves.step("a collector puts the ledger of page", page.0, next);
            }
            for at in page.slots() {
                if world.has_ledger(page) && world.slot(at).is_there() {
                    moves.step("a collector deletes slot", at.0, world.delete(at));
                }
            }
        }
    }
}

/// A put of one of `who`'s ids takes effect.
pub(super) fn put(world: &World, id: Id, at: Sequence, who: usize) -> Next<World> {
    let next = world.land(id, at)?;
    let became_genuine = !world.decided(at) && next.truth(at) == id;
    if became_genuine && world.committers[who].prepared == Prepared::BeforeALoss {
        return Err(Violation::StaleHead);
    }
    Ok(next)
}

fn late_collection(world: &World, moves: &mut Moves<'_>) {
    for at in (1..=world.slots.len() as u8).map(Sequence) {
        if world.deletes & at.bit() != 0 && world.slot(at).is_there() {
            moves.step("a delete in the air takes effect on slot", at.0, world.delete(at));
        }
    }
    for put in world.ledgers_in_air.iter().flatten() {
        if !world.has_ledger(put.page) {
            let next = world.store_ledger(*put);
            moves.step("a ledger put in the air takes effect, page", put.page.0, next);
        }
    }
}
