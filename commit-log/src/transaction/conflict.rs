//! When a transaction may ride a slot: what it read against what was written since. Pure.

use bytes::Bytes;

use super::reads::ReadSet;
use crate::envelope::Slot;
use crate::slot::Sequence;
use crate::view::Overlay;

/// A key that a transaction read and a later slot wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key {} was read and then written by slot {sequence}", shown(key).escape_ascii())]
pub struct Conflict {
    /// The key.
    pub key: Bytes,
    /// The slot that wrote it.
    pub sequence: Sequence,
}

/// As much of a key as fits a line of a message.
fn shown(key: &Bytes) -> &[u8] {
    const SHOWN_BYTES: usize = 64;
    &key[..key.len().min(SHOWN_BYTES)]
}

/// Whether a transaction may ride a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rides {
    /// Nothing it read was written since. The members before it in the same slot are still to be checked, with
    /// [`ReadSet::touched_by`].
    Untouched,
    /// Something was.
    Touched(Conflict),
    /// What was written since is not known any more. To be treated as a conflict.
    Unknown,
}

/// The first write of `slots`, given in ascending order, that changes what was read.
pub fn conflicts<'a>(reads: &ReadSet, slots: impl IntoIterator<Item = &'a Slot>) -> Option<Conflict> {
    slots.into_iter().find_map(|slot| {
        let key = reads.touched_by(&slot.envelope().writes)?;
        Some(Conflict { key: key.clone(), sequence: slot.sequence() })
    })
}

/// Whether a transaction that read at `view_head` may ride slot `upto`: only if what it read is untouched by every slot
/// between the two. `overlay` is that of a view whose head is the slot before `upto`.
pub fn rides(reads: &ReadSet, view_head: Option<Sequence>, upto: Sequence, overlay: &Overlay) -> Rides {
    // Who read nothing depends on nothing.
    if reads.is_empty() {
        return Rides::Untouched;
    }
    match overlay.written_since(view_head, upto) {
        None => Rides::Unknown,
        Some(slots) => conflicts(reads, slots).map_or(Rides::Untouched, Rides::Touched),
    }
}
