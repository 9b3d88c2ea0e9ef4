//! The records a log keeps of itself: adoption, leaving, takes. Pure: encode, decode.

use std::time::Duration;

use bytes::Bytes;
use prost::Message;

use crate::envelope::Rules;
use crate::frame::{Damage, FrameKind, frame, unframe};
use crate::identity::LogId;
use crate::slot::{PageSize, Sequence};

/// What a log's slots may hold. A property of the log, kept by every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentRule {
    /// One transaction a slot, and no filler of the library's own: for an embedder that counts sequences by its own commits.
    OneMember,
    /// Several transactions may ride one slot, and the library may close an open sequence with a filler.
    Free,
}

/// The state of the store that an adoption was computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdoptedFrom {
    /// The id of the manifest, zero when there was none.
    pub manifest_id: u64,
    /// Its `last_l0_seq`.
    pub last_l0_seq: u64,
    /// Its `replay_after_wal_id`.
    pub replay_after_wal_id: u64,
    /// Its `next_wal_sst_id`.
    pub next_wal_sst_id: u64,
}

/// What puts a store on a log: written once, never changed, never deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdoptionRecord {
    /// The log's identity.
    pub log: LogId,
    /// How many sequences a page has.
    pub page_size: PageSize,
    /// The log's first sequence.
    pub origin: Sequence,
    /// What its slots may hold.
    pub content_rule: ContentRule,
    /// The key that a slot which means nothing deletes.
    pub reserved_key: Bytes,
    /// How long a page is kept at least after its last slot, in ms, by the store's own timestamps. Zero for no such promise.
    pub least_retention_millis: u64,
    /// The native WAL id of the guard that ends or bars native history.
    pub guard_id: u64,
    /// What it was computed from.
    pub adopted_from: AdoptedFrom,
}

impl AdoptionRecord {
    /// How long a page is kept at least after its last slot. Zero for no such promise.
    pub fn least_retention(&self) -> Duration {
        Duration::from_millis(self.least_retention_millis)
    }

    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let AdoptionRecord {
            log,
            page_size,
            origin,
            content_rule,
            reserved_key,
            least_retention_millis,
            guard_id,
            adopted_from,
        } = self;
        let body = AdoptionBody {
            log: Bytes::copy_from_slice(log.as_bytes()),
            page_size: page_size.get(),
            origin: origin.get(),
            content_rule: match content_rule {
                ContentRule::OneMember => 1,
                ContentRule::Free => 2,
            },
            reserved_key: reserved_key.clone(),
            least_retention_millis: *least_retention_millis,
            guard_id: *guard_id,
            manifest_id: adopted_from.manifest_id,
            last_l0_seq: adopted_from.last_l0_seq,
            replay_after_wal_id: adopted_from.replay_after_wal_id,
            next_wal_sst_id: adopted_from.next_wal_sst_id,
        };
        frame(FrameKind::Adoption, &Bytes::from(body.encode_to_vec()))
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// Anything that is no adoption record of a format this build knows. Never panics.
    pub fn decode(bytes: &Bytes) -> Result<AdoptionRecord, Damage> {
        let body = unframe(FrameKind::Adoption, bytes)?;
        let body = AdoptionBody::decode(body).map_err(|_| Damage::Field("the body is no adoption record"))?;
        let page_size = PageSize::new(body.page_size).ok_or(Damage::Field("the page size is out of bounds"))?;
        let origin = Sequence::new(body.origin).ok_or(Damage::Field("the origin is out of bounds"))?;
        if page_size.sequences(page_size.page_of(origin)).is_none_or(|sequences| *sequences.start() != origin) {
            return Err(Damage::Field("the origin is not the first sequence of a page"));
        }
        if body.reserved_key.is_empty() || body.reserved_key.len() > Rules::MAX_KEY_BYTES {
            return Err(Damage::Field("the reserved key is empty or too long"));
        }
        Ok(AdoptionRecord {
            log: LogId::from_slice(&body.log).ok_or(Damage::Field("the log identity is not 16 bytes"))?,
            page_size,
            origin,
            content_rule: match body.content_rule {
                1 => ContentRule::OneMember,
                2 => ContentRule::Free,
                _ => return Err(Damage::Field("the content rule is unknown")),
            },
            reserved_key: body.reserved_key,
            least_retention_millis: body.least_retention_millis,
            guard_id: body.guard_id,
            adopted_from: AdoptedFrom {
                manifest_id: body.manifest_id,
                last_l0_seq: body.last_l0_seq,
                replay_after_wal_id: body.replay_after_wal_id,
                next_wal_sst_id: body.next_wal_sst_id,
            },
        })
    }
}

/// What one take of the store leaves: an epoch that it does not know is a stranger's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeRecord {
    /// The log.
    pub log: LogId,
    /// The writer epoch that the take claimed.
    pub epoch: u64,
    /// When, in ms since the Unix epoch by the taker's clock. For people.
    pub taken_millis: u64,
}

impl TakeRecord {
    /// Its bytes.
    pub fn encode(&self) -> Bytes {
        let TakeRecord { log, epoch, taken_millis } = self;
        let body = TakeBody { log: Bytes::copy_from_slice(log.as_bytes()), epoch: *epoch, taken_millis: *taken_millis };
        frame(FrameKind::Take, &Bytes::from(body.encode_to_vec()))
    }

    /// Reads a record.
    ///
    /// # Errors
    ///
    /// Anything that is no take record of a format this build knows. Never panics.
    pub fn decode(bytes: &Bytes) -> Result<TakeRecord, Damage> {
        let body = unframe(FrameKind::Take, bytes)?;
        let body = TakeBody::decode(body).map_err(|_| Damage::Field("the body is no take record"))?;
        let log = LogId::from_slice(&body.log).ok_or(Damage::Field("the log identity is not 16 bytes"))?;
        Ok(TakeRecord { log, epoch: body.epoch, taken_millis: body.taken_millis })
    }
}

/// An adoption record on the wire. Field numbers are part of the format.
#[derive(Clone, PartialEq, Message)]
struct AdoptionBody {
    #[prost(bytes = "bytes", tag = "1")]
    log: Bytes,
    #[prost(uint32, tag = "2")]
    page_size: u32,
    #[prost(uint64, tag = "3")]
    origin: u64,
    #[prost(int32, tag = "4")]
    content_rule: i32,
    #[prost(bytes = "bytes", tag = "5")]
    reserved_key: Bytes,
    #[prost(uint64, tag = "6")]
    least_retention_millis: u64,
    #[prost(uint64, tag = "7")]
    guard_id: u64,
    #[prost(uint64, tag = "8")]
    manifest_id: u64,
    #[prost(uint64, tag = "9")]
    last_l0_seq: u64,
    #[prost(uint64, tag = "10")]
    replay_after_wal_id: u64,
    #[prost(uint64, tag = "11")]
    next_wal_sst_id: u64,
}

/// A take record on the wire. Field numbers are part of the format.
#[derive(Clone, PartialEq, Message)]
struct TakeBody {
    #[prost(bytes = "bytes", tag = "1")]
    log: Bytes,
    #[prost(uint64, tag = "2")]
    epoch: u64,
    #[prost(uint64, tag = "3")]
    taken_millis: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adoption() -> AdoptionRecord {
        AdoptionRecord {
            log: LogId::from_bytes([1; 16]),
            page_size: PageSize::new(64).unwrap(),
            origin: Sequence::new(129).unwrap(),
            content_rule: ContentRule::Free,
            reserved_key: Bytes::from_static(b"\0reserved"),
            least_retention_millis: 5,
            guard_id: 7,
            adopted_from: AdoptedFrom { manifest_id: 2, last_l0_seq: 100, replay_after_wal_id: 6, next_wal_sst_id: 8 },
        }
    }

    fn refuses_every_cut_and_flip<T>(whole: &Bytes, decode: impl Fn(&Bytes) -> Result<T, Damage>) {
        for length in 0..whole.len() {
            assert!(decode(&whole.slice(..length)).is_err(), "cut at {length}");
        }
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&Bytes::from(flipped)).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn an_adoption_record_comes_back_whole_or_is_refused() {
        let whole = adoption().encode();
        assert_eq!(AdoptionRecord::decode(&whole), Ok(adoption()));
        refuses_every_cut_and_flip(&whole, AdoptionRecord::decode);
    }

    #[test]
    fn an_origin_inside_a_page_is_refused() {
        let inside = AdoptionRecord { origin: Sequence::new(130).unwrap(), ..adoption() };
        assert!(AdoptionRecord::decode(&inside.encode()).is_err());
    }

    #[test]
    fn a_take_record_comes_back_whole_or_is_refused() {
        let take = TakeRecord { log: LogId::from_bytes([1; 16]), epoch: 3, taken_millis: 4 };
        assert_eq!(TakeRecord::decode(&take.encode()), Ok(take));
        refuses_every_cut_and_flip(&take.encode(), TakeRecord::decode);
    }
}
