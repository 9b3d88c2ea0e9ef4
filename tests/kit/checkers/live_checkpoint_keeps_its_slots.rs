//! A checkpoint that is held keeps every slot that its manifest replays, and its reader is never told that they are gone.

use super::Evidence;
use crate::log_world::manifests::Checkpoint;
use crate::log_world::told::Claim;

/// Every ledger, every delete and every refused read against the checkpoints that were held at that instant.
pub fn check(evidence: &Evidence<'_>) -> Result<(), String> {
    for checkpoint in evidence.manifests.checkpoints() {
        nothing_of_it_goes(evidence, checkpoint)?;
    }
    for told in evidence.told {
        let Claim::Withheld(number) = &told.claim else { continue };
        let checkpoint = evidence.manifests.checkpoint(*number);
        if checkpoint.dropped.is_none_or(|dropped| dropped > told.heard) {
            return Err(format!("{:?} was told that the slots of {checkpoint:?} are gone", told.process));
        }
    }
    Ok(())
}

fn nothing_of_it_goes(evidence: &Evidence<'_>, checkpoint: &Checkpoint) -> Result<(), String> {
    let chronicle = evidence.chronicle;
    let Some((first, _)) = evidence.manifests.replayed_by(checkpoint) else { return Ok(()) };
    let held_at =
        |effect: usize| checkpoint.taken.effects <= effect && checkpoint.dropped.is_none_or(|dropped| effect < dropped.effects);
    for (page, retired) in chronicle.retired().range(chronicle.page_of(first)..) {
        if held_at(retired.effect) {
            return Err(format!("{page:?} was retired under {checkpoint:?}"));
        }
    }
    match chronicle.deleted().iter().find(|deleted| deleted.sequence >= first && held_at(deleted.effect)) {
        Some(deleted) => Err(format!("{deleted:?} under {checkpoint:?}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::checkers::fixture::Story;

    /// Five slots, of which a checkpoint on the first flush replays all but the first.
    fn pinned() -> Story {
        let story = Story::unfolded().land(1, 7).land(2, 8).land(3, 9).land(4, 10).land(5, 11);
        story.applied(5).flushed(1).take_checkpoint().flushed(5)
    }

    #[test]
    fn a_page_that_was_retired_under_a_checkpoint_is_found() {
        assert!(pinned().drop_checkpoint(0).retire(0).run(check).is_ok());
        assert!(pinned().retire(0).drop_checkpoint(0).run(check).is_err());
    }

    #[test]
    fn a_slot_that_was_deleted_under_a_checkpoint_is_found() {
        assert!(pinned().drop_checkpoint(0).delete(2).run(check).is_ok());
        assert!(pinned().delete(1).run(check).is_ok());
        assert!(pinned().delete(2).run(check).is_err());
    }

    #[test]
    fn a_reader_of_a_held_checkpoint_that_is_sent_away_is_found() {
        assert!(pinned().withheld(0).run(check).is_err());
        assert!(pinned().drop_checkpoint(0).withheld(0).run(check).is_ok());
    }

    #[test]
    fn a_checkpoint_that_replays_nothing_keeps_nothing() {
        let story = || Story::unfolded().land(1, 7).land(2, 8).land(3, 9).applied(2).flushed(2).take_checkpoint();
        assert!(story().applied(3).flushed(3).retire(0).run(check).is_ok());
    }
}
