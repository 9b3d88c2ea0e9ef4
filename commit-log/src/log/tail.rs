//! The tail: reading on from what is known, believing what was read, and proving where it ends.

use std::sync::Arc;

use futures::future::join_all;

use crate::bucket::{Deadline, Found, ObjectName};
use crate::envelope::Slot;
use crate::error::{Corruption, Unavailable};
use crate::ledger::Ledger;
use crate::slot::{Page, Sequence, run};

use super::SlotLog;
use super::chain::{self, Anchor, Head};
use super::known::held_bytes;
use super::win_check::Free;

/// How many slots are read at once: two hundred at 5 ms each take 26 ms so, and 1.2 s one after another.
pub(super) const READS_AT_ONCE: u32 = 64;

/// How many slots are read at once when a slot was found where none was known.
const READS_AFTER_A_SLOT: u32 = 8;

/// How many slots one call reads at most before it believes them. A longer tail takes several calls.
const MAX_SLOTS_A_CALL: usize = 4096;

/// How many bytes of slots are held at most, beside one round of reads, before they are believed and may be forgotten: as
/// much as a log remembers by default.
const MAX_UNBELIEVED_BYTES: usize = 64 << 20;

/// Whether the end of the log is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// An absent slot counts as the end, and every so often it is proved.
    NowAndThen,
    /// An absent slot is the end only if its page's ledger is absent in a later read.
    Always,
}

/// Why the tail was not read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TailError {
    /// The log was retired past what this process knows: reload from the store.
    #[error("the log was retired past slot {}", after.map_or(0, Sequence::get))]
    Behind {
        /// The last slot that was known.
        after: Option<Sequence>,
    },
    /// What is in the bucket is not what the log put there.
    #[error(transparent)]
    Corrupt(#[from] Corruption),
    /// The bucket failed. Nothing was learnt.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// What a round of reads found.
pub(super) struct Round {
    pub(super) slots: Vec<Arc<Slot>>,
    pub(super) end: RoundEnd,
}

/// Where a round ended.
pub(super) enum RoundEnd {
    /// Every slot of it was there.
    Full,
    /// The slot after those was not there, nor any after it.
    Absent,
    /// A slot was not there, but a later one was: landed between the reads, retired, or lost.
    Gap { missing: Sequence, below: Sequence },
    /// The slot after those is damaged.
    Damaged(Corruption),
}

/// What was read past an anchor, not believed yet.
#[derive(Default)]
struct Unbelieved {
    slots: Vec<Arc<Slot>>,
    bytes: usize,
    /// What would be corruption, if the page's ledger is absent.
    suspicion: Option<Corruption>,
    end_seen: bool,
}

impl Unbelieved {
    fn take(&mut self, slots: Vec<Arc<Slot>>) {
        self.bytes += slots.iter().map(|slot| held_bytes(slot)).sum::<usize>();
        self.slots.extend(slots);
    }

    /// The sequence that was read as absent, if reading got so far. `anchor` is what was read past.
    fn end(&self, anchor: &Anchor) -> Option<Sequence> {
        let next = self.slots.last().map_or(anchor.next(), |slot| slot.sequence().next());
        self.end_seen.then_some(next)
    }

    fn is_full(&self) -> bool {
        self.slots.len() >= MAX_SLOTS_A_CALL || self.bytes >= MAX_UNBELIEVED_BYTES
    }
}

impl SlotLog {
    /// Starts from the store: `covered` is the last slot that the store has folded. Reads everything past it and proves the
    /// end. One LIST, then the slots, up to 64 at once, then one ledger. Also how a process that fell behind goes on.
    ///
    /// # Errors
    ///
    /// *Behind* when the store was folded and the log retired past `covered` meanwhile: look at the store again.
    pub async fn load(&self, covered: Option<Sequence>, deadline: &Deadline) -> Result<(), TailError> {
        let asked = self.moment();
        let record = self.record();
        let covered = covered.filter(|covered| *covered >= record.origin);
        let start = Anchor { log: record.log, origin: record.origin, head: None };
        let first = covered.unwrap_or(record.origin);
        let listed = self.bucket().list_from(ObjectName::Slot(record.log, first), deadline).await?;
        let last = listed.iter().filter_map(|name| Sequence::from_name(name)).max();
        let mut unbelieved = self.read_listed(first, last, deadline).await?;
        // The covered slot anchors the chain; it is believed by the same ledger read as the slots after it.
        let anchor = match (covered, unbelieved.slots.first()) {
            (Some(_), Some(slot)) => Anchor { head: Some(Head::of(slot)), ..start },
            (Some(covered), None) => {
                unbelieved.suspicion.get_or_insert(Corruption::Hole { missing: covered, below: covered.next() });
                start
            }
            (None, _) => start,
        };
        let slots = unbelieved.slots.split_off(usize::from(anchor.head.is_some()).min(unbelieved.slots.len()));
        unbelieved.slots = slots;
        self.believe(&anchor, first, &mut unbelieved, deadline).await?;
        self.inner.known.restart(anchor);
        self.advance(&unbelieved.slots);
        if let Some(sequence) = unbelieved.end(&anchor) {
            self.end_was_proved();
            self.inner.known.note_free(Free { sequence, at: asked });
            return Ok(());
        }
        self.catch_up(Proof::Always, deadline).await
    }

    /// Reads what was committed since, if anything.
    ///
    /// # Errors
    ///
    /// A failed read is an error, never "nothing new".
    pub async fn catch_up(&self, proof: Proof, deadline: &Deadline) -> Result<(), TailError> {
        let mut width = 1;
        loop {
            let asked = self.moment();
            let anchor = self.inner.known.anchor();
            let mut unbelieved = self.read_on(&anchor, width, deadline).await?;
            let found = !unbelieved.slots.is_empty();
            if found || unbelieved.suspicion.is_some() || proof == Proof::Always || self.proof_is_due() {
                self.believe(&anchor, anchor.next(), &mut unbelieved, deadline).await?;
                self.end_was_proved();
                if let Some(sequence) = unbelieved.end(&anchor) {
                    self.inner.known.note_free(Free { sequence, at: asked });
                }
            }
            self.advance(&unbelieved.slots);
            if unbelieved.end_seen {
                return Ok(());
            }
            width = READS_AT_ONCE;
        }
    }

    /// The slots from `first` on, up to `last` or until they have `max_bytes`, at least one. From memory, or read again.
    ///
    /// # Errors
    ///
    /// *Behind* when they were retired meanwhile. A slot that is not there is corruption: the caller knows that it was.
    pub async fn slots(
        &self,
        first: Sequence,
        last: Sequence,
        max_bytes: usize,
        deadline: &Deadline,
    ) -> Result<Vec<Arc<Slot>>, TailError> {
        // What lies past the known head is read, not taken for absent: the caller knows of it from elsewhere.
        if self.head() >= Some(last)
            && let Some(slots) = self.remembered_after(first.previous())
        {
            return Ok(cut(slots.into_iter().filter(|slot| slot.sequence() <= last), max_bytes));
        }
        let mut next = first;
        let mut read = Unbelieved::default();
        while next <= last && read.bytes < max_bytes {
            let width = u32::try_from(last.above(next.previous())).unwrap_or(READS_AT_ONCE).min(READS_AT_ONCE);
            let round = self.read_round(next, width, deadline).await?;
            if let Some(last) = round.slots.last() {
                next = last.sequence().next();
            }
            read.take(round.slots);
            read.suspicion = match round.end {
                RoundEnd::Full => continue,
                RoundEnd::Damaged(corruption) => Some(corruption),
                RoundEnd::Absent | RoundEnd::Gap { .. } => {
                    Some(Corruption::Hole { missing: next, below: last.max(next.next()) })
                }
            };
            break;
        }
        // What lies below the first slot is not known here, so it stands for itself; the ledger vouches for it.
        let anchor = self.anchor_before(read.slots.first());
        self.believe(&anchor, first, &mut read, deadline).await?;
        Ok(read.slots)
    }

    /// The anchor that a slot says it follows.
    fn anchor_before(&self, slot: Option<&Arc<Slot>>) -> Anchor {
        let record = self.record();
        let head = slot.and_then(|slot| {
            let sequence = slot.sequence().previous().filter(|previous| *previous >= record.origin)?;
            Some(Head { sequence, own_id: slot.envelope().parent, stamp: 0 })
        });
        Anchor { log: record.log, origin: record.origin, head }
    }

    /// Reads on from an anchor until a slot is absent, first `width` slots at once, then more.
    async fn read_on(&self, anchor: &Anchor, mut width: u32, deadline: &Deadline) -> Result<Unbelieved, Unavailable> {
        let mut read = Unbelieved::default();
        let mut next = anchor.next();
        let mut read_again = None;
        while !read.is_full() {
            let round = self.read_round(next, width, deadline).await?;
            if let Some(last) = round.slots.last() {
                next = last.sequence().next();
            }
            read.take(round.slots);
            match round.end {
                RoundEnd::Full => {}
                RoundEnd::Absent => {
                    read.end_seen = true;
                    break;
                }
                RoundEnd::Damaged(corruption) => {
                    read.suspicion = Some(corruption);
                    break;
                }
                // A slot lands after the one before it, so a read that is sent now shows what a parallel one just missed.
                RoundEnd::Gap { missing, .. } if read_again != Some(missing) => read_again = Some(missing),
                RoundEnd::Gap { missing, below } => {
                    read.suspicion = Some(Corruption::Hole { missing, below });
                    break;
                }
            }
            width = if width < READS_AFTER_A_SLOT { READS_AFTER_A_SLOT } else { (width * 2).min(READS_AT_ONCE) };
        }
        Ok(read)
    }

    /// Reads the slots from `first` to the last that a listing showed, and the one after it, whose absence is the end.
    async fn read_listed(
        &self,
        first: Sequence,
        last: Option<Sequence>,
        deadline: &Deadline,
    ) -> Result<Unbelieved, Unavailable> {
        let mut read = Unbelieved::default();
        let last = last.filter(|last| *last >= first);
        let listed = last.map_or(0, |last| last.above(first.previous()));
        // The slot below the tail and the proof of the end ride along with the rounds that the tail needs.
        let rounds = listed.saturating_sub(1).div_ceil(u64::from(READS_AT_ONCE)).max(1);
        let width = u32::try_from((listed + 1).div_ceil(rounds)).unwrap_or(READS_AT_ONCE);
        let mut next = first;
        loop {
            let round = self.read_round(next, width, deadline).await?;
            if let Some(last) = round.slots.last() {
                next = last.sequence().next();
            }
            read.take(round.slots);
            match round.end {
                RoundEnd::Full if last.is_some_and(|last| next <= last) && !read.is_full() => {}
                RoundEnd::Full => break,
                // Every read here was sent after the listing, so what it listed is missing, not late.
                RoundEnd::Absent if last.is_some_and(|last| next <= last) => {
                    read.suspicion = last.map(|below| Corruption::Hole { missing: next, below });
                    break;
                }
                RoundEnd::Absent => {
                    read.end_seen = true;
                    break;
                }
                RoundEnd::Gap { missing, below } if last.is_some_and(|last| missing <= last) => {
                    read.suspicion = Some(Corruption::Hole { missing, below });
                    break;
                }
                // Past the listing slots may land while the round is read: the next call reads on.
                RoundEnd::Gap { .. } => break,
                RoundEnd::Damaged(corruption) => {
                    read.suspicion = Some(corruption);
                    break;
                }
            }
        }
        Ok(read)
    }

    /// Reads `width` slots from `first` on, all at once.
    pub(super) async fn read_round(&self, first: Sequence, width: u32, deadline: &Deadline) -> Result<Round, Unavailable> {
        let last = first.plus(width.saturating_sub(1));
        let reads = join_all(run(first, last).map(|sequence| self.read_slot(sequence, deadline))).await;
        let mut round = Round { slots: Vec::new(), end: RoundEnd::Full };
        let mut missing = None;
        for (sequence, found) in run(first, last).zip(reads) {
            match (found?, missing) {
                (Found::Present(slot), None) => round.slots.push(Arc::new(slot)),
                (Found::Damaged(corruption), None) => {
                    round.end = RoundEnd::Damaged(corruption);
                    break;
                }
                (Found::Absent, None) => {
                    missing = Some(sequence);
                    round.end = RoundEnd::Absent;
                }
                (Found::Present(_) | Found::Damaged(_), Some(missing)) => {
                    round.end = RoundEnd::Gap { missing, below: sequence };
                    break;
                }
                (Found::Absent, Some(_)) => {}
            }
        }
        Ok(round)
    }

    pub(super) async fn read_slot(&self, sequence: Sequence, deadline: &Deadline) -> Result<Found<Slot>, Unavailable> {
        let log = self.record().log;
        self.bucket().read_decoded(ObjectName::Slot(log, sequence), deadline, |bytes| Slot::decode(bytes, log, sequence)).await
    }

    /// Finds the ledger of a page.
    pub(crate) async fn find_ledger(&self, page: Page, deadline: &Deadline) -> Result<Found<Ledger>, Unavailable> {
        let record = self.record();
        let decode = |bytes| Ledger::decode(&bytes, record.log, page, record.page_size);
        self.bucket().read_decoded(ObjectName::Ledger(record.log, page), deadline, decode).await
    }

    /// Reads the ledger of a page. `None` while the page is not retired.
    pub(super) async fn read_ledger(&self, page: Page, deadline: &Deadline) -> Result<Option<Ledger>, TailError> {
        match self.find_ledger(page, deadline).await? {
            Found::Absent => Ok(None),
            Found::Present(ledger) => Ok(Some(ledger)),
            Found::Damaged(corruption) => Err(corruption.into()),
        }
    }

    /// Believes what was read, or says why not. `lowest` is the lowest slot about to be believed.
    ///
    /// Pages retire in ascending order, so one ledger that is absent after the last read vouches for every slot of the batch,
    /// and for the end. Damage is damage only where no ledger says that the page was retired.
    async fn believe(
        &self,
        anchor: &Anchor,
        lowest: Sequence,
        read: &mut Unbelieved,
        deadline: &Deadline,
    ) -> Result<(), TailError> {
        let broken = chain::check(anchor, &read.slots).err();
        if self.read_ledger(self.page_of(lowest), deadline).await?.is_some() {
            return Err(TailError::Behind { after: lowest.previous() });
        }
        match broken.or(read.suspicion.take()) {
            Some(corruption) => Err(corruption.into()),
            None => Ok(()),
        }
    }
}

/// The first of `slots`, until they have `max_bytes`, at least one.
fn cut(slots: impl Iterator<Item = Arc<Slot>>, max_bytes: usize) -> Vec<Arc<Slot>> {
    let mut bytes = 0;
    slots
        .take_while(|slot| {
            let takes = bytes < max_bytes;
            bytes += held_bytes(slot);
            takes
        })
        .collect()
}
