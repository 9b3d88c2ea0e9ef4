//! What a retired page leaves behind. Pure: encode, decode, build from slots.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::envelope::{MAX_MEMBERS, MAX_VALIDATED_HEAD_BYTES, Slot};
use crate::frame::{Damage, FrameKind, frame, unframe};
use crate::identity::{LogId, OwnId, TransactionId};
use crate::slot::{Page, PageSize, Sequence};

/// The most bytes of one commit's `changes_made` that a ledger remembers. What is longer is forgotten with its slot.
pub const MAX_REMEMBERED_CHANGES_BYTES: usize = 256;

/// What a ledger remembers of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The slot's own id: what names the parent of the slot after it.
    pub own_id: OwnId,
    /// The transactions it carried.
    pub members: Vec<TransactionId>,
    /// The head they were validated against.
    pub validated_head: Bytes,
    /// What they changed. `None` when it was longer than [`MAX_REMEMBERED_CHANGES_BYTES`].
    pub changes_made: Option<Bytes>,
}

/// What a retired page leaves behind, for ever: who won each of its sequences.
///
/// - It is written before the first slot of its page is deleted, and never deleted itself.
/// - It decides alone. A slot found under a name of its page is a zombie, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    log: LogId,
    page: Page,
    first: Sequence,
    last_stamp: u64,
    entries: Vec<LedgerEntry>,
}

/// Why a page cannot be sealed into a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSealable {
    /// Not just the slots of one page, in order.
    #[error("the slots are not those of {page:?}")]
    OtherSlots {
        /// The page.
        page: Page,
    },
    /// A slot that does not follow the one before it.
    #[error("slot {sequence} does not follow slot {} before it", sequence.get() - 1)]
    BrokenChain {
        /// The slot.
        sequence: Sequence,
    },
}

impl Ledger {
    /// Seals a whole page. The caller knows that its first slot is genuine; the chain vouches for the others.
    ///
    /// # Errors
    ///
    /// When the slots are not those of `page`, in order, each the child of the one before.
    pub fn seal(log: LogId, page: Page, size: PageSize, slots: &[Arc<Slot>]) -> Result<Ledger, NotSealable> {
        let other_slots = NotSealable::OtherSlots { page };
        let (first, last) = size.sequences(page).ok_or(other_slots)?.into_inner();
        let in_order = slots.iter().map(|slot| slot.sequence()).eq(crate::slot::run(first, last));
        let (true, Some(last_slot)) = (in_order, slots.last()) else {
            return Err(other_slots);
        };
        for pair in slots.windows(2) {
            if pair[1].envelope().parent != pair[0].own_id() {
                return Err(NotSealable::BrokenChain { sequence: pair[1].sequence() });
            }
        }
        let entries = slots.iter().map(|slot| LedgerEntry::of(slot)).collect();
        Ok(Ledger { log, page, first, last_stamp: last_slot.envelope().stamp, entries })
    }

    /// The page it remembers.
    pub fn page(&self) -> Page {
        self.page
    }

    /// The stamp of the page's last slot, in ms.
    pub fn last_stamp(&self) -> u64 {
        self.last_stamp
    }

    /// What it remembers of one sequence. `None` for a sequence that was never won.
    pub fn entry(&self, sequence: Sequence) -> Option<&LedgerEntry> {
        let at = sequence.get().checked_sub(self.first.get())?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let Ledger { log, page, first, last_stamp, entries } = self;
        let body = LedgerBody {
            log: Bytes::copy_from_slice(log.as_bytes()),
            page: page.get(),
            first: first.get(),
            last_stamp: *last_stamp,
            entries: entries.iter().map(EntryBody::from).collect(),
        };
        frame(FrameKind::Ledger, &Bytes::from(body.encode_to_vec()))
    }

    /// Reads a ledger that was found under the name of `page`.
    ///
    /// # Errors
    ///
    /// Anything that is not the ledger of just that page. Never panics.
    pub fn decode(bytes: &Bytes, log: LogId, page: Page, size: PageSize) -> Result<Ledger, Damage> {
        let body = unframe(FrameKind::Ledger, bytes)?;
        let body = LedgerBody::decode(body).map_err(|_| Damage::Field("the body is no ledger"))?;
        if LogId::from_slice(&body.log) != Some(log) {
            return Err(Damage::Field("the ledger belongs to another log"));
        }
        if body.page != page.get() {
            return Err(Damage::Field("the ledger belongs to another page"));
        }
        let first = size.sequences(page).map(|sequences| *sequences.start());
        let first = first.filter(|first| first.get() == body.first).ok_or(Damage::Field("the ledger begins elsewhere"))?;
        if body.entries.is_empty() || body.entries.len() > size.get() as usize {
            return Err(Damage::Field("the ledger has too few or too many entries"));
        }
        let entries = body.entries.into_iter().map(EntryBody::into_entry).collect::<Result<_, _>>()?;
        Ok(Ledger { log, page, first, last_stamp: body.last_stamp, entries })
    }
}

impl LedgerEntry {
    fn of(slot: &Slot) -> LedgerEntry {
        let envelope = slot.envelope();
        LedgerEntry {
            own_id: slot.own_id(),
            members: envelope.members.clone(),
            validated_head: envelope.validated_head.clone(),
            changes_made: Some(envelope.changes_made.clone()).filter(|changes| changes.len() <= MAX_REMEMBERED_CHANGES_BYTES),
        }
    }
}

/// A ledger on the wire. Field numbers are part of the format.
#[derive(Clone, PartialEq, Message)]
struct LedgerBody {
    #[prost(bytes = "bytes", tag = "1")]
    log: Bytes,
    #[prost(uint64, tag = "2")]
    page: u64,
    #[prost(uint64, tag = "3")]
    first: u64,
    #[prost(uint64, tag = "4")]
    last_stamp: u64,
    #[prost(message, repeated, tag = "5")]
    entries: Vec<EntryBody>,
}

/// An entry on the wire.
#[derive(Clone, PartialEq, Message)]
struct EntryBody {
    #[prost(bytes = "bytes", tag = "1")]
    own_id: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    members: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "3")]
    validated_head: Bytes,
    #[prost(bytes = "bytes", optional, tag = "4")]
    changes_made: Option<Bytes>,
}

impl From<&LedgerEntry> for EntryBody {
    fn from(entry: &LedgerEntry) -> EntryBody {
        let LedgerEntry { own_id, members, validated_head, changes_made } = entry;
        EntryBody {
            own_id: Bytes::copy_from_slice(own_id.as_bytes()),
            members: members.iter().map(|member| Bytes::copy_from_slice(member.as_bytes())).collect(),
            validated_head: validated_head.clone(),
            changes_made: changes_made.clone(),
        }
    }
}

impl EntryBody {
    fn into_entry(self) -> Result<LedgerEntry, Damage> {
        let EntryBody { own_id, members, validated_head, changes_made } = self;
        let out_of_bounds =
            members.is_empty() || members.len() > MAX_MEMBERS || validated_head.len() > MAX_VALIDATED_HEAD_BYTES;
        if out_of_bounds || changes_made.as_ref().is_some_and(|changes| changes.len() > MAX_REMEMBERED_CHANGES_BYTES) {
            return Err(Damage::Field("an entry of the ledger is out of bounds"));
        }
        Ok(LedgerEntry {
            own_id: OwnId::from_slice(&own_id).ok_or(Damage::Field("an own id is not 16 bytes"))?,
            members: members
                .iter()
                .map(|member| TransactionId::from_slice(member).ok_or(Damage::Field("a member is not 16 bytes")))
                .collect::<Result<_, _>>()?,
            validated_head,
            changes_made,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::{Envelope, Rules, SlotKind, Turn, Write, first_parent};

    const LOG: LogId = LogId::from_bytes([1; 16]);

    fn size() -> PageSize {
        PageSize::new(3).unwrap()
    }

    fn slot(number: u64, parent: OwnId) -> Arc<Slot> {
        let rules = Rules { reserved_key: Bytes::from_static(b"\0"), max_slot_bytes: 1 << 20, route: None };
        let envelope = Envelope {
            log: LOG,
            sequence: Sequence::new(number).unwrap(),
            nonce: [7; 16],
            parent,
            kind: SlotKind::Commit,
            validated_head: Bytes::from(number.to_string()),
            changes_made: Bytes::from(vec![b'c'; number as usize * 100]),
            members: vec![TransactionId::from_bytes([number as u8; 16])],
            stamp: number,
            turn: Turn::default(),
            writes: vec![Write::put("key", "value")],
        };
        Arc::new(Slot::seal(envelope, &rules).unwrap())
    }

    fn page() -> Vec<Arc<Slot>> {
        let mut slots = vec![slot(1, first_parent(LOG))];
        for number in 2..=3 {
            slots.push(slot(number, slots[slots.len() - 1].own_id()));
        }
        slots
    }

    fn ledger() -> Ledger {
        Ledger::seal(LOG, Page::new(0), size(), &page()).unwrap()
    }

    #[test]
    fn a_ledger_remembers_every_slot_of_its_page_and_comes_back_whole() {
        let decoded = Ledger::decode(&ledger().encode(), LOG, Page::new(0), size()).unwrap();
        assert_eq!(decoded, ledger());
        assert_eq!(decoded.last_stamp(), 3);
        for slot in page() {
            let entry = decoded.entry(slot.sequence()).unwrap();
            assert_eq!((entry.own_id, &entry.members), (slot.own_id(), &slot.envelope().members));
        }
        assert_eq!(decoded.entry(Sequence::new(4).unwrap()), None);
    }

    #[test]
    fn what_a_commit_changed_is_remembered_up_to_a_bound() {
        let remembered: Vec<_> = ledger().entries.iter().map(|entry| entry.changes_made.as_ref().map(Bytes::len)).collect();
        assert_eq!(remembered, [Some(100), Some(200), None]);
    }

    #[test]
    fn only_a_whole_page_whose_chain_holds_is_sealed() {
        let mut slots = page();
        let other = NotSealable::OtherSlots { page: Page::new(0) };
        assert_eq!(Ledger::seal(LOG, Page::new(0), size(), &slots[..2]), Err(other));
        slots[1] = slot(2, OwnId::from_bytes([9; 16]));
        let broken = NotSealable::BrokenChain { sequence: slots[1].sequence() };
        assert_eq!(Ledger::seal(LOG, Page::new(0), size(), &slots), Err(broken));
        slots.swap(1, 2);
        assert_eq!(Ledger::seal(LOG, Page::new(0), size(), &slots), Err(other));
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_refused() {
        let whole = ledger().encode();
        for length in 0..whole.len() {
            assert!(Ledger::decode(&whole.slice(..length), LOG, Page::new(0), size()).is_err(), "cut at {length}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Ledger::decode(&Bytes::from(flipped), LOG, Page::new(0), size()).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_ledger_under_another_name_or_of_another_log_is_refused() {
        let bytes = ledger().encode();
        assert!(Ledger::decode(&bytes, LOG, Page::new(1), size()).is_err());
        assert!(Ledger::decode(&bytes, LogId::from_bytes([2; 16]), Page::new(0), size()).is_err());
        assert!(Ledger::decode(&bytes, LOG, Page::new(0), PageSize::new(2).unwrap()).is_err());
    }
}
