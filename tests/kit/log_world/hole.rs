//! The last act of a log world: a slot is destroyed, and everybody who reads past it says so.

use std::sync::Arc;

use commit_log::bucket::ObjectName;
use commit_log::error::Corruption;
use commit_log::log::{Proof, TailError};
use commit_log::slot::Sequence;
use object_store::ObjectStoreExt;
use rand::RngExt;

use super::committer::Committer;
use super::plan::stream;
use super::process::Running;
use super::quiet::STRAGGLERS;
use super::state::Shared;
use super::tally::Event;
use crate::bucket::Process;
use crate::checkers::Violation;

/// Whoever destroys the slot.
const VANDAL: Process = Process(1);

/// How many slots lie past what a reader knows when one of them is destroyed.
const SLOTS_AHEAD: u32 = 5;

/// How many commits are tried for them.
const TRIES: u32 = 12;

/// Destroys a slot that is not the first past what a reader knows: that one's absence is the end of the log, for all it can tell.
///
/// # Errors
///
/// Whoever read past the hole, or called it something else.
pub(super) async fn destroy_a_slot(shared: &Arc<Shared>, number: usize) -> Result<(), Violation> {
    let lagging = Running::start(shared, shared.new_process(), None).await;
    let Some(known) = lagging.log.head() else { return Ok(()) };
    let mut committer = Committer::start(shared, number, shared.new_process()).await;
    for _ in 0..TRIES {
        if shared.state().chronicle.head() < Some(known.plus(SLOTS_AHEAD)) {
            committer.commit_something().await;
        }
    }
    // An offer whose caller went away may have a put on its way, which would land in the freed name.
    shared.wait(STRAGGLERS).await;
    shared.bucket.settle().await;
    let head = shared.state().chronicle.head().expect("commits landed");
    let ahead = u32::try_from(head.above(Some(known))).expect("a short log");
    let missing = known.plus(stream(shared.plan.seed, 3).random_range(2..ahead));
    let log = lagging.log.record().log;
    let path = ObjectName::Slot(log, missing).path(&Shared::root());
    shared.bucket.link(VANDAL).delete(&path).await.expect("a healthy link");
    let deadline = lagging.deadline();
    expect_hole(missing, "a reader that lagged", lagging.log.catch_up(Proof::Always, &deadline).await, lagging.log.head())?;
    let fresh = Running::start_unread(shared, shared.new_process()).await;
    let covered = shared.state().manifests.covered();
    expect_hole(missing, "a new reader", fresh.log.load(covered, &fresh.deadline()).await, fresh.log.head())?;
    let again = committer.running().log.slots(known.next(), head.next(), usize::MAX, &deadline).await;
    expect_hole(missing, "a second look", again.map(|_| ()), None)?;
    shared.count(Event::HoleFound);
    Ok(())
}

fn expect_hole(hole: Sequence, who: &str, found: Result<(), TailError>, head: Option<Sequence>) -> Result<(), Violation> {
    let named = matches!(&found, Err(TailError::Corrupt(Corruption::Hole { missing, .. })) if *missing == hole);
    if named && head < Some(hole) {
        return Ok(());
    }
    let what = format!("{hole:?} was destroyed, and {who} found {found:?} and goes up to {head:?}");
    Err(Violation { invariant: "a hole above the floor is damage", what })
}
