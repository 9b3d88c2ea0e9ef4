//! Ranges of keys in one normal form. Pure.

use std::ops::Bound;

use bytes::Bytes;
use slatedb::{ByteRangeBounds, IterationOrder};

/// The order in which a scan yields rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOrder {
    /// Lowest key first.
    Ascending,
    /// Highest key first.
    Descending,
}

impl From<ScanOrder> for IterationOrder {
    fn from(order: ScanOrder) -> IterationOrder {
        match order {
            ScanOrder::Ascending => IterationOrder::Ascending,
            ScanOrder::Descending => IterationOrder::Descending,
        }
    }
}

/// The keys from `start`, included, to `end`, not included, or to the very last where there is no end.
///
/// Every range of keys has this form, since `key ++ 0x00` is the key right after `key` and the empty key the lowest of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The lowest key in it.
    pub start: Bytes,
    /// The lowest key above it.
    pub end: Option<Bytes>,
}

impl KeyRange {
    /// All keys.
    pub const ALL: KeyRange = KeyRange { start: Bytes::new(), end: None };

    /// The keys within any Rust range of byte strings. A range that is upside down is empty.
    pub fn new(range: impl ByteRangeBounds) -> KeyRange {
        let start = match range.start_bound() {
            Bound::Included(key) => Bytes::copy_from_slice(key),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => Bytes::new(),
        };
        let end = match range.end_bound() {
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(Bytes::copy_from_slice(key)),
            Bound::Unbounded => None,
        };
        KeyRange { start, end }
    }

    /// The one key.
    pub fn point(key: &[u8]) -> KeyRange {
        KeyRange { start: Bytes::copy_from_slice(key), end: Some(after(key)) }
    }

    /// The keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> KeyRange {
        // No key above all of 0xff…: such a prefix has no end.
        let end = prefix.iter().rposition(|byte| *byte != u8::MAX).map(|last| {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            Bytes::from(end)
        });
        KeyRange { start: Bytes::copy_from_slice(prefix), end }
    }

    /// Whether no key lies in it.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }

    /// Whether `key` lies in it.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start.as_ref() <= key && self.end.as_ref().is_none_or(|end| key < end.as_ref())
    }

    /// The part of it that a scan has shown once it yielded `key`: everything on this side of the key, and the key.
    #[must_use]
    pub(crate) fn shown_up_to(&self, key: &[u8], order: ScanOrder) -> KeyRange {
        match order {
            ScanOrder::Ascending => KeyRange { start: self.start.clone(), end: Some(after(key)) },
            ScanOrder::Descending => KeyRange { start: Bytes::copy_from_slice(key), end: self.end.clone() },
        }
    }

    /// The bounds as SlateDB takes them. One key is told apart, since SlateDB looks it up instead of scanning.
    pub(crate) fn bounds(&self) -> (Bound<Bytes>, Bound<Bytes>) {
        let start = Bound::Included(self.start.clone());
        match &self.end {
            Some(end) if is_after(&self.start, end) => (start.clone(), start),
            Some(end) => (start, Bound::Excluded(end.clone())),
            None => (start, Bound::Unbounded),
        }
    }
}

/// The key right after `key`.
fn after(key: &[u8]) -> Bytes {
    let mut after = Vec::with_capacity(key.len() + 1);
    after.extend_from_slice(key);
    after.push(0);
    after.into()
}

fn is_after(key: &[u8], other: &[u8]) -> bool {
    other.split_last().is_some_and(|(last, rest)| *last == 0 && rest == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_bound_has_the_normal_form() {
        let keys: [&[u8]; 6] = [b"", b"a", b"a\0", b"b", b"b\xff", b"c"];
        for low in keys {
            for high in keys {
                let lows = [Bound::Included(low), Bound::Excluded(low), Bound::Unbounded];
                let highs = [Bound::Included(high), Bound::Excluded(high), Bound::Unbounded];
                for (start, end) in lows.into_iter().flat_map(|low| highs.map(|high| (low, high))) {
                    let range = KeyRange::new((start, end));
                    for key in keys {
                        let expected = std::ops::RangeBounds::<[u8]>::contains(&(start, end), key);
                        assert_eq!(range.contains(key), expected, "{key:?} in {start:?} {end:?}");
                        assert!(!(range.is_empty() && range.contains(key)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_prefix_of_highest_bytes_has_no_end() {
        assert_eq!(KeyRange::prefix(b"\xff\xff").end, None);
        assert_eq!(KeyRange::prefix(b"").end, None);
        assert_eq!(KeyRange::prefix(b"a\xff").end.unwrap(), "b");
        assert!(KeyRange::prefix(b"\xff").contains(b"\xff\xff\xff"));
        assert!(!KeyRange::prefix(b"a\xff").contains(b"b"));
    }

    #[test]
    fn one_key_is_told_apart() {
        let key = Bytes::from_static(b"k");
        assert_eq!(KeyRange::point(b"k").bounds(), (Bound::Included(key.clone()), Bound::Included(key)));
    }
}
