//! The quiet phase of a log world: nothing fails any more, some processes stay dead, and within a bounded number of calls every
//! outcome is known, a new commit lands, readers are at the true head, and whatever may be retired is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use commit_log::bucket::ObjectName;
use commit_log::identity::TransactionId;
use commit_log::log::{Attempt, Closing, Outcome, Proof};
use commit_log::retire::ManifestPoint;
use commit_log::slot::Sequence;
use rand::RngExt;

use super::chronicle::SentSlot;
use super::collector;
use super::committer::Committer;
use super::director::Director;
use super::pinned::PinnedReader;
use super::plan::{Plan, stream};
use super::process::Running;
use super::state::Shared;
use super::tally::Event;
use super::told::Claim;
use crate::bucket::Faults;
use crate::checkers::Violation;

/// How long the processes that still live work on, without faults, before the world is asked for progress.
const CALM_WORK: Duration = Duration::from_secs(2);

/// A call that meets a live bucket alone settles at once; a few more, for what landed between.
const TRIES: u32 = 6;

/// After so long every put that an abandoned offer still makes on a healthy link has been sent: its callback takes less.
pub(super) const STRAGGLERS: Duration = Duration::from_secs(1);

/// A healthy bucket, whose lists still come in pages.
pub(super) fn faults(plan: &Plan) -> Faults {
    Faults { page_size: plan.faults.page_size.clone(), ..Faults::none() }
}

fn stuck(what: String) -> Violation {
    Violation { invariant: "progress", what }
}

/// Brings the world to rest, and wants everything decided.
///
/// # Errors
///
/// What did not come about in time, or an invariant that does not hold.
pub(super) async fn quiet_phase(shared: &Arc<Shared>, director: &mut Director) -> Result<(), Violation> {
    shared.wait(CALM_WORK).await;
    director.stop_committers();
    let mut survivors = Vec::new();
    for number in 0..shared.plan.committers as usize {
        let process = shared.new_process();
        survivors.push(Committer::start(shared, number, process).await);
    }
    let mut random = stream(shared.plan.seed, 2);
    for (number, survivor) in survivors.iter_mut().enumerate() {
        resolve_all(shared, number, survivor, random.random_range(0..2)).await?;
    }
    commit_anew(shared, &mut survivors[0]).await?;
    readers_arrive(shared, &survivors).await?;
    checkpoints_are_read(shared).await?;
    retire_all(shared, &mut survivors[0]).await?;
    // Now whatever was still on its way lands, and no answer changes.
    shared.bucket.settle().await;
    ask_again(shared, &mut survivors[0]).await?;
    commit_anew(shared, &mut survivors[0]).await?;
    retire_all(shared, &mut survivors[0]).await?;
    nothing_is_left_behind(shared)?;
    readers_arrive(shared, &survivors).await?;
    shared.check()
}

/// Every attempt of a committer whose outcome is not known gets one.
async fn resolve_all(shared: &Arc<Shared>, number: usize, survivor: &mut Committer, way: u32) -> Result<(), Violation> {
    for _ in 0..TRIES {
        let open: Vec<_> = shared.state().memories[number].attempts.clone().into_iter().collect();
        for (transaction, sequence) in open {
            let attempt = Attempt { transaction, sequence };
            match survivor.ask(attempt).await {
                // Offered too far ahead by somebody who did not wait for the answer: commits up to there decide it.
                Some(Outcome::Open) if sequence > survivor.running().log.next() => survivor.commit_something().await,
                Some(Outcome::Open) if way == 0 => survivor.close(attempt, Closing::Filler, Event::ClosedByFiller).await,
                Some(Outcome::Open) => survivor.offer(attempt).await,
                Some(Outcome::Landed | Outcome::Never) => {}
                None => drop(survivor.running().load().await),
            }
        }
    }
    let left = shared.state().memories[number].attempts.clone();
    if left.is_empty() { Ok(()) } else { Err(stuck(format!("still not known after {TRIES} tries: {left:?}"))) }
}

async fn commit_anew(shared: &Arc<Shared>, survivor: &mut Committer) -> Result<(), Violation> {
    let before = shared.state().chronicle.commits();
    for _ in 0..TRIES {
        survivor.commit_something().await;
        if shared.state().chronicle.commits() > before {
            return Ok(());
        }
    }
    Err(stuck(format!("no commit landed in {TRIES} tries")))
}

/// Everybody who reads knows the true head: with a proof at once, without one after so many polls as the log says.
async fn readers_arrive(shared: &Arc<Shared>, survivors: &[Committer]) -> Result<(), Violation> {
    let head = shared.state().chronicle.head();
    for (number, survivor) in survivors.iter().enumerate() {
        let running = survivor.running();
        let (proof, polls) = if number % 2 == 0 { (Proof::Always, 1) } else { (Proof::NowAndThen, shared.plan.prove_every) };
        for _ in 0..=polls {
            if running.catch_up(proof).await.is_err() {
                drop(running.load().await);
            }
        }
        let known = running.log.head();
        if known != head {
            return Err(stuck(format!("{:?} knows {known:?}, and {head:?} is the head", running.process)));
        }
    }
    let fresh = Running::start(shared, shared.new_process(), None).await;
    if fresh.log.head() == head { Ok(()) } else { Err(stuck(format!("a new process finds {:?}", fresh.log.head()))) }
}

/// Whoever holds a checkpoint reads all of it, whatever was folded and retired meanwhile. Then it is dropped.
async fn checkpoints_are_read(shared: &Arc<Shared>) -> Result<(), Violation> {
    fold_all(shared);
    collector::pass_once(shared).await;
    let held: Vec<_> = shared.state().manifests.held().map(|(number, _)| number).collect();
    for checkpoint in held {
        let reader = PinnedReader::start(shared, shared.new_process(), checkpoint).await;
        if let Err(error) = reader.read().await {
            return Err(stuck(format!("a reader of {checkpoint:?} on a healthy link: {error}")));
        }
        let now = shared.mark();
        shared.state().manifests.drop_checkpoint(now, checkpoint);
    }
    Ok(())
}

fn fold_all(shared: &Shared) {
    let now = shared.mark();
    let mut state = shared.state();
    let head = state.chronicle.head().map_or(0, Sequence::get);
    let point = ManifestPoint { replay_after_wal_id: head, last_l0_seq: head, next_wal_sst_id: head + 1 };
    state.manifests.write(now, point);
}

/// The ideal store folds everything, and a collector retires all but the last page.
async fn retire_all(shared: &Arc<Shared>, survivor: &mut Committer) -> Result<(), Violation> {
    for _ in 0..TRIES {
        if shared.plan.least_retention > Duration::ZERO {
            // The log's time passes by its slots.
            shared.wait(shared.plan.least_retention).await;
            commit_anew(shared, survivor).await?;
        }
        // What is still on its way lands in a page before that is swept.
        shared.wait(STRAGGLERS).await;
        fold_all(shared);
        collector::pass_once(shared).await;
        if pages_left(shared) == 0 {
            // What was created again in pages that just went.
            collector::pass_once(shared).await;
            return Ok(());
        }
    }
    Err(stuck(format!("{} pages are left below the floor's", pages_left(shared))))
}

/// How many pages below the floor's are not retired.
fn pages_left(shared: &Shared) -> u64 {
    let state = shared.state();
    let page = state.manifests.floor().map_or(0, |floor| state.chronicle.page_of(floor).get());
    page - state.chronicle.retired().len() as u64
}

/// No object of a retired page is left once a pass has swept.
fn nothing_is_left_behind(shared: &Shared) -> Result<(), Violation> {
    let state = shared.state();
    let folder = ObjectName::Slot(state.chronicle.log(), state.chronicle.origin()).folder(&Shared::root());
    let kept = state.manifests.floor().map(|covered| state.chronicle.page_of(covered));
    for (path, _) in shared.bucket.objects(folder.as_ref()) {
        let sequence = path.rsplit('/').next().and_then(Sequence::from_name);
        if sequence.map(|sequence| state.chronicle.page_of(sequence)) < kept {
            return Err(stuck(format!("{path} is left of a retired page")));
        }
    }
    Ok(())
}

/// Of the attempts that nobody was ever in doubt about, one in so many is asked for once more.
const ASKED_AGAIN: usize = 4;

/// Every attempt that was once unknown is asked for once more, and some of the others; the checkers compare.
async fn ask_again(shared: &Arc<Shared>, survivor: &mut Committer) -> Result<(), Violation> {
    let attempts: BTreeSet<_> = {
        let state = shared.state();
        let unknown = state.told.iter().filter_map(|told| {
            let Claim::Unknown(attempt) = &told.claim else { return None };
            Some((attempt.sequence, attempt.transaction))
        });
        let unknown: BTreeSet<_> = unknown.collect();
        let sent: Vec<_> = state.chronicle.sent().iter().flat_map(members).collect();
        let asked = sent.iter().enumerate().filter(|(number, it)| number % ASKED_AGAIN == 0 || unknown.contains(it));
        asked.map(|(_, attempt)| *attempt).collect()
    };
    for (sequence, transaction) in attempts {
        match survivor.ask(Attempt { transaction, sequence }).await {
            Some(Outcome::Landed | Outcome::Never) => {}
            // Nothing at all was ever there: it was offered past the end by nobody.
            other => return Err(stuck(format!("{transaction:?} at {sequence:?} reads {other:?} at the end"))),
        }
    }
    Ok(())
}

fn members(sent: &SentSlot) -> Vec<(Sequence, TransactionId)> {
    sent.slot.envelope().members.iter().map(|member| (sent.sequence, *member)).collect()
}
