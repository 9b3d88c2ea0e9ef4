//! A bucket that was damaged: whoever meets it is told which object, gets nothing past it, and writes nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code: a broken expectation must stop the test that met it")]

use std::sync::Arc;

use bytes::Bytes;
use commit_log::bucket::ObjectName;
use commit_log::error::Corruption;
use commit_log::identity::LogId;
use commit_log::ledger::Ledger;
use commit_log::log::{OfferError, Proof, SlotLog, TailError};
use commit_log::slot::{Page, Sequence};
use commit_log_kit::bucket::{Process, SimulatedBucket};
use commit_log_kit::runtime::World;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use crate::calm::{calm, commit, commit_all, open, unread};

/// Whoever damages objects.
const VANDAL: Process = Process(100);

fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap()
}

/// A log of ten slots in pages of four, and a reader that knows the first five.
struct Scene {
    world: World,
    bucket: SimulatedBucket,
    store: Arc<dyn ObjectStore>,
    writer: SlotLog,
    lagging: SlotLog,
}

impl Scene {
    async fn new(world: World, bucket: SimulatedBucket) -> Scene {
        let writer = open(&world, &bucket, Process(1)).await;
        commit_all(&writer, 1..=5).await;
        let lagging = open(&world, &bucket, Process(2)).await;
        commit_all(&writer, 6..=10).await;
        let store = bucket.link(VANDAL);
        Scene { world, bucket, store, writer, lagging }
    }

    fn log(&self) -> LogId {
        self.writer.record().log
    }

    fn path(&self, name: ObjectName) -> Path {
        name.path(&"store".into())
    }

    fn slot(&self, number: u64) -> ObjectName {
        ObjectName::Slot(self.log(), sequence(number))
    }

    async fn get(&self, name: ObjectName) -> Bytes {
        self.store.get(&self.path(name)).await.unwrap().bytes().await.unwrap()
    }

    async fn put(&self, name: ObjectName, bytes: Bytes) {
        self.store.put(&self.path(name), bytes.into()).await.unwrap();
    }

    /// Everybody who reads the slots is told of the damage, and nothing has changed.
    async fn everybody_is_told(&self, is_it: impl Fn(&Corruption) -> bool, damaged: u64) {
        let fresh = unread(&self.world, &self.bucket, Process(3)).await;
        let before = self.bucket.history(|history| history.effects().len());
        let told = |found: Result<(), TailError>| match found {
            Err(TailError::Corrupt(corruption)) => assert!(is_it(&corruption), "{corruption:?}"),
            other => panic!("slot {damaged} was damaged, and what was found is {other:?}"),
        };
        let deadline = self.writer.bucket().deadline();
        told(fresh.load(None, &deadline).await);
        assert_eq!(fresh.head(), None);
        if damaged > 6 {
            told(self.lagging.catch_up(Proof::Always, &deadline).await);
        }
        assert!(self.lagging.head() < Some(sequence(damaged)));
        told(self.writer.slots(sequence(1), sequence(11), usize::MAX, &deadline).await.map(|_| ()));
        assert_eq!(self.bucket.history(|history| history.effects().len()), before);
    }
}

/// Every change of one bit a byte, and every cut.
fn damages(whole: &Bytes) -> impl Iterator<Item = Bytes> {
    let flips = (0..whole.len()).map(|at| {
        let mut bytes = whole.to_vec();
        bytes[at] ^= 1 << (at % 8);
        Bytes::from(bytes)
    });
    flips.chain((0..whole.len()).map(|length| whole.slice(..length)))
}

#[test]
fn a_slot_with_any_byte_changed_or_cut_off_is_named_and_nothing_past_it_is_served() {
    calm(|world, bucket| async move {
        let scene = Scene::new(world, bucket).await;
        let name = scene.slot(8);
        let whole = scene.get(name).await;
        for damage in damages(&whole) {
            scene.put(name, damage).await;
            let named = |it: &Corruption| matches!(it, Corruption::Damaged { object, .. } if *object == name);
            scene.everybody_is_told(named, 8).await;
        }
    });
}

#[test]
fn an_offer_that_meets_a_damaged_slot_is_told_so_and_changes_nothing() {
    calm(|world, bucket| async move {
        let scene = Scene::new(world, bucket).await;
        let name = scene.slot(6);
        let whole = scene.get(name).await;
        for (number, damage) in (20..).zip(damages(&whole).step_by(8)) {
            scene.put(name, damage).await;
            let before = scene.bucket.history(|history| history.effects().len());
            let offer = scene.lagging.offer(sequence(6), commit(number), &scene.lagging.bucket().deadline()).await;
            let named = |it: &Corruption| matches!(it, Corruption::Damaged { object, .. } if *object == name);
            assert!(matches!(&offer, Err(OfferError::Corrupt(corruption)) if named(corruption)), "{offer:?}");
            assert_eq!(scene.bucket.history(|history| history.effects().len()), before);
        }
    });
}

#[test]
fn a_ledger_with_any_byte_changed_or_cut_off_is_named_and_decides_nothing() {
    calm(|world, bucket| async move {
        let scene = Scene::new(world, bucket).await;
        let deadline = scene.writer.bucket().deadline();
        let page = scene.writer.slots(sequence(1), sequence(4), usize::MAX, &deadline).await.unwrap();
        let ledger = Ledger::seal(scene.log(), Page::new(0), scene.writer.record().page_size, &page).unwrap();
        let name = ObjectName::Ledger(scene.log(), Page::new(0));
        for damage in damages(&ledger.encode()) {
            scene.put(name, damage).await;
            let outcome = scene.writer.outcome(commit(2).transaction, sequence(2), &scene.writer.bucket().deadline()).await;
            let named = |it: &Corruption| matches!(it, Corruption::Damaged { object, .. } if *object == name);
            assert!(matches!(&outcome, Err(TailError::Corrupt(corruption)) if named(corruption)), "{outcome:?}");
        }
    });
}

#[test]
fn a_slot_of_another_log_is_damage() {
    calm(|world, bucket| async move {
        let scene = Scene::new(world, bucket).await;
        let rules = scene.writer.rules().clone();
        let envelope = commit_log::envelope::Slot::decode(scene.get(scene.slot(8)).await, scene.log(), sequence(8)).unwrap();
        let stranger = commit_log::envelope::Envelope { log: LogId::from_bytes([9; 16]), ..envelope.envelope().clone() };
        let stranger = commit_log::envelope::Slot::seal(stranger, &rules).unwrap();
        let name = scene.slot(8);
        scene.put(name, stranger.bytes().clone()).await;
        let named = |it: &Corruption| matches!(it, Corruption::Damaged { object, .. } if *object == name);
        scene.everybody_is_told(named, 8).await;
    });
}

#[test]
fn two_slots_that_changed_places_are_damage() {
    calm(|world, bucket| async move {
        let scene = Scene::new(world, bucket).await;
        let (seven, eight) = (scene.slot(7), scene.slot(8));
        let (first, second) = (scene.get(seven).await, scene.get(eight).await);
        scene.put(seven, second).await;
        scene.put(eight, first).await;
        let named = |it: &Corruption| matches!(it, Corruption::Damaged { object, .. } if *object == seven);
        scene.everybody_is_told(named, 7).await;
    });
}

#[test]
fn a_slot_with_another_parent_breaks_the_chain() {
    calm(|world, bucket| async move {
        let scene = Scene::new(world, bucket).await;
        let whole = commit_log::envelope::Slot::decode(scene.get(scene.slot(8)).await, scene.log(), sequence(8)).unwrap();
        let orphan = commit_log::envelope::Envelope { parent: whole.own_id(), ..whole.envelope().clone() };
        let orphan = commit_log::envelope::Slot::seal(orphan, scene.writer.rules()).unwrap();
        scene.put(scene.slot(8), orphan.bytes().clone()).await;
        let broken = |it: &Corruption| *it == Corruption::BrokenChain { sequence: sequence(8) };
        scene.everybody_is_told(broken, 8).await;
    });
}

#[test]
fn a_slot_that_was_destroyed_is_a_hole_wherever_it_was() {
    for missing in 1..10 {
        calm(|world, bucket| async move {
            let scene = Scene::new(world, bucket).await;
            scene.store.delete(&scene.path(scene.slot(missing))).await.unwrap();
            let hole = |it: &Corruption| matches!(it, Corruption::Hole { missing: it, .. } if *it == sequence(missing));
            scene.everybody_is_told(hole, missing.max(6)).await;
        });
    }
}
