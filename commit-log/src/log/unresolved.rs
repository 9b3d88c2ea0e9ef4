//! The offers of this process whose outcome nobody has told yet. One transaction is open at one sequence only.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::Shared;
use tokio::sync::oneshot;

use crate::envelope::Slot;
use crate::identity::TransactionId;
use crate::slot::Sequence;

use super::offer::{Offer, OfferError};

/// The most transactions of one process whose outcome is not known. Each holds its slot's bytes; a process that has so many is
/// better told than filled up.
const MAX_UNRESOLVED: usize = 256;

/// What an offer that is being made will say. Everybody who waits for it hears the same.
pub(super) type Answer = Shared<oneshot::Receiver<Result<Offer, OfferError>>>;

#[derive(Default)]
pub(super) struct Unresolved(Mutex<BTreeMap<TransactionId, OpenOffer>>);

struct OpenOffer {
    slot: Arc<Slot>,
    /// `None` when the offer ended without a verdict.
    running: Option<Answer>,
    sent: Sent,
    /// Whether its outcome was told while it was running.
    decided: bool,
}

/// Whether anything of an offer was sent, by this try of it or an earlier one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Nothing,
    Something,
}

/// What becomes of a transaction that is handed in.
pub(super) enum Admission {
    /// It is being offered there already: wait for that.
    Join(Answer),
    /// Offer this slot, and answer here. A transaction that is open already is offered with its first bytes again.
    Drive(Arc<Slot>, Sent, oneshot::Sender<Result<Offer, OfferError>>, Answer),
    /// It is open at another sequence.
    OpenElsewhere(Sequence),
    /// Too many are open.
    Full,
}

impl Unresolved {
    fn offers(&self) -> MutexGuard<'_, BTreeMap<TransactionId, OpenOffer>> {
        // Every step is one operation on the map, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is open at `sequence` for `transaction`, or why it may not be offered there. `Ok(None)` when nothing is open.
    pub(super) fn find(&self, transaction: TransactionId, sequence: Sequence) -> Option<Admission> {
        let mut offers = self.offers();
        let full = offers.len() >= MAX_UNRESOLVED;
        let Some(open) = offers.get_mut(&transaction) else { return full.then_some(Admission::Full) };
        if open.slot.sequence() != sequence {
            return Some(Admission::OpenElsewhere(open.slot.sequence()));
        }
        Some(open.join_or_drive())
    }

    /// Takes a new offer in, unless another task was faster.
    pub(super) fn admit(&self, transaction: TransactionId, slot: Arc<Slot>) -> Admission {
        let mut offers = self.offers();
        let full = offers.len() >= MAX_UNRESOLVED;
        let open = match offers.entry(transaction) {
            Entry::Vacant(_) if full => return Admission::Full,
            Entry::Vacant(free) => {
                free.insert(OpenOffer { slot: slot.clone(), running: None, sent: Sent::Nothing, decided: false })
            }
            Entry::Occupied(open) => open.into_mut(),
        };
        if open.slot.sequence() != slot.sequence() {
            return Admission::OpenElsewhere(open.slot.sequence());
        }
        open.join_or_drive()
    }

    /// The offer of `transaction` at `sequence` ended without a verdict after something was sent: it stays open, unless what
    /// became of it was told meanwhile.
    pub(super) fn stays_open(&self, transaction: TransactionId, sequence: Sequence) {
        let mut offers = self.offers();
        let Some(open) = offers.get_mut(&transaction).filter(|open| open.slot.sequence() == sequence) else { return };
        open.running = None;
        open.sent = Sent::Something;
        if open.decided {
            offers.remove(&transaction);
        }
    }

    /// What became of `transaction` at `sequence` was told.
    ///
    /// SUBTLE: an offer that is still being made there may yet call the embedder's record of attempts. If the transaction were
    /// offered elsewhere by then, that late call would take the place of the newer one. So it stays open until the offer ends.
    pub(super) fn decide(&self, transaction: TransactionId, sequence: Sequence) {
        let mut offers = self.offers();
        let Some(open) = offers.get_mut(&transaction).filter(|open| open.slot.sequence() == sequence) else { return };
        open.decided = true;
        if open.running.is_none() {
            offers.remove(&transaction);
        }
    }

    /// The offer of `transaction` at `sequence` ended with a verdict, or sent nothing. It closes nothing at another sequence.
    pub(super) fn resolve(&self, transaction: TransactionId, sequence: Sequence) {
        if let Entry::Occupied(open) = self.offers().entry(transaction)
            && open.get().slot.sequence() == sequence
        {
            open.remove();
        }
    }

    /// The slot that was offered for `transaction` at `sequence`, while its outcome is not known.
    pub(super) fn slot_of(&self, transaction: TransactionId, sequence: Sequence) -> Option<Arc<Slot>> {
        let offers = self.offers();
        offers.get(&transaction).map(|open| &open.slot).filter(|slot| slot.sequence() == sequence).cloned()
    }
}

impl OpenOffer {
    fn join_or_drive(&mut self) -> Admission {
        if let Some(answer) = &self.running {
            return Admission::Join(answer.clone());
        }
        let (sender, receiver) = oneshot::channel();
        let answer = receiver.shared();
        self.running = Some(answer.clone());
        Admission::Drive(self.slot.clone(), self.sent, sender, answer)
    }
}
