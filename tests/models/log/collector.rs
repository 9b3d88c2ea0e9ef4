//! A collector, request by request: reads the page, puts the ledger, reads it back, sends the deletes.

use super::world::{Collector, Id, LedgerInAir, Page, World};
use super::{Actor, Log, Moves, Step};
use crate::design::{DeleteOrder, RetireWhen};
use crate::explore::Next;

fn enter(world: &World, who: usize, collector: Collector) -> World {
    let mut next = *world;
    next.collectors[who] = collector;
    next
}

impl Log {
    pub(super) fn collector_steps(&self, world: &World, who: usize, out: &mut Vec<(Step, Next<World>)>) {
        let moves = &mut Moves { out, actor: Actor::Collector(who) };
        let collector = world.collectors[who];
        match collector {
            Collector::Idle => self.start_collecting(world, who, moves),
            Collector::Reading { page, seen } => self.read_page(world, who, page, seen, moves),
            Collector::Sent { page, seen } => self.ledger_answered(world, who, page, seen, moves),
            Collector::ReadingBack { page, seen } => {
                let next = if world.has_ledger(page) {
                    enter(world, who, Collector::Deleting { page })
                } else {
                    sent(world, who, page, seen)
                };
                moves.step("reads back the ledger of page", page.0, next);
            }
            Collector::Deleting { page } => {
                let mut next = enter(world, who, Collector::Idle);
                next.deletes |= page.slots().iter().fold(0, |bits, at| bits | at.bit());
                moves.step("sends the deletes of page", page.0, next);
            }
        }
        if collector != Collector::Idle {
            moves.fault("crashes at", 0, enter(world, who, Collector::Idle));
        }
    }

    fn start_collecting(&self, world: &World, who: usize, moves: &mut Moves<'_>) {
        for page in self.pages().filter(|page| self.may_retire(world, *page)) {
            let seen = page.slots().map(|_| Id::UNREAD);
            let next = if world.has_ledger(page) { Collector::Deleting { page } } else { Collector::Reading { page, seen } };
            moves.step("looks for the ledger of page", page.0, enter(world, who, next));
        }
    }

    fn read_page(&self, world: &World, who: usize, page: Page, seen: [Id; 2], moves: &mut Moves<'_>) {
        for (index, at) in page.slots().into_iter().enumerate() {
            if seen[index] == Id::UNREAD {
                let mut seen = seen;
                seen[index] = world.slot(at);
                moves.step("reads slot", at.0, enter(world, who, Collector::Reading { page, seen }));
            }
        }
        if seen.contains(&Id::UNREAD) {
            return;
        }
        // The last slot names the genuine one below it.
        let whole = !seen.contains(&Id::ABSENT) && seen[0] == world.truth(page.first());
        if !whole && self.design.retire_when == RetireWhen::LastSlotCovered {
            return moves.step("finds the page not whole, page", page.0, enter(world, who, Collector::Idle));
        }
        if self.design.delete_order == DeleteOrder::DeletesFirst {
            return moves.step("goes to the deletes of page", page.0, enter(world, who, Collector::Deleting { page }));
        }
        moves.step("sends the ledger of page", page.0, sent(world, who, page, seen));
    }

    fn ledger_answered(&self, world: &World, who: usize, page: Page, seen: [Id; 2], moves: &mut Moves<'_>) {
        let back = Collector::ReadingBack { page, seen };
        let after_exists = match self.design.delete_order {
            DeleteOrder::LedgerUnawaited => {
                let next = enter(world, who, Collector::Deleting { page });
                return moves.step("does not await the ledger of page", page.0, next);
            }
            DeleteOrder::OnAlreadyExists => Collector::Deleting { page },
            DeleteOrder::DeletesFirst | DeleteOrder::LedgerReadBackFirst => back,
        };
        if world.has_ledger(page) {
            moves.step("is answered \"exists\" for the ledger of page", page.0, enter(world, who, after_exists));
        } else {
            let stored = world.store_ledger(LedgerInAir { page, says: seen });
            let next = stored.map(|world| enter(&world, who, back));
            moves.step("is answered \"created\" for the ledger of page", page.0, next);
            let next = enter(world, who, after_exists);
            moves.fault("is answered 409 for the ledger of page", page.0, next);
        }
    }
}

/// One ledger put of a collector is in the air at a time: a later one takes its place.
fn sent(world: &World, who: usize, page: Page, seen: [Id; 2]) -> World {
    let mut next = enter(world, who, Collector::Sent { page, seen });
    next.ledgers_in_air[who] = Some(LedgerInAir { page, says: seen });
    next
}
