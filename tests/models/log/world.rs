//! One whole state of the log: what the bucket holds, what is in the air, what each process knows.

use crate::explore::Next;
use crate::violation::Violation;

/// Most sequences of a world: three pages.
pub(super) const SEQUENCES: usize = 6;
/// Sequences of a page.
pub(super) const PAGE: u8 = 2;
/// Most slots of a batch: a batch that spans two pages.
pub(super) const BATCH: usize = 3;
const COMMITTERS: usize = 3;
const COLLECTORS: usize = 2;

/// What a slot holds, or what was seen of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Id(pub(super) u8);

impl Id {
    pub(super) const ABSENT: Self = Self(0);
    /// Genuine, and nobody in the model waits for it.
    pub(super) const OTHER: Self = Self(1);
    /// Not genuine, and nobody in the model waits for it.
    pub(super) const DEAD: Self = Self(2);
    pub(super) const UNREAD: Self = Self(255);

    pub(super) fn transaction(committer: usize) -> Self {
        Self(3 + 2 * committer as u8)
    }

    pub(super) fn filler(committer: usize) -> Self {
        Self(4 + 2 * committer as u8)
    }

    pub(super) fn is_there(self) -> bool {
        self != Self::ABSENT && self != Self::UNREAD
    }

    fn place(self) -> usize {
        usize::from(self.0 - 3)
    }

    fn name(self) -> &'static str {
        ["-", "B", "G", "P", "Pf", "Q", "Qf", "R", "Rf"][usize::from(self.0)]
    }
}

/// A sequence, from 1; 0 is the head of an empty log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sequence(pub(super) u8);

impl Sequence {
    pub(super) fn index(self) -> usize {
        usize::from(self.0) - 1
    }

    pub(super) fn after(self, slots: u8) -> Self {
        Self(self.0 + slots)
    }

    pub(super) fn below(self) -> Self {
        Self(self.0 - 1)
    }

    pub(super) fn page(self) -> Page {
        Page((self.0 - 1) / PAGE)
    }

    pub(super) fn bit(self) -> u8 {
        1 << self.index()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Page(pub(super) u8);

impl Page {
    pub(super) fn first(self) -> Sequence {
        Sequence(self.0 * PAGE + 1)
    }

    pub(super) fn last(self) -> Sequence {
        Sequence((self.0 + 1) * PAGE)
    }

    pub(super) fn slots(self) -> [Sequence; PAGE as usize] {
        [self.first(), self.last()]
    }
}

/// Slots read after a head, and what was asked of ledgers meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    pub(super) seen: [Id; BATCH],
    pub(super) len: u8,
    /// Ledgers read so far.
    pub(super) checks: u8,
    /// Slots read again because one above them was there.
    pub(super) direct: u8,
}

/// What an offer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Offered {
    Transaction,
    Filler,
}

/// Whether a sequence was decided when `outcome` was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WhenAsked {
    Undecided,
    Decided,
}

/// Where a committer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Ready,
    /// A check before the put.
    Checking {
        at: Sequence,
    },
    /// The put is sent, or will be sent again.
    Waiting {
        at: Sequence,
        what: Offered,
    },
    /// Answered "created".
    Created {
        at: Sequence,
        what: Offered,
    },
    /// Answered otherwise: the slot is to be read.
    Doubtful {
        at: Sequence,
        what: Offered,
    },
    /// The ledger was read before the slot, and was absent.
    Forejudged {
        at: Sequence,
        what: Offered,
    },
    /// The slot was read, the ledger was not.
    Judging {
        at: Sequence,
        what: Offered,
        batch: Batch,
    },
    Tail {
        batch: Batch,
    },
    /// Only id and sequence are known.
    Unknown {
        at: Sequence,
    },
    /// `outcome` is reading; `slot` or the ledger was read first.
    Asked {
        at: Sequence,
        when: WhenAsked,
        slot: Id,
    },
    Open {
        at: Sequence,
    },
    Done,
}

/// Which head the next offer is prepared against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Prepared {
    AtHead,
    BeforeALoss,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Committer {
    pub(super) phase: Phase,
    pub(super) head: Sequence,
    pub(super) prepared: Prepared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReaderPhase {
    Idle,
    /// The names before `next` were listed.
    Listing {
        next: Sequence,
        names: u8,
    },
    Reading {
        batch: Batch,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reader {
    pub(super) head: Sequence,
    pub(super) phase: ReaderPhase,
}

type PageSlots = [Id; PAGE as usize];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Collector {
    Idle,
    Reading {
        page: Page,
        seen: PageSlots,
    },
    /// The ledger is sent and not answered.
    Sent {
        page: Page,
        seen: PageSlots,
    },
    ReadingBack {
        page: Page,
        seen: PageSlots,
    },
    Deleting {
        page: Page,
    },
}

/// A ledger put that may take effect at any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LedgerInAir {
    pub(super) page: Page,
    pub(super) says: PageSlots,
}

/// Whether the holder is still the one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fence {
    Holding,
    Fenced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(super) slots: [Id; SEQUENCES],
    /// The first content of each sequence, for ever.
    pub(super) genuine: [Id; SEQUENCES],
    /// What a page's ledger says of each sequence.
    pub(super) ledgers: [Id; SEQUENCES],
    pub(super) floor: Sequence,
    /// For each id, the sequences at which it was put.
    pub(super) sent: [u8; 2 * COMMITTERS],
    /// Sequences at which an id was put whose owner has its verdict.
    pub(super) dead: u8,
    pub(super) deletes: u8,
    pub(super) ledgers_in_air: [Option<LedgerInAir>; COLLECTORS],
    pub(super) committers: [Committer; COMMITTERS],
    pub(super) reader: Reader,
    pub(super) collectors: [Collector; COLLECTORS],
    pub(super) fence: Fence,
}

impl World {
    pub(super) fn empty() -> Self {
        let start = Sequence(0);
        Self {
            slots: [Id::ABSENT; SEQUENCES],
            genuine: [Id::ABSENT; SEQUENCES],
            ledgers: [Id::ABSENT; SEQUENCES],
            floor: start,
            sent: [0; 2 * COMMITTERS],
            dead: 0,
            deletes: 0,
            ledgers_in_air: [None; COLLECTORS],
            committers: [Committer { phase: Phase::Ready, head: start, prepared: Prepared::AtHead }; COMMITTERS],
            reader: Reader { head: start, phase: ReaderPhase::Idle },
            collectors: [Collector::Idle; COLLECTORS],
            fence: Fence::Holding,
        }
    }

    pub(super) fn slot(&self, at: Sequence) -> Id {
        self.slots[at.index()]
    }

    pub(super) fn truth(&self, at: Sequence) -> Id {
        self.genuine[at.index()]
    }

    pub(super) fn decided(&self, at: Sequence) -> bool {
        self.truth(at) != Id::ABSENT
    }

    pub(super) fn has_ledger(&self, page: Page) -> bool {
        page.slots().iter().any(|at| self.ledgers[at.index()] != Id::ABSENT)
    }

    /// What the ledger of its page says of `at`, if that ledger is there.
    pub(super) fn ledger(&self, at: Sequence) -> Option<Id> {
        self.has_ledger(at.page()).then_some(self.ledgers[at.index()])
    }

    /// The last genuine slot.
    pub(super) fn true_head(&self) -> Sequence {
        let filled = self.genuine.iter().take_while(|id| **id != Id::ABSENT).count();
        Sequence(filled as u8)
    }

    pub(super) fn send(&mut self, id: Id, at: Sequence) {
        self.sent[id.place()] |= at.bit();
    }

    pub(super) fn was_sent(&self, id: Id, at: Sequence) -> bool {
        self.sent[id.place()] & at.bit() != 0
    }

    /// A put of `id` takes effect at `at`, if the name is free.
    pub(super) fn land(mut self, id: Id, at: Sequence) -> Next<Self> {
        if self.slot(at).is_there() {
            return Ok(self);
        }
        self.slots[at.index()] = id;
        if self.decided(at) {
            let forgotten = self.has_ledger(at.page());
            let same = self.truth(at) == id;
            return if forgotten || same { Ok(self) } else { Err(Violation::TwoContents) };
        }
        if at > self.true_head().after(1) {
            return Err(Violation::Hole);
        }
        let again = id != Id::OTHER && self.genuine.contains(&id);
        self.genuine[at.index()] = id;
        if again { Err(Violation::DoubleCommit) } else { Ok(self) }
    }

    pub(super) fn store_ledger(mut self, put: LedgerInAir) -> Next<Self> {
        if self.has_ledger(put.page) {
            return Ok(self);
        }
        for (at, id) in put.page.slots().into_iter().zip(put.says) {
            self.ledgers[at.index()] = id;
            if self.truth(at) != id || id == Id::ABSENT {
                return Err(Violation::LedgerDiffers);
            }
        }
        Ok(self)
    }

    pub(super) fn delete(mut self, at: Sequence) -> Next<Self> {
        if at > self.floor && self.slot(at) == self.truth(at) {
            return Err(Violation::UnfoldedSlotDeleted);
        }
        self.slots[at.index()] = Id::ABSENT;
        Ok(self)
    }

    /// Nobody waits for `id` any more: keep what it means, forget whose it was.
    pub(super) fn release(&mut self, id: Id) {
        let genuine = self.genuine;
        let settle = |known: &mut Id, index: usize| {
            if *known == id {
                *known = if genuine[index] == id { Id::OTHER } else { Id::DEAD };
            }
        };
        for index in 0..SEQUENCES {
            settle(&mut self.slots[index], index);
            settle(&mut self.ledgers[index], index);
        }
        for committer in &mut self.committers {
            let (from, batch) = match &mut committer.phase {
                Phase::Tail { batch } => (committer.head, batch),
                Phase::Judging { at, batch, .. } => (at.below(), batch),
                Phase::Asked { at, slot, .. } => {
                    settle(slot, at.index());
                    continue;
                }
                Phase::Ready
                | Phase::Checking { .. }
                | Phase::Waiting { .. }
                | Phase::Created { .. }
                | Phase::Doubtful { .. }
                | Phase::Forejudged { .. }
                | Phase::Unknown { .. }
                | Phase::Open { .. }
                | Phase::Done => continue,
            };
            batch.settle(from, settle);
        }
        if let ReaderPhase::Reading { batch } = &mut self.reader.phase {
            batch.settle(self.reader.head, settle);
        }
        self.release_in_collectors(settle);
        for index in 0..SEQUENCES {
            settle(&mut self.genuine[index], index);
        }
        self.dead |= std::mem::take(&mut self.sent[id.place()]);
    }

    fn release_in_collectors(&mut self, settle: impl Fn(&mut Id, usize)) {
        let in_page = |page: Page, seen: &mut PageSlots| {
            for (at, id) in page.slots().into_iter().zip(seen) {
                settle(id, at.index());
            }
        };
        for collector in &mut self.collectors {
            match collector {
                Collector::Reading { page, seen } | Collector::Sent { page, seen } | Collector::ReadingBack { page, seen } => {
                    in_page(*page, seen)
                }
                Collector::Idle | Collector::Deleting { .. } => {}
            }
        }
        for put in self.ledgers_in_air.iter_mut().flatten() {
            in_page(put.page, &mut put.says);
        }
    }

    pub(super) fn show(&self, sequences: u8) -> String {
        let row =
            |ids: &[Id]| -> String { ids[..usize::from(sequences)].iter().map(|id| id.name()).collect::<Vec<_>>().join(" ") };
        format!(
            "slots[{}] genuine[{}] ledgers[{}] floor {}",
            row(&self.slots),
            row(&self.genuine),
            row(&self.ledgers),
            self.floor.0
        )
    }
}

impl Batch {
    fn settle(&mut self, head: Sequence, settle: impl Fn(&mut Id, usize)) {
        for (index, id) in self.seen.iter_mut().enumerate() {
            if id.is_there() {
                settle(id, usize::from(head.0) + index);
            }
        }
    }
}
