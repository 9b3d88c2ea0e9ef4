//! How much of the world one run of the log's model contains.

/// What the reader does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    /// There is no reader.
    None,
    /// It reads the slots after its head.
    Warm,
    /// It lists first, and sees one moment.
    ListSnapshot,
    /// It lists first, name after name, each at its own moment.
    ListWalk,
}

/// How the holder moves the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FloorMoves {
    BySlot,
    ByPage,
}

/// Who retires pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Collecting {
    Abstract,
    Explicit(usize),
}

/// Who re-creates names in a retired page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Zombies {
    /// Only puts that a committer of the model sent.
    SentOnly,
    /// Any dead offer, at any time.
    AnyDeadOffer,
}

/// What a committer does after its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Again {
    Stops,
    StartsAnother,
}

/// Which violations end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdicts {
    /// A wrong verdict is a violation.
    Asserted,
    /// "Lost" and "behind" are acted on unasserted: only what the log contains counts.
    EndToEnd,
}

/// Whether an unknown commit that is still open may be closed by a filler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Closing {
    No,
    ByFiller,
}

/// Whether every state is asked if a process alone reaches its goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Resolution {
    Unchecked,
    Checked,
}

/// The size of one world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(crate) sequences: u8,
    pub(crate) committers: usize,
    /// Slots a committer's batch has.
    pub(crate) batch: u8,
    /// Slots a reader's batch has.
    pub(crate) reader_batch: u8,
    pub(crate) reading: Reading,
    pub(crate) floor: FloorMoves,
    pub(crate) collecting: Collecting,
    pub(crate) zombies: Zombies,
    pub(crate) again: Again,
    pub(crate) verdicts: Verdicts,
    pub(crate) closing: Closing,
    pub(crate) resolution: Resolution,
}

impl Bounds {
    /// Two pages, one committer beside the ideal other one, abstract collectors: small enough to exhaust.
    pub(crate) const fn small() -> Self {
        Self {
            sequences: 4,
            committers: 1,
            batch: 2,
            reader_batch: 2,
            reading: Reading::None,
            floor: FloorMoves::ByPage,
            collecting: Collecting::Abstract,
            zombies: Zombies::AnyDeadOffer,
            again: Again::StartsAnother,
            verdicts: Verdicts::Asserted,
            closing: Closing::ByFiller,
            resolution: Resolution::Unchecked,
        }
    }

    /// Three pages and three committers with a reader: for seeded schedules.
    pub(crate) const fn large() -> Self {
        Self {
            sequences: 6,
            committers: 3,
            batch: 3,
            reader_batch: 3,
            reading: Reading::Warm,
            floor: FloorMoves::BySlot,
            ..Self::small()
        }
    }

    /// Three pages, a reader and no committer.
    pub(crate) const fn reader(reading: Reading) -> Self {
        Self { sequences: 6, committers: 0, reader_batch: 3, reading, ..Self::small() }
    }

    /// One page, one committer, real collectors, real late puts.
    pub(crate) const fn explicit(collectors: usize) -> Self {
        Self {
            sequences: 2,
            floor: FloorMoves::BySlot,
            collecting: Collecting::Explicit(collectors),
            zombies: Zombies::SentOnly,
            ..Self::small()
        }
    }
}
