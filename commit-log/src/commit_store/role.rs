//! Whether this process should take the store now. Pure.

use crate::slot::Sequence;

/// How often at most somebody else's work is waited for before the store is taken all the same.
pub(crate) const MAX_WAITS: u32 = 5;

/// What a look at the newest manifest showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreSeen {
    /// The epoch of the last process that took the store.
    pub(crate) epoch: u64,
    /// The last slot that is in the store's files.
    pub(crate) covered: Option<Sequence>,
    /// The unmerged files of the fullest tree: the root's, or a segment's.
    pub(crate) files: usize,
}

/// The settings that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// The winner of every so many slots sees to it that the store is folded.
    pub(crate) fold_every: u64,
    /// At so many unmerged files a flush would hang.
    pub(crate) l0_limit: usize,
    /// Whether whoever takes the store merges its files.
    pub(crate) compacts: bool,
}

/// Why the store might be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// This process won the slot that obliges its winner.
    Obliged,
    /// The tail is so long that whoever was obliged must be gone.
    Stalled,
    /// Somebody asked for it.
    Asked,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Leave the store alone.
    Rest(Rest),
    /// Somebody took the store since the last look and may be folding: look again later.
    Wait,
    /// Take it.
    Take,
}

/// Why the store is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is folded, or somebody holds it and folds.
    Folded,
    /// It is at its limit of unmerged files and nothing here merges them. The log grows until something compacts the store.
    L0Full,
    /// Whoever opens the store declined.
    Declined,
    /// This process is closing its store.
    Closing,
}

/// How many slots past what is covered make a fold due.
///
/// A holder flushes at least twice in `fold_every` slots, so a tail of three quarters means that nobody holds.
pub(crate) fn due_at(reason: Reason, fold_every: u64) -> u64 {
    let slots = match reason {
        Reason::Obliged => fold_every.saturating_sub(fold_every / 4),
        Reason::Stalled => fold_every.saturating_mul(2),
        Reason::Asked => 1,
    };
    slots.max(1)
}

/// Decides by what was seen, the epoch of the look before, the head and how often was waited already.
///
/// The epoch says whether somebody is at work, not the goal: a fold that is under way has moved nothing yet, and whoever took the
/// store from it would begin it all over again.
pub(crate) fn next(
    seen: StoreSeen,
    epoch_before: Option<u64>,
    head: Option<Sequence>,
    reason: Reason,
    rule: Rule,
    waits: u32,
) -> Step {
    let tail = head.map_or(0, |head| head.above(seen.covered));
    if tail < due_at(reason, rule.fold_every) {
        return Step::Rest(Rest::Folded);
    }
    if !rule.compacts && seen.files >= rule.l0_limit {
        return Step::Rest(Rest::L0Full);
    }
    if epoch_before != Some(seen.epoch) && waits < MAX_WAITS { Step::Wait } else { Step::Take }
}

/// What to do about a slot that this process won, and that a look did not show as published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishStep {
    /// Give a holder the time of one of its polls, and look again.
    WaitForThePoll,
    /// Somebody took the store since the last look and may be about to publish: look again later.
    WaitForWork,
    /// Take the store, publish, and give it back.
    Take,
}

/// How many of its polls a live holder is given to publish what another process won.
const POLLS_OF_THE_HOLDER: u32 = 2;

/// Decides by the epoch of this look and of the one before, and how many looks there were before.
pub(crate) fn next_to_publish(epoch: Option<u64>, epoch_before: Option<u64>, looks: u32) -> PublishStep {
    if looks < POLLS_OF_THE_HOLDER {
        PublishStep::WaitForThePoll
    } else if epoch != epoch_before && looks < POLLS_OF_THE_HOLDER + MAX_WAITS {
        PublishStep::WaitForWork
    } else {
        PublishStep::Take
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { fold_every: 8, l0_limit: 4, compacts: false };

    fn seen(epoch: u64, covered: u64, files: usize) -> StoreSeen {
        StoreSeen { epoch, covered: Sequence::new(covered), files }
    }

    fn decide(seen: StoreSeen, epoch_before: Option<u64>, head: u64, reason: Reason, waits: u32) -> Step {
        next(seen, epoch_before, Sequence::new(head), reason, RULE, waits)
    }

    #[test]
    fn whoever_is_obliged_takes_a_store_that_nobody_folds() {
        assert_eq!(decide(seen(3, 0, 0), Some(3), 8, Reason::Obliged, 0), Step::Take);
        assert_eq!(decide(seen(3, 2, 0), Some(3), 8, Reason::Obliged, 0), Step::Take);
    }

    #[test]
    fn a_holder_that_flushes_twice_a_cadence_is_left_alone() {
        assert_eq!(decide(seen(3, 4, 0), Some(3), 8, Reason::Obliged, 0), Step::Rest(Rest::Folded));
        assert_eq!(decide(seen(3, 3, 0), Some(3), 8, Reason::Obliged, 0), Step::Rest(Rest::Folded));
    }

    #[test]
    fn an_epoch_that_moved_is_waited_for_as_often_as_the_bound_says() {
        for waits in 0..MAX_WAITS {
            assert_eq!(decide(seen(4, 0, 0), Some(3), 8, Reason::Obliged, waits), Step::Wait);
        }
        assert_eq!(decide(seen(4, 0, 0), Some(3), 8, Reason::Obliged, MAX_WAITS), Step::Take);
    }

    #[test]
    fn who_has_never_looked_looks_twice() {
        assert_eq!(decide(seen(4, 0, 0), None, 8, Reason::Asked, 0), Step::Wait);
        assert_eq!(decide(seen(4, 0, 0), Some(4), 8, Reason::Asked, 1), Step::Take);
    }

    #[test]
    fn a_full_l0_is_declined_unless_the_taker_compacts() {
        assert_eq!(decide(seen(3, 0, 4), Some(3), 8, Reason::Stalled, 0), Step::Rest(Rest::Folded), "eight is no stall");
        assert_eq!(decide(seen(3, 0, 4), Some(3), 16, Reason::Stalled, 0), Step::Rest(Rest::L0Full));
        let compacting = Rule { compacts: true, ..RULE };
        assert_eq!(next(seen(3, 0, 4), Some(3), Sequence::new(16), Reason::Stalled, compacting, 0), Step::Take);
    }

    #[test]
    fn nothing_to_fold_is_no_reason_to_take_the_store() {
        assert_eq!(decide(seen(3, 8, 0), Some(3), 8, Reason::Asked, 0), Step::Rest(Rest::Folded));
        assert_eq!(next(seen(3, 0, 0), Some(3), None, Reason::Asked, RULE, 0), Step::Rest(Rest::Folded));
        assert_eq!(due_at(Reason::Obliged, 1), 1);
    }

    #[test]
    fn whoever_publishes_gives_a_holder_two_polls_and_waits_for_one_that_just_took_the_store() {
        assert_eq!(next_to_publish(Some(3), None, 0), PublishStep::WaitForThePoll);
        assert_eq!(next_to_publish(Some(3), Some(3), 1), PublishStep::WaitForThePoll);
        assert_eq!(next_to_publish(Some(3), Some(3), 2), PublishStep::Take);
        for looks in 2..2 + MAX_WAITS {
            assert_eq!(next_to_publish(Some(4), Some(3), looks), PublishStep::WaitForWork);
        }
        assert_eq!(next_to_publish(Some(4), Some(3), 2 + MAX_WAITS), PublishStep::Take);
    }
}
