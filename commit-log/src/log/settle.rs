//! How an offer stands, told from what was read. Pure; the one rule that every exit of an offer and every outcome share.

use std::sync::Arc;

use crate::envelope::Slot;
use crate::identity::{OwnId, TransactionId};
use crate::ledger::Ledger;
use crate::slot::Sequence;

/// What is asked about: a transaction at a sequence, and the envelope that was offered for it, when it is known.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// The sequence it was offered at.
    pub sequence: Sequence,
    /// The transaction.
    pub transaction: TransactionId,
    /// The own id of the envelope. `None` when only the transaction is known, as after a restart.
    pub own_id: Option<OwnId>,
}

/// What is known of the slot. It was learnt *before* the ledger was read.
#[derive(Clone, Debug)]
pub enum SlotSeen {
    /// The put was just answered *created*.
    Created,
    /// A read found this slot.
    Present(Arc<Slot>),
    /// A read found nothing.
    Absent,
}

/// How an offer stands.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It is the slot of its sequence, just as it was offered.
    Won,
    /// Its transaction is in the slot of its sequence, which another offer of it placed.
    WonByAnotherOffer,
    /// Another slot has its sequence.
    Lost {
        /// That slot.
        winner: Arc<Slot>,
    },
    /// Its page is retired and the ledger does not know it: another slot had its sequence. Whatever lies there is a zombie.
    Behind,
    /// Nothing has its sequence *yet*. What was sent may still land.
    Open,
}

/// Judges an offer.
///
/// A ledger decides alone: the name may have been forgotten, and created again by a put that slept. Only without one does the
/// slot decide. The ledger must have been read after the slot, else a page that retires between the two reads is missed.
pub fn judge(question: &Question, slot: &SlotSeen, ledger: Option<&Ledger>) -> Verdict {
    if let Some(ledger) = ledger {
        return match ledger.entry(question.sequence) {
            Some(entry) if Some(entry.own_id) == question.own_id => Verdict::Won,
            Some(entry) if entry.members.contains(&question.transaction) => Verdict::WonByAnotherOffer,
            _ => Verdict::Behind,
        };
    }
    match slot {
        SlotSeen::Created => Verdict::Won,
        SlotSeen::Absent => Verdict::Open,
        SlotSeen::Present(slot) if Some(slot.own_id()) == question.own_id => Verdict::Won,
        SlotSeen::Present(slot) if slot.carries(question.transaction) => Verdict::WonByAnotherOffer,
        SlotSeen::Present(slot) => Verdict::Lost { winner: slot.clone() },
    }
}
