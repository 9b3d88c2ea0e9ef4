//! The tail: what is served, what is corruption, and what is neither.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use commit_log::adoption::FreshLog;
use commit_log::bucket::{Deadline, ObjectName};
use commit_log::envelope::{Envelope, Rules, Slot, Write};
use commit_log::error::Corruption;
use commit_log::frame::Damage;
use commit_log::identity::{LogId, OwnId, TransactionId};
use commit_log::log::{Commit, LogOptions, Offer, Proof, TailError};
use commit_log::slot::{Page, PageSize};
use commit_log_kit::bucket::Operation;
use commit_log_kit::scripted::{Fate, PathClass};

use crate::stores::{Liar, Lie};
use crate::support::{PAGE, Process, World, distant, is, sequence};

fn corruption(result: Result<(), TailError>) -> Corruption {
    match result {
        Err(TailError::Corrupt(corruption)) => corruption,
        other => panic!("expected corruption, found {other:?}"),
    }
}

/// What a load and a poll from slot 1 on say of the log as it lies there now. Neither may believe anything.
async fn both_ways(world: &World, poller: &Process) -> [Corruption; 2] {
    let loader = world.process_with(LogOptions::default());
    let loaded = loader.log.load(None, &loader.deadline()).await;
    let polled = poller.log.catch_up(Proof::NowAndThen, &poller.deadline()).await;
    assert_eq!((loader.head(), poller.head()), (0, 1), "nothing of it is believed");
    [corruption(loaded), corruption(polled)]
}

/// A log of five slots, and a process that knows the first.
async fn five_slots() -> (World, Process) {
    let world = World::new().await;
    world.commit_through(5).await;
    let poller = world.lagging_process(1).await;
    (world, poller)
}

#[tokio::test(start_paused = true)]
async fn a_hole_is_corruption_that_names_the_missing_slot() {
    let (world, poller) = five_slots().await;
    world.delete(world.slot_name(3)).await;
    for found in both_ways(&world, &poller).await {
        assert!(matches!(found, Corruption::Hole { missing, .. } if missing == sequence(3)), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flipped_or_cut_slot_is_corruption_that_names_it() {
    let (world, poller) = five_slots().await;
    let whole = world.read(world.slot_name(3)).await.unwrap();
    let mut flipped = whole.to_vec();
    flipped[whole.len() / 2] ^= 1;
    for bytes in [whole.slice(..whole.len() - 1), Bytes::from(flipped), Bytes::new()] {
        world.write(world.slot_name(3), bytes).await;
        for found in both_ways(&world, &poller).await {
            assert!(matches!(&found, Corruption::Damaged { object, .. } if *object == world.slot_name(3)), "{found:?}");
            assert!(found.to_string().starts_with("slot 3 is damaged: "), "{found}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn another_logs_slot_and_a_slot_under_another_name_are_corruption() {
    let (world, poller) = five_slots().await;
    let envelope = world.slot(3).await.unwrap().envelope().clone();
    let foreign = seal(Envelope { log: LogId::from_bytes([9; 16]), ..envelope.clone() });
    let moved = seal(Envelope { sequence: sequence(4), ..envelope });
    for slot in [foreign, moved] {
        world.write(world.slot_name(3), slot.bytes().clone()).await;
        for found in both_ways(&world, &poller).await {
            let is_field =
                matches!(found, Corruption::Damaged { object, damage: Damage::Field(_) } if object == world.slot_name(3));
            assert!(is_field);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_chain_is_corruption_that_names_the_first_slot_past_it() {
    let (world, poller) = five_slots().await;
    let envelope = world.slot(3).await.unwrap().envelope().clone();
    let orphan = seal(Envelope { parent: OwnId::from_bytes([9; 16]), ..envelope });
    world.write(world.slot_name(3), orphan.bytes().clone()).await;
    for found in both_ways(&world, &poller).await {
        assert_eq!(found, Corruption::BrokenChain { sequence: sequence(3) });
    }
}

fn seal(envelope: Envelope) -> Slot {
    let rules = Rules { reserved_key: Bytes::from_static(b"\0"), max_slot_bytes: 1 << 20, route: None };
    Slot::seal(envelope, &rules).unwrap()
}

#[tokio::test(start_paused = true)]
async fn bytes_that_were_cut_on_the_way_once_are_read_again() {
    let (world, poller) = five_slots().await;
    let whole = world.read(world.slot_name(3)).await.unwrap();
    world.write(world.slot_name(3), whole.slice(..9)).await;
    // Given that the second read of the slot is the first that is whole.
    let slot_three = world.slot_name(3).file_name();
    let second = poller.scripted.script(2, move |request| request.path.ends_with(&slot_three), Fate::Hold);
    let heals = async {
        second.reached().await;
        world.write(world.slot_name(3), whole).await;
        second.release();
    };
    let (polled, ()) = futures::future::join(poller.log.catch_up(Proof::NowAndThen, &poller.deadline()), heals).await;
    polled.unwrap();
    assert_eq!(poller.head(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_gap_that_closes_while_a_round_is_read_is_read_again_and_no_hole() {
    let world = World::new().await;
    let other = world.commit_through(2).await;
    let reader = world.lagging_process(1).await;
    // Given a round whose read of slot 3 finds nothing, and whose read of slot 4 is later than the commits of both.
    let slot_four = world.slot_name(4).file_name();
    let late = reader.scripted.script(1, move |request| request.path.ends_with(&slot_four), Fate::Hold);
    let lands = async {
        late.reached().await;
        other.commit().await;
        other.commit().await;
        late.release();
    };
    let (read, ()) = futures::future::join(reader.log.catch_up(Proof::NowAndThen, &reader.deadline()), lands).await;
    read.unwrap();
    assert_eq!(reader.head(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_breaks_off_is_asked_for_again_and_never_a_shorter_tail() {
    let world = World::new().await;
    world.commit_through(7).await;
    let process = world.process_over(Liar::new(world.memory.clone(), Lie::BreaksOff(AtomicU64::new(3))), LogOptions::default());
    let mark = process.mark();
    process.load(None).await;
    assert_eq!((process.head(), process.since(mark).lists), (7, 4));
    // One that never comes whole is an error, and nothing was learnt.
    let process = world.process_over(Liar::new(world.memory.clone(), Lie::BreaksOff(u64::MAX.into())), LogOptions::default());
    let loaded = process.log.load(None, &process.deadline()).await;
    assert!(matches!(loaded, Err(TailError::Unavailable(_))), "{loaded:?}");
    assert_eq!(process.log.head(), None);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_is_an_error_and_never_fewer_slots() {
    let (world, poller) = five_slots().await;
    let slot_three = world.slot_name(3).file_name();
    for nth in 1..=100 {
        let slot_three = slot_three.clone();
        poller.scripted.script(nth, move |request| request.path.ends_with(&slot_three), Fate::Fail);
    }
    let polled = poller.log.catch_up(Proof::NowAndThen, &poller.deadline()).await;
    assert!(matches!(polled, Err(TailError::Unavailable(_))), "{polled:?}");
    assert_eq!(poller.head(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_shows_later_names_and_misses_earlier_ones_loads_the_whole_tail() {
    let world = World::new().await;
    world.commit_through(150).await;
    let misses: [fn(u64) -> bool; 4] = [|number| number == 70, |number| number < 100, |number| number > 30, |_| true];
    for misses in misses {
        let lie = Lie::Misses(Box::new(move |name| name.rsplit('/').next().unwrap().parse().is_ok_and(misses)));
        let process = world.process_over(Liar::new(world.memory.clone(), lie), LogOptions::default());
        process.load(None).await;
        assert_eq!(process.head(), 150);
    }
}

#[tokio::test(start_paused = true)]
async fn a_damaged_ledger_is_corruption_that_names_it() {
    let (world, poller) = five_slots().await;
    world.seal(0).await;
    let name = ObjectName::Ledger(world.record.log, Page::new(0));
    let whole = world.read(name).await.unwrap();
    world.write(name, whole.slice(..whole.len() - 1)).await;
    for found in both_ways(&world, &poller).await {
        assert!(matches!(&found, Corruption::Damaged { object, .. } if *object == name), "{found:?}");
    }
    // Nor does an offer, an outcome or a commit pass it by.
    let answer = poller.offer(2, poller.new_commit()).await;
    assert!(matches!(answer, Err(commit_log::log::OfferError::Corrupt(_))), "{answer:?}");
    let transaction = TransactionId::from_bytes([1; 16]);
    let outcome = poller.log.outcome(transaction, sequence(1), &poller.deadline()).await;
    assert!(matches!(outcome, Err(TailError::Corrupt(_))), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn slots_come_from_memory_or_are_read_again_and_end_at_the_size_that_was_asked_for() {
    let world = World::new().await;
    let remembers = world.commit_through(9).await;
    let forgets = world.process_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() });
    forgets.load(None).await;
    for process in [&remembers, &forgets] {
        let slots = async |first, last, bytes| {
            let read = process.log.slots(sequence(first), sequence(last), bytes, &process.deadline()).await.unwrap();
            read.iter().map(|slot| slot.sequence().get()).collect::<Vec<_>>()
        };
        assert_eq!(slots(2, 6, 1 << 20).await, [2, 3, 4, 5, 6]);
        assert_eq!(slots(9, 9, 1).await, [9]);
    }
    // From memory as many as fit, and at least one; from the bucket a whole round.
    let few = remembers.log.slots(sequence(2), sequence(6), 1, &remembers.deadline()).await.unwrap();
    assert_eq!(few.len(), 1);
    // A slot that the caller knows of and that is gone is corruption, or behind where its page is retired.
    world.delete(world.slot_name(6)).await;
    let read = forgets.log.slots(sequence(5), sequence(7), 1 << 20, &forgets.deadline()).await;
    assert!(matches!(read, Err(TailError::Corrupt(Corruption::Hole { missing, .. })) if missing == sequence(6)));
    world.retire(0).await;
    let read = forgets.log.slots(sequence(2), sequence(4), 1 << 20, &forgets.deadline()).await;
    assert!(matches!(read, Err(TailError::Behind { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_tail_of_more_slots_than_one_call_believes_loads_whole() {
    let world = World::with(FreshLog { page_size: PageSize::new(64).unwrap(), ..FreshLog::default() }).await;
    world.commit_through(5000).await;
    for covered in [None, Some(3), Some(1000)] {
        let process = world.process_with(LogOptions::default());
        let mark = process.mark();
        process.load(covered).await;
        assert_eq!(process.head(), 5000);
        let spent = process.since(mark);
        assert_eq!((spent.lists, spent.ledger_reads), (1, 2 - u64::from(covered == Some(1000))));
    }
}

fn large(process: &Process, bytes: usize) -> Commit {
    let commit = process.new_commit();
    Commit { writes: vec![Write::put("large", vec![0; bytes])], ..commit }
}

#[tokio::test(start_paused = true)]
async fn slots_in_memory_are_bounded_by_what_they_take_there_not_by_their_compressed_size() {
    let world = World::new().await;
    let process = world.process_with(LogOptions { remembered_bytes: 1 << 20, ..LogOptions::default() });
    process.load(None).await;
    for number in 1..=3 {
        let offer = process.offer(number, large(&process, 700 << 10)).await;
        assert!(matches!(offer, Ok(Offer::Won { .. })), "{offer:?}");
    }
    assert!(world.read(world.slot_name(3)).await.unwrap().len() < 10 << 10, "stored compressed");
    assert_eq!(process.log.remembered_after(Some(sequence(2))).unwrap().len(), 1);
    assert!(process.log.remembered_after(Some(sequence(1))).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_tail_of_large_slots_is_believed_in_parts() {
    let world = World::with(FreshLog::default()).await;
    let writer = world.process_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() });
    writer.load(None).await;
    for number in 1..=130 {
        writer.offer(number, large(&writer, 1 << 20)).await.unwrap();
    }
    let process = world.process_with(LogOptions { remembered_bytes: 0, ..LogOptions::default() });
    let mark = process.mark();
    process.load(None).await;
    assert_eq!(process.head(), 130);
    assert!(process.since(mark).ledger_reads > 1, "believed and let go before the rest was read");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_is_read_before_the_last_slot_would_miss_a_retirement_so_it_is_read_after() {
    let world = World::new().await;
    world.commit_through(u64::from(PAGE) + 1).await;
    let reader = world.process_over(distant(world.memory.clone()), LogOptions::default());
    // Given a load whose last read of a slot is answered.
    let ledger = reader.scripted.script(1, is(Operation::Get, PathClass::Retired), Fate::Hold);
    let retires = async {
        ledger.reached().await;
        assert_eq!(reader.scripted.overlap(PathClass::Commits).in_flight, 0, "every slot was read before");
        // When the page retires only now.
        world.retire(0).await;
        ledger.release();
    };
    let soon = Deadline::after(reader.log.bucket().environment(), Duration::from_secs(5));
    let (loaded, ()) = futures::future::join(reader.log.load(None, &soon), retires).await;
    // Then nothing of it is believed.
    assert!(matches!(loaded, Err(TailError::Behind { .. })), "{loaded:?}");
    assert_eq!(reader.log.head(), None);
}
