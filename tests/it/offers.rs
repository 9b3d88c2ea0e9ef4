//! Offers: lost answers, taken names, doubt, and what the caller is told.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use commit_log::bucket::{Deadline, Doing};
use commit_log::error::Corruption;
use commit_log::log::{Attempt, BeforePut, LogOptions, Offer, OfferError, Outcome, Proof, TailError};
use commit_log_kit::scripted::Fate;
use futures::FutureExt;

use crate::stores::{Liar, Lie};
use crate::support::{Process, Spent, World, sequence, won};
use crate::traced::Logged;

/// More requests than any call makes, nine at once.
pub(crate) const FOR_EVER: u64 = 500;

/// Leaves the outcome of a fresh commit at `number` open: its puts are not answered, and none lands.
pub(crate) async fn leave_open(process: &Process, number: u64) -> commit_log::log::Commit {
    let commit = process.new_commit();
    for nth in 1..=3 {
        process.script_put(nth, Fate::Hang);
    }
    let answer = process.offer(number, commit.clone()).await;
    assert!(matches!(answer, Err(OfferError::Unknown { .. })), "{answer:?}");
    commit
}

#[tokio::test(start_paused = true)]
async fn a_put_whose_answers_are_lost_is_won_once_at_its_sequence() {
    for lost in 1..=3 {
        let world = World::new().await;
        let process = world.process().await;
        // Given a put that lands, whose answer is lost, and resends that fail or hang.
        process.script_put(1, Fate::LoseAnswer);
        for nth in 2..=lost {
            process.script_put(nth, if nth % 2 == 0 { Fate::Hang } else { Fate::Fail });
        }
        // When it is offered.
        let commit = process.new_commit();
        let offer = process.offer(1, commit.clone()).await;
        // Then it is won there, and is nowhere else.
        assert!(matches!(&offer, Ok(Offer::Won { slot: Some(slot) }) if slot.sequence() == sequence(1)), "{offer:?}");
        assert!(world.slot(1).await.unwrap().carries(commit.transaction));
        assert!(world.slot(2).await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_win_is_told_although_a_later_slot_is_broken() {
    // Given a slot 2 that follows a slot 1 which is gone, and a process that knows of neither.
    let world = World::new().await;
    let process = world.process().await;
    let other = world.process().await;
    other.commit().await;
    other.commit().await;
    world.delete(world.slot_name(1)).await;
    // When it wins slot 1 and the answer is lost, so that it reads what followed, too.
    process.script_put(1, Fate::LoseAnswer);
    let offer = process.offer(1, process.new_commit()).await;
    // Then it is told of its win, and whoever reads on of the damage.
    assert!(matches!(&offer, Ok(Offer::Won { slot: Some(_) })), "{offer:?}");
    assert_eq!(process.log.head(), Some(sequence(1)));
    let damage = process.log.catch_up(Proof::NowAndThen, &process.deadline()).await;
    assert!(matches!(damage, Err(TailError::Corrupt(Corruption::BrokenChain { sequence: found })) if found == sequence(2)));
}

#[tokio::test(start_paused = true)]
async fn an_own_object_that_a_resend_of_the_client_meets_is_won() {
    let world = World::new().await;
    let process = world.process_over(Liar::new(world.memory.clone(), Lie::Resends), LogOptions::default());
    process.load(None).await;
    for _ in 0..3 {
        process.commit().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_is_lost_to_its_slot_and_the_head_moves_over_what_followed() {
    let world = World::new().await;
    let process = world.process().await;
    world.commit_through(7).await;
    let offer = process.offer(1, process.new_commit()).await.unwrap();
    let winner = world.slot(1).await.unwrap();
    assert!(matches!(offer, Offer::Lost { winner: found } if found.own_id() == winner.own_id()));
    assert_eq!(process.head(), 7);
    assert_eq!(process.log.remembered_after(None).unwrap().len(), 7);
}

#[tokio::test(start_paused = true)]
async fn taken_without_an_object_is_offered_again_and_never_lost() {
    let world = World::new().await;
    let liar = Liar::new(world.memory.clone(), Lie::SaysExists(AtomicU64::new(2)));
    let process = world.process_over(liar, LogOptions::default());
    process.load(None).await;
    let mark = process.mark();
    process.commit().await;
    assert_eq!(process.since(mark).puts, 3);
}

#[tokio::test(start_paused = true)]
async fn at_or_below_the_head_it_is_judged_without_a_put() {
    let world = World::new().await;
    let process = world.process().await;
    // Given an own commit that landed and was not heard of, another's after it, and a head past both.
    let own = process.new_commit();
    process.script_put(1, Fate::LoseAnswer);
    for nth in 2..=5 {
        process.script_put(nth, Fate::Hang);
    }
    assert!(matches!(process.offer(1, own.clone()).await, Err(OfferError::Unknown { .. })));
    world.commit_through(2).await;
    process.log.catch_up(Proof::Always, &process.deadline()).await.unwrap();
    // When they are offered there.
    let mark = process.mark();
    let own = process.offer(1, own).await;
    let other = process.offer(2, process.new_commit()).await;
    // Then the own one is won, another's is lost, and nothing was put.
    assert!(matches!(own, Ok(Offer::Won { slot: Some(slot) }) if slot.sequence() == sequence(1)));
    assert!(matches!(other, Ok(Offer::Lost { winner }) if winner.sequence() == sequence(2)));
    assert_eq!(process.since(mark), Spent { slot_reads: 2, ledger_reads: 2, ..Spent::default() });
}

#[tokio::test(start_paused = true)]
async fn a_slot_below_the_head_that_is_nowhere_is_corruption_that_names_it() {
    let world = World::new().await;
    let process = world.commit_through(3).await;
    world.delete(world.slot_name(2)).await;
    let answer = process.offer(2, process.new_commit()).await;
    let Err(OfferError::Corrupt(Corruption::Hole { missing, .. })) = answer else { panic!("{answer:?}") };
    assert_eq!(missing, sequence(2));
}

#[tokio::test(start_paused = true)]
async fn too_far_ahead_is_refused_after_one_look_at_the_tail() {
    let world = World::new().await;
    let process = world.commit_through(1).await;
    let mark = process.mark();
    let answer = process.offer(3, process.new_commit()).await;
    assert!(matches!(answer, Err(OfferError::TooFarAhead { expected, .. }) if expected == sequence(2)), "{answer:?}");
    // A slot that is not there is the end only if its page is not retired.
    assert_eq!(process.since(mark), Spent { slot_reads: 1, ledger_reads: 1, ..Spent::default() });
    // The look is enough for a sequence that others made the next one.
    world.commit_through(2).await;
    assert!(won(&process.offer(3, process.new_commit()).await));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_open_at_one_sequence_is_refused_at_another() {
    let world = World::new().await;
    let process = world.commit_through(1).await;
    let commit = leave_open(&process, 2).await;
    world.commit_through(2).await;
    let mark = process.mark();
    let answer = process.offer(3, commit).await;
    assert!(matches!(answer, Err(OfferError::OpenElsewhere { at, .. }) if at == sequence(2)), "{answer:?}");
    assert_eq!(process.since(mark), Spent::default());
}

#[tokio::test(start_paused = true)]
async fn asking_for_one_sequence_does_not_forget_that_a_transaction_is_open_at_another() {
    let world = World::new().await;
    let process = world.commit_through(1).await;
    let commit = leave_open(&process, 2).await;
    // When its outcome is asked for where it was not offered.
    let outcome = process.log.outcome(commit.transaction, sequence(1), &process.deadline()).await.unwrap();
    assert_eq!(outcome, Outcome::Never);
    // Then it is still open where it was.
    world.commit_through(2).await;
    let answer = process.offer(3, commit).await;
    assert!(matches!(answer, Err(OfferError::OpenElsewhere { at, .. }) if at == sequence(2)), "{answer:?}");
}

/// A client that keeps the last attempt of each transaction would keep the older one, if its record were called that late.
#[tokio::test(start_paused = true)]
async fn an_offer_that_is_still_being_made_keeps_its_transaction_from_any_other_sequence() {
    let world = World::new().await;
    let process = Arc::new(world.process().await);
    let commit = process.new_commit();
    // Given an offer at 1 whose put is on its way, while another wins 1.
    let put = process.script_put(1, Fate::Hold);
    let first = tokio::spawn({
        let (process, commit) = (process.clone(), commit.clone());
        async move { process.offer(1, commit).await }
    });
    put.reached().await;
    world.commit_through(1).await;
    // When it is known never to land there, it is offered at 2 only after the first offer has ended.
    let outcome = process.log.outcome(commit.transaction, sequence(1), &process.deadline()).await.unwrap();
    assert_eq!(outcome, Outcome::Never);
    let second = process.offer(2, commit.clone()).await;
    assert!(matches!(second, Err(OfferError::OpenElsewhere { at, .. }) if at == sequence(1)), "{second:?}");
    put.release();
    assert!(matches!(first.await.unwrap(), Ok(Offer::Lost { .. })));
    assert!(won(&process.offer(2, commit).await));
}

#[tokio::test(start_paused = true)]
async fn a_resubmission_joins_the_offer_that_runs() {
    let world = World::new().await;
    let process = world.process().await;
    let commit = process.new_commit();
    let put = process.script_put(1, Fate::Hold);
    let mark = process.mark();
    let release = async {
        put.reached().await;
        put.release();
    };
    let offers = futures::future::join3(process.offer(1, commit.clone()), process.offer(1, commit), release);
    let (first, second, ()) = offers.await;
    assert!(won(&first) && won(&second));
    assert_eq!(process.since(mark).puts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_resubmission_after_unknown_puts_the_same_bytes() {
    let world = World::new().await;
    let keeper = Liar::new(world.memory.clone(), Lie::Keeps(Mutex::default()));
    let process = world.process_over(keeper.clone(), LogOptions::default());
    process.load(None).await;
    // Given a commit whose answers were lost, and whose slot a bad store then lost, too.
    for nth in 1..=FOR_EVER {
        process.script_put(nth, Fate::LoseAnswer);
    }
    for nth in 1..=FOR_EVER {
        process.script_slot_read(nth, Fate::Fail);
    }
    let commit = process.new_commit();
    assert!(matches!(process.offer(1, commit.clone()).await, Err(OfferError::Unknown { .. })));
    world.delete(world.slot_name(1)).await;
    // When it is handed in again, on a day without faults.
    let again = Process { scripted: process.scripted.clone(), log: process.log.clone() };
    while !won(&again.offer(1, commit.clone()).await) {}
    // Then every put of it had the same bytes.
    let Lie::Keeps(bodies) = &keeper.lie else { unreachable!() };
    let bodies = bodies.lock().unwrap();
    assert!(bodies.len() > 2 && bodies.windows(2).all(|pair| pair[0] == pair[1]));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_callers_future_withdraws_nothing() {
    let world = World::new().await;
    let process = world.process().await;
    let commit = process.new_commit();
    let put = process.script_put(1, Fate::Hold);
    // Given an offer whose caller lost interest.
    assert!(process.offer(1, commit.clone()).now_or_never().is_none());
    put.reached().await;
    // When its put is answered.
    put.release();
    process.log.subscribe().wait_for(Option::is_some).await.unwrap();
    // Then it landed, and whoever offers it again there hears so.
    let mark = process.mark();
    assert!(won(&process.offer(1, commit).await));
    assert_eq!(process.since(mark).puts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_fails_after_the_put_is_doubt() {
    for of_ledger in [true, false] {
        let world = World::new().await;
        let process = world.process().await;
        if !of_ledger {
            world.commit_through(1).await;
        }
        for nth in 1..=FOR_EVER {
            match of_ledger {
                true => process.script_ledger_read(nth, Fate::Fail),
                false => process.script_slot_read(nth, Fate::Fail),
            };
        }
        let commit = process.new_commit();
        let answer = process.offer(1, commit.clone()).await;
        let Err(OfferError::Unknown { transaction, sequence: at, waited_for }) = answer else { panic!("{answer:?}") };
        assert_eq!((transaction, at), (commit.transaction, sequence(1)));
        assert!(matches!(waited_for, Doing::Read(_)));
    }
}

/// A callback that tells how often it was called, and does what `plan` says for each call: `true` to fail.
fn recorder(plan: impl Fn(usize) -> bool + Send + Sync + 'static) -> (BeforePut, Arc<Mutex<Vec<Attempt>>>) {
    let attempts: Arc<Mutex<Vec<Attempt>>> = Arc::default();
    let kept = attempts.clone();
    let before_put: BeforePut = Arc::new(move |attempt| {
        let call = {
            let mut kept = kept.lock().unwrap();
            kept.push(attempt);
            kept.len()
        };
        let fails = plan(call);
        async move { if fails { Err("the disk is full".into()) } else { Ok(()) } }.boxed()
    });
    (before_put, attempts)
}

async fn recording(world: &World, before_put: BeforePut) -> Process {
    let process = world.process_with(LogOptions { before_put: Some(before_put), ..LogOptions::default() });
    process.load(None).await;
    process
}

#[tokio::test(start_paused = true)]
async fn the_attempt_is_told_before_its_first_put_and_a_failure_there_withdraws_it() {
    let world = World::new().await;
    let (before_put, attempts) = recorder(|call| call == 1);
    let process = recording(&world, before_put).await;
    let commit = process.new_commit();
    let mark = process.mark();
    // A failure withdraws it, with nothing sent.
    let answer = process.offer(1, commit.clone()).await;
    assert!(matches!(answer, Err(OfferError::NotRecorded(_))), "{answer:?}");
    assert_eq!(process.since(mark), Spent::default());
    // It is not open then, and may go on elsewhere.
    world.commit_through(1).await;
    assert!(matches!(process.offer(1, process.new_commit()).await, Ok(Offer::Lost { .. })));
    assert!(won(&process.offer(2, commit.clone()).await));
    let told = attempts.lock().unwrap().clone();
    let expected = [1, 2].map(|number| Attempt { transaction: commit.transaction, sequence: sequence(number) });
    assert_eq!([told[0], told[2]], expected);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_when_an_unknown_offer_is_made_again_leaves_it_unknown() {
    let world = World::new().await;
    let (before_put, _) = recorder(|call| call == 2);
    let process = recording(&world, before_put).await;
    let commit = leave_open(&process, 1).await;
    let answer = process.offer(1, commit.clone()).await;
    assert!(matches!(answer, Err(OfferError::Unknown { .. })), "something was sent before: {answer:?}");
    assert!(won(&process.offer(1, commit).await));
}

#[tokio::test(start_paused = true)]
async fn an_offer_whose_task_was_dropped_half_way_is_made_by_the_next_who_hands_it_in() {
    let world = World::new().await;
    let (before_put, _) = recorder(|call| {
        assert!(call > 1, "the callback's own bug");
        false
    });
    let process = recording(&world, before_put).await;
    let commit = process.new_commit();
    let answer = process.offer(1, commit.clone()).await;
    assert!(matches!(answer, Err(OfferError::Unknown { .. })), "{answer:?}");
    assert!(won(&process.offer(1, commit).await));
}

#[tokio::test(start_paused = true)]
async fn who_joins_an_offer_with_an_earlier_deadline_does_not_know() {
    let world = World::new().await;
    let process = world.process().await;
    let commit = process.new_commit();
    let put = process.script_put(1, Fate::Hold);
    let joins = async {
        put.reached().await;
        let soon = Deadline::after(process.log.bucket().environment(), std::time::Duration::from_millis(100));
        let joined = process.log.offer(sequence(1), commit.clone(), &soon).await;
        assert!(matches!(joined, Err(OfferError::Unknown { .. })), "{joined:?}");
        put.release();
    };
    let (made, ()) = futures::future::join(process.offer(1, commit.clone()), joins).await;
    assert!(won(&made));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_waits_long_logs_what_it_waits_for() {
    let logged = Logged::listen();
    let world = World::new().await;
    let process = world.process().await;
    process.commit().await;
    assert_eq!(logged.lines(), Vec::<String>::new(), "a quick commit has nothing to say");
    for nth in 1..=FOR_EVER {
        process.script_ledger_read(nth, Fate::Hang);
    }
    let commit = process.new_commit();
    assert!(process.offer(2, commit.clone()).await.is_err());
    let lines = logged.lines();
    // Every five seconds of the thirty.
    assert_eq!(lines.len(), 5, "{lines:?}");
    let says = |line: &String| line.contains("a commit waits for the read of ledger of page 0");
    assert!(lines.iter().all(says), "{lines:?}");
    assert!(lines[0].contains(&commit.transaction.to_string()));
}
