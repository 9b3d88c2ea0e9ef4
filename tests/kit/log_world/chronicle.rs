//! The log as it truly is, read from the bucket's history: which slots are genuine, which are zombies, which pages are retired.
//!
//! Genuine is the first effective create of a name before its page's ledger exists. Nothing here asks the log's code.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use commit_log::bucket::ObjectName;
use commit_log::envelope::{Slot, SlotKind};
use commit_log::identity::{LogId, OwnId, TransactionId};
use commit_log::ledger::Ledger;
use commit_log::slot::{Page, PageSize, Sequence, run};
use object_store::path::Path;

use super::told::Mark;
use crate::bucket::Process;
use crate::fingerprint::Hash128;
use crate::history::{Effect, History};

/// A slot that landed.
#[derive(Clone, Debug)]
pub struct Landed {
    /// The number of the effect that created it.
    pub effect: usize,
    /// The process that put it.
    pub process: Process,
    /// Its content.
    pub content: Hash128,
    /// The slot.
    pub slot: Arc<Slot>,
}

impl Landed {
    /// Its own id.
    pub fn own_id(&self) -> OwnId {
        self.slot.own_id()
    }
}

/// A ledger that landed.
#[derive(Clone, Debug)]
pub struct Retired {
    /// The number of the effect that created it.
    pub effect: usize,
    /// What it says, `None` when it cannot be read.
    pub ledger: Option<Ledger>,
}

/// A slot's name that was freed.
#[derive(Clone, Copy, Debug)]
pub struct Deleted {
    /// The number of the effect.
    pub effect: usize,
    /// The slot's name.
    pub sequence: Sequence,
}

/// A put of a slot that the bucket accepted.
#[derive(Clone, Debug)]
pub struct SentSlot {
    /// Its place among all puts.
    pub number: usize,
    /// Who sent it.
    pub process: Process,
    /// The name it was sent to.
    pub sequence: Sequence,
    /// The slot.
    pub slot: Arc<Slot>,
}

/// What no honest log does to its objects, whoever was told what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oddity {
    /// A slot's name holds what is no slot of that name.
    Undecodable(Sequence),
    /// A slot's name was created a second time before its page's ledger existed.
    CreatedTwice(Sequence),
    /// An object of the log was replaced.
    Replaced(String),
    /// A ledger was deleted.
    LedgerDeleted(Page),
    /// A slot of another log was put.
    OtherLog(String),
}

/// The true log.
#[derive(Clone, Debug)]
pub struct Chronicle {
    log: LogId,
    page_size: PageSize,
    origin: Sequence,
    slots: String,
    ledgers: String,
    all_slots: String,
    read: Mark,
    genuine: BTreeMap<Sequence, Landed>,
    zombies: Vec<Landed>,
    retired: BTreeMap<Page, Retired>,
    deleted: Vec<Deleted>,
    sent: Vec<SentSlot>,
    oddities: Vec<Oddity>,
}

impl Chronicle {
    /// The log `log` in the folder `root`, from the instant `from` on.
    pub fn new(root: &Path, log: LogId, page_size: PageSize, origin: Sequence, from: Mark) -> Chronicle {
        let folder = |name: ObjectName| format!("{}/", name.folder(root));
        Chronicle {
            log,
            page_size,
            origin,
            slots: folder(ObjectName::Slot(log, origin)),
            ledgers: folder(ObjectName::Ledger(log, Page::new(0))),
            all_slots: format!("{root}/commits/"),
            read: from,
            genuine: BTreeMap::new(),
            zombies: Vec::new(),
            retired: BTreeMap::new(),
            deleted: Vec::new(),
            sent: Vec::new(),
            oddities: Vec::new(),
        }
    }

    /// Reads what happened since the last time.
    pub fn read_on(&mut self, history: &History) {
        for effect in history.since(self.read.effects) {
            self.note_effect(effect);
        }
        for (number, sent) in history.sent().iter().enumerate().skip(self.read.sent) {
            let Some(bytes) = &sent.bytes else { continue };
            match self.sequence_in(&sent.path) {
                Some(sequence) => {
                    if let Ok(slot) = Slot::decode(bytes.clone(), self.log, sequence) {
                        self.sent.push(SentSlot { number, process: sent.process, sequence, slot: Arc::new(slot) });
                    }
                }
                None if sent.path.starts_with(&self.all_slots) => self.oddities.push(Oddity::OtherLog(sent.path.to_string())),
                None => {}
            }
        }
        self.read = Mark { effects: history.effects().len(), sent: history.sent().len() };
    }

    fn sequence_in(&self, path: &str) -> Option<Sequence> {
        path.strip_prefix(&self.slots).and_then(Sequence::from_name)
    }

    fn note_effect(&mut self, effect: &Effect) {
        let ledger_name = effect.path.strip_prefix(&self.ledgers).and_then(|name| name.parse().ok());
        if let Some(sequence) = self.sequence_in(&effect.path) {
            self.note_slot(sequence, effect);
        } else if let Some(page) = ledger_name {
            self.note_ledger(Page::new(page), effect);
        }
    }

    fn note_slot(&mut self, sequence: Sequence, effect: &Effect) {
        if !effect.is_put() {
            self.deleted.push(Deleted { effect: effect.number, sequence });
            return;
        }
        let Some(bytes) = &effect.bytes else {
            self.oddities.push(Oddity::Replaced(effect.path.to_string()));
            return;
        };
        let Ok(slot) = Slot::decode(bytes.clone(), self.log, sequence) else {
            self.oddities.push(Oddity::Undecodable(sequence));
            return;
        };
        let landed = Landed { effect: effect.number, process: effect.process, content: effect.content, slot: Arc::new(slot) };
        if self.retired.contains_key(&self.page_size.page_of(sequence)) {
            self.zombies.push(landed);
        } else if let Entry::Vacant(free) = self.genuine.entry(sequence) {
            free.insert(landed);
        } else {
            self.oddities.push(Oddity::CreatedTwice(sequence));
        }
    }

    fn note_ledger(&mut self, page: Page, effect: &Effect) {
        match (&effect.bytes, effect.is_put()) {
            (_, false) => self.oddities.push(Oddity::LedgerDeleted(page)),
            (None, true) => self.oddities.push(Oddity::Replaced(effect.path.to_string())),
            (Some(bytes), true) => {
                let ledger = Ledger::decode(bytes, self.log, page, self.page_size).ok();
                self.retired.entry(page).or_insert(Retired { effect: effect.number, ledger });
            }
        }
    }

    /// The log's identity.
    pub fn log(&self) -> LogId {
        self.log
    }

    /// Its first sequence.
    pub fn origin(&self) -> Sequence {
        self.origin
    }

    /// The page of a sequence.
    pub fn page_of(&self, sequence: Sequence) -> Page {
        self.page_size.page_of(sequence)
    }

    /// The sequences of a page that are the log's.
    pub fn sequences_of(&self, page: Page) -> impl Iterator<Item = Sequence> {
        let sequences = self.page_size.sequences(page).map(|sequences| run(*sequences.start(), *sequences.end()));
        sequences.into_iter().flatten().filter(|sequence| *sequence >= self.origin)
    }

    /// The genuine slots.
    pub fn genuine(&self) -> &BTreeMap<Sequence, Landed> {
        &self.genuine
    }

    /// The slot that was genuine at `sequence` by `mark`.
    pub fn genuine_by(&self, sequence: Sequence, mark: Mark) -> Option<&Landed> {
        self.genuine.get(&sequence).filter(|landed| landed.effect < mark.effects)
    }

    /// The last genuine slot there was by `mark`.
    pub fn head_by(&self, mark: Mark) -> Option<Sequence> {
        let landed_by = self.genuine.iter().rev().find(|(_, landed)| landed.effect < mark.effects);
        landed_by.map(|(sequence, _)| *sequence)
    }

    /// The last genuine slot.
    pub fn head(&self) -> Option<Sequence> {
        self.genuine.last_key_value().map(|(sequence, _)| *sequence)
    }

    /// The slots that were created again in retired pages.
    pub fn zombies(&self) -> &[Landed] {
        &self.zombies
    }

    /// How many zombies were deleted.
    pub fn swept(&self) -> usize {
        let gone = |zombie: &Landed| {
            let mut deleted = self.deleted.iter();
            deleted.any(|deleted| deleted.sequence == zombie.slot.sequence() && deleted.effect > zombie.effect)
        };
        self.zombies.iter().filter(|zombie| gone(zombie)).count()
    }

    /// Whether a page has a ledger, and slots that were never deleted.
    pub fn is_amid_a_page(&self) -> bool {
        let deleted: BTreeSet<_> = self.deleted.iter().map(|deleted| deleted.sequence).collect();
        self.retired.keys().any(|page| self.sequences_of(*page).any(|sequence| !deleted.contains(&sequence)))
    }

    /// The retired pages.
    pub fn retired(&self) -> &BTreeMap<Page, Retired> {
        &self.retired
    }

    /// Whether `page` had a ledger by `mark`.
    pub fn was_retired_by(&self, page: Page, mark: Mark) -> bool {
        self.retired.get(&page).is_some_and(|retired| retired.effect < mark.effects)
    }

    /// Every delete of a slot, in order.
    pub fn deleted(&self) -> &[Deleted] {
        &self.deleted
    }

    /// Every put of a slot, in order.
    pub fn sent(&self) -> &[SentSlot] {
        &self.sent
    }

    /// What no honest log does.
    pub fn oddities(&self) -> &[Oddity] {
        &self.oddities
    }

    /// How many genuine slots carry a transaction.
    pub fn commits(&self) -> usize {
        self.genuine.values().filter(|landed| landed.slot.envelope().kind == SlotKind::Commit).count()
    }

    /// Where a transaction is genuine.
    pub fn places_of(&self) -> BTreeMap<TransactionId, Vec<Sequence>> {
        let mut places: BTreeMap<TransactionId, Vec<Sequence>> = BTreeMap::new();
        for (sequence, landed) in &self.genuine {
            for member in &landed.slot.envelope().members {
                places.entry(*member).or_default().push(*sequence);
            }
        }
        places
    }
}
