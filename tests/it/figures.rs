//! What each step of the log costs, in requests, exactly.

use commit_log::adoption::{FreshLog, find, find_or_begin};
use commit_log::bucket::Bucket;
use commit_log::identity::TransactionId;
use commit_log::log::{LogOptions, Offer, Outcome, Proof, WinCheck};
use commit_log_kit::clock::Timeline;
use commit_log_kit::scripted::{Mark, PathClass, ScriptedBucket};
use object_store::memory::InMemory;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{LATENCY, Process, ROOT, Spent, World, distant, scripted, sequence};

#[tokio::test(start_paused = true)]
async fn a_warm_commit_that_nobody_contests_costs_one_put_and_one_ledger_read() {
    let world = World::new().await;
    let process = world.process().await;
    for _ in 0..9 {
        let mark = process.mark();
        process.commit().await;
        assert_eq!(process.since(mark), Spent { puts: 1, ledger_reads: 1, ..Spent::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn a_warm_commit_costs_one_put_and_nothing_else_where_only_slow_wins_are_checked() {
    let bound = Duration::from_secs(2);
    let world = World::with(FreshLog { least_retention: bound * 4, ..FreshLog::default() }).await;
    let process = world.process_with(LogOptions { win_check: WinCheck::WhenSlow(bound), ..LogOptions::default() });
    process.load(None).await;
    for _ in 0..9 {
        let mark = process.mark();
        process.commit().await;
        assert_eq!(process.since(mark), Spent { puts: 1, ..Spent::default() });
    }
}

#[tokio::test(start_paused = true)]
async fn an_own_win_is_readable_without_a_request() {
    let world = World::new().await;
    let process = world.process().await;
    process.commit().await;
    let mark = process.mark();
    assert_eq!(process.log.remembered_after(None).unwrap().len(), 1);
    assert_eq!(process.log.slots(sequence(1), sequence(1), 1, &process.deadline()).await.unwrap().len(), 1);
    assert_eq!(process.since(mark), Spent::default());
}

#[tokio::test(start_paused = true)]
async fn after_a_lost_race_the_winner_and_the_next_eight_come_in_one_round() {
    let world = World::new().await;
    // Given a process that knows nothing of the next five slots.
    let process = world.distant_process().await;
    world.commit_through(5).await;
    // When it offers at the first of them.
    let mark = process.mark();
    let begun = world.timeline.elapsed();
    let offer = process.offer(1, process.new_commit()).await.unwrap();
    // Then one round of reads and one ledger tell it of all five.
    assert!(matches!(offer, Offer::Lost { winner } if winner.sequence() == sequence(1)));
    assert_eq!(process.head(), 5);
    assert_eq!(process.since(mark), Spent { puts: 1, slot_reads: 9, ledger_reads: 1, lists: 0 });
    let overlap = process.scripted.overlap(PathClass::Commits);
    assert_eq!(overlap.most_in_flight, 9);
    // The put is a round, and so are the reads.
    assert_eq!(overlap.rounds, 2);
    assert!(world.timeline.elapsed() - begun < LATENCY * 4);
}

#[tokio::test(start_paused = true)]
async fn each_further_loss_costs_the_same_and_then_a_win_is_as_cheap_as_ever() {
    let world = World::new().await;
    let (process, other) = (world.distant_process().await, world.process().await);
    for lost in 1..=3 {
        other.offer(lost, other.new_commit()).await.unwrap();
        let mark = process.mark();
        let offer = process.offer(lost, process.new_commit()).await.unwrap();
        assert!(matches!(offer, Offer::Lost { .. }));
        assert_eq!(process.since(mark), Spent { puts: 1, slot_reads: 9, ledger_reads: 1, lists: 0 });
        assert_eq!(process.scripted.overlap(PathClass::Commits).rounds, 2);
    }
    let mark = process.mark();
    process.commit().await;
    assert_eq!(process.since(mark), Spent { puts: 1, ledger_reads: 1, ..Spent::default() });
}

#[tokio::test(start_paused = true)]
async fn an_open_with_a_tail_of_512_lists_once_and_reads_in_eight_rounds() {
    let world = World::with(FreshLog::default()).await;
    // On a fresh store 512 slots and the proof of the end; else the covered slot below them, too.
    for (covered, head, reads) in [(None, 512, 513), (Some(8), 520, 514)] {
        world.commit_through(head).await;
        let process = world.process_over(distant(world.memory.clone()), LogOptions::default());
        let mark = process.mark();
        process.load(covered).await;
        assert_eq!(process.head(), head);
        let spent = process.since(mark);
        assert_eq!((spent.puts, spent.lists, spent.ledger_reads), (0, 1, 1));
        assert!((reads..reads + 8).contains(&spent.slot_reads), "{spent:?}");
        // The list is of the same folder as the slots, and a round of its own.
        assert_eq!(process.scripted.overlap(PathClass::Commits).rounds, 1 + 8, "covered {covered:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_with_nothing_to_read_lists_once_and_proves_the_end() {
    let world = World::new().await;
    let process = world.process_with(LogOptions::default());
    let mark = process.mark();
    process.load(None).await;
    assert_eq!(process.since(mark), Spent { puts: 0, slot_reads: 1, ledger_reads: 1, lists: 1 });
}

#[tokio::test(start_paused = true)]
async fn an_idle_poll_costs_one_slot_read_and_every_sixteenth_one_ledger_read_more() {
    let world = World::new().await;
    let process = world.commit_through(3).await;
    for poll in 1..=48 {
        let mark = process.mark();
        process.log.catch_up(Proof::NowAndThen, &process.deadline()).await.unwrap();
        let ledger_reads = u64::from(poll % 16 == 0);
        assert_eq!(process.since(mark), Spent { slot_reads: 1, ledger_reads, ..Spent::default() }, "poll {poll}");
    }
    let mark = process.mark();
    process.log.catch_up(Proof::Always, &process.deadline()).await.unwrap();
    assert_eq!(process.since(mark), Spent { slot_reads: 1, ledger_reads: 1, ..Spent::default() });
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_finds_slots_believes_them_by_one_ledger_read() {
    let world = World::new().await;
    let process = world.distant_process().await;
    world.commit_through(3).await;
    let mark = process.mark();
    process.log.catch_up(Proof::NowAndThen, &process.deadline()).await.unwrap();
    assert_eq!(process.head(), 3);
    // The next slot alone, then the eight after it at once.
    assert_eq!(process.since(mark), Spent { slot_reads: 1 + 8, ledger_reads: 1, ..Spent::default() });
    assert_eq!(process.scripted.overlap(PathClass::Commits).rounds, 2);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_costs_two_reads_and_one_where_the_page_is_long_retired() {
    let world = World::new().await;
    let process = world.process().await;
    let mut transactions = Vec::new();
    for _ in 1..=6 {
        transactions.push(process.commit().await);
    }
    world.retire(0).await;
    let ask = async |transaction: TransactionId, at: u64| {
        let mark = process.mark();
        let outcome = process.log.outcome(transaction, sequence(at), &process.deadline()).await.unwrap();
        (outcome, process.since(mark))
    };
    let in_one = Spent { ledger_reads: 1, ..Spent::default() };
    let in_two = Spent { slot_reads: 1, ledger_reads: 1, ..Spent::default() };
    assert_eq!(ask(transactions[5], 6).await, (Outcome::Landed, in_two));
    assert_eq!(ask(transactions[5], 7).await, (Outcome::Open, in_two));
    assert_eq!(ask(transactions[1], 2).await, (Outcome::Landed, in_one));
    assert_eq!(ask(transactions[1], 3).await, (Outcome::Never, in_one));
}

/// The requests of an open, in order, each as its operation and its path below the store's. Those of the probe are counted.
fn named(requests: &ScriptedBucket, mark: Mark) -> (Vec<String>, BTreeMap<String, u64>) {
    let mut names = Vec::new();
    let mut probes = BTreeMap::new();
    for request in requests.log_since(mark) {
        let operation = format!("{:?}", request.operation).to_lowercase();
        if request.class() == PathClass::Probe {
            *probes.entry(operation).or_default() += 1;
        } else {
            names.push(format!("{operation} {}", request.path.trim_start_matches(&format!("{ROOT}/"))));
        }
    }
    (names, probes)
}

fn fresh() -> (ScriptedBucket, Bucket) {
    scripted(Arc::new(InMemory::new()), Timeline::begin(), 1)
}

const GUARD: &str = "wal/00000000000000000001.sst";
const RECORD: &str = "adoption/00000000000000000001";

#[tokio::test(start_paused = true)]
async fn adopting_a_fresh_path_asks_for_just_these() {
    let (requests, bucket) = fresh();
    let mark = requests.mark();
    find_or_begin(&bucket, &FreshLog::default(), &bucket.deadline()).await.unwrap();
    let (names, probes) = named(&requests, mark);
    let expected = [
        "list adoption".to_owned(),
        format!("get {GUARD}"),
        "list manifest".to_owned(),
        "list wal".to_owned(),
        format!("create {GUARD}"),
        format!("get {GUARD}"),
        format!("create {RECORD}"),
        format!("get {RECORD}"),
    ];
    assert_eq!(names, expected);
    // A name that is free, then four races of eight.
    let expected = [("create", 32), ("delete", 4), ("get", 1 + 4)];
    assert_eq!(probes, expected.map(|(operation, count)| (operation.to_owned(), count)).into());
}

#[tokio::test(start_paused = true)]
async fn opening_what_is_there_asks_for_just_these() {
    let (requests, bucket) = fresh();
    let record = find_or_begin(&bucket, &FreshLog::default(), &bucket.deadline()).await.unwrap();
    let expected = ["list adoption".to_owned(), format!("get {RECORD}"), format!("get leaving/{}", record.log)];
    // To write.
    let mark = requests.mark();
    find_or_begin(&bucket, &FreshLog::default(), &bucket.deadline()).await.unwrap();
    let (names, probes) = named(&requests, mark);
    assert_eq!(names, expected);
    assert_eq!(probes.values().sum::<u64>(), 1 + 32 + 4 + 4);
    // To read.
    let mark = requests.mark();
    find(&bucket, &bucket.deadline()).await.unwrap();
    let (names, probes) = named(&requests, mark);
    assert_eq!(names, expected);
    assert_eq!(probes, [("get".to_owned(), 1)].into());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_costs_the_round_of_a_loss_and_nothing_else() {
    let world = World::new().await;
    let process: Process = world.process().await;
    process.script_put(1, commit_log_kit::scripted::Fate::LoseAnswer);
    let mark = process.mark();
    process.commit().await;
    assert_eq!(process.since(mark), Spent { puts: 2, slot_reads: 9, ledger_reads: 1, lists: 0 });
}
