//! The tail in memory: the rows of the slots past what the base covers, and the slots themselves. Pure.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use super::range::{KeyRange, ScanOrder};
use crate::envelope::Slot;
use crate::slot::{Sequence, sequence_after};

/// How much of the slots themselves is kept for conflict checks, in bytes of memory, envelopes included. Eight
/// times the tail after which a base is replaced, so that a transaction may live through several bases.
pub const MAX_RECENT_BYTES: usize = 64 << 20;

/// What a slot costs beside its bytes: the envelope, and the places of its rows. Without it a log of tiny slots would be
/// held ten times larger than the bound says.
const SLOT_COST: usize = 512;
const ROW_COST: usize = 128;

/// What a key became.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The slot that wrote it last.
    pub sequence: Sequence,
    /// Its value, `None` when it was deleted.
    pub value: Option<Bytes>,
}

/// The tail in memory, a value: a change makes a new one and the old one stays true.
///
/// - `rows` holds, for every key that a slot above what is covered wrote, what the last of them made of it.
/// - `recent` holds slots that were applied or covered, the newest ones that fit the bound.
#[derive(Clone, Debug)]
pub struct Overlay {
    origin: Sequence,
    rows: OrdMap<Bytes, Entry>,
    row_bytes: usize,
    recent: OrdMap<Sequence, Arc<Slot>>,
    recent_bytes: usize,
    max_recent_bytes: usize,
}

impl Overlay {
    /// No tail, of a log whose first sequence is `origin`.
    pub fn new(origin: Sequence) -> Overlay {
        Overlay::with_bound(origin, MAX_RECENT_BYTES)
    }

    pub(crate) fn with_bound(origin: Sequence, max_recent_bytes: usize) -> Overlay {
        Overlay { origin, rows: OrdMap::new(), row_bytes: 0, recent: OrdMap::new(), recent_bytes: 0, max_recent_bytes }
    }

    /// The log's first sequence.
    pub fn origin(&self) -> Sequence {
        self.origin
    }

    /// The tail with `slot` on top. The caller sees to it that it is the next one.
    #[must_use]
    pub fn apply(&self, slot: &Arc<Slot>) -> Overlay {
        let mut applied = self.remember(slot);
        for write in &slot.envelope().writes {
            let entry = Entry { sequence: slot.sequence(), value: write.value.clone() };
            applied.row_bytes += entry_bytes(&write.key, &entry);
            if let Some(replaced) = applied.rows.insert(write.key.clone(), entry) {
                applied.row_bytes -= entry_bytes(&write.key, &replaced);
            }
        }
        applied
    }

    /// The same rows, with `slot` known for conflict checks: one that the base covers already.
    #[must_use]
    pub fn remember(&self, slot: &Arc<Slot>) -> Overlay {
        let mut remembered = self.clone();
        remembered.recent_bytes += slot_cost(slot);
        if let Some(replaced) = remembered.recent.insert(slot.sequence(), Arc::clone(slot)) {
            remembered.recent_bytes -= slot_cost(&replaced);
        }
        while remembered.recent_bytes > remembered.max_recent_bytes {
            let Some(oldest) = remembered.recent.get_min().map(|(sequence, _)| *sequence) else { break };
            if let Some(forgotten) = remembered.recent.remove(&oldest) {
                remembered.recent_bytes -= slot_cost(&forgotten);
            }
        }
        remembered
    }

    /// The tail without the rows that a base up to `covered` holds. The slots stay for conflict checks.
    #[must_use]
    pub fn trimmed(&self, covered: Option<Sequence>) -> Overlay {
        let kept: OrdMap<Bytes, Entry> = self
            .rows
            .iter()
            .filter(|(_, entry)| Some(entry.sequence) > covered)
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect();
        let row_bytes = kept.iter().map(|(key, entry)| entry_bytes(key, entry)).sum();
        Overlay { rows: kept, row_bytes, ..self.clone() }
    }

    /// What a slot of the tail made of `key`, `None` when none wrote it.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.rows.get(key)
    }

    /// The slots between `head` and `upto`, neither included, oldest first. `None` when one of them is not known any more:
    /// what it wrote is then unknown, which is never the same as nothing.
    pub fn written_since(&self, head: Option<Sequence>, upto: Sequence) -> Option<impl Iterator<Item = &Slot>> {
        let first = sequence_after(head, self.origin);
        let expected = upto.get().saturating_sub(first.get());
        let range = (Bound::Included(first), Bound::Excluded(upto.max(first)));
        let known = self.recent.range::<_, Sequence>(range).count();
        (u64::try_from(known) == Ok(expected)).then(|| self.recent.range::<_, Sequence>(range).map(|(_, slot)| slot.as_ref()))
    }

    /// A slot that is known for conflict checks.
    pub fn slot(&self, sequence: Sequence) -> Option<&Arc<Slot>> {
        self.recent.get(&sequence)
    }

    /// The number of rows, deletes included.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// The bytes of its keys and values.
    pub fn bytes(&self) -> usize {
        self.row_bytes
    }

    /// The memory that slots kept for conflict checks take, in bytes.
    pub fn recent_bytes(&self) -> usize {
        self.recent_bytes
    }

    pub(super) fn layer(&self) -> OrdMap<Bytes, Entry> {
        self.rows.clone()
    }
}

/// The memory that a slot takes while it is kept, in bytes.
pub(crate) fn slot_cost(slot: &Slot) -> usize {
    let writes = slot.envelope().writes.len();
    slot.bytes().len() + slot.row_bytes() + SLOT_COST + ROW_COST * writes
}

fn entry_bytes(key: &Bytes, entry: &Entry) -> usize {
    key.len() + entry.value.as_ref().map_or(0, Bytes::len)
}

/// Rows in memory, sorted by key, that lie over others: what a key became, or that it was deleted.
pub(crate) trait Layer: Send + Sync {
    /// The first row of `range` in `order`, past `last` when there is one.
    fn first(&self, range: &KeyRange, order: ScanOrder, last: Option<&Bytes>) -> Option<(Bytes, Option<Bytes>)>;
}

/// A layer's value: what it says of its key.
pub(crate) trait Says: Clone + Send + Sync {
    fn says(&self) -> Option<Bytes>;
}

impl Says for Entry {
    fn says(&self) -> Option<Bytes> {
        self.value.clone()
    }
}

impl Says for Option<Bytes> {
    fn says(&self) -> Option<Bytes> {
        self.clone()
    }
}

impl<Value: Says> Layer for OrdMap<Bytes, Value> {
    fn first(&self, range: &KeyRange, order: ScanOrder, last: Option<&Bytes>) -> Option<(Bytes, Option<Bytes>)> {
        // Each step is a search by key, so that a layer is a map and a key and borrows from nothing.
        let start = Bound::Included(range.start.as_ref());
        let end = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(end.as_ref()));
        let last = last.map(|last| Bound::Excluded(last.as_ref()));
        let found = match order {
            ScanOrder::Ascending => self.range::<_, [u8]>((last.unwrap_or(start), end)).next(),
            ScanOrder::Descending => self.range::<_, [u8]>((start, last.unwrap_or(end))).next_back(),
        };
        found.map(|(key, value)| (key.clone(), value.says()))
    }
}
