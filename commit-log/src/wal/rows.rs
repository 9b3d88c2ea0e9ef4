//! A slot as SlateDB's rows: the same rows whether it is replayed or applied. Pure.

use slatedb::config::{PutOptions, Ttl};
use slatedb::wal::WalRows;
use slatedb::{RowEntry, ValueDeletable, WriteBatch};

use crate::envelope::Slot;

/// How replayed rows are stamped and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replay {
    /// The one tick that every replayed row carries, in ms since the Unix epoch: the last that the store has flushed, so that
    /// a flush never finds it going back. `None` when the store never flushed.
    pub(super) tick: Option<i64>,
    /// The least WAL file id that any chunk says it has consumed: SlateDB does not let it go back.
    pub(super) consumed_at_least: u64,
}

/// The rows of several slots, in order.
pub(super) fn wal_rows<'a>(slots: impl IntoIterator<Item = &'a Slot>, replay: Replay) -> WalRows {
    let mut rows = Vec::new();
    let mut consumed = replay.consumed_at_least;
    for slot in slots {
        consumed = consumed.max(slot.sequence().get());
        rows.extend(slot.envelope().writes.iter().map(|write| RowEntry {
            key: write.key.clone(),
            value: write.value.clone().map_or(ValueDeletable::Tombstone, ValueDeletable::Value),
            seq: slot.sequence().get(),
            create_ts: replay.tick,
            expire_ts: None,
        }));
    }
    WalRows { rows, last_consumed_wal_file_id: consumed }
}

/// The batch that applies a slot to an open store. Its rows never expire, whatever the store's settings say: a replayed slot
/// has rows that never expire, and the two must be the same.
pub fn write_batch(slot: &Slot) -> WriteBatch {
    let options = PutOptions { ttl: Ttl::NoExpiry };
    let mut batch = WriteBatch::new();
    for write in &slot.envelope().writes {
        match &write.value {
            Some(value) => batch.put_bytes_with_options(write.key.clone(), value.clone(), &options),
            None => batch.delete(&write.key),
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SlateDB lets the consumed id run forward only, and of a half-applied manifest the replay point leads the rows.
    #[test]
    fn a_chunk_that_ends_below_the_replay_point_says_that_it_consumed_up_to_there() {
        let rows = wal_rows([], Replay { tick: None, consumed_at_least: 7 });
        assert_eq!(rows.last_consumed_wal_file_id, 7);
    }
}
