//! What a slot says: the envelope, its bytes and its own id. No I/O.

mod validate;

use std::fmt;

use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};

use crate::frame::{Damage, FrameKind, frame, unframe};
use crate::identity::{LogId, OwnId, TransactionId};
use crate::slot::Sequence;

pub use validate::{Refused, Route, Rules, check_key, check_writes};

/// The largest slot, encoded and not compressed. Above any sensible transaction, below what a process can hold many of.
pub const MAX_SLOT_BYTES: usize = 16 << 20;

/// The most transactions that ride one slot. A ledger remembers each for ever.
pub const MAX_MEMBERS: usize = 64;

/// The most bytes of a validated head. A ledger remembers it for ever.
pub const MAX_VALIDATED_HEAD_BYTES: usize = 1024;

/// The most bytes of a commit's `changes_made`.
pub const MAX_CHANGES_MADE_BYTES: usize = 64 << 10;

/// One row of a commit: what becomes of one key.
#[derive(Clone, PartialEq, Eq)]
pub struct Write {
    /// The key.
    pub key: Bytes,
    /// The new value, `None` to delete.
    pub value: Option<Bytes>,
}

impl Write {
    /// Sets `key` to `value`.
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Write {
        Write { key: key.into(), value: Some(value.into()) }
    }

    /// Deletes `key`.
    pub fn delete(key: impl Into<Bytes>) -> Write {
        Write { key: key.into(), value: None }
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "put {} = {} bytes", self.key.escape_ascii(), value.len()),
            None => write!(f, "delete {}", self.key.escape_ascii()),
        }
    }
}

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotKind {
    /// It carries transactions.
    Commit,
    /// It put a store on the log.
    Adoption,
    /// It closed a sequence that was open, and means nothing else.
    Filler,
    /// It took the store off the log.
    Leaving,
}

impl SlotKind {
    fn number(self) -> i32 {
        match self {
            SlotKind::Commit => 1,
            SlotKind::Adoption => 2,
            SlotKind::Filler => 3,
            SlotKind::Leaving => 4,
        }
    }

    fn from_number(number: i32) -> Option<SlotKind> {
        [SlotKind::Commit, SlotKind::Adoption, SlotKind::Filler, SlotKind::Leaving]
            .into_iter()
            .find(|kind| kind.number() == number)
    }
}

/// What a writer says of itself for those who take turns. Advisory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Whether it has more to commit.
    pub waiting: bool,
    /// How long its last put took, in ms.
    pub put_millis: u32,
}

/// What a slot says.
///
/// - `writes` has at least one row, at most one a key, in ascending order of keys.
/// - `parent` is the own id of slot `sequence − 1`, and the log's identity for the log's first slot.
/// - `stamp` never runs backwards along the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The log it belongs to.
    pub log: LogId,
    /// Its place in the log.
    pub sequence: Sequence,
    /// Random bytes, so that two envelopes with one content have two ids.
    pub nonce: [u8; 16],
    /// The own id of the slot before it.
    pub parent: OwnId,
    /// What it is for.
    pub kind: SlotKind,
    /// The head the commit was prepared against, in the embedder's own form. Empty when it has none.
    pub validated_head: Bytes,
    /// What the embedder says the commit changed. Empty when it says nothing.
    pub changes_made: Bytes,
    /// The transactions it carries.
    pub members: Vec<TransactionId>,
    /// When it was offered, in ms since the Unix epoch, by the log's own time: see [`stamp_after`].
    pub stamp: u64,
    /// For those who take turns.
    pub turn: Turn,
    /// Its rows.
    pub writes: Vec<Write>,
}

/// How far one slot's stamp may leap past the one before it. A machine whose clock is a year ahead then costs the log's time
/// an hour, not a year; after a long pause the stamps catch up an hour a slot.
pub const MAX_STAMP_LEAP_MILLIS: u64 = 60 * 60 * 1000;

/// The stamp of a slot that follows one with the stamp `before`, offered when the clock says `now`, both in ms.
pub fn stamp_after(before: Option<u64>, now: u64) -> u64 {
    before.map_or(now, |before| now.clamp(before, before.saturating_add(MAX_STAMP_LEAP_MILLIS)))
}

/// The parent of a log's first slot.
pub fn first_parent(log: LogId) -> OwnId {
    OwnId::from_bytes(*log.as_bytes())
}

/// A slot: an envelope with its bytes. Immutable; the bytes are shared, never copied.
#[derive(Clone)]
pub struct Slot {
    envelope: Envelope,
    own_id: OwnId,
    bytes: Bytes,
}

impl Slot {
    /// Checks an envelope against every rule and encodes it.
    ///
    /// # Errors
    ///
    /// The first rule it breaks, naming the key and the limit. Nothing that is refused here can be told later: a bad slot
    /// that landed makes its store unreadable.
    pub fn seal(envelope: Envelope, rules: &Rules) -> Result<Slot, Refused> {
        validate::check(&envelope, rules)?;
        let body = Bytes::from(Body::from(&envelope).encode_to_vec());
        if body.len() > rules.max_slot_bytes.min(MAX_SLOT_BYTES) {
            return Err(Refused::Slot { bytes: body.len(), limit: rules.max_slot_bytes.min(MAX_SLOT_BYTES) });
        }
        Ok(Slot { envelope, own_id: own_id(&body), bytes: frame(FrameKind::Slot, &body) })
    }

    /// Reads a slot that was found under the name of `sequence` in the log `log`.
    ///
    /// # Errors
    ///
    /// Anything that is not the envelope of just that place. Never panics.
    pub fn decode(bytes: Bytes, log: LogId, sequence: Sequence) -> Result<Slot, Damage> {
        let body = unframe(FrameKind::Slot, &bytes)?;
        if body.len() > MAX_SLOT_BYTES {
            return Err(Damage::Field("the slot is larger than any slot may be"));
        }
        let own_id = own_id(&body);
        let message = Body::decode(body).map_err(|_| Damage::Field("the body is no envelope"))?;
        let envelope = message.into_envelope()?;
        if envelope.log != log {
            return Err(Damage::Field("the envelope belongs to another log"));
        }
        if envelope.sequence != sequence {
            return Err(Damage::Field("the envelope belongs to another sequence"));
        }
        Ok(Slot { envelope, own_id, bytes })
    }

    /// What it says.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Its place in the log.
    pub fn sequence(&self) -> Sequence {
        self.envelope.sequence
    }

    /// Its own id.
    pub fn own_id(&self) -> OwnId {
        self.own_id
    }

    /// Its bytes, as they are in the bucket.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether it carries `transaction`.
    pub fn carries(&self, transaction: TransactionId) -> bool {
        self.envelope.members.contains(&transaction)
    }

    /// The bytes of its keys and values.
    pub fn row_bytes(&self) -> usize {
        self.envelope.writes.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Bytes::len)).sum()
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slot {} ({})", self.sequence(), self.own_id)
    }
}

fn own_id(body: &Bytes) -> OwnId {
    let hash = Sha256::digest(body);
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    OwnId::from_bytes(id)
}

/// The envelope on the wire. Field numbers are part of the format.
#[derive(Clone, PartialEq, Message)]
struct Body {
    #[prost(bytes = "bytes", tag = "1")]
    log: Bytes,
    #[prost(uint64, tag = "2")]
    sequence: u64,
    #[prost(bytes = "bytes", tag = "3")]
    nonce: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    parent: Bytes,
    #[prost(int32, tag = "5")]
    kind: i32,
    #[prost(bytes = "bytes", tag = "6")]
    validated_head: Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    changes_made: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "8")]
    members: Vec<Bytes>,
    #[prost(uint64, tag = "9")]
    stamp: u64,
    #[prost(bool, tag = "10")]
    waiting: bool,
    #[prost(uint32, tag = "11")]
    put_millis: u32,
    #[prost(message, repeated, tag = "12")]
    rows: Vec<Row>,
}

/// A row on the wire.
#[derive(Clone, PartialEq, Message)]
struct Row {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", optional, tag = "2")]
    value: Option<Bytes>,
}

impl From<&Envelope> for Body {
    fn from(envelope: &Envelope) -> Body {
        let Envelope { log, sequence, nonce, parent, kind, validated_head, changes_made, members, stamp, turn, writes } =
            envelope;
        Body {
            log: Bytes::copy_from_slice(log.as_bytes()),
            sequence: sequence.get(),
            nonce: Bytes::copy_from_slice(nonce),
            parent: Bytes::copy_from_slice(parent.as_bytes()),
            kind: kind.number(),
            validated_head: validated_head.clone(),
            changes_made: changes_made.clone(),
            members: members.iter().map(|member| Bytes::copy_from_slice(member.as_bytes())).collect(),
            stamp: *stamp,
            waiting: turn.waiting,
            put_millis: turn.put_millis,
            rows: writes.iter().map(|write| Row { key: write.key.clone(), value: write.value.clone() }).collect(),
        }
    }
}

impl Body {
    fn into_envelope(self) -> Result<Envelope, Damage> {
        let Body {
            log,
            sequence,
            nonce,
            parent,
            kind,
            validated_head,
            changes_made,
            members,
            stamp,
            waiting,
            put_millis,
            rows,
        } = self;
        let envelope = Envelope {
            log: LogId::from_slice(&log).ok_or(Damage::Field("the log identity is not 16 bytes"))?,
            sequence: Sequence::new(sequence).ok_or(Damage::Field("the sequence is out of bounds"))?,
            nonce: nonce.as_ref().try_into().map_err(|_| Damage::Field("the nonce is not 16 bytes"))?,
            parent: OwnId::from_slice(&parent).ok_or(Damage::Field("the parent is not 16 bytes"))?,
            kind: SlotKind::from_number(kind).ok_or(Damage::Field("the slot's kind is unknown"))?,
            validated_head,
            changes_made,
            members: members
                .iter()
                .map(|member| TransactionId::from_slice(member).ok_or(Damage::Field("a member is not 16 bytes")))
                .collect::<Result<_, _>>()?,
            stamp,
            turn: Turn { waiting, put_millis },
            writes: rows.into_iter().map(|Row { key, value }| Write { key, value }).collect(),
        };
        validate::check_structure(&envelope).map_err(Damage::Field)?;
        Ok(envelope)
    }
}

#[cfg(test)]
mod tests;
