//! What the clients of a log world were told, in order, each with the state of the bucket when they asked and when they heard.

use commit_log::envelope::Slot;
use commit_log::error::Corruption;
use commit_log::identity::{LogId, OwnId, TransactionId};
use commit_log::log::{Attempt, Outcome};
use commit_log::slot::Sequence;

use super::manifests::CheckpointNumber;
use crate::bucket::Process;
use crate::fingerprint::{Fingerprint, Hash128};

/// An instant of the bucket's history: how many effects and how many puts there had been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// Effects before it.
    pub effects: usize,
    /// Puts accepted before it.
    pub sent: usize,
}

/// One answer that a client got from the library.
#[derive(Clone, Debug)]
pub struct Told {
    /// The process it was told in. A process that is started again has another number.
    pub process: Process,
    /// When it asked.
    pub asked: Mark,
    /// When it heard.
    pub heard: Mark,
    /// What it was told.
    pub claim: Claim,
}

/// A slot as the library handed it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenSlot {
    /// The sequence it says it has.
    pub sequence: Sequence,
    /// Its own id.
    pub own_id: OwnId,
    /// The hash of its bytes.
    pub content: Hash128,
}

impl SeenSlot {
    /// What is kept of `slot`.
    pub fn of(slot: &Slot) -> SeenSlot {
        SeenSlot { sequence: slot.sequence(), own_id: slot.own_id(), content: Hash128::of(slot.bytes()) }
    }
}

/// What a client was told.
#[derive(Clone, Debug)]
pub enum Claim {
    /// An offer was won.
    Won(Attempt),
    /// An offer was lost to this slot.
    Lost(Attempt, SeenSlot),
    /// The log was retired past the sequence of an offer, and it was not won.
    Behind(Attempt),
    /// An offer's outcome is not known.
    Unknown(Attempt),
    /// An offer ended with nothing sent.
    NothingSent(Attempt),
    /// What became of an attempt.
    Outcome(Attempt, Outcome),
    /// A closing ended with a verdict, and the sequence still reads as open.
    StillOpen(Attempt),
    /// The store is on this log.
    Opened(LogId),
    /// These slots are genuine: the process took them into what it knows.
    Believed(Vec<SeenSlot>),
    /// These are the slots from `first` to `last`.
    Served {
        /// The first that was asked for.
        first: Sequence,
        /// The last that was asked for.
        last: Sequence,
        /// What was handed out.
        slots: Vec<SeenSlot>,
    },
    /// The log's end was proved: this is the last slot.
    End(Option<Sequence>),
    /// The log was retired past this slot.
    Retired {
        /// The last slot that was known.
        after: Option<Sequence>,
    },
    /// The slots that a checkpoint replays were refused: the log was retired past them.
    Withheld(CheckpointNumber),
    /// What is in the bucket is not what the log put there.
    Corrupt(Corruption),
}

impl Told {
    /// Adds it to a fingerprint.
    pub fn record(&self, fingerprint: &mut Fingerprint) {
        fingerprint.number(u64::from(self.process.0)).number(self.asked.effects as u64).number(self.heard.effects as u64);
        fingerprint.text(&format!("{:?}", self.claim));
    }

    /// Whether it says that `transaction` is not committed at `sequence` and never will be.
    pub fn says_never(&self, transaction: TransactionId, sequence: Sequence) -> bool {
        match &self.claim {
            Claim::Lost(attempt, _) | Claim::Behind(attempt) | Claim::Outcome(attempt, Outcome::Never) => {
                *attempt == Attempt { transaction, sequence }
            }
            Claim::Won(_) | Claim::Unknown(_) | Claim::NothingSent(_) | Claim::StillOpen(_) | Claim::Opened(_) => false,
            Claim::Outcome(_, Outcome::Landed | Outcome::Open) => false,
            Claim::Believed(_) | Claim::Served { .. } | Claim::End(_) | Claim::Retired { .. } => false,
            Claim::Withheld(_) | Claim::Corrupt(_) => false,
        }
    }
}
