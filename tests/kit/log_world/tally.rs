//! How often what a log world is for took place.

use std::collections::BTreeMap;

/// Something that a world did, beside the faults that its bucket counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A genuine slot with a transaction.
    Commit,
    /// A put that landed in a retired page.
    ZombiePlanted,
    /// An offer of somebody who slept, between the look at the head and the answer, while its page was retired.
    SleptOverRetirement,
    /// An offer that ended unknown.
    Unknown,
    /// An attempt that had been unknown, and had landed.
    UnknownLanded,
    /// An attempt that had been unknown, and never will land.
    UnknownNever,
    /// An offer that was lost.
    Lost,
    /// An offer that was told that the log had been retired past it.
    Behind,
    /// A reader that was told so.
    ReaderBehind,
    /// An offer whose caller went away.
    Cancelled,
    /// An offer that was refused because its transaction is open elsewhere.
    RefusedOpenElsewhere,
    /// An offer that was refused because it was too far ahead.
    RefusedTooFarAhead,
    /// A transaction that was offered again at the sequence at which it is open.
    Resubmitted,
    /// A sequence that was closed with a filler.
    ClosedByFiller,
    /// A sequence that was closed with a commit.
    ClosedByCommit,
    /// A committer that was killed, and started again from what it had made durable.
    Restarted,
    /// A collector that was killed while it had a pass under way.
    CollectorKilled,
    /// … while a page had its ledger, and slots.
    CollectorKilledAmidPage,
    /// A collector that worked with the log of a committer.
    CollectorShared,
    /// Two collectors at work at once.
    CollectorsRaced,
    /// A page whose ledger was written.
    PageRetired,
    /// A pass that left a page because it was too young.
    TooYoung,
    /// A zombie that was deleted.
    ZombieSwept,
    /// A pass by what the store had pinned at some earlier time, and did no more.
    StalePins,
    /// A manifest whose replay point leads what is flushed.
    HalfFlushed,
    /// A checkpoint that was taken.
    CheckpointTaken,
    /// Every slot that a held checkpoint replays, read.
    CheckpointRead,
    /// … of which some had gone without it.
    KeptByCheckpoint,
    /// A process that was stopped while it offered.
    PausedInOffer,
    /// An open of a store that another log's record is in, too.
    OpenedRestored,
    /// A hole that was made, and called damage.
    HoleFound,
}

/// The counts of one world, or of many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<Event, u64>);

impl Tally {
    /// Counts one.
    pub fn count(&mut self, event: Event) {
        self.count_many(event, 1);
    }

    /// Counts several.
    pub fn count_many(&mut self, event: Event, times: usize) {
        *self.0.entry(event).or_default() += times as u64;
    }

    /// How often `event` took place.
    pub fn of(&self, event: Event) -> u64 {
        self.0.get(&event).copied().unwrap_or(0)
    }

    /// Every event that took place, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Event, u64)> {
        self.0.iter().map(|(event, count)| (*event, *count))
    }

    /// Adds another world's counts.
    pub fn add(&mut self, other: &Tally) {
        for (event, count) in other.iter() {
            *self.0.entry(event).or_default() += count;
        }
    }
}
