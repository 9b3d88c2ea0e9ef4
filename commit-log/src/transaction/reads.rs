//! What a transaction has read: keys and ranges, bounded. Pure.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::envelope::Write;
use crate::view::KeyRange;

/// The most ranges a read set tells apart, single keys included. Above it neighbours become one, so that a transaction
/// that reads much may meet a conflict that is none, and never misses one.
pub const MAX_READ_RANGES: usize = 4_096;

/// The most bytes of keys in a read set, for transactions that read very long ones.
pub const MAX_READ_BYTES: usize = 4 << 20;

/// How much a read set may tell apart.
#[derive(Clone, Copy, Debug)]
struct Limits {
    ranges: usize,
    bytes: usize,
}

/// What was read.
///
/// - The ranges, start to end, neither overlap nor touch.
/// - Every key that was looked at lies in one of them, whether there was a row or not.
/// - The log's own key is never read, so writing it touches nothing.
#[derive(Clone, Debug)]
pub struct ReadSet {
    ranges: BTreeMap<Bytes, Option<Bytes>>,
    bytes: usize,
    reserved_key: Bytes,
    limits: Limits,
}

impl ReadSet {
    /// Nothing read, of a log whose own key is `reserved_key`.
    pub fn new(reserved_key: Bytes) -> ReadSet {
        ReadSet::with_limits(reserved_key, MAX_READ_RANGES, MAX_READ_BYTES)
    }

    pub(crate) fn with_limits(reserved_key: Bytes, ranges: usize, bytes: usize) -> ReadSet {
        ReadSet { ranges: BTreeMap::new(), bytes: 0, reserved_key, limits: Limits { ranges, bytes } }
    }

    /// Adds a range.
    pub fn insert(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let mut joined = range.clone();
        while let Some((start, end)) = self.joining(&joined) {
            self.ranges.remove(&start);
            self.bytes -= range_bytes(&start, &end);
            joined.start = joined.start.min(start);
            joined.end = joined.end.zip(end).map(|(one, other)| one.max(other));
        }
        self.bytes += range_bytes(&joined.start, &joined.end);
        self.ranges.insert(joined.start, joined.end);
        while self.ranges.len() > 1 && (self.ranges.len() > self.limits.ranges || self.bytes > self.limits.bytes) {
            self.coalesce();
        }
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether `key` may have been read.
    pub fn contains(&self, key: &[u8]) -> bool {
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(key))).next_back();
        before.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| key < end.as_ref())) && self.reserved_key != key
    }

    /// The first of `writes` that changes what was read.
    pub fn touched_by<'a>(&self, writes: &'a [Write]) -> Option<&'a Bytes> {
        writes.iter().map(|write| &write.key).find(|key| self.contains(key))
    }

    /// The ranges, lowest first.
    pub fn ranges(&self) -> impl Iterator<Item = KeyRange> + '_ {
        self.ranges.iter().map(|(start, end)| KeyRange { start: start.clone(), end: end.clone() })
    }

    /// A range that overlaps `range` or touches it.
    fn joining(&self, range: &KeyRange) -> Option<(Bytes, Option<Bytes>)> {
        let up_to = range.end.as_ref().map_or(Bound::Unbounded, |end| Bound::Included(end.as_ref()));
        let (start, end) = self.ranges.range::<[u8], _>((Bound::Unbounded, up_to)).next_back()?;
        end.as_ref().is_none_or(|end| *end >= range.start).then(|| (start.clone(), end.clone()))
    }

    /// Joins neighbours until half as many are left, those first whose gap lies deepest under one prefix: they are likest
    /// to be rows of one kind.
    fn coalesce(&mut self) {
        let ranges: Vec<(Bytes, Option<Bytes>)> = std::mem::take(&mut self.ranges).into_iter().collect();
        let mut gaps: Vec<(usize, usize)> = ranges
            .windows(2)
            .enumerate()
            .map(|(place, pair)| (pair[0].1.as_ref().map_or(0, |end| common_prefix(end, &pair[1].0)), place))
            .collect();
        gaps.sort_unstable();
        gaps.truncate((ranges.len() / 2).saturating_sub(1));
        let mut kept = vec![false; ranges.len()];
        for (_, place) in gaps {
            kept[place] = true;
        }
        let mut open: Option<(Bytes, Option<Bytes>)> = None;
        for (place, (start, end)) in ranges.into_iter().enumerate() {
            let start = open.take().map_or(start, |(start, _)| start);
            if kept[place] {
                self.ranges.insert(start, end);
            } else {
                open = Some((start, end));
            }
        }
        self.ranges.extend(open);
        self.bytes = self.ranges.iter().map(|(start, end)| range_bytes(start, end)).sum();
    }
}

fn range_bytes(start: &Bytes, end: &Option<Bytes>) -> usize {
    start.len() + end.as_ref().map_or(0, Bytes::len)
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// A read set that a transaction shares with its scans, so that what a scan showed counts though the scan was dropped.
#[derive(Clone, Debug)]
pub(super) struct Recorder(Arc<Mutex<Recorded>>);

#[derive(Debug)]
enum Recorded {
    Open(ReadSet),
    Ended,
}

/// The transaction has ended: what is read now is not recorded, so it must not be shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended;

impl Recorder {
    pub(super) fn new(reads: ReadSet) -> Recorder {
        Recorder(Arc::new(Mutex::new(Recorded::Open(reads))))
    }

    pub(super) fn record(&self, range: &KeyRange) -> Result<(), Ended> {
        match &mut *self.lock() {
            Recorded::Open(reads) => {
                reads.insert(range);
                Ok(())
            }
            Recorded::Ended => Err(Ended),
        }
    }

    /// Takes what was recorded and ends the recording.
    pub(super) fn end(&self, reserved_key: Bytes) -> ReadSet {
        match std::mem::replace(&mut *self.lock(), Recorded::Ended) {
            Recorded::Open(reads) => reads,
            Recorded::Ended => ReadSet::new(reserved_key),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        // A read set is whole between any two of its calls that can panic: none can.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
