//! What a model can be caught at.

/// A broken property of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Violation {
    /// Acknowledged, but not the genuine slot of its sequence.
    FalseWin,
    /// Told "lost", but it is, or may become, the genuine one.
    FalseLoss,
    /// One transaction is genuine at two sequences.
    DoubleCommit,
    /// Told "behind, nothing committed", but it is, or may become, the genuine one.
    FalseBehind,
    /// Told "never", but it is, or may become, the genuine one.
    FalseNever,
    /// `outcome` said "landed" of what is not genuine.
    FalseLanded,
    /// `outcome` said "open" of a sequence that was decided when it was asked.
    FalseOpen,
    /// A process believed, and folded or served, a slot that is not genuine.
    FoldedNotGenuine,
    /// A name was re-created with other content before its page's ledger exists.
    TwoContents,
    /// A ledger says something else than the genuine slots.
    LedgerDiffers,
    /// A genuine slot was deleted that the store does not cover.
    UnfoldedSlotDeleted,
    /// Damage was reported where there is none.
    FalseCorruption,
    /// A reader that runs alone never sees what was committed.
    StuckReader,
    /// A process that runs alone, without faults, reaches no verdict.
    NoVerdict,
    /// A sequence was filled above an empty one.
    Hole,
    /// A genuine slot was prepared against another head than the one below it.
    StaleHead,
}
