//! Views equal a model, in both orders, for as long as they live.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::kit::*;
use crate::envelope::{Slot, Write};
use crate::transaction::Transaction;
use crate::view::*;

const STORES: u64 = 40;
const SCANS: usize = 80;

/// Nothing compacts here, and SlateDB stops flushing at eight files.
const MAX_FLUSHES: usize = 6;

fn random_bound(random: &mut StdRng) -> Bound<Bytes> {
    match random.random_range(0..5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(random_key(random)),
        _ => Bound::Excluded(random_key(random)),
    }
}

fn expected(rows: &Rows, range: &KeyRange, order: ScanOrder) -> Vec<(Bytes, Bytes)> {
    let inside = rows.iter().filter(|(key, _)| range.contains(key));
    let mut rows: Vec<_> = inside.map(|(key, value)| (key.clone(), value.clone())).collect();
    if order == ScanOrder::Descending {
        rows.reverse();
    }
    rows
}

fn random_order(random: &mut StdRng) -> ScanOrder {
    if random.random_range(0..2) == 0 { ScanOrder::Ascending } else { ScanOrder::Descending }
}

/// A store into which some slots were folded, and a view that has all of them.
async fn random_view(random: &mut StdRng) -> (View, Rows) {
    let world = World::new();
    let slots: Vec<Arc<Slot>> = (1..=random.random_range(2..25)).map(|number| slot(number, random_writes(random))).collect();
    let folded = random.random_range(0..=slots.len());
    let mut rows = Rows::new();
    let db = world.db().await;
    let mut flushes = 0;
    for slot in &slots[..folded] {
        fold(&db, slot).await;
        if flushes < MAX_FLUSHES && random.random_range(0..5) == 0 {
            flush(&db).await;
            flushes += 1;
        }
    }
    slots.iter().for_each(|slot| apply(&mut rows, &slot.envelope().writes));
    db.close().await.unwrap();
    let view = View::new(world.base().await, sequence(1), Bytes::from_static(RESERVED));
    let from = random.random_range(0..=view.head().map_or(0, |head| head.get() as usize));
    (view.advanced(&slots[from..]).unwrap(), rows)
}

#[tokio::test]
async fn scans_and_gets_of_base_tail_and_own_writes_equal_a_model() {
    for seed in 0..STORES {
        let mut random = StdRng::seed_from_u64(seed);
        let (view, mut rows) = random_view(&mut random).await;
        let mut transaction = Transaction::new(transaction_id(1), view.clone(), rules());
        let shared = rows.clone();
        for case in 0..SCANS {
            let order = random_order(&mut random);
            let range = match random.random_range(0..4) {
                0 => KeyRange::prefix(&random_key(&mut random)),
                1 => KeyRange::point(&random_key(&mut random)),
                _ => KeyRange::new((random_bound(&mut random), random_bound(&mut random))),
            };
            let found = collect(view.scan_under(None, range.clone(), order)).await;
            assert_eq!(found, expected(&shared, &range, order), "seed {seed}, case {case}: {range:?} {order:?}");

            let mut scan = transaction.scan(range.bounds(), order);
            let mut found = Vec::new();
            while let Some(row) = scan.next().await.unwrap() {
                found.push(row);
            }
            assert_eq!(found, expected(&rows, &range, order), "seed {seed}, case {case}: own writes, {range:?} {order:?}");

            let key = random_key(&mut random);
            assert_eq!(view.get(&key).await.unwrap().as_ref(), shared.get(&key), "seed {seed}, case {case}: {key:?}");
            assert_eq!(transaction.get(&key).await.unwrap().as_ref(), rows.get(&key), "seed {seed}, case {case}: {key:?}");
            let write = random_writes(&mut random).remove(0);
            if write.key != RESERVED {
                apply(&mut rows, std::slice::from_ref(&write));
                match write.value {
                    Some(value) => transaction.put(write.key, value).unwrap(),
                    None => transaction.delete(write.key).unwrap(),
                }
            }
        }
        view.base().close().await;
    }
}

#[tokio::test]
async fn old_views_stay_true_when_they_are_advanced_and_rebased() {
    for seed in 0..STORES {
        let mut random = StdRng::seed_from_u64(1_000 + seed);
        let world = World::new();
        let db = world.db().await;
        let mut rows = Rows::new();
        let mut view = View::new(world.base().await, sequence(1), Bytes::from_static(RESERVED));
        let mut kept = vec![(view.clone(), rows.clone())];
        let mut unfolded: Vec<Arc<Slot>> = Vec::new();
        let mut flushes = 0;
        for number in 1..=30 {
            let next = slot(number, random_writes(&mut random));
            view = view.advanced([&next]).unwrap();
            assert_eq!(view.head_slot(), Some(HeadSlot::from(next.as_ref())));
            apply(&mut rows, &next.envelope().writes);
            unfolded.push(next);
            kept.push((view.clone(), rows.clone()));
            if flushes < MAX_FLUSHES && random.random_range(0..5) == 0 {
                flushes += 1;
                let count = random.random_range(1..=unfolded.len());
                for slot in unfolded.drain(..count) {
                    fold(&db, &slot).await;
                }
                flush(&db).await;
                view = view.rebased(world.base().await).unwrap();
                assert_eq!(view.head(), Some(sequence(number)));
                assert!(view.head_slot().is_some());
                kept.push((view.clone(), rows.clone()));
            }
        }
        for (view, rows) in &kept {
            assert_eq!(&everything(view).await, rows, "seed {seed}: {view:?}");
            let mut backwards = collect(view.scan(.., ScanOrder::Descending)).await;
            backwards.reverse();
            assert!(backwards.iter().map(|(key, value)| (key, value)).eq(rows), "seed {seed}: {view:?} backwards");
        }
        for (view, _) in kept {
            view.base().close().await;
        }
        db.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_view_refuses_a_hole_and_a_base_that_covers_less() {
    let world = World::new();
    let db = world.db().await;
    let bare = world.base().await;
    let slots: Vec<Arc<Slot>> = (1..=5).map(|number| slot(number, vec![Write::put("k", number.to_string())])).collect();
    fold(&db, &slots[0]).await;
    fold(&db, &slots[1]).await;
    flush(&db).await;
    let view = View::new(world.base().await, sequence(1), Bytes::from_static(RESERVED));
    assert_eq!((view.head(), view.head_slot()), (Some(sequence(2)), None));
    assert_eq!(view.advanced(&slots[3..]).unwrap_err(), Gap { expected: sequence(3), found: sequence(4) });
    let refused = view.rebased(Arc::clone(&bare)).unwrap_err();
    assert_eq!(refused, OlderBase { covered: sequence(2), found: None });
    assert_eq!(refused.to_string(), "expected a base that covers at least slot 2, found one up to 0");

    // A slot that is covered adds no row, but says who the head is.
    let told = view.advanced(&slots[..2]).unwrap();
    assert_eq!((told.overlay().rows(), told.head_slot()), (0, Some(HeadSlot::from(slots[1].as_ref()))));

    // A base may lead the tail.
    let behind = View::new(bare, sequence(1), Bytes::from_static(RESERVED)).advanced(&slots[..1]).unwrap();
    let ahead = behind.rebased(Arc::clone(view.base())).unwrap();
    assert_eq!((ahead.head(), ahead.head_slot(), ahead.overlay().rows()), (Some(sequence(2)), None, 0));
    assert_eq!(ahead.get(b"k").await.unwrap().unwrap(), "2");
}

#[tokio::test]
async fn what_a_store_held_before_its_adoption_is_seen_and_is_no_slot() {
    let world = World::new();
    let db = world.db().await;
    db.put(b"native", b"row").await.unwrap();
    db.put(RESERVED, b"native too").await.unwrap();
    flush(&db).await;
    let view = View::new(world.base().await, sequence(1_025), Bytes::from_static(RESERVED));
    assert_eq!((view.head(), view.next_sequence()), (None, sequence(1_025)));
    assert_eq!(view.get(b"native").await.unwrap().unwrap(), "row");
    assert_eq!(view.get(RESERVED).await.unwrap(), None, "the log's own key is never seen");
    assert_eq!(everything(&view).await.len(), 1);
    let first = slot(1_025, vec![Write::delete("native")]);
    let view = view.advanced([&first]).unwrap();
    assert!(everything(&view).await.is_empty());
}
