//! A transaction: a view, the writes over it, and what was read through it. It ends in parts, which somebody else commits.

mod conflict;
mod reads;

use bytes::Bytes;
use imbl::OrdMap;
use slatedb::ByteRangeBounds;

use crate::envelope::{MAX_SLOT_BYTES, Refused, Rules, Write, check_key};
use crate::identity::TransactionId;
use crate::slot::Sequence;
use crate::view::{KeyRange, Layer, ReadError, Scan, ScanOrder, View};

pub use conflict::{Conflict, Rides, conflicts, rides};
use reads::Recorder;
pub use reads::{MAX_READ_BYTES, MAX_READ_RANGES, ReadSet};

/// What a row costs in a slot beside its key and value, in bytes, at least. A transaction within its bound can still be
/// refused when it is sealed, since it does not know what else the slot carries.
const ROW_BYTES: usize = 4;

/// Reads through a view and writes over it. Nothing is sent; dropping it is giving it up.
///
/// - It sees its view, whatever is committed meanwhile, under its own writes.
/// - What it has read is recorded, scans that were given up included, as far as they came.
#[derive(Debug)]
pub struct Transaction {
    id: TransactionId,
    view: View,
    rules: Rules,
    writes: OrdMap<Bytes, Option<Bytes>>,
    bytes: usize,
    reads: Recorder,
}

/// What a transaction ends in: all that its commit needs.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The transaction.
    pub id: TransactionId,
    /// The head it read at.
    pub view_head: Option<Sequence>,
    /// Its writes, one a key, in ascending order of keys.
    pub writes: Vec<Write>,
    /// What it read.
    pub reads: ReadSet,
}

impl Transaction {
    /// Begins a transaction at `view`.
    pub fn new(id: TransactionId, view: View, rules: Rules) -> Transaction {
        let reads = Recorder::new(ReadSet::new(rules.reserved_key.clone()));
        Transaction { id, view, rules, writes: OrdMap::new(), bytes: 0, reads }
    }

    /// Its id.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// The view it reads through.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The value of `key`, its own write first. `None` when there is no row. Counts as read unless its own write answers,
    /// though the future is dropped.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        if let Some(value) = self.writes.get(key) {
            return Ok(value.clone());
        }
        self.reads.record(&KeyRange::point(key)).map_err(|reads::Ended| ReadError::Ended)?;
        self.view.get(key).await
    }

    /// Scans a range of keys, its own writes up to now included; writes that follow are not seen by this scan.
    pub fn scan(&self, range: impl ByteRangeBounds, order: ScanOrder) -> TransactionScan {
        self.scan_range(KeyRange::new(range), order)
    }

    /// Scans the keys that begin with `prefix`, as [`Transaction::scan`] does.
    pub fn scan_prefix(&self, prefix: &[u8], order: ScanOrder) -> TransactionScan {
        self.scan_range(KeyRange::prefix(prefix), order)
    }

    fn scan_range(&self, range: KeyRange, order: ScanOrder) -> TransactionScan {
        let own_writes: Box<dyn Layer> = Box::new(self.writes.clone());
        TransactionScan { rows: self.view.scan_under(Some(own_writes), range, order), reads: self.reads.clone() }
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    ///
    /// A key that no slot may carry, or more rows than a slot holds. The transaction stays as it was.
    pub fn put(&mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<(), Refused> {
        self.write(key.into(), Some(value.into()))
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// As [`Transaction::put`].
    pub fn delete(&mut self, key: impl Into<Bytes>) -> Result<(), Refused> {
        self.write(key.into(), None)
    }

    /// Refused always: two processes could see another value at one head.
    ///
    /// # Errors
    ///
    /// [`Refused::Merge`], or what is wrong with the key.
    pub fn merge(&mut self, key: impl Into<Bytes>, _operand: impl Into<Bytes>) -> Result<(), Refused> {
        let key = key.into();
        check_key(&key, &self.rules)?;
        Err(Refused::Merge { key })
    }

    /// Refused always: two processes could see another row at one head. `_at_millis` is since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`Refused::Expiry`], or what is wrong with the key.
    pub fn put_expiring(&mut self, key: impl Into<Bytes>, _value: impl Into<Bytes>, _at_millis: u64) -> Result<(), Refused> {
        let key = key.into();
        check_key(&key, &self.rules)?;
        Err(Refused::Expiry { key })
    }

    /// The bytes of its writes, as they count against the largest slot.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Ends it. Its scans that are still open fail from here on, since nobody would check what they show.
    pub fn into_parts(self) -> Parts {
        let Transaction { id, view, rules, writes, bytes: _, reads } = self;
        let writes = writes.iter().map(|(key, value)| Write { key: key.clone(), value: value.clone() }).collect();
        Parts { id, view_head: view.head(), writes, reads: reads.end(rules.reserved_key) }
    }

    fn write(&mut self, key: Bytes, value: Option<Bytes>) -> Result<(), Refused> {
        check_key(&key, &self.rules)?;
        let replaced = self.writes.get(&key).map_or(0, |value| write_bytes(&key, value.as_ref()));
        let bytes = self.bytes - replaced + write_bytes(&key, value.as_ref());
        let limit = self.rules.max_slot_bytes.min(MAX_SLOT_BYTES);
        if bytes > limit {
            return Err(Refused::Slot { bytes, limit });
        }
        self.bytes = bytes;
        self.writes.insert(key, value);
        Ok(())
    }
}

fn write_bytes(key: &Bytes, value: Option<&Bytes>) -> usize {
    ROW_BYTES + key.len() + value.map_or(0, Bytes::len)
}

/// A scan of a transaction. What it shows counts as read, up to the last row it yielded, or the whole range once it ended;
/// also after it was dropped.
pub struct TransactionScan {
    rows: Scan,
    reads: Recorder,
}

impl TransactionScan {
    /// The next row, `None` after the last one.
    ///
    /// # Errors
    ///
    /// As [`Scan::next`], and [`ReadError::Ended`] once the transaction has ended.
    pub async fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, ReadError> {
        let row = self.rows.next().await?;
        let shown = match &row {
            Some((key, _)) => self.rows.range().shown_up_to(key, self.rows.order()),
            None => self.rows.range().clone(),
        };
        // Recorded before it is shown.
        self.reads.record(&shown).map_err(|reads::Ended| ReadError::Ended)?;
        Ok(row)
    }
}

#[cfg(test)]
mod tests;
