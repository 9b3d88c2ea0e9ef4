//! What is read is recorded, and what is recorded conflicts.

use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::envelope::Slot;
use crate::view::tests::kit::*;
use crate::view::{Base, Overlay};

fn view_of(writes: Vec<Write>) -> View {
    let view = View::new(Arc::new(Base::empty()), sequence(1), Bytes::from_static(RESERVED));
    view.advanced([&slot(1, writes)]).unwrap()
}

fn letters() -> View {
    view_of(["b", "d", "f", "h"].map(|key| Write::put(key, "v")).to_vec())
}

fn begin(view: &View) -> Transaction {
    Transaction::new(transaction_id(9), view.clone(), rules())
}

fn verdict(parts: &Parts, view: &View, later: Vec<Write>) -> Rides {
    let next = slot(2, later);
    let now = view.advanced([&next]).unwrap();
    rides(&parts.reads, parts.view_head, sequence(3), now.overlay())
}

fn touched(key: &'static str) -> Rides {
    Rides::Touched(Conflict { key: Bytes::from_static(key.as_bytes()), sequence: sequence(2) })
}

#[tokio::test]
async fn a_key_that_was_read_conflicts_when_it_is_written_or_deleted_and_no_other_does() {
    let view = letters();
    let transaction = begin(&view);
    assert!(transaction.get(b"b").await.unwrap().is_some());
    assert!(transaction.get(b"absent").await.unwrap().is_none());
    let parts = transaction.into_parts();
    assert_eq!(verdict(&parts, &view, vec![Write::put("b", "w")]), touched("b"));
    assert_eq!(verdict(&parts, &view, vec![Write::delete("b")]), touched("b"));
    assert_eq!(verdict(&parts, &view, vec![Write::put("absent", "w")]), touched("absent"));
    assert_eq!(verdict(&parts, &view, vec![Write::put("b\0", "w"), Write::put("a", "w")]), Rides::Untouched);
    assert_eq!(verdict(&parts, &view, vec![Write::delete(RESERVED)]), Rides::Untouched);
}

#[tokio::test]
async fn an_insert_into_a_scanned_range_is_a_phantom_and_conflicts() {
    let view = letters();
    let transaction = begin(&view);
    let mut scan = transaction.scan("c".."g", ScanOrder::Ascending);
    while scan.next().await.unwrap().is_some() {}
    let parts = transaction.into_parts();
    for key in ["c", "d", "e", "fzzz"] {
        assert_eq!(verdict(&parts, &view, vec![Write::put(key, "w")]), touched(key));
    }
    for key in ["b", "g", "h"] {
        assert_eq!(verdict(&parts, &view, vec![Write::put(key, "w")]), Rides::Untouched);
    }
}

#[tokio::test]
async fn a_scan_that_was_given_up_counts_as_far_as_it_came() {
    let view = letters();
    let transaction = begin(&view);
    let mut scan = transaction.scan("a".., ScanOrder::Ascending);
    scan.next().await.unwrap();
    assert_eq!(scan.next().await.unwrap().unwrap().0, "d");
    drop(scan);
    let parts = transaction.into_parts();
    for key in ["a", "c", "d"] {
        assert_eq!(verdict(&parts, &view, vec![Write::put(key, "w")]), touched(key));
    }
    for key in ["d\0", "e", "f"] {
        assert_eq!(verdict(&parts, &view, vec![Write::put(key, "w")]), Rides::Untouched);
    }

    let transaction = begin(&view);
    let mut scan = transaction.scan("a".."g", ScanOrder::Descending);
    assert_eq!(scan.next().await.unwrap().unwrap().0, "f");
    drop(scan);
    let parts = transaction.into_parts();
    for key in ["f", "fz"] {
        assert_eq!(verdict(&parts, &view, vec![Write::put(key, "w")]), touched(key));
    }
    for key in ["e", "g"] {
        assert_eq!(verdict(&parts, &view, vec![Write::put(key, "w")]), Rides::Untouched);
    }
}

#[tokio::test]
async fn a_scan_that_was_never_asked_reads_nothing() {
    let view = letters();
    let transaction = begin(&view);
    drop(transaction.scan(.., ScanOrder::Ascending));
    assert!(transaction.into_parts().reads.is_empty());
}

#[tokio::test]
async fn a_scan_outlives_its_transaction_as_an_error() {
    let transaction = begin(&letters());
    let mut scan = transaction.scan(.., ScanOrder::Ascending);
    assert!(scan.next().await.unwrap().is_some());
    let parts = transaction.into_parts();
    assert!(matches!(scan.next().await, Err(ReadError::Ended)));
    assert!(!parts.reads.is_empty());
}

#[tokio::test]
async fn blind_writes_never_conflict_though_nothing_is_known_of_the_slots() {
    let view = letters();
    let mut transaction = begin(&view);
    transaction.put("b", "mine").unwrap();
    assert_eq!(transaction.get(b"b").await.unwrap().unwrap(), "mine", "its own write is no read");
    let parts = transaction.into_parts();
    assert_eq!(verdict(&parts, &view, vec![Write::put("b", "theirs")]), Rides::Untouched);
    assert_eq!(rides(&parts.reads, None, sequence(99), &Overlay::new(sequence(1))), Rides::Untouched);
}

#[tokio::test]
async fn a_slot_that_is_not_known_any_more_is_a_conflict_and_a_trim_forgets_none() {
    let view = letters();
    let transaction = begin(&view);
    transaction.get(b"b").await.unwrap();
    let parts = transaction.into_parts();
    let harmless = [slot(2, vec![Write::put("x", "v")]), slot(3, vec![Write::put("y", "v")])];
    let now = view.advanced(&harmless).unwrap();
    let verdict = |overlay: &Overlay| rides(&parts.reads, parts.view_head, sequence(4), overlay);
    assert_eq!(verdict(now.overlay()), Rides::Untouched);
    assert_eq!(verdict(&now.overlay().trimmed(Some(sequence(3)))), Rides::Untouched);

    let cost = now.overlay().recent_bytes();
    let forgetful = Overlay::with_bound(sequence(1), cost / 3).apply(&harmless[0]).apply(&harmless[1]);
    assert_eq!(verdict(&forgetful), Rides::Unknown);
    assert_eq!(verdict(&Overlay::new(sequence(1))), Rides::Unknown);
}

#[test]
fn the_first_conflict_is_named() {
    let mut reads = ReadSet::new(Bytes::from_static(RESERVED));
    reads.insert(&KeyRange::prefix(b"k"));
    let slots =
        [slot(5, vec![Write::put("a", "v")]), slot(6, vec![Write::put("k2", "v")]), slot(7, vec![Write::put("k1", "v")])];
    let conflict = conflicts(&reads, slots.iter().map(Arc::as_ref)).unwrap();
    assert_eq!(conflict.to_string(), "key k2 was read and then written by slot 6");
    assert_eq!(conflicts(&reads, std::iter::empty::<&Slot>()), None);
}

#[test]
fn what_no_slot_may_carry_is_refused_at_once() {
    let mut transaction = Transaction::new(transaction_id(9), letters(), Rules { max_slot_bytes: 100, ..rules() });
    assert_eq!(transaction.put("", "v"), Err(Refused::EmptyKey));
    assert!(matches!(transaction.delete(RESERVED), Err(Refused::ReservedKey { .. })));
    assert!(matches!(transaction.merge("k", "v"), Err(Refused::Merge { .. })));
    assert!(matches!(transaction.put_expiring("k", "v", 1), Err(Refused::Expiry { .. })));
    transaction.put("k", vec![0; 80]).unwrap();
    assert!(matches!(transaction.put("l", vec![0; 80]), Err(Refused::Slot { limit: 100, .. })));
    transaction.put("k", vec![1; 90]).unwrap();
    transaction.put("a", "").unwrap();
    let parts = transaction.into_parts();
    assert_eq!(parts.writes, [Write::put("a", ""), Write::put("k", vec![1; 90])]);
    assert_eq!((parts.id, parts.view_head), (transaction_id(9), Some(sequence(1))));
}

#[test]
fn a_read_set_never_forgets_a_key_however_small_it_is() {
    for seed in 0..300 {
        let mut random = StdRng::seed_from_u64(seed);
        let limits = (random.random_range(1..12), random.random_range(8..60));
        let mut small = ReadSet::with_limits(Bytes::from_static(RESERVED), limits.0, limits.1);
        let mut exact = ReadSet::new(Bytes::from_static(RESERVED));
        let mut inserted: Vec<KeyRange> = Vec::new();
        for _ in 0..60 {
            let range = match random.random_range(0..4) {
                0 => KeyRange::prefix(&random_key(&mut random)),
                1 => KeyRange::new(random_key(&mut random)..=random_key(&mut random)),
                _ => KeyRange::point(&random_key(&mut random)),
            };
            small.insert(&range);
            if random.random_range(0..3) != 0 || exact.is_empty() {
                inserted.push(range.clone());
                exact.insert(&range);
            }
            assert!(small.ranges().count() <= limits.0, "seed {seed}");
            let ranges: Vec<KeyRange> = exact.ranges().collect();
            assert!(ranges.windows(2).all(|pair| pair[0].end.as_ref().unwrap() < &pair[1].start), "seed {seed}: {ranges:?}");
        }
        for _ in 0..400 {
            let key = random_key(&mut random);
            let read = inserted.iter().any(|range| range.contains(&key));
            assert_eq!(exact.contains(&key), read, "seed {seed}: {key:?}");
            assert!(!read || small.contains(&key), "seed {seed}: {key:?}");
        }
    }
}

#[test]
fn a_read_set_stays_within_its_bounds() {
    let mut reads = ReadSet::new(Bytes::from_static(RESERVED));
    for number in 0..3 * MAX_READ_RANGES {
        reads.insert(&KeyRange::point(format!("table/{}/{}", number % 7, number).as_bytes()));
        assert!(reads.ranges().count() <= MAX_READ_RANGES);
    }
    assert!(reads.contains(b"table/0/0"));
    assert!(!reads.contains(b"tables"));
    for number in 0..200_u8 {
        reads.insert(&KeyRange::point(&[&[number][..], &[number; 60_000]].concat()));
    }
    let bytes: usize = reads.ranges().map(|range| range.start.len() + range.end.map_or(0, |end| end.len())).sum();
    assert!(bytes <= MAX_READ_BYTES);
}
