//! The tail in memory: what is kept, trimmed and forgotten.

use super::kit::*;
use crate::envelope::Write;
use crate::view::*;

fn known(overlay: &Overlay, head: Option<u64>, upto: u64) -> Option<Vec<u64>> {
    let slots = overlay.written_since(head.map(sequence), sequence(upto))?;
    Some(slots.map(|slot| slot.sequence().get()).collect())
}

#[test]
fn a_trim_drops_rows_and_keeps_the_slots() {
    let mut overlay = Overlay::new(sequence(1));
    for number in 1..=4 {
        overlay = overlay.apply(&slot(number, vec![Write::put("same", "v"), Write::put(format!("k{number}"), "v")]));
    }
    assert_eq!((overlay.rows(), overlay.bytes()), (5, 5 + 4 * 3));
    let trimmed = overlay.trimmed(Some(sequence(3)));
    assert_eq!((trimmed.rows(), trimmed.bytes()), (2, 5 + 3));
    assert_eq!(trimmed.get(b"same").unwrap().sequence, sequence(4));
    assert_eq!(trimmed.get(b"k3"), None);
    assert_eq!(known(&trimmed, None, 5), Some(vec![1, 2, 3, 4]));
    assert_eq!((overlay.rows(), overlay.trimmed(None).rows()), (5, 5));
}

#[test]
fn the_slots_between_two_are_all_given_or_none() {
    let mut overlay = Overlay::new(sequence(3));
    for number in [3, 4, 6] {
        overlay = overlay.apply(&slot(number, vec![Write::put("k", "v")]));
    }
    assert_eq!(known(&overlay, None, 5), Some(vec![3, 4]));
    assert_eq!(known(&overlay, Some(3), 5), Some(vec![4]));
    assert_eq!(known(&overlay, Some(4), 5), Some(vec![]));
    assert_eq!(known(&overlay, Some(9), 5), Some(vec![]));
    assert_eq!(known(&overlay, Some(4), 7), None, "slot 5 is missing");
    assert_eq!(known(&overlay, Some(6), 8), None, "slot 7 is not there yet");
    assert_eq!(known(&overlay, None, 3), Some(vec![]));
}

#[test]
fn the_slots_kept_are_the_newest_within_the_bound() {
    let one = overlay::slot_cost(&slot(1, vec![Write::put("k", "v")]));
    let mut overlay = Overlay::with_bound(sequence(1), 3 * one);
    for number in 1..=5 {
        overlay = overlay.apply(&slot(number, vec![Write::put("k", "v")]));
        assert!(overlay.recent_bytes() <= 3 * one);
    }
    assert_eq!(known(&overlay, Some(2), 6), Some(vec![3, 4, 5]));
    assert_eq!(known(&overlay, Some(1), 6), None);
    assert_eq!(overlay.rows(), 1, "the rows stay");
}
