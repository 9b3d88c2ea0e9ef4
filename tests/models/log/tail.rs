//! Reading the slots after a head, and when they are believed.

use super::Log;
use super::world::{BATCH, Batch, Id, Page, Sequence, World};
use crate::design::{BatchCheck, ChainCheck, CorruptionReport, EndRule, HoleRule};
use crate::violation::Violation;

/// What a batch comes to.
pub(super) enum Belief {
    Going(Batch),
    /// The slots up to this one are folded; the head itself if there was nothing.
    Head(Sequence),
    Behind,
    Wrong(Violation),
}

impl Batch {
    pub(super) fn unread(len: u8) -> Self {
        Self { seen: [Id::UNREAD; BATCH], len, checks: 0, direct: 0 }
    }

    /// The slots from the head on that are there without a gap.
    fn run(&self) -> usize {
        self.seen.iter().take_while(|id| id.is_there()).count()
    }

    fn has_hole(&self) -> bool {
        let run = self.run();
        run < BATCH && self.seen[run] == Id::ABSENT && self.seen[run..].iter().any(|id| id.is_there())
    }

    /// Whether a slot is to be read again because one above it was there.
    pub(super) fn awaits_direct_read(&self) -> bool {
        let again = |index: usize| self.direct & (1 << index) != 0;
        (0..BATCH).any(|index| again(index) && self.seen[index] == Id::UNREAD)
    }

    /// The first slot that the one above does not name as its parent: that one names the genuine one.
    fn break_at(&self, world: &World, head: Sequence) -> Option<Sequence> {
        (1..self.run())
            .map(|slots| head.after(slots as u8))
            .find(|at| self.seen[usize::from(at.0 - head.0) - 1] != world.truth(*at))
    }

    fn fold(&self, world: &World, head: Sequence) -> Belief {
        let last = head.after(self.run() as u8);
        let genuine = (head.0 + 1..=last.0).all(|at| self.seen[usize::from(at - head.0) - 1] == world.truth(Sequence(at)));
        if genuine { Belief::Head(last) } else { Belief::Wrong(Violation::FoldedNotGenuine) }
    }
}

impl Log {
    /// The batch's reads that may come next: any slot not read yet, in any order.
    pub(super) fn reads(&self, head: Sequence, batch: &Batch) -> impl Iterator<Item = usize> + use<> {
        let batch = *batch;
        let last = self.bounds.sequences.saturating_sub(head.0).min(batch.len);
        let before = self.design.batch == BatchCheck::Before;
        // After the last read comes the check, and after the check no read; with the naive order it is the reverse.
        let may_read = if before { batch.checks == 1 } else { batch.checks == 0 };
        (0..usize::from(last)).filter(move |index| may_read && batch.seen[*index] == Id::UNREAD)
    }

    pub(super) fn read(world: &World, head: Sequence, batch: &Batch, index: usize) -> Batch {
        let mut read = *batch;
        read.seen[index] = world.slot(head.after(index as u8 + 1));
        read
    }

    /// The process's next check of its batch, if there is one to make: it ends the reading.
    pub(super) fn believe(&self, world: &World, head: Sequence, batch: &Batch) -> Option<Belief> {
        let first = head.after(1).page();
        if self.design.batch == BatchCheck::Before && batch.checks == 0 {
            return Some(self.go_on(world, first, batch));
        }
        if batch.seen[0] == Id::UNREAD || batch.awaits_direct_read() {
            return None;
        }
        if self.design.end == EndRule::AbsentSlot && batch.seen[0] == Id::ABSENT && !batch.has_hole() {
            return Some(Belief::Head(head));
        }
        let hole_reported = self.design.hole == HoleRule::ReportedAtOnce && batch.has_hole();
        let break_reported = self.design.corruption == CorruptionReport::BeforeLedger
            && self.design.chain == ChainCheck::On
            && batch.break_at(world, head).is_some();
        if hole_reported || break_reported {
            return Some(Belief::Wrong(Violation::FalseCorruption));
        }
        let last = head.after(batch.run().max(1) as u8).page();
        let asked = match self.design.batch {
            BatchCheck::None | BatchCheck::Before => return Some(self.settle(world, head, batch)),
            BatchCheck::LowestPageAfter => first,
            BatchCheck::LastPage => last,
            BatchCheck::EveryPage if batch.checks == 0 && last != first => {
                return Some(self.go_on(world, first, batch));
            }
            BatchCheck::EveryPage => last,
        };
        if world.has_ledger(asked) {
            return Some(Belief::Behind);
        }
        Some(self.settle(world, head, batch))
    }

    fn go_on(&self, world: &World, page: Page, batch: &Batch) -> Belief {
        if world.has_ledger(page) {
            return Belief::Behind;
        }
        Belief::Going(Batch { checks: batch.checks + 1, ..*batch })
    }

    /// No ledger speaks against the batch: holes and the chain, then the fold.
    pub(super) fn settle(&self, world: &World, head: Sequence, batch: &Batch) -> Belief {
        let damaged = |at: Sequence| {
            if world.has_ledger(at.page()) { Belief::Behind } else { Belief::Wrong(Violation::FalseCorruption) }
        };
        if self.design.chain == ChainCheck::On
            && let Some(at) = batch.break_at(world, head)
        {
            return damaged(at);
        }
        if batch.has_hole() {
            let index = batch.run();
            let at = head.after(index as u8 + 1);
            let bit = 1 << index;
            if batch.direct & bit != 0 {
                return damaged(at);
            }
            let mut again = Batch { checks: 0, direct: batch.direct | bit, ..*batch };
            again.seen[index] = Id::UNREAD;
            if self.design.batch == BatchCheck::Before {
                again.checks = 1;
            }
            return Belief::Going(again);
        }
        batch.fold(world, head)
    }
}
