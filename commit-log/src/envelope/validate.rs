//! What may be in an envelope. Everything is checked before it is offered: a bad slot that landed makes its store unreadable.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use super::{Envelope, MAX_CHANGES_MADE_BYTES, MAX_MEMBERS, MAX_SLOT_BYTES, MAX_VALIDATED_HEAD_BYTES, SlotKind, Write};

/// Whether the store's segment extractor can route a key.
pub type Route = Arc<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What a log's envelopes must keep to.
#[derive(Clone)]
pub struct Rules {
    /// The key that no embedder may write: a slot that means nothing deletes it.
    pub reserved_key: Bytes,
    /// The largest slot, encoded and not compressed, in bytes.
    pub max_slot_bytes: usize,
    /// Which keys the store's segment extractor can route. `None` when it has none.
    pub route: Option<Route>,
}

impl Rules {
    /// The longest key SlateDB stores, in bytes.
    pub const MAX_KEY_BYTES: usize = u16::MAX as usize;
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("max_slot_bytes", &self.max_slot_bytes).finish_non_exhaustive()
    }
}

/// A commit that was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No rows.
    #[error("the transaction writes nothing")]
    Empty,
    /// A key of no bytes.
    #[error("a key is empty")]
    EmptyKey,
    /// A key longer than SlateDB stores.
    #[error("key {} has {bytes} bytes, more than {limit}", ShownKey(key))]
    Key {
        /// The key.
        key: Bytes,
        /// Its size.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// The key that the log keeps for itself.
    #[error("key {} is reserved for the commit log", ShownKey(key))]
    ReservedKey {
        /// The key.
        key: Bytes,
    },
    /// A key that the segment extractor cannot route.
    #[error("key {} is not routed by the store's segment extractor", ShownKey(key))]
    Unroutable {
        /// The key.
        key: Bytes,
    },
    /// Two rows of one key, or rows out of order.
    #[error("key {} is written twice or out of order", ShownKey(key))]
    Order {
        /// The key.
        key: Bytes,
    },
    /// A merge operand.
    #[error("key {}: merge operands are not supported", ShownKey(key))]
    Merge {
        /// The key.
        key: Bytes,
    },
    /// A row that expires.
    #[error("key {}: rows that expire are not supported", ShownKey(key))]
    Expiry {
        /// The key.
        key: Bytes,
    },
    /// The whole slot is too large.
    #[error("the slot has {bytes} bytes, more than {limit}")]
    Slot {
        /// Its size.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// The head it was validated against is too long.
    #[error("the validated head has {bytes} bytes, more than {limit}")]
    ValidatedHead {
        /// Its size.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// What it says it changed is too long.
    #[error("changes_made has {bytes} bytes, more than {limit}")]
    ChangesMade {
        /// Its size.
        bytes: usize,
        /// The most that is allowed.
        limit: usize,
    },
    /// Not the right number of transactions.
    #[error("the slot carries {found} transactions, expected 1 to {limit}")]
    Members {
        /// How many there are.
        found: usize,
        /// The most that is allowed.
        limit: usize,
    },
}

/// A key as messages show it: escaped, and cut after so many bytes that a line stays a line.
pub(crate) struct ShownKey<'a>(pub(crate) &'a [u8]);

impl ShownKey<'_> {
    const SHOWN_BYTES: usize = 64;
}

impl fmt::Display for ShownKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.split_at_checked(Self::SHOWN_BYTES) {
            Some((shown, rest)) if !rest.is_empty() => write!(f, "{}…", shown.escape_ascii()),
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}

/// Checks one key.
///
/// # Errors
///
/// The rule it breaks.
pub fn check_key(key: &Bytes, rules: &Rules) -> Result<(), Refused> {
    if key.is_empty() {
        return Err(Refused::EmptyKey);
    }
    if key.len() > Rules::MAX_KEY_BYTES {
        return Err(Refused::Key { key: key.clone(), bytes: key.len(), limit: Rules::MAX_KEY_BYTES });
    }
    if *key == rules.reserved_key {
        return Err(Refused::ReservedKey { key: key.clone() });
    }
    match &rules.route {
        Some(route) if !route(key) => Err(Refused::Unroutable { key: key.clone() }),
        _ => Ok(()),
    }
}

/// Checks the rows of a commit.
///
/// # Errors
///
/// The first rule they break.
pub fn check_writes(writes: &[Write], rules: &Rules) -> Result<(), Refused> {
    if writes.is_empty() {
        return Err(Refused::Empty);
    }
    writes.iter().try_for_each(|write| check_key(&write.key, rules))?;
    match writes.windows(2).find(|pair| pair[0].key >= pair[1].key) {
        Some(pair) => Err(Refused::Order { key: pair[1].key.clone() }),
        None => Ok(()),
    }
}

/// Checks a whole envelope before it is offered.
pub(super) fn check(envelope: &Envelope, rules: &Rules) -> Result<(), Refused> {
    match envelope.kind {
        SlotKind::Commit | SlotKind::Adoption => check_writes(&envelope.writes, rules)?,
        // A slot that means nothing carries one row, a tombstone of the reserved key, or what the embedder closes with.
        SlotKind::Filler | SlotKind::Leaving => {
            if envelope.writes != [Write::delete(rules.reserved_key.clone())] {
                check_writes(&envelope.writes, rules)?;
            }
        }
    }
    let sizes =
        [(envelope.validated_head.len(), MAX_VALIDATED_HEAD_BYTES), (envelope.changes_made.len(), MAX_CHANGES_MADE_BYTES)];
    if sizes[0].0 > sizes[0].1 {
        return Err(Refused::ValidatedHead { bytes: sizes[0].0, limit: sizes[0].1 });
    }
    if sizes[1].0 > sizes[1].1 {
        return Err(Refused::ChangesMade { bytes: sizes[1].0, limit: sizes[1].1 });
    }
    if envelope.members.is_empty() || envelope.members.len() > MAX_MEMBERS {
        return Err(Refused::Members { found: envelope.members.len(), limit: MAX_MEMBERS });
    }
    // Cheap before the encoding: a transaction far above the limit is refused without being copied.
    let rows: usize = envelope.writes.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Bytes::len)).sum();
    let limit = rules.max_slot_bytes.min(MAX_SLOT_BYTES);
    if rows > limit { Err(Refused::Slot { bytes: rows, limit }) } else { Ok(()) }
}

/// Checks what an envelope from the bucket must keep to, whatever a log's own rules are.
pub(super) fn check_structure(envelope: &Envelope) -> Result<(), &'static str> {
    let Envelope { validated_head, changes_made, members, writes, .. } = envelope;
    if writes.is_empty() {
        return Err("the slot has no rows");
    }
    if writes.iter().any(|write| write.key.is_empty() || write.key.len() > Rules::MAX_KEY_BYTES) {
        return Err("a key is empty or too long");
    }
    if writes.windows(2).any(|pair| pair[0].key >= pair[1].key) {
        return Err("the rows are not in ascending order of keys");
    }
    if members.is_empty() || members.len() > MAX_MEMBERS {
        return Err("the number of members is out of bounds");
    }
    if validated_head.len() > MAX_VALIDATED_HEAD_BYTES || changes_made.len() > MAX_CHANGES_MADE_BYTES {
        return Err("the validated head or what was changed is too long");
    }
    Ok(())
}
