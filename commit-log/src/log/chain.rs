//! Whether slots follow one another. Pure.

use std::sync::Arc;

use crate::envelope::{Slot, first_parent};
use crate::error::Corruption;
use crate::identity::{LogId, OwnId};
use crate::slot::{Sequence, sequence_after};

/// The last slot that is known: what the next one must name as its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its own id.
    pub own_id: OwnId,
    /// Its stamp, in ms.
    pub stamp: u64,
}

impl Head {
    /// The head that `slot` makes.
    pub fn of(slot: &Slot) -> Head {
        Head { sequence: slot.sequence(), own_id: slot.own_id(), stamp: slot.envelope().stamp }
    }
}

/// Where a chain hangs: below it everything is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// The log.
    pub log: LogId,
    /// Its first sequence.
    pub origin: Sequence,
    /// The last known slot, `None` before the first.
    pub head: Option<Head>,
}

impl Anchor {
    /// The sequence that comes next.
    pub fn next(&self) -> Sequence {
        sequence_after(self.head.map(|head| head.sequence), self.origin)
    }

    /// The parent that the next slot must name.
    pub fn parent(&self) -> OwnId {
        self.head.map_or(first_parent(self.log), |head| head.own_id)
    }

    /// The anchor after `slot`.
    #[must_use]
    pub fn after(&self, slot: &Slot) -> Anchor {
        Anchor { head: Some(Head::of(slot)), ..*self }
    }
}

/// Whether `slots` follow the anchor and one another. Their names, logs and inner sequences were checked as they were decoded.
///
/// # Errors
///
/// The first slot that does not. A caller reports it only after it has read the ledger: a zombie breaks a chain too.
pub fn check(anchor: &Anchor, slots: &[Arc<Slot>]) -> Result<(), Corruption> {
    let mut anchor = *anchor;
    for slot in slots {
        if slot.sequence() != anchor.next() || slot.envelope().parent != anchor.parent() {
            return Err(Corruption::BrokenChain { sequence: slot.sequence() });
        }
        anchor = anchor.after(slot);
    }
    Ok(())
}
